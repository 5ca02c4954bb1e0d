/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <link.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static NORETURN void out_of_memory(void)
{
    static const char text[] = "raftsman: out of memory\n";
    /* Nothing may allocate here, and the result changes nothing: we abort either way. */
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)ignored;
    abort();
}

/* Segments that cannot be written are the file's own pages: nothing in them can be lost. */
static int let_go(struct dl_phdr_info *object, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W))
            continue;
        const uintptr_t at = object->dlpi_addr + part->p_vaddr, begin = at / page * page;
        (void)madvise((void *)begin, at + part->p_memsz - begin, MADV_DONTNEED); /* advice */
    }
    return 0;
}

void mem_setup(void)
{
    (void)dl_iterate_phdr(let_go, NULL);
    (void)mallopt(M_ARENA_MAX, 1); /* refused under a foreign allocator: then it does not matter */
    (void)mallopt(M_MXFAST, 0); /* the thread caches do; these bins are swept at every large free */
    (void)mallopt(M_TRIM_THRESHOLD, 256 * 1024);
    (void)mallopt(M_MMAP_THRESHOLD, 256 * 1024);
}

void *xmalloc(size_t n)
{
    void *p = malloc(n > 0 ? n : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size > 0 ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xrealloc_array(void *p, size_t n, size_t size)
{
    void *grown = reallocarray(p, n > 0 ? n : 1, size > 0 ? size : 1);
    if (!grown)
        out_of_memory();
    return grown;
}

char *xstrdup(const char *s)
{
    char *copy = strdup(s);
    if (!copy)
        out_of_memory();
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        out_of_memory();
    return text;
}

void secret_free(char *secret)
{
    if (!secret)
        return;
    explicit_bzero(secret, strlen(secret));
    free(secret);
}
