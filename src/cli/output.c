/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <string.h>

#include "base/buf.h"
#include "cli/command.h"

enum { OUTPUT_MAX = 256 << 20, CELL_MAX = 4096, COLUMNS_MAX = 16 };

const char *const output_formats[] = {"table", "json", "yaml", NULL};

/* Terminals see text, never control characters. */
static void add_clean(struct buf *out, struct str s)
{
    for (size_t i = 0; i < s.n && i < CELL_MAX; i++)
        buf_add_char(out, (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? ' ' : s.p[i]);
}

static void add_cell(struct buf *out, const json_t *v)
{
    if (json_is_string(v)) {
        add_clean(out, (struct str){json_string_value(v), json_string_length(v)});
    } else if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            buf_add_c(out, i > 0 ? "," : "");
            add_cell(out, json_array_get(v, i));
        }
    } else if (json_is_integer(v)) {
        buf_addf(out, "%lld", (long long)json_integer_value(v));
    } else if (json_is_boolean(v)) {
        buf_add_c(out, json_is_true(v) ? "true" : "false");
    }
}

static size_t width_of(struct str s) /* characters, as far as UTF-8 goes */
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += utf8_is_continuation(s.p[i]) ? 0 : 1;
    return n;
}

static void add_padded(struct buf *out, struct str text, size_t width, bool last)
{
    buf_add_str(out, text);
    for (size_t n = width_of(text); !last && n < width + 3; n++)
        buf_add_char(out, ' ');
}

static void print_table(const json_t *rows, const struct output_column *columns, struct buf *out)
{
    size_t widths[COLUMNS_MAX] = {0}, n = 0;
    auto_buf struct buf cell = BUF_INIT(1 << 20);
    for (; n < COLUMNS_MAX && columns[n].title; n++) {
        widths[n] = strlen(columns[n].title);
        for (size_t r = 0; r < json_array_size(rows); r++) {
            buf_reset(&cell);
            add_cell(&cell, jget(json_array_get(rows, r), columns[n].path));
            const size_t width = width_of(buf_str(&cell));
            widths[n] = width > widths[n] ? width : widths[n];
        }
    }
    for (size_t c = 0; c < n; c++)
        add_padded(out, str_c(columns[c].title), widths[c], c + 1 == n);
    buf_add_char(out, '\n');
    for (size_t r = 0; r < json_array_size(rows); r++) {
        for (size_t c = 0; c < n; c++) {
            buf_reset(&cell);
            add_cell(&cell, jget(json_array_get(rows, r), columns[c].path));
            add_padded(out, buf_str(&cell), widths[c], c + 1 == n);
        }
        buf_add_char(out, '\n');
    }
}

/* Scalars are written as JSON writes them, which is YAML too. */
static int add_yaml(const json_t *v, size_t indent, bool in_list, struct buf *out, struct err *e)
{
    const bool nested = (json_is_object(v) && json_object_size(v) > 0) ||
                        (json_is_array(v) && json_array_size(v) > 0);
    if (!nested) {
        if (jdump(v, out, e) < 0)
            return -1;
        buf_add_char(out, '\n');
        return 0;
    }
    bool first = true;
    if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++, first = false) {
            buf_addf(out, "%*s- ", first && in_list ? 0 : (int)indent, "");
            if (add_yaml(json_array_get(v, i), indent + 2, true, out, e) < 0)
                return -1;
        }
        return 0;
    }
    const char *key = NULL;
    json_t *field = NULL;
    json_object_foreach((json_t *)v, key, field)
    {
        json_auto_t *name = js(key);
        buf_addf(out, "%*s", first && in_list ? 0 : (int)indent, "");
        if (jdump(name, out, e) < 0)
            return -1;
        const bool deep = (json_is_object(field) && json_object_size(field) > 0) ||
                          (json_is_array(field) && json_array_size(field) > 0);
        buf_add_c(out, deep ? ":\n" : ": ");
        if (add_yaml(field, indent + 2, false, out, e) < 0)
            return -1;
        first = false;
    }
    return 0;
}

int output_print(const json_t *value, const char *rows_path, const struct output_column *columns,
                 enum output_format format, struct err *e)
{
    auto_buf struct buf out = BUF_INIT(OUTPUT_MAX);
    switch (format) {
    case OUTPUT_TABLE:
        print_table(jget(value, rows_path), columns, &out);
        break;
    case OUTPUT_JSON:
        if (jdump(value, &out, e) < 0)
            return -1;
        buf_add_char(&out, '\n');
        break;
    case OUTPUT_YAML:
        if (add_yaml(value, 0, false, &out, e) < 0)
            return -1;
        break;
    }
    return print_out(&out, e);
}
