/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C (Castagnoli): what etcd hashes keys, WAL records and snap files with. Uses the
 * processor's instruction where it has one. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Continues a checksum: crc32c(crc32c(0, a), b) is the checksum of a followed by b. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* The same without the instruction; for tests and other processors. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t n);
