// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/change.h"

#include "daemon/config/check.h"
#include "daemon/config/keys.h"
#include "daemon/config/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what differs -------------------------------------------------------------------------------- */

const char *change_fixed_stream_key(const struct config_stream *before, const struct config_stream *after)
{
	const struct {
		unsigned key;
		bool differs;
	} fixed[] = {
		{ STREAM_INTERFACE, strcmp(before->interface, after->interface) != 0 },
		{ STREAM_BACKEND, before->backend != after->backend },
		{ STREAM_PAYLOAD_SIZE, before->payload_size != after->payload_size },
		{ STREAM_SLOTS_PER_BLOCK, before->slots_per_block != after->slots_per_block },
		{ STREAM_HISTORY_BLOCKS, before->history_blocks != after->history_blocks },
		{ STREAM_RECEIVE_QUEUE_SLOTS, before->receive_queue_slots != after->receive_queue_slots },
		{ STREAM_PAGE_SIZE, before->page_bytes != after->page_bytes },
		{ STREAM_POLL, before->poll != after->poll },
		{ STREAM_SPIN_US, before->spin_us != after->spin_us },
		{ STREAM_CPU, before->cpu != after->cpu },
		{ STREAM_MAX_CONSUMERS, before->max_consumers != after->max_consumers },
		{ STREAM_LEASE_BLOCKS, before->lease_blocks != after->lease_blocks },
		{ STREAM_OVERSIZE_SINK, before->oversize_sink != after->oversize_sink },
		{ STREAM_TIMESTAMPS, before->timestamps != after->timestamps },
		{ STREAM_JOIN, before->join != after->join },
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (fixed[i].differs)
			return stream_keys.keys[fixed[i].key].name;
	return NULL;
}

const char *change_fixed_control_key(const struct config *before, const struct config *after)
{
	if (strcmp(before->socket_path, after->socket_path) != 0)
		return control_keys.keys[CONTROL_SOCKET].name;
	if (before->socket_mode != after->socket_mode)
		return control_keys.keys[CONTROL_MODE].name;
	return before->socket_group != after->socket_group ? control_keys.keys[CONTROL_GROUP].name : NULL;
}

const struct config_stream *change_find_stream(const struct config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_streams; i++)
		if (strcmp(config->streams[i].name, name) == 0)
			return &config->streams[i];
	return NULL;
}

/* ---- copies -------------------------------------------------------------------------------------- */

static const void *copy_bytes(struct config *config, const void *from, size_t n, size_t bytes)
{
	void *to = config_allocate(config, n, bytes);

	if (to && n > 0)
		memcpy(to, from, n * bytes);
	return to;
}

static const char *copy_text(struct config *config, const char *from)
{
	return copy_bytes(config, from, strlen(from) + 1, 1);
}

static int copy_flows(struct config *config, const struct config_stream *from, struct config_stream *to)
{
	struct config_flow *flows = config_allocate(config, from->n_flows, sizeof(*flows));

	if (!flows)
		return -ENOMEM;
	to->flows = flows;
	for (uint32_t i = 0; i < from->n_flows; i++) {
		flows[i] = from->flows[i];
		flows[i].file = copy_text(config, from->flows[i].file);
		if (!flows[i].file)
			return -ENOMEM;
	}
	return 0;
}

static int copy_stream(struct config *config, const struct config_stream *from, struct config_stream *to)
{
	*to = *from;
	to->file = copy_text(config, from->file);
	to->users = copy_bytes(config, from->users, from->n_users, sizeof(*from->users));
	to->groups = copy_bytes(config, from->groups, from->n_groups, sizeof(*from->groups));
	to->lossless_users =
		copy_bytes(config, from->lossless_users, from->n_lossless_users, sizeof(*from->lossless_users));
	to->lossless_groups =
		copy_bytes(config, from->lossless_groups, from->n_lossless_groups, sizeof(*from->lossless_groups));
	if (!to->file || !to->users || !to->groups || !to->lossless_users || !to->lossless_groups)
		return -ENOMEM;
	return copy_flows(config, from, to);
}

static int copy_streams(struct config *copy, const struct config *from, const char *removed,
			struct config_stream *streams, struct fault *fault)
{
	for (uint32_t i = 0; i < from->n_streams; i++) {
		const struct config_stream *stream = &from->streams[i];
		const struct config_stream *same = change_find_stream(copy, stream->name);

		if (removed && strcmp(stream->name, removed) == 0)
			continue;
		if (same)
			return fault_set(fault, EX_CONFIG, EEXIST, "%s:%d: name = \"%s\" is that of the stream at %s:%d too: "
								   "accepted is a name of its own",
					 stream->file, stream->line, stream->name, same->file, same->line);
		if (copy_stream(copy, stream, &streams[copy->n_streams]) < 0)
			return fault_set(fault, EX_OSERR, ENOMEM, "out of memory");
		copy->n_streams++;
	}
	return 0;
}

static int fill_copy(struct config *copy, const struct config *base, const struct config *added, const char *removed,
		     struct fault *fault)
{
	uint32_t n = base->n_streams + (added ? added->n_streams : 0);
	struct config_stream *streams = config_allocate(copy, n, sizeof(*streams));
	int r;

	copy->file = copy_text(copy, base->file);
	if (!copy->file || !streams)
		return fault_set(fault, EX_OSERR, ENOMEM, "out of memory");
	copy->streams = streams;
	r = copy_streams(copy, base, removed, streams, fault);
	if (r == 0 && added)
		r = copy_streams(copy, added, NULL, streams, fault);
	if (r == 0 && copy->n_streams > CONFIG_STREAMS_MAX)
		r = fault_set(fault, EX_CONFIG, E2BIG, "%u streams: accepted are %d at most", copy->n_streams,
			      CONFIG_STREAMS_MAX);
	return r;
}

int change_copy(const struct config *base, const struct config *added, const char *removed, struct config **copy,
		struct fault *fault)
{
	struct config *c;
	int r;

	if (removed && !change_find_stream(base, removed))
		return fault_set(fault, EX_UNAVAILABLE, ENOENT, "no stream '%s'; 'ibvcap status' lists those there are", removed);
	c = malloc(sizeof(*c));
	if (!c)
		return fault_set(fault, EX_OSERR, ENOMEM, "out of memory");
	*c = *base;
	c->memory = NULL;
	c->older = NULL;
	c->n_streams = 0;
	r = fill_copy(c, base, added, removed, fault);
	if (r < 0)
		config_free(c);
	else
		*copy = c;
	return r;
}
