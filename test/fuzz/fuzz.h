/* SPDX-License-Identifier: Apache-2.0
 * The entry point libFuzzer calls; replay.c calls it with the files of a corpus. A finding is a
 * crash: sanitizers see memory errors, FUZZ_CHECK sees broken promises. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond)                                                                           \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                       \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
