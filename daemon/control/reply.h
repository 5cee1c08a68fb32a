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

/** A text for a message, cut to its field; from NULL is an empty text. */
void reply_copy_text(char *to, size_t bytes, const char *from);

/** Send as much as the socket takes. 1: all is sent; 0: the client has to read first; -errno. */
int reply_flush(struct reply *reply, int fd);

void reply_deinit(struct reply *reply);

#endif
