// SPDX-License-Identifier: Apache-2.0
/* A buffer of messages, which is sent as fast as the client reads. */
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

int reply_flush(struct reply *reply, int fd)
{
	while (reply->sent < reply->used) {
		struct protocol_header header;
		int r;

		memcpy(&header, reply->bytes + reply->sent, sizeof(header));
		r = protocol_send(fd, (const void *)(reply->bytes + reply->sent), NULL, 0);
		if (r == -EAGAIN)
			return 0;
		if (r < 0)
			return r;
		reply->sent += header.bytes;
	}
	reply_deinit(reply);
	return 1;
}
