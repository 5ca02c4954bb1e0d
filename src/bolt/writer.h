/* SPDX-License-Identifier: Apache-2.0
 * Streams sorted input into a new, compact file: one sequential pass, constant memory. The sink
 * gets pages from number 2 upwards in large pieces and the two meta pages last, so that the file
 * is no database before it is complete. */
#pragma once
#include "bolt/tree.h"

struct bolt_writer;

struct bolt_writer *bolt_writer_new(const struct bolt_sink *sink, uint32_t page_size) NONNULL;
void bolt_writer_free(struct bolt_writer *w); /* NULL-safe */
AUTO_DEFINE(struct bolt_writer, bolt_writer_free)

/* Begins the next bucket; names rise. Key and value bytes given to put, and the names, are
 * borrowed until finish. ERR_INVALID: out of order. */
NODISCARD int bolt_writer_bucket(struct bolt_writer *w, struct str name, struct err *e);
NODISCARD int bolt_writer_put(struct bolt_writer *w, struct str key, struct str value,
                              struct err *e);

/* Writes what is left and the meta pages. *out_pages is the length of the file. */
NODISCARD int bolt_writer_finish(struct bolt_writer *w, uint64_t *out_pages, struct err *e);
