// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/check.h"

#include <ctype.h>
#include <string.h>

/* Ethernet pads payloads below this (IEEE 802.3: 60 bytes of frame, less 42 of headers). */
#define PADDED_PAYLOAD_BYTES 18

static bool is_zero(const struct config_address *address)
{
	static const uint8_t zero[16];

	return memcmp(address->address, zero, sizeof(zero)) == 0;
}

bool config_is_same_address(const struct config_address *a, const struct config_address *b)
{
	return a->family == b->family && memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

bool config_is_multicast(const struct config_address *address)
{
	return address->family == AF_INET ? address->address[0] >> 4 == 0xe : address->address[0] == 0xff;
}

/* ::ffff:10.0.0.1 and its like are never in a packet's header. */
static bool is_mapped_ipv4(const struct config_address *address)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return address->family == AF_INET6 && memcmp(address->address, prefix, sizeof(prefix)) == 0;
}

static bool is_broadcast(const struct config_address *address)
{
	static const uint8_t ones[4] = {255, 255, 255, 255};

	return address->family == AF_INET && memcmp(address->address, ones, sizeof(ones)) == 0;
}

bool check_is_one(const struct config_address *address)
{
	return address->family != AF_UNSPEC && !is_zero(address) && !is_broadcast(address) &&
	       !is_mapped_ipv4(address) && !config_is_multicast(address);
}

int check_flow(const struct reader *reader, const config_setting_t *setting, const struct config_flow *flow)
{
	if (flow->destination.family == AF_UNSPEC || is_zero(&flow->destination) || is_broadcast(&flow->destination))
		return reader_failure(reader, setting,
		                      "destination of a flow: accepted is one unicast or multicast address");
	if (is_mapped_ipv4(&flow->destination) || is_mapped_ipv4(&flow->source))
		return reader_failure(reader, setting, "IPv4 address in IPv6 form: accepted is \"10.0.0.1\"");
	if (flow->vlan == 0)
		return reader_failure(reader, setting, "vlan = 0: accepted is 1 to 4094, or -1 for untagged packets");
	if (flow->source.family == AF_UNSPEC)
		return 0;
	if (flow->source.family != flow->destination.family)
		return reader_failure(reader, setting,
		                      "source and destination of a flow: accepted are two addresses of one "
		                      "family");
	if (is_zero(&flow->source) || config_is_multicast(&flow->source) || is_broadcast(&flow->source))
		return reader_failure(reader, setting, "source of a flow: accepted is one unicast address");
	return 0;
}

bool check_is_name(const char *name)
{
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

/* Where the value stands, or the whole group where its default is in force. */
static const config_setting_t *at(const config_setting_t *group, const struct value *value)
{
	return value->setting ? value->setting : group;
}

int check_stream(const struct reader *reader, const config_setting_t *setting, const struct value *values,
                 const struct config_stream *stream)
{
	uint64_t history_slots = (uint64_t)stream->history_blocks * stream->slots_per_block;
	uint64_t spare_blocks = (uint64_t)stream->max_consumers * stream->lease_blocks;
	uint64_t blocks = stream->history_blocks + spare_blocks +
	                  (stream->receive_queue_slots + stream->slots_per_block - 1) / stream->slots_per_block + 1;

	if (!check_is_name(stream->name))
		return reader_failure(reader, values[STREAM_NAME].setting,
		                      "name = \"%s\": accepted are letters, digits, '.', '_' and '-'", stream->name);
	if (history_slots < stream->receive_queue_slots)
		return reader_failure(
			reader, at(setting, &values[STREAM_HISTORY_BLOCKS]),
			"history_blocks = %u of %u slots are less than receive_queue_slots = %u: accepted is "
			"history_blocks = %u or more",
			stream->history_blocks, stream->slots_per_block, stream->receive_queue_slots,
			(stream->receive_queue_slots + stream->slots_per_block - 1) / stream->slots_per_block);
	if (blocks * stream->slots_per_block > UINT32_MAX)
		return reader_failure(
			reader, at(setting, &values[STREAM_HISTORY_BLOCKS]),
			"history_blocks = %u makes a ring of %llu slots: accepted are %u at most, spares for "
			"max_consumers and lease_blocks included",
			stream->history_blocks, (unsigned long long)(blocks * stream->slots_per_block), UINT32_MAX);
	if (stream->payload_size < PADDED_PAYLOAD_BYTES && !stream->oversize_sink)
		return reader_failure(
			reader, at(setting, &values[STREAM_OVERSIZE_SINK]),
			"payload_size = %u without oversize_sink: Ethernet pads shorter payloads to %d bytes, which "
			"would not fit: accepted is oversize_sink = true, or payload_size = %d",
			stream->payload_size, PADDED_PAYLOAD_BYTES, PADDED_PAYLOAD_BYTES);
	return 0;
}

int check_name_is_new(const struct reader *reader, const config_setting_t *setting, const struct config *config,
                      const struct config_stream *stream)
{
	for (uint32_t i = 0; i < config->n_streams; i++)
		if (strcmp(config->streams[i].name, stream->name) == 0)
			return reader_failure(reader, setting,
			                      "name = \"%s\" is that of the stream at %s:%d too: accepted is a "
			                      "name of its own",
			                      stream->name, config->streams[i].file, config->streams[i].line);
	return 0;
}
