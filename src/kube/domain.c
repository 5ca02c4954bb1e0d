/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/domain.h"

enum { DOMAIN_MAX = 253, LABEL_MAX = 63 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts the first word off. */
static struct str take_word(struct str *line)
{
    size_t begin = 0;
    while (begin < line->n && is_blank(line->p[begin]))
        begin++;
    size_t end = begin;
    while (end < line->n && !is_blank(line->p[end]))
        end++;
    const struct str word = str_first(str_from(*line, begin), end - begin);
    *line = str_from(*line, end);
    return word;
}

struct str kube_domain_told(struct str resolv_conf)
{
    const struct str prefix = STR("svc.");
    struct str line, comment;
    while (resolv_conf.n > 0) {
        (void)str_cut(resolv_conf, '\n', &line, &resolv_conf);
        (void)str_cut(line, '#', &line, &comment);
        if (!str_eq(take_word(&line), STR("search")))
            continue;
        for (struct str word = take_word(&line); word.n > 0; word = take_word(&line))
            if (str_starts(word, prefix) && word.n > prefix.n)
                return str_from(word, prefix.n);
    }
    return (struct str){0};
}

static bool is_label(struct str s)
{
    if (s.n == 0 || s.n > LABEL_MAX || s.p[0] == '-' || s.p[s.n - 1] == '-')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_digit(s.p[i]) && !(s.p[i] >= 'a' && s.p[i] <= 'z') && s.p[i] != '-')
            return false;
    return true;
}

int kube_domain_check(struct str domain, struct err *e)
{
    struct str label, rest = domain;
    bool good = domain.n > 0 && domain.n <= DOMAIN_MAX, more = true;
    while (good && more) {
        more = str_cut(rest, '.', &label, &rest);
        good = is_label(label);
    }
    if (!good)
        return err_set(e, ERR_INVALID, 0, "\"%.*s\" is not a DNS domain", STR_ARG(domain));
    return 0;
}
