/* SPDX-License-Identifier: Apache-2.0
 * Randomness from the kernel. Never fails: a kernel without it aborts the process, because a
 * predictable hash seed or temporary name would be worse. Thread-safe. */
#pragma once
#include <stddef.h>
#include <stdint.h>

void rand_bytes(void *out, size_t n);
uint64_t rand_u64(void);
