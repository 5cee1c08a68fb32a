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

int reply_append_part(struct reply *reply, enum status_kind_of_part kind, const void *part, const uint64_t *counters)
{
	const struct status_part *known = &status_parts[kind];
	struct protocol_part message; /* not all of its 4 KiB are sent */
	uint32_t n = 0;

	message.kind = kind;
	message.reserved = 0;
	memcpy(message.body, part, known->bytes);
	if (known->counters_at)
		memcpy(&n, message.body + known->counters_at + sizeof(void *), sizeof(n));
	if (n > 0)
		memcpy(message.body + known->bytes, counters, n * sizeof(*counters));
	protocol_init(&message.header, PROTOCOL_PART, PROTOCOL_PART_BYTES(known->bytes + n * sizeof(*counters)));
	return reply_append(reply, &message.header);
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
