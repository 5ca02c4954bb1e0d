/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/domain.h"

#include "unit.h"

static void a_search_line_tells_the_domain(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", ""},
        {"nameserver 10.96.0.10\n", ""},
        {"search ns1.svc.cluster.local svc.cluster.local cluster.local\n", "cluster.local"},
        {"nameserver 1.1.1.1\nsearch\tns1.svc.k8s.example.org  svc.k8s.example.org\r\n",
         "k8s.example.org"},
        {"search svc.one svc.two", "one"},
        {"search a b\nsearch svc.second.line\n", "second.line"},
        {"search svc. svc.real\n", "real"},     /* nothing follows */
        {"search notsvc.cluster.local\n", ""},  /* begins otherwise */
        {"# search svc.comment\n", ""},         /* a comment */
        {"search a # svc.comment\n", ""},       /* a comment behind it */
        {"searching svc.cluster.local\n", ""},  /* another word */
        {"domain svc.cluster.local\n", ""},     /* another line */
        {"options ndots:5\nsearch svc.x", "x"}, /* no line end */
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct str got = kube_domain_told(str_c(rows[i].text));
        if (!str_eq(got, str_c(rows[i].want)))
            fail_msg("%s: \"%.*s\"", rows[i].text, STR_ARG(got));
    }
}

#define TEN "aaaaaaaaa."
#define LABEL_OF_63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void a_domain_is_made_of_labels(void **state)
{
    (void)state;
    static const struct {
        const char *domain;
        bool good;
    } rows[] = {
        {"cluster.local", true},
        {"k8s", true},
        {"0-9.a-b.c", true},
        {LABEL_OF_63, true},
        {LABEL_OF_63 "a", false},
        {LABEL_OF_63 "." LABEL_OF_63 "." LABEL_OF_63 "." TEN TEN TEN TEN TEN TEN "a", true},
        {LABEL_OF_63 "." LABEL_OF_63 "." LABEL_OF_63 "." TEN TEN TEN TEN TEN TEN "aa", false},
        {"", false},
        {".", false},
        {".local", false},
        {"local.", false},
        {"a..b", false},
        {"-a.b", false},
        {"a-.b", false},
        {"Cluster.local", false},
        {"cluster local", false},
        {"cluster_local", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        if ((kube_domain_check(str_c(rows[i].domain), &e) == 0) != rows[i].good)
            fail_msg("%s: %s", rows[i].domain, e.text);
    }
}

TEST_MAIN(TEST(a_search_line_tells_the_domain), TEST(a_domain_is_made_of_labels))
