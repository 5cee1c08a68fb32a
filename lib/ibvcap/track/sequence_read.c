// SPDX-License-Identifier: Apache-2.0
/*
 * A packet is in two pieces, the row of headers and the row of payload, and where the frame is split between them
 * depends on the stream. packet_find() is the one place that knows.
 */
#include "lib/ibvcap/track/sequence_read.h"

#include "lib/base/min.h"
#include "lib/frame/frame.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/sequence.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define HEADERS_MAX 256 /* bytes of a frame to walk if the split is in its headers */

/* The n bytes at that position lie on both sides of the split: gather them in copy. */
static const uint8_t *packet_gather(const struct ibvcap_packet *packet, uint64_t at, uint32_t n, uint8_t *copy)
{
	uint32_t n_headers = packet->header_bytes - (uint32_t)at;

	if (n - n_headers > packet->row_bytes)
		return NULL;
	memcpy(copy, packet->headers + at, n_headers);
	memcpy(copy + n_headers, packet->row, n - n_headers);
	return copy;
}

/* The n bytes at that position of the frame, in their place or in copy; NULL: the packet ends before. */
static inline const uint8_t *packet_find(const struct ibvcap_packet *packet, uint64_t at, uint32_t n, uint8_t *copy)
{
	if (at + n <= packet->header_bytes)
		return packet->headers + at;
	if (at < packet->header_bytes)
		return packet_gather(packet, at, n, copy);
	at -= packet->header_bytes;
	return at + n <= packet->row_bytes ? packet->row + at : NULL;
}

/* A number of the payload. */
static inline bool payload_read(const struct sequence_reader *reader, const struct ibvcap_packet *packet,
                                uint32_t offset, uint32_t n, uint64_t *value)
{
	uint8_t copy[sizeof(*value)];
	const uint8_t *bytes = packet_find(packet, (uint64_t)packet->payload_at + offset, n, copy);
	uint64_t v = 0;

	if (!bytes)
		return false;
	if (n == sizeof(v)) {
		memcpy(&v, bytes, sizeof(v));
		v = reader->sequence.little_endian ? le64toh(v) : be64toh(v);
	} else if (reader->sequence.little_endian) {
		for (uint32_t i = n; i > 0; i--)
			v = v << 8 | bytes[i - 1];
	} else {
		for (uint32_t i = 0; i < n; i++)
			v = v << 8 | bytes[i];
	}
	*value = v;
	return true;
}

/* ---- the source ---------------------------------------------------------------------------------- */

static void key_store_ipv4(uint8_t to[16], const uint8_t from[4])
{
	memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	memcpy(to + 12, from, 4);
}

/* Ports that are not there stay 0. */
static inline void key_read_ports(const struct ibvcap_packet *packet, const struct frame *frame,
                                  struct sequence_key *key)
{
	bool has_ports = frame->protocol == IPPROTO_UDP || frame->protocol == IPPROTO_TCP;
	const uint8_t *ports;
	uint8_t copy[4];

	if (!frame->l4_at || !has_ports || frame->fragment_offset)
		return;
	ports = packet_find(packet, frame->l4_at, sizeof(copy), copy);
	if (!ports)
		return;
	key->port = frame_be16(ports);
	key->destination_port = frame_be16(ports + 2);
}

static inline void key_read_addresses(const uint8_t *bytes, const struct frame *frame, struct sequence_key *key)
{
	const uint8_t *ip = bytes + frame->l3_at;

	if (frame->ip_version == 4) {
		key_store_ipv4(key->address, ip + 12);
		key_store_ipv4(key->destination, ip + 16);
	} else {
		memcpy(key->address, ip + 8, 16);
		memcpy(key->destination, ip + 24, 16);
	}
}

/* Headers that the row has a part of are gathered. */
static __attribute__((noinline)) void key_walk_headers(const struct ibvcap_packet *packet, struct sequence_key *key)
{
	uint32_t present = (uint32_t)u64_min((uint64_t)packet->header_bytes + packet->row_bytes, HEADERS_MAX);
	const uint8_t *bytes = packet->headers;
	uint8_t copy[HEADERS_MAX];
	struct frame frame;

	frame_walk(bytes, u32_min(packet->header_bytes, present), present, &frame);
	if (frame.end == FRAME_CUT) {
		bytes = packet_find(packet, 0, present, copy);
		frame_walk(bytes, present, present, &frame);
	}
	if (!frame.ip_version)
		return;
	key_read_addresses(bytes, &frame, key);
	key_read_ports(packet, &frame, key);
}

static inline void key_read_headers(const struct ibvcap_packet *packet, struct sequence_key *key)
{
	struct frame frame;

	if (!frame_find_plain(packet->headers, packet->header_bytes, &frame)) {
		key_walk_headers(packet, key);
		return;
	}
	key_read_addresses(packet->headers, &frame, key);
	key_read_ports(packet, &frame, key);
}

static bool read_key(const struct sequence_reader *reader, const struct ibvcap_packet *packet, struct sequence_key *key)
{
	const struct ibvcap_sequence *sequence = &reader->sequence;

	memset(key, 0, sizeof(*key));
	if (sequence->source_bytes) {
		uint8_t copy[IBVCAP_SOURCE_BYTES_MAX];
		const uint8_t *field = packet_find(packet, (uint64_t)packet->payload_at + sequence->source_offset,
		                                   sequence->source_bytes, copy);

		if (!field)
			return false;
		for (uint32_t i = 0; i < sequence->source_bytes; i++)
			key->field[i] = field[i] & sequence->source_mask[i];
	}
	if (sequence->source == IBVCAP_SOURCE_NONE)
		return true;
	key_read_headers(packet, key);
	if (sequence->source != IBVCAP_SOURCE_FLOW) {
		key->destination_port = 0;
		memset(key->destination, 0, sizeof(key->destination));
	}
	if (sequence->source == IBVCAP_SOURCE_ADDRESS)
		key->port = 0;
	return true;
}

/* ---- the number ---------------------------------------------------------------------------------- */

static uint64_t low_bits(uint32_t bits)
{
	return bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
}

int sequence_reader_init(struct sequence_reader *reader, const struct ibvcap_sequence *sequence, const char *user)
{
	struct sequence_fault fault;
	static const uint32_t n_key_words[] = {[IBVCAP_SOURCE_FLOW] = 7,
	                                       [IBVCAP_SOURCE_PORT] = 5,
	                                       [IBVCAP_SOURCE_ADDRESS] = 4,
	                                       [IBVCAP_SOURCE_NONE] = 2};

	if (!sequence->bytes)
		return error_set(-EINVAL,
		                 "%s needs to know where the packets have their number: the description is empty, as "
		                 "that of a stream without 'sequence'",
		                 user);
	if (!sequence_check(sequence, &fault))
		return error_set(-EINVAL, "the description of the packets' number: %s", fault.text);
	*reader = (struct sequence_reader){
		.sequence = *sequence,
		.number_mask = low_bits(sequence_bits(sequence)),
		.upper_mask = sequence->upper_bytes ? low_bits(sequence_upper_bits(sequence)) : 0,
		.frame_mask = sequence->frame_bytes ? low_bits(sequence_frame_bits(sequence)) : 0,
		.lower_cycle = sequence_lower_cycle(sequence),
		.cycle = sequence_cycle(sequence),
		.n_key_words = n_key_words[sequence->source],
	};
	return 0;
}

/*
 * A number between two steps belongs to the higher one: the first packet of a SPEAD heap has more items, and so less
 * payload, than the others. A number that is not below the modulus is none that the sender can have meant; it is taken
 * modulo the modulus.
 */
static bool read_number(const struct sequence_reader *reader, const struct ibvcap_packet *packet, uint64_t *number)
{
	const struct ibvcap_sequence *sequence = &reader->sequence;
	uint64_t value, upper;

	if (!payload_read(reader, packet, sequence->offset, sequence->bytes, &value))
		return false;
	value = value >> sequence->shift & reader->number_mask;
	if (sequence->step > 1)
		value = value / sequence->step + (value % sequence->step != 0);
	if (reader->lower_cycle && value >= reader->lower_cycle)
		value %= reader->lower_cycle;
	if (sequence->upper_bytes) {
		if (!payload_read(reader, packet, sequence->upper_offset, sequence->upper_bytes, &upper))
			return false;
		value += (upper & reader->upper_mask) / sequence->upper_step * reader->lower_cycle;
	}
	*number = value;
	return true;
}

/* All bits 1: the packet takes none, as at the end of a session of MoldUDP64. */
static bool read_count(const struct sequence_reader *reader, const struct ibvcap_packet *packet, uint32_t *n)
{
	const struct ibvcap_sequence *sequence = &reader->sequence;
	uint64_t count;

	*n = 1;
	if (!sequence->count_bytes)
		return true;
	if (!payload_read(reader, packet, sequence->count_offset, sequence->count_bytes, &count))
		return false;
	*n = count == low_bits(8u * sequence->count_bytes) ? 0 : (uint32_t)count;
	return true;
}

bool sequence_read(const struct sequence_reader *reader, const struct ibvcap_packet *packet,
                   struct sequence_reading *reading)
{
	return read_number(reader, packet, &reading->number) && read_count(reader, packet, &reading->n) &&
	       read_key(reader, packet, &reading->key);
}

bool sequence_read_frame(const struct sequence_reader *reader, const struct ibvcap_packet *packet, uint64_t *frame)
{
	const struct ibvcap_sequence *sequence = &reader->sequence;

	*frame = 0;
	if (!sequence->frame_bytes)
		return true;
	if (!payload_read(reader, packet, sequence->frame_offset, sequence->frame_bytes, frame))
		return false;
	*frame &= reader->frame_mask;
	return true;
}

/* The first one has the datagram's number. A later one begins anywhere in the payload. */
static __attribute__((noinline)) bool is_later_fragment(const struct ibvcap_packet *packet)
{
	uint32_t present = (uint32_t)u64_min((uint64_t)packet->header_bytes + packet->row_bytes, HEADERS_MAX);
	uint8_t copy[HEADERS_MAX];
	struct frame frame;

	frame_walk(packet_find(packet, 0, present, copy), present, UINT32_MAX, &frame);
	return frame.end == FRAME_LATER_FRAGMENT;
}

/* The row may hold less than its meta says, if the daemon is of another version. */
bool sequence_packet_of_row(const struct ibvcap_rx_batch *batch, uint32_t i, uint32_t header_bytes,
                            uint32_t application_header_bytes, struct ibvcap_packet *packet)
{
	const struct ibvcap_meta *meta = &batch->meta[i];
	uint32_t end = meta->header_length + application_header_bytes + meta->length;

	if (meta->flags & (IBVCAP_PACKET_FLAG_ERROR | IBVCAP_PACKET_FLAG_UNUSABLE) || end < header_bytes)
		return false;
	*packet = (struct ibvcap_packet){
		.headers = ibvcap_rx_headers(batch, i),
		.row = batch->payload + (size_t)i * batch->stride,
		.header_bytes = header_bytes,
		.row_bytes = u32_min(end - header_bytes, batch->stride),
		.payload_at = meta->header_length,
		.has_headers = meta->header_length != 0,
		.timestamp_ns = meta->timestamp_ns,
	};
	return !(meta->flags & IBVCAP_PACKET_FLAG_FRAGMENT) || !packet->has_headers || !is_later_fragment(packet);
}
