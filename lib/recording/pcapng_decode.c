// SPDX-License-Identifier: Apache-2.0
/* Fixed fields, options and times of pcapng blocks, in either byte order. */
#include "lib/recording/pcapng_decode.h"

#include "lib/recording/pcapng.h"

#define SECOND_NS          1000000000
#define MICROSECONDS       6 /* the time resolution if an interface names none */
#define RESOLUTION_BINARY  0x80u
#define INTERFACE_FIXED    8u
#define PACKET_FIXED       20u
#define SIMPLE_FIXED       4u
#define NO_DROP_COUNT      UINT16_MAX /* in an obsolete packet block */
#define STATISTICS_FIXED   12u
#define SECTION_FIXED      16u
#define FILTER_TEXT_OFFSET 1u /* behind the byte that says what kind of filter it is */

/* An option of a block. number is PCAPNG_OPTION_END behind the last. */
struct decoded_option {
	uint16_t number;
	uint16_t bytes;
	const uint8_t *at;
	bool is_swapped;
};

static uint16_t decode_u16(const uint8_t *at, bool is_swapped)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return is_swapped ? __builtin_bswap16(value) : value;
}

static uint64_t decode_u64(const uint8_t *at, bool is_swapped)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return is_swapped ? __builtin_bswap64(value) : value;
}

/* Times have their upper word first, in either byte order. */
static uint64_t decode_units(const uint8_t *at, bool is_swapped)
{
	return (uint64_t)decode_u32(at, is_swapped) << 32 | decode_u32(at + 4, is_swapped);
}

/* ns since 1970 of a time in a file; 0 if it is before 1970, UINT64_MAX if it is centuries away. */
static uint64_t decode_time(const struct pcapng_clock *clock, uint64_t units)
{
	unsigned exponent = clock->resolution & ~RESOLUTION_BINARY;
	unsigned base = clock->resolution & RESOLUTION_BINARY ? 2 : 10;
	__int128 ns = (__int128)units * SECOND_NS, per_second = 1;

	for (unsigned i = 0; i < exponent && per_second <= ns; i++) /* so it never overflows */
		per_second *= base;
	ns = ns / per_second + (__int128)clock->offset_s * SECOND_NS;
	if (ns < 0)
		return 0;
	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* Read the option at *at of the body, and move *at behind it. False: it leads outside of the body. */
static bool decode_option(const struct decode_body *body, size_t *at, struct decoded_option *option)
{
	size_t padded;

	*option = (struct decoded_option){.number = PCAPNG_OPTION_END, .is_swapped = body->is_swapped};
	if (body->bytes - *at < 4) /* a writer may leave the end away */
		return true;
	option->number = decode_u16(body->at + *at, body->is_swapped);
	option->bytes = decode_u16(body->at + *at + 2, body->is_swapped);
	option->at = body->at + *at + 4;
	if (option->number == PCAPNG_OPTION_END)
		return true;
	padded = ((size_t)option->bytes + 3) & ~(size_t)3;
	if (padded > body->bytes - *at - 4)
		return false;
	*at += 4 + padded;
	return true;
}

static struct pcapng_text text_of_option(const struct decoded_option *option)
{
	return (struct pcapng_text){.at = (const char *)option->at, .bytes = option->bytes};
}

/* An option of another length than it must have is taken as absent. */
static bool number_of_option(const struct decoded_option *option, uint64_t *value)
{
	if (option->bytes != 8)
		return false;
	*value = decode_u64(option->at, option->is_swapped);
	return true;
}

/* ---- section, interface -------------------------------------------------------------------------- */

bool decode_section(const struct decode_body *body, struct pcapng_section *section)
{
	struct decoded_option option;
	size_t at = SECTION_FIXED;

	if (body->bytes < at || decode_u16(body->at + 4, body->is_swapped) != 1)
		return false;
	do {
		if (!decode_option(body, &at, &option))
			return false;
		switch (option.number) {
		case PCAPNG_SECTION_HARDWARE:
			section->hardware = text_of_option(&option);
			break;
		case PCAPNG_SECTION_OS:
			section->os = text_of_option(&option);
			break;
		case PCAPNG_SECTION_APPLICATION:
			section->application = text_of_option(&option);
			break;
		case PCAPNG_OPTION_COMMENT:
			section->comment = text_of_option(&option);
			break;
		}
	} while (option.number != PCAPNG_OPTION_END);
	return true;
}

static struct pcapng_text text_of_filter(const struct decoded_option *option)
{
	struct pcapng_text text = text_of_option(option);

	if (text.bytes < FILTER_TEXT_OFFSET || text.at[0] != 0) /* BPF code, for example */
		return (struct pcapng_text){0};
	text.at += FILTER_TEXT_OFFSET;
	text.bytes -= FILTER_TEXT_OFFSET;
	return text;
}

static void decode_interface_option(const struct decoded_option *option, struct pcapng_interface *interface,
                                    struct pcapng_clock *clock)
{
	uint64_t value;

	switch (option->number) {
	case PCAPNG_INTERFACE_NAME:
		interface->name = text_of_option(option);
		break;
	case PCAPNG_INTERFACE_DESCRIPTION:
		interface->description = text_of_option(option);
		break;
	case PCAPNG_INTERFACE_SPEED:
		number_of_option(option, &interface->speed_bps);
		break;
	case PCAPNG_INTERFACE_TIME_RESOLUTION:
		if (option->bytes == 1)
			clock->resolution = option->at[0];
		break;
	case PCAPNG_INTERFACE_FILTER:
		interface->filter = text_of_filter(option);
		break;
	case PCAPNG_INTERFACE_OS:
		interface->os = text_of_option(option);
		break;
	case PCAPNG_INTERFACE_TIME_OFFSET:
		if (number_of_option(option, &value))
			clock->offset_s = (int64_t)value;
		break;
	case PCAPNG_INTERFACE_HARDWARE:
		interface->hardware = text_of_option(option);
		break;
	case PCAPNG_OPTION_COMMENT:
		interface->comment = text_of_option(option);
		break;
	}
}

bool decode_interface(const struct decode_body *body, struct pcapng_interface *interface, struct pcapng_clock *clock)
{
	struct decoded_option option;
	size_t at = INTERFACE_FIXED;

	*clock = (struct pcapng_clock){.resolution = MICROSECONDS};
	if (body->bytes < at)
		return false;
	interface->link_type = decode_u16(body->at, body->is_swapped);
	interface->snap_bytes = clock->snap_bytes = decode_u32(body->at + 4, body->is_swapped);
	do {
		if (!decode_option(body, &at, &option))
			return false;
		decode_interface_option(&option, interface, clock);
	} while (option.number != PCAPNG_OPTION_END);
	return true;
}

/* ---- packet -------------------------------------------------------------------------------------- */

static void decode_packet_option(const struct decoded_option *option, struct pcapng_packet *packet)
{
	switch (option->number) {
	case PCAPNG_OPTION_COMMENT:
		packet->comment = text_of_option(option);
		break;
	case PCAPNG_PACKET_DROPS:
		packet->options |= number_of_option(option, &packet->drop_count) ? PCAPNG_PACKET_HAS_DROPS : 0;
		break;
	case PCAPNG_PACKET_ID:
		packet->options |= number_of_option(option, &packet->packet_id) ? PCAPNG_PACKET_HAS_ID : 0;
		break;
	case PCAPNG_PACKET_QUEUE:
		if (option->bytes == 4) {
			packet->options |= PCAPNG_PACKET_HAS_QUEUE;
			packet->queue = decode_u32(option->at, option->is_swapped);
		}
		break;
	}
}

/* The frame at this byte of the body, and the options behind it. Those of an obsolete packet have other numbers. */
static bool decode_frame(const struct decode_body *body, size_t at, struct pcapng_packet *packet, bool is_enhanced)
{
	size_t padded = ((size_t)packet->frame_bytes[0] + 3) & ~(size_t)3;
	struct decoded_option option;

	packet->frame[0] = body->at + at;
	if (padded > body->bytes - at)
		return false;
	at += padded;
	do {
		if (!decode_option(body, &at, &option))
			return false;
		if (is_enhanced || option.number == PCAPNG_OPTION_COMMENT)
			decode_packet_option(&option, packet);
	} while (option.number != PCAPNG_OPTION_END);
	return true;
}

bool decode_packet(const struct decode_body *body, struct pcapng_packet *packet)
{
	if (body->bytes < PACKET_FIXED)
		return false;
	packet->interface = decode_u32(body->at, body->is_swapped);
	if (packet->interface >= body->n_interfaces)
		return true;
	packet->time_ns = decode_time(&body->clocks[packet->interface], decode_units(body->at + 4, body->is_swapped));
	packet->frame_bytes[0] = decode_u32(body->at + 12, body->is_swapped);
	packet->wire_bytes = decode_u32(body->at + 16, body->is_swapped);
	return decode_frame(body, PACKET_FIXED, packet, true);
}

bool decode_old_packet(const struct decode_body *body, struct pcapng_packet *packet)
{
	uint16_t drops;

	if (body->bytes < PACKET_FIXED)
		return false;
	packet->interface = decode_u16(body->at, body->is_swapped);
	if (packet->interface >= body->n_interfaces)
		return true;
	drops = decode_u16(body->at + 2, body->is_swapped);
	if (drops != NO_DROP_COUNT) {
		packet->options |= PCAPNG_PACKET_HAS_DROPS;
		packet->drop_count = drops;
	}
	packet->time_ns = decode_time(&body->clocks[packet->interface], decode_units(body->at + 4, body->is_swapped));
	packet->frame_bytes[0] = decode_u32(body->at + 12, body->is_swapped);
	packet->wire_bytes = decode_u32(body->at + 16, body->is_swapped);
	return decode_frame(body, PACKET_FIXED, packet, false);
}

/* Of the first interface. The file says how long the frame was, and not how much of it is there. */
bool decode_simple_packet(const struct decode_body *body, struct pcapng_packet *packet)
{
	uint32_t captured, snap_bytes;

	if (body->bytes < SIMPLE_FIXED)
		return false;
	packet->options = PCAPNG_PACKET_NO_TIME;
	if (!body->n_interfaces)
		return true;
	snap_bytes = body->clocks[0].snap_bytes;
	captured = packet->wire_bytes = decode_u32(body->at, body->is_swapped);
	if (snap_bytes && captured > snap_bytes)
		captured = snap_bytes;
	if (captured > body->bytes - SIMPLE_FIXED)
		captured = (uint32_t)(body->bytes - SIMPLE_FIXED);
	packet->frame[0] = body->at + SIMPLE_FIXED;
	packet->frame_bytes[0] = captured;
	return true;
}

/* ---- statistics ---------------------------------------------------------------------------------- */

bool decode_statistics(const struct decode_body *body, struct pcapng_statistics *statistics)
{
	const struct pcapng_clock *clock;
	struct decoded_option option;
	size_t at = STATISTICS_FIXED;
	unsigned value;

	if (body->bytes < at)
		return false;
	statistics->interface = decode_u32(body->at, body->is_swapped);
	if (statistics->interface >= body->n_interfaces)
		return true;
	clock = &body->clocks[statistics->interface];
	statistics->time_ns = decode_time(clock, decode_units(body->at + 4, body->is_swapped));
	do {
		if (!decode_option(body, &at, &option))
			return false;
		value = option.number - (unsigned)PCAPNG_STATISTICS_FIRST_VALUE;
		if (option.number == PCAPNG_OPTION_COMMENT)
			statistics->comment = text_of_option(&option);
		else if (option.number == PCAPNG_STATISTICS_START && option.bytes == 8)
			statistics->start_ns = decode_time(clock, decode_units(option.at, option.is_swapped));
		else if (option.number == PCAPNG_STATISTICS_END && option.bytes == 8)
			statistics->end_ns = decode_time(clock, decode_units(option.at, option.is_swapped));
		else if (value < PCAPNG_STATISTIC_N && number_of_option(&option, &statistics->values[value]))
			statistics->values_set |= 1u << value;
	} while (option.number != PCAPNG_OPTION_END);
	return true;
}
