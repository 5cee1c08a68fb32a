// SPDX-License-Identifier: Apache-2.0
/*
 * A packet is in two pieces, the row of headers and the row of payload, and where the frame is split between them
 * depends on the stream. packet_read() is the one place that knows.
 */
#include "lib/ibvcap/sequence_read.h"

#include "lib/ibvcap/sequence.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <string.h>

#define ETHER_TYPE_AT  12
#define VLAN_TAG_BYTES 4

/* Copy n bytes from that position of the frame. */
static bool packet_read(const struct ibvcap_packet *packet, uint64_t at, uint32_t n, uint8_t *to)
{
	if (at >= packet->header_bytes) {
		at -= packet->header_bytes;
		if (at + n > packet->row_bytes)
			return false;
		for (uint32_t i = 0; i < n; i++)
			to[i] = packet->row[at + i];
		return true;
	}
	for (; n > 0 && at < packet->header_bytes; n--)
		*to++ = packet->headers[at++];
	return n == 0 || packet_read(packet, at, n, to);
}

/* A number of the payload. */
static inline bool payload_read(const struct sequence_reader *reader, const struct ibvcap_packet *packet,
                                uint32_t offset, uint32_t n, uint64_t *value)
{
	const bool little_endian = reader->sequence.little_endian;
	uint8_t bytes[8];
	uint64_t v = 0;

	if (!packet_read(packet, (uint64_t)packet->payload_at + offset, n, bytes))
		return false;
	for (uint32_t i = 0; i < n; i++)
		v = v << 8 | bytes[little_endian ? n - 1 - i : i];
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
static void key_read_ports(const struct ibvcap_packet *packet, uint64_t at, uint8_t protocol, struct sequence_key *key)
{
	uint8_t ports[4];

	if ((protocol != IPPROTO_UDP && protocol != IPPROTO_TCP) || !packet_read(packet, at, sizeof(ports), ports))
		return;
	key->port = (uint16_t)(ports[0] << 8 | ports[1]);
	key->destination_port = (uint16_t)(ports[2] << 8 | ports[3]);
}

static void key_read_headers(const struct ibvcap_packet *packet, struct sequence_key *key)
{
	uint64_t at = ETHER_TYPE_AT;
	uint8_t type[2], ip[40];

	/* Tagged once or twice, or not at all. */
	for (int tags = 0; tags < 3; tags++, at += VLAN_TAG_BYTES) {
		uint32_t ether_type;

		if (!packet_read(packet, at, sizeof(type), type))
			return;
		ether_type = (uint32_t)type[0] << 8 | type[1];
		if (ether_type == ETHERTYPE_IP && packet_read(packet, at + 2, 20, ip)) {
			key_store_ipv4(key->address, ip + 12);
			key_store_ipv4(key->destination, ip + 16);
			key_read_ports(packet, at + 2 + 4 * (ip[0] & 15u), ip[9], key);
		} else if (ether_type == ETHERTYPE_IPV6 && packet_read(packet, at + 2, 40, ip)) {
			memcpy(key->address, ip + 8, 16);
			memcpy(key->destination, ip + 24, 16);
			key_read_ports(packet, at + 2 + 40, ip[6], key);
		}
		if (ether_type != ETHERTYPE_VLAN && ether_type != 0x88a8)
			return;
	}
}

static bool read_key(const struct sequence_reader *reader, const struct ibvcap_packet *packet, struct sequence_key *key)
{
	const struct ibvcap_sequence *sequence = &reader->sequence;

	memset(key, 0, sizeof(*key));
	if (sequence->source_bytes) {
		if (!packet_read(packet, (uint64_t)packet->payload_at + sequence->source_offset, sequence->source_bytes,
		                 key->field))
			return false;
		for (uint32_t i = 0; i < sequence->source_bytes; i++)
			key->field[i] &= sequence->source_mask[i];
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

void sequence_reader_init(struct sequence_reader *reader, const struct ibvcap_sequence *sequence)
{
	static const uint32_t n_key_words[] = {[IBVCAP_SOURCE_FLOW] = 7,
	                                       [IBVCAP_SOURCE_PORT] = 5,
	                                       [IBVCAP_SOURCE_ADDRESS] = 4,
	                                       [IBVCAP_SOURCE_NONE] = 2};

	*reader = (struct sequence_reader){
		.sequence = *sequence,
		.number_mask = low_bits(sequence_bits(sequence)),
		.upper_mask = sequence->upper_bytes ? low_bits(sequence_upper_bits(sequence)) : 0,
		.lower_cycle = sequence_lower_cycle(sequence),
		.cycle = sequence_cycle(sequence),
		.n_key_words = n_key_words[sequence->source],
	};
}

/* A number that is not below the modulus is none that the sender can have meant; it is taken modulo the modulus. */
static bool read_number(const struct sequence_reader *reader, const struct ibvcap_packet *packet, uint64_t *number)
{
	const struct ibvcap_sequence *sequence = &reader->sequence;
	uint64_t value, upper;

	if (!payload_read(reader, packet, sequence->offset, sequence->bytes, &value))
		return false;
	value = value >> sequence->shift & reader->number_mask;
	if (sequence->step > 1)
		value /= sequence->step;
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
