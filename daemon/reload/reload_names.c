// SPDX-License-Identifier: Apache-2.0
/*
 * Finds streams that a reload renames. Stopped and made again, such a stream would lose packets, and its flows would
 * overlap with its own, because new flows are added before old ones go.
 */
#include "daemon/reload/reload_names.h"

#include "daemon/config/diff.h"
#include "daemon/config/key.h"
#include "daemon/flow/flow.h"

#include <string.h>

static bool is_same_but_for_the_name(const struct config_stream *a, const struct config_stream *b)
{
	bool is_same = a->n_flows == b->n_flows && !diff_fixed_key(&stream_keys, a, b);

	for (uint32_t i = 0; i < a->n_flows && is_same; i++)
		is_same = flow_is_same(&a->flows[i], &b->flows[i]);
	return is_same;
}

void reload_take_names(const struct config *running, const struct config *after)
{
	for (uint32_t i = 0; i < running->n_streams; i++) {
		struct config_stream *stream = (struct config_stream *)&running->streams[i];
		const struct config_stream *other = after->streams, *end = other + after->n_streams;

		if (config_find_stream(after, stream->name))
			continue;
		while (other < end &&
		       (config_find_stream(running, other->name) || !is_same_but_for_the_name(stream, other)))
			other++;
		if (other == end)
			continue;
		memcpy(stream->renamed_from, stream->name, sizeof(stream->name));
		memcpy(stream->name, other->name, sizeof(stream->name));
	}
}

void reload_give_names_back(const struct config *running)
{
	for (uint32_t i = 0; i < running->n_streams; i++) {
		struct config_stream *stream = (struct config_stream *)&running->streams[i];

		if (*stream->renamed_from)
			memcpy(stream->name, stream->renamed_from, sizeof(stream->name));
		stream->renamed_from[0] = '\0';
	}
}
