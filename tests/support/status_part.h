// SPDX-License-Identifier: Apache-2.0
/* Messages with a part of a status, as the daemon sends them. */
#ifndef TESTS_SUPPORT_STATUS_PART_H
#define TESTS_SUPPORT_STATUS_PART_H

#include "lib/ibvcap/protocol.h"

#include <string.h>

/* bytes: of the struct, as its size says. counters: as many as its n_counters says. */
static inline void status_part_build(struct protocol_part *message, enum status_kind_of_part kind, const void *part,
                                     const uint64_t *counters, uint32_t n_counters)
{
	size_t bytes = *(const size_t *)part;

	memset(message, 0, sizeof(*message));
	message->kind = kind;
	memcpy(message->body, part, bytes);
	if (n_counters > 0)
		memcpy(message->body + bytes, counters, n_counters * sizeof(*counters));
	protocol_init(&message->header, PROTOCOL_PART, PROTOCOL_PART_BYTES(bytes + n_counters * sizeof(*counters)));
}

/* counters has room for STATUS_COUNTERS_MAX; NULL: they are not wanted. */
static inline void status_part_take(const struct protocol_part *message, void *part, uint64_t *counters)
{
	size_t bytes = status_parts[message->kind].bytes;

	memcpy(part, message->body, bytes);
	if (counters)
		memcpy(counters, message->body + bytes, message->header.bytes - PROTOCOL_PART_BYTES(bytes));
}

#endif
