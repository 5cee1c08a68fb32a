// SPDX-License-Identifier: Apache-2.0
/* Messages on their way to one client, in one buffer. */
#ifndef DAEMON_CONTROL_REPLY_H
#define DAEMON_CONTROL_REPLY_H

#include "lib/ibvcap/protocol.h"

#include <stddef.h>
#include <stdint.h>

struct reply {
	uint8_t *bytes;
	size_t used;
	size_t room;
	size_t sent;
};

/** 0 or -ENOMEM. */
int reply_append(struct reply *reply, const struct protocol_header *header);

/** A part of a status: size and n_counters of its struct say how many bytes and counters it has. 0 or -ENOMEM. */
int reply_append_part(struct reply *reply, enum status_kind_of_part kind, const void *part, const uint64_t *counters);

/** A text for a message, cut to its field; from NULL is an empty text. */
void reply_copy_text(char *to, size_t bytes, const char *from);

/** The next message that was not sent yet, to be sent before *bytes is added to reply->sent; NULL: all are sent. */
const struct protocol_header *reply_next(const struct reply *reply, size_t *bytes);

void reply_deinit(struct reply *reply);

#endif
