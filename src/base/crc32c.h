/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C (Castagnoli): what etcd hashes keys, WAL records and snap files with. Uses the
 * processor's instruction where it has one. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Continues a checksum: crc32c(crc32c(0, a), b) is the checksum of a followed by b. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* The checksum of a followed by b, from those of a and of b and the length of b: so that b need not
 * wait for a. */
uint32_t crc32c_join(uint32_t a, uint32_t b, uint64_t b_bytes);

/* crc32c() without the instruction; for tests and other processors. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t n);
