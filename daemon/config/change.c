// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/change.h"

#include "daemon/config/check.h"
#include "daemon/config/check_channel.h"
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
		{STREAM_INTERFACE, strcmp(before->interface, after->interface) != 0},
		{STREAM_BACKEND, before->backend != after->backend},
		{STREAM_PAYLOAD_SIZE, before->payload_size != after->payload_size},
		{STREAM_SLOTS_PER_BLOCK, before->slots_per_block != after->slots_per_block},
		{STREAM_HISTORY_BLOCKS, before->history_blocks != after->history_blocks},
		{STREAM_RECEIVE_QUEUE_SLOTS, before->receive_queue_slots != after->receive_queue_slots},
		{STREAM_PAGE_SIZE, before->page_bytes != after->page_bytes},
		{STREAM_POLL, before->poll != after->poll},
		{STREAM_SPIN_US, before->spin_us != after->spin_us},
		{STREAM_CPU, before->cpu != after->cpu},
		{STREAM_MAX_CONSUMERS, before->max_consumers != after->max_consumers},
		{STREAM_LEASE_BLOCKS, before->lease_blocks != after->lease_blocks},
		{STREAM_OVERSIZE_SINK, before->oversize_sink != after->oversize_sink},
		{STREAM_TIMESTAMPS, before->timestamps != after->timestamps},
		{STREAM_JOIN, before->join != after->join},
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (fixed[i].differs)
			return stream_keys.keys[fixed[i].key].name;
	return NULL;
}

static bool has_same_destinations(const struct config_channel *before, const struct config_channel *after)
{
	bool same = before->n_destinations == after->n_destinations;

	for (uint32_t i = 0; i < before->n_destinations && same; i++) {
		const struct config_destination *a = &before->destinations[i], *b = &after->destinations[i];

		same = config_is_same_address(&a->address, &b->address) && a->port == b->port &&
		       a->has_next_hop_mac == b->has_next_hop_mac &&
		       memcmp(a->next_hop_mac, b->next_hop_mac, sizeof(a->next_hop_mac)) == 0;
	}
	return same;
}

const char *change_fixed_channel_key(const struct config_channel *before, const struct config_channel *after)
{
	const struct {
		unsigned key;
		bool differs;
	} fixed[] = {
		{CHANNEL_INTERFACE, strcmp(before->interface, after->interface) != 0},
		{CHANNEL_BACKEND, before->backend != after->backend},
		{CHANNEL_DESTINATIONS, !has_same_destinations(before, after)},
		{CHANNEL_SOURCE, !config_is_same_address(&before->source, &after->source)},
		{CHANNEL_SOURCE_PORT, before->source_port != after->source_port},
		{CHANNEL_VLAN, before->vlan != after->vlan},
		{CHANNEL_DSCP, before->dscp != after->dscp},
		{CHANNEL_TTL, before->ttl != after->ttl},
		{CHANNEL_PAYLOAD_SIZE, before->payload_size != after->payload_size},
		{CHANNEL_SEND_QUEUE_SLOTS, before->send_queue_slots != after->send_queue_slots},
		{CHANNEL_ARENA_SLOTS, before->arena_slots != after->arena_slots},
		{CHANNEL_PAGE_SIZE, before->page_bytes != after->page_bytes},
		{CHANNEL_RATE_LIMIT_MBPS, before->rate_limit_bps != after->rate_limit_bps},
		{CHANNEL_BURST_BYTES, before->burst_bytes != after->burst_bytes},
		{CHANNEL_PACING, before->device_pacing != after->device_pacing},
		{CHANNEL_LATE_AFTER_US, before->late_after_us != after->late_after_us},
		{CHANNEL_UDP_CHECKSUM, before->udp_checksum != after->udp_checksum},
		{CHANNEL_POLL, before->poll != after->poll},
		{CHANNEL_SPIN_US, before->spin_us != after->spin_us},
		{CHANNEL_CPU, before->cpu != after->cpu},
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (fixed[i].differs)
			return channel_keys.keys[fixed[i].key].name;
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

const struct config_channel *change_find_channel(const struct config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_channels; i++)
		if (strcmp(config->channels[i].name, name) == 0)
			return &config->channels[i];
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
		flows[i].text = copy_text(config, from->flows[i].text);
		if (!flows[i].file || !flows[i].text)
			return -ENOMEM;
	}
	return 0;
}

static int copy_stream(struct config *config, const struct config_stream *from, struct config_stream *to)
{
	*to = *from;
	to->file = copy_text(config, from->file);
	to->text = copy_text(config, from->text);
	to->users = copy_bytes(config, from->users, from->n_users, sizeof(*from->users));
	to->groups = copy_bytes(config, from->groups, from->n_groups, sizeof(*from->groups));
	to->lossless_users =
		copy_bytes(config, from->lossless_users, from->n_lossless_users, sizeof(*from->lossless_users));
	to->lossless_groups =
		copy_bytes(config, from->lossless_groups, from->n_lossless_groups, sizeof(*from->lossless_groups));
	if (!to->file || !to->text || !to->users || !to->groups || !to->lossless_users || !to->lossless_groups)
		return -ENOMEM;
	return copy_flows(config, from, to);
}

static int copy_streams(struct config *copy, const struct config *from, const char *removed,
                        struct config_stream *streams, struct failure *failure)
{
	for (uint32_t i = 0; i < from->n_streams; i++) {
		const struct config_stream *stream = &from->streams[i];
		const struct config_stream *same = change_find_stream(copy, stream->name);

		if (removed && strcmp(stream->name, removed) == 0)
			continue;
		if (same)
			return failure_set(failure, EX_CONFIG, EEXIST,
			                   "%s:%d: name = \"%s\" is that of the stream at %s:%d too: "
			                   "accepted is a name of its own",
			                   stream->file, stream->line, stream->name, same->file, same->line);
		if (copy_stream(copy, stream, &streams[copy->n_streams]) < 0)
			return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
		copy->n_streams++;
	}
	return 0;
}

static int copy_destinations(struct config *config, const struct config_channel *from, struct config_channel *to)
{
	struct config_destination *destinations = config_allocate(config, from->n_destinations, sizeof(*destinations));

	if (!destinations)
		return -ENOMEM;
	to->destinations = destinations;
	for (uint32_t i = 0; i < from->n_destinations; i++) {
		destinations[i] = from->destinations[i];
		destinations[i].file = copy_text(config, from->destinations[i].file);
		destinations[i].text = copy_text(config, from->destinations[i].text);
		if (!destinations[i].file || !destinations[i].text)
			return -ENOMEM;
	}
	return 0;
}

static int copy_channel(struct config *config, const struct config_channel *from, struct config_channel *to)
{
	*to = *from;
	to->file = copy_text(config, from->file);
	to->text = copy_text(config, from->text);
	to->users = copy_bytes(config, from->users, from->n_users, sizeof(*from->users));
	to->groups = copy_bytes(config, from->groups, from->n_groups, sizeof(*from->groups));
	if (!to->file || !to->text || !to->users || !to->groups)
		return -ENOMEM;
	return copy_destinations(config, from, to);
}

static int copy_channels(struct config *copy, const struct config *from, const char *removed,
                         struct config_channel *channels, struct failure *failure)
{
	for (uint32_t i = 0; i < from->n_channels; i++) {
		const struct config_channel *channel = &from->channels[i];
		int r;

		if (removed && strcmp(channel->name, removed) == 0)
			continue;
		r = check_channel_among(copy, channel, failure);
		if (r < 0)
			return r;
		if (copy_channel(copy, channel, &channels[copy->n_channels]) < 0)
			return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
		copy->n_channels++;
	}
	return 0;
}

static int fill_streams(struct config *copy, const struct config *base, const struct config *added, const char *removed,
                        struct failure *failure)
{
	uint32_t n = base->n_streams + (added ? added->n_streams : 0);
	struct config_stream *streams = config_allocate(copy, n, sizeof(*streams));
	int r;

	if (!streams)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	copy->streams = streams;
	r = copy_streams(copy, base, removed, streams, failure);
	if (r == 0 && added)
		r = copy_streams(copy, added, NULL, streams, failure);
	if (r == 0 && copy->n_streams > CONFIG_STREAMS_MAX)
		r = failure_set(failure, EX_CONFIG, E2BIG, "%u streams: accepted are %d at most", copy->n_streams,
		                CONFIG_STREAMS_MAX);
	return r;
}

static int fill_channels(struct config *copy, const struct config *base, const struct config *added,
                         const char *removed, struct failure *failure)
{
	uint32_t n = base->n_channels + (added ? added->n_channels : 0);
	struct config_channel *channels = config_allocate(copy, n, sizeof(*channels));
	int r;

	if (!channels)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	copy->channels = channels;
	r = copy_channels(copy, base, removed, channels, failure);
	if (r == 0 && added)
		r = copy_channels(copy, added, NULL, channels, failure);
	if (r == 0 && copy->n_channels > CONFIG_CHANNELS_MAX)
		r = failure_set(failure, EX_CONFIG, E2BIG, "%u channels: accepted are %d at most", copy->n_channels,
		                CONFIG_CHANNELS_MAX);
	return r;
}

static int fill_copy(struct config *copy, const struct config *base, const struct config *added,
                     const struct change_removed *removed, struct failure *failure)
{
	int r;

	copy->file = copy_text(copy, base->file);
	copy->text = copy_text(copy, base->text);
	copy->control_text = copy_text(copy, base->control_text);
	if (!copy->file || !copy->text || !copy->control_text)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	r = fill_streams(copy, base, added, removed->stream, failure);
	return r == 0 ? fill_channels(copy, base, added, removed->channel, failure) : r;
}

static int check_removed(const struct config *base, const struct change_removed *removed, struct failure *failure)
{
	const char *what = removed->stream && !change_find_stream(base, removed->stream)      ? "stream"
	                   : removed->channel && !change_find_channel(base, removed->channel) ? "channel"
	                                                                                      : NULL;

	if (!what)
		return 0;
	return failure_set(failure, EX_UNAVAILABLE, ENOENT, "no %s '%s'; 'ibvcap status' lists those there are", what,
	                   what[0] == 's' ? removed->stream : removed->channel);
}

int change_copy(const struct config *base, const struct config *added, const struct change_removed *removed,
                struct config **copy, struct failure *failure)
{
	struct config *c;
	int r = check_removed(base, removed, failure);

	if (r < 0)
		return r;
	c = malloc(sizeof(*c));
	if (!c)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	*c = *base;
	c->memory = NULL;
	c->older = NULL;
	c->n_streams = 0;
	c->n_channels = 0;
	r = fill_copy(c, base, added, removed, failure);
	if (r < 0)
		config_free(c);
	else
		*copy = c;
	return r;
}
