// SPDX-License-Identifier: Apache-2.0
/* Segments that the daemon sent: mapped and measured before they are used. Failures leave a line in error.h. */
#ifndef IBVCAP_SEGMENT_CHECK_H
#define IBVCAP_SEGMENT_CHECK_H

#include "lib/ibvcap/shm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What it is part of, for the error's text: "ring", "channel". */
int segment_map(struct shm *shm, int fd, bool writable, const char *whole, const char *name);

/** Is it ready, of that kind, of this epoch and ABI, and at least so large? -EPROTO. */
int segment_check(const struct shm *shm, size_t bytes_min, uint64_t magic, uint64_t epoch, const char *whole,
                  const char *name);

/** n items of each bytes from offset on, aligned, in a segment of total bytes; without overflow. */
bool segment_fits(uint64_t offset, uint64_t align, uint64_t n, uint64_t each, uint64_t total);

/** -EPROTO */
int segment_reject(const char *whole, const char *what);

#endif
