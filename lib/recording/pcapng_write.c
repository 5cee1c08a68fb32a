// SPDX-License-Identifier: Apache-2.0
/*
 * Builds pcapng blocks. A block is measured first, so that a block that does not fit leaves no bytes behind: the caller
 * then writes it to its next buffer.
 */

#include "lib/recording/pcapng.h"

#define BLOCK_FRAME_BYTES  12u /* type, length, and the length again behind the body */
#define OPTION_HEAD_BYTES  4u
#define NANOSECONDS        9 /* the time resolution: 10^-9 s */
#define FILTER_IS_A_STRING 0 /* the first byte of a filter */

static size_t pad4(size_t bytes)
{
	return (bytes + 3) & ~(size_t)3;
}

static size_t text_bytes(struct pcapng_text text)
{
	return text.bytes < PCAPNG_OPTIONS_MAX ? text.bytes : PCAPNG_OPTIONS_MAX;
}

static size_t option_bytes(size_t bytes)
{
	return OPTION_HEAD_BYTES + pad4(bytes);
}

static size_t text_option_bytes(struct pcapng_text text)
{
	return text.at ? option_bytes(text_bytes(text)) : 0;
}

/* Each of these returns where the next byte goes. */

static uint8_t *put16(uint8_t *to, uint16_t value)
{
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

static uint8_t *put32(uint8_t *to, uint32_t value)
{
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

static uint8_t *put64(uint8_t *to, uint64_t value)
{
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

/* A time is two words, the upper one first in either byte order. */
static uint8_t *put_time(uint8_t *to, uint64_t ns)
{
	to = put32(to, (uint32_t)(ns >> 32));
	return put32(to, (uint32_t)ns);
}

static uint8_t *put_bytes(uint8_t *to, const void *bytes, size_t n)
{
	size_t padding = pad4(n) - n;

	if (n)
		memcpy(to, bytes, n);
	memset(to + n, 0, padding);
	return to + n + padding;
}

static uint8_t *put_option_head(uint8_t *to, uint16_t option, size_t bytes)
{
	to = put16(to, option);
	return put16(to, (uint16_t)bytes);
}

static uint8_t *put_text(uint8_t *to, uint16_t option, struct pcapng_text text)
{
	if (!text.at)
		return to;
	to = put_option_head(to, option, text_bytes(text));
	return put_bytes(to, text.at, text_bytes(text));
}

static uint8_t *put_option_u64(uint8_t *to, uint16_t option, uint64_t value)
{
	to = put_option_head(to, option, sizeof(value));
	return put64(to, value);
}

static uint8_t *begin_block(uint8_t *to, uint32_t type, size_t bytes)
{
	to = put32(to, type);
	return put32(to, (uint32_t)bytes);
}

/* The end of the options, and of the block. */
static void end_block(uint8_t *to, size_t bytes)
{
	to = put_option_head(to, PCAPNG_OPTION_END, 0);
	put32(to, (uint32_t)bytes);
}

size_t pcapng_write_section(uint8_t *to, size_t room, const struct pcapng_section *section)
{
	size_t bytes = BLOCK_FRAME_BYTES + 16 + text_option_bytes(section->hardware) + text_option_bytes(section->os) +
	               text_option_bytes(section->application) + text_option_bytes(section->comment) +
	               OPTION_HEAD_BYTES;

	if (bytes > room)
		return bytes;
	to = begin_block(to, PCAPNG_BLOCK_SECTION, bytes);
	to = put32(to, PCAPNG_BYTE_ORDER);
	to = put16(to, 1); /* version 1.0 */
	to = put16(to, 0);
	to = put64(to, UINT64_MAX); /* the section's length is not known yet */
	to = put_text(to, PCAPNG_SECTION_HARDWARE, section->hardware);
	to = put_text(to, PCAPNG_SECTION_OS, section->os);
	to = put_text(to, PCAPNG_SECTION_APPLICATION, section->application);
	to = put_text(to, PCAPNG_OPTION_COMMENT, section->comment);
	end_block(to, bytes);
	return bytes;
}

/* ---- interface ----------------------------------------------------------------------------------- */

/* The filter's first byte says that a string follows. */
static struct pcapng_text cut_filter(struct pcapng_text filter)
{
	if (filter.bytes > PCAPNG_OPTIONS_MAX - 1)
		filter.bytes = PCAPNG_OPTIONS_MAX - 1;
	return filter;
}

static uint8_t *put_filter(uint8_t *to, struct pcapng_text filter)
{
	size_t bytes = filter.bytes + 1;

	if (!filter.at)
		return to;
	to = put_option_head(to, PCAPNG_INTERFACE_FILTER, bytes);
	*to++ = FILTER_IS_A_STRING;
	memcpy(to, filter.at, filter.bytes);
	to += filter.bytes;
	memset(to, 0, pad4(bytes) - bytes);
	return to + (pad4(bytes) - bytes);
}

static size_t interface_bytes(const struct pcapng_interface *interface, struct pcapng_text filter)
{
	return BLOCK_FRAME_BYTES + 8 + text_option_bytes(interface->name) + text_option_bytes(interface->description) +
	       text_option_bytes(interface->hardware) + text_option_bytes(interface->os) +
	       text_option_bytes(interface->comment) + (filter.at ? option_bytes(filter.bytes + 1) : 0) +
	       (interface->speed_bps ? option_bytes(8) : 0) + option_bytes(1) + OPTION_HEAD_BYTES;
}

size_t pcapng_write_interface(uint8_t *to, size_t room, const struct pcapng_interface *interface)
{
	struct pcapng_text filter = cut_filter(interface->filter);
	size_t bytes = interface_bytes(interface, filter);
	uint8_t resolution = NANOSECONDS;

	if (bytes > room)
		return bytes;
	to = begin_block(to, PCAPNG_BLOCK_INTERFACE, bytes);
	to = put16(to, interface->link_type);
	to = put16(to, 0);
	to = put32(to, interface->snap_bytes);
	to = put_text(to, PCAPNG_INTERFACE_NAME, interface->name);
	to = put_text(to, PCAPNG_INTERFACE_DESCRIPTION, interface->description);
	if (interface->speed_bps)
		to = put_option_u64(to, PCAPNG_INTERFACE_SPEED, interface->speed_bps);
	to = put_option_head(to, PCAPNG_INTERFACE_TIME_RESOLUTION, sizeof(resolution));
	to = put_bytes(to, &resolution, sizeof(resolution));
	to = put_filter(to, filter);
	to = put_text(to, PCAPNG_INTERFACE_OS, interface->os);
	to = put_text(to, PCAPNG_INTERFACE_HARDWARE, interface->hardware);
	to = put_text(to, PCAPNG_OPTION_COMMENT, interface->comment);
	end_block(to, bytes);
	return bytes;
}

/* ---- packet -------------------------------------------------------------------------------------- */

static size_t packet_options_bytes(const struct pcapng_packet *packet)
{
	return (packet->options & PCAPNG_PACKET_HAS_ID ? option_bytes(8) : 0) +
	       (packet->options & PCAPNG_PACKET_HAS_QUEUE ? option_bytes(4) : 0) +
	       (packet->options & PCAPNG_PACKET_HAS_DROPS ? option_bytes(8) : 0) + text_option_bytes(packet->comment) +
	       OPTION_HEAD_BYTES;
}

static uint8_t *put_packet_options(uint8_t *to, const struct pcapng_packet *packet)
{
	to = put_text(to, PCAPNG_OPTION_COMMENT, packet->comment);
	if (packet->options & PCAPNG_PACKET_HAS_DROPS)
		to = put_option_u64(to, PCAPNG_PACKET_DROPS, packet->drop_count);
	if (packet->options & PCAPNG_PACKET_HAS_ID)
		to = put_option_u64(to, PCAPNG_PACKET_ID, packet->packet_id);
	if (packet->options & PCAPNG_PACKET_HAS_QUEUE) {
		to = put_option_head(to, PCAPNG_PACKET_QUEUE, sizeof(packet->queue));
		to = put32(to, packet->queue);
	}
	return to;
}

size_t pcapng_write_packet(uint8_t *to, size_t room, const struct pcapng_packet *packet)
{
	uint32_t captured = packet->frame_bytes[0] + packet->frame_bytes[1];
	size_t bytes = BLOCK_FRAME_BYTES + 20 + pad4(captured) + packet_options_bytes(packet);

	if (bytes > room)
		return bytes;
	to = begin_block(to, PCAPNG_BLOCK_PACKET, bytes);
	to = put32(to, packet->interface);
	to = put_time(to, packet->time_ns);
	to = put32(to, captured);
	to = put32(to, packet->wire_bytes);
	if (packet->frame_bytes[0])
		memcpy(to, packet->frame[0], packet->frame_bytes[0]);
	if (packet->frame_bytes[1])
		memcpy(to + packet->frame_bytes[0], packet->frame[1], packet->frame_bytes[1]);
	if (packet->checksum_at && packet->checksum_at + sizeof(packet->checksum) <= captured)
		memcpy(to + packet->checksum_at, &packet->checksum, sizeof(packet->checksum));
	to += captured;
	memset(to, 0, pad4(captured) - captured);
	to = put_packet_options(to + (pad4(captured) - captured), packet);
	end_block(to, bytes);
	return bytes;
}

/* ---- statistics ---------------------------------------------------------------------------------- */

static size_t statistics_bytes(const struct pcapng_statistics *statistics)
{
	size_t bytes = BLOCK_FRAME_BYTES + 12 + text_option_bytes(statistics->comment) + OPTION_HEAD_BYTES;

	bytes += statistics->start_ns ? option_bytes(8) : 0;
	bytes += statistics->end_ns ? option_bytes(8) : 0;
	for (unsigned i = 0; i < PCAPNG_STATISTIC_N; i++)
		bytes += statistics->values_set >> i & 1 ? option_bytes(8) : 0;
	return bytes;
}

static uint8_t *put_option_time(uint8_t *to, uint16_t option, uint64_t ns)
{
	if (!ns)
		return to;
	to = put_option_head(to, option, 8);
	return put_time(to, ns);
}

size_t pcapng_write_statistics(uint8_t *to, size_t room, const struct pcapng_statistics *statistics)
{
	size_t bytes = statistics_bytes(statistics);

	if (bytes > room)
		return bytes;
	to = begin_block(to, PCAPNG_BLOCK_STATISTICS, bytes);
	to = put32(to, statistics->interface);
	to = put_time(to, statistics->time_ns);
	to = put_option_time(to, PCAPNG_STATISTICS_START, statistics->start_ns);
	to = put_option_time(to, PCAPNG_STATISTICS_END, statistics->end_ns);
	for (unsigned i = 0; i < PCAPNG_STATISTIC_N; i++)
		if (statistics->values_set >> i & 1)
			to = put_option_u64(to, (uint16_t)(PCAPNG_STATISTICS_FIRST_VALUE + i), statistics->values[i]);
	to = put_text(to, PCAPNG_OPTION_COMMENT, statistics->comment);
	end_block(to, bytes);
	return bytes;
}
