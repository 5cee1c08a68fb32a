// SPDX-License-Identifier: Apache-2.0
/* A buffer of messages for one client. */
#include "daemon/control/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int reply_append(struct reply *reply, const struct protocol_header *header)
{
	if (reply->room - reply->used < header->bytes) {
		size_t room = 2 * reply->room + PROTOCOL_BYTES_MAX;
		uint8_t *bytes = realloc(reply->bytes, room);

		if (!bytes)
			return -ENOMEM;
		reply->bytes = bytes;
		reply->room = room;
	}
	memcpy(reply->bytes + reply->used, header, header->bytes);
	reply->used += header->bytes;
	return 0;
}

void reply_copy_text(char *to, size_t bytes, const char *from)
{
	snprintf(to, bytes, "%s", from ? from : "");
}

void reply_deinit(struct reply *reply)
{
	free(reply->bytes);
	*reply = (struct reply){0};
}

const struct protocol_header *reply_next(const struct reply *reply, size_t *bytes)
{
	struct protocol_header header;

	if (reply->sent >= reply->used)
		return NULL;
	memcpy(&header, reply->bytes + reply->sent, sizeof(header));
	*bytes = header.bytes;
	return (const void *)(reply->bytes + reply->sent);
}
