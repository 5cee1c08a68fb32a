// SPDX-License-Identifier: Apache-2.0
/*
 * Takes apart packets in which the kernel has merged several: a sender's with UDP_SEGMENT or of TCP, or received ones
 * that GRO merged; in tunnels, too. Each gets the headers that it has on the wire.
 */
#include "daemon/backend/packet/af_packet.h"

#include "lib/base/min.h"
#include "lib/frame/frame_checksum.h"

#include <netinet/in.h>
#include <string.h>

#define IPV4_LENGTH   2
#define IPV4_ID       4
#define IPV4_CHECKSUM 10
#define IPV6_LENGTH   4
#define UDP_LENGTH    4
#define UDP_CHECKSUM  6
#define GRE_CHECKSUM  4
#define GRE_HAS_SUM   0x80 /* of its first byte */

#define TCP_SEQUENCE  4
#define TCP_WORDS     12 /* its header's length, in the upper 4 bits */
#define TCP_FLAGS     13
#define TCP_CHECKSUM  16
#define TCP_BYTES     20   /* without options */
#define TCP_ONLY_LAST 0x09 /* FIN and PSH */
#define TCP_ONLY_ONCE 0x80 /* CWR, in the first one */

#define LEVELS_MAX 4

/* The headers of a merged packet: those of each tunnel, from the outermost on, and of what was merged. */
struct row_headers {
	uint8_t bytes[AF_PACKET_HEADERS_MAX];
	uint32_t n; /* of the bytes, which may have some of the payload behind the headers */
	struct frame levels[LEVELS_MAX];
	uint32_t n_levels;
	uint32_t payload_at;
};

static void row_put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void row_gather(const struct af_packet_row *row, struct row_headers *headers)
{
	headers->n = 0;
	for (uint32_t i = 0; i < row->n_parts; i++) {
		uint32_t room = AF_PACKET_HEADERS_MAX - headers->n;
		uint32_t now = row->parts[i].n < room ? row->parts[i].n : room;

		memcpy(headers->bytes + headers->n, row->parts[i].bytes, now);
		headers->n += now;
	}
}

static void row_put_checksum(uint8_t *at, uint16_t checksum)
{
	memcpy(at, &checksum, sizeof(checksum));
}

/*
 * Is there an IP header at this place? In a merged packet the lengths of the headers that were merged, and of those
 * around them, reach to the packet's end. The packet of a tunnel that was merged as any payload does not: its lengths
 * reach to its own end. Those of the last such packet reach to both ends, but it is no longer than what one packet of
 * the merge has, and two or more were merged.
 */
static bool row_read_inner(const struct row_headers *headers, uint32_t row_bytes, uint32_t payload_bytes, uint32_t at,
                           struct frame *frame)
{
	const uint8_t *ip = headers->bytes + at;
	bool is_ipv4 = *ip >> 4 == 4 && frame_be16(ip + IPV4_LENGTH) == row_bytes - at;

	if (!is_ipv4 && (*ip >> 4 != 6 || row_bytes - at - FRAME_IPV6_BYTES != frame_be16(ip + IPV6_LENGTH)))
		return false;
	frame_walk_from(headers->bytes, headers->n, row_bytes, at, is_ipv4 ? ETHERTYPE_IP : ETHERTYPE_IPV6, frame);
	if (!frame->l4_at || row_bytes - frame->l4_at <= payload_bytes ||
	    (is_ipv4 && checksum_fold(checksum_sum_bytes(ip, frame->l4_at - at)) != UINT16_MAX))
		return false;
	return frame->protocol != IPPROTO_UDP || frame->udp_length == row_bytes - frame->l4_at;
}

/* A tunnel's header, and maybe an Ethernet header, are between two levels, of an even number of bytes. */
static bool row_find_inner(struct row_headers *headers, uint32_t row_bytes, uint32_t payload_bytes)
{
	const struct frame *outer = &headers->levels[headers->n_levels - 1];

	if (headers->n_levels == LEVELS_MAX)
		return false;
	for (uint32_t at = outer->l4_at; at + FRAME_IPV4_BYTES <= headers->n; at += 2)
		if (row_read_inner(headers, row_bytes, payload_bytes, at, &headers->levels[headers->n_levels])) {
			headers->n_levels++;
			return true;
		}
	return false;
}

/* False: the headers of what was merged are not found. */
static bool row_find_headers(const struct af_packet_row *row, const struct af_packet_merge *merge,
                             struct row_headers *headers)
{
	const struct frame *last = &headers->levels[0];
	uint32_t transport_bytes;

	row_gather(row, headers);
	frame_walk(headers->bytes, headers->n, headers->n, &headers->levels[0]);
	headers->n_levels = 1;
	while (last->l4_at && last->l4_at != merge->transport_at &&
	       row_find_inner(headers, row->bytes, merge->payload_bytes))
		last++;
	if (!last->l4_at || last->protocol != merge->protocol || last->fragment_offset ||
	    (merge->transport_at && last->l4_at != merge->transport_at) || headers->n < last->l4_at + TCP_WORDS + 1)
		return false;
	transport_bytes =
		merge->protocol == IPPROTO_TCP ? (headers->bytes[last->l4_at + TCP_WORDS] >> 4) * 4u : FRAME_UDP_BYTES;
	headers->payload_at = last->l4_at + transport_bytes;
	return headers->payload_at <= headers->n && (merge->protocol == IPPROTO_UDP || transport_bytes >= TCP_BYTES);
}

/* Of packet i, which ends at row_bytes. Its IP identifications increase by one per packet. */
static void row_write_level(uint8_t *bytes, const struct frame *frame, uint32_t row_bytes, uint32_t i)
{
	uint8_t *ip = bytes + frame->l3_at, *transport = bytes + frame->l4_at;

	if (frame->protocol == IPPROTO_UDP)
		row_put16(transport + UDP_LENGTH, row_bytes - frame->l4_at);
	if (frame->ip_version == 6) {
		row_put16(ip + IPV6_LENGTH, row_bytes - frame->l3_at - FRAME_IPV6_BYTES);
		return;
	}
	row_put16(ip + IPV4_LENGTH, row_bytes - frame->l3_at);
	row_put16(ip + IPV4_ID, frame_be16(ip + IPV4_ID) + i);
	row_put16(ip + IPV4_CHECKSUM, 0);
	row_put_checksum(ip + IPV4_CHECKSUM,
	                 (uint16_t)~checksum_fold(checksum_sum_bytes(ip, frame->l4_at - frame->l3_at)));
}

/* Where it is; NULL: there is none, as in a datagram of UDP whose checksum was 0 before it was merged. */
static uint8_t *row_find_checksum(uint8_t *transport, uint8_t protocol)
{
	switch (protocol) {
	case IPPROTO_UDP:
		return frame_be16(transport + UDP_CHECKSUM) ? transport + UDP_CHECKSUM : NULL;
	case IPPROTO_TCP:
		return transport + TCP_CHECKSUM;
	case IPPROTO_GRE:
		return *transport & GRE_HAS_SUM ? transport + GRE_CHECKSUM : NULL;
	default:
		return NULL;
	}
}

/* The headers are written, and all checksums of the levels inside this one. payload_sum: of the bytes behind them. */
static void row_write_checksum(struct row_headers *headers, const struct frame *frame, uint32_t row_bytes,
                               uint64_t payload_sum)
{
	uint8_t *transport = headers->bytes + frame->l4_at, *at = row_find_checksum(transport, frame->protocol);

	if (!at)
		return;
	if (frame->protocol != IPPROTO_GRE)
		payload_sum += frame_pseudo_sum(headers->bytes, frame, row_bytes - frame->l4_at);
	row_put_checksum(at, 0);
	payload_sum += checksum_sum_bytes(transport, headers->payload_at - frame->l4_at);
	row_put_checksum(at, checksum_of_transport(payload_sum));
}

/* Of packet i, whose payload begins `after` bytes after that of the first one. */
static void row_write_tcp(uint8_t *tcp, uint32_t after, uint32_t i, bool is_last)
{
	uint32_t sequence = (uint32_t)frame_be16(tcp + TCP_SEQUENCE) << 16 | frame_be16(tcp + TCP_SEQUENCE + 2);

	sequence += after;
	row_put16(tcp + TCP_SEQUENCE, sequence >> 16);
	row_put16(tcp + TCP_SEQUENCE + 2, sequence);
	if (i > 0)
		tcp[TCP_FLAGS] &= (uint8_t)~TCP_ONLY_ONCE;
	if (!is_last)
		tcp[TCP_FLAGS] &= (uint8_t)~TCP_ONLY_LAST;
}

/* Without their header's place, and with the options of TCP, the number is known only about. */
uint32_t af_packet_row_count(const struct af_packet_row *row, const struct af_packet_merge *merge)
{
	uint32_t head = merge->protocol == IPPROTO_TCP ? TCP_BYTES : FRAME_UDP_BYTES, n;

	head = merge->transport_at ? merge->transport_at + head : merge->payload_bytes - 1;
	n = row->bytes > head ? (row->bytes - head + merge->payload_bytes - 1) / merge->payload_bytes : 0;
	return n > 1 ? n : 1;
}

uint32_t af_packet_row_cut(struct af_packet_row *row, const struct af_packet_merge *merge, uint32_t i)
{
	const struct af_packet_part *last = &row->parts[row->n_parts - 1];
	uint32_t before_last = 0, after = i * merge->payload_bytes, at, n, here, present;
	struct row_headers headers;
	uint64_t payload_sum;

	for (uint32_t part = 0; part + 1 < row->n_parts; part++)
		before_last += row->parts[part].n;
	if (!row_find_headers(row, merge, &headers))
		return 0;
	at = headers.payload_at + after; /* from the start of the frame */
	if (at >= row->bytes)
		return 0;
	n = i + (row->bytes - at + merge->payload_bytes - 1) / merge->payload_bytes;
	here = u32_min(row->bytes - at, merge->payload_bytes);
	present = before_last + last->n > at ? before_last + last->n - at : 0;
	for (uint32_t level = 0; level < headers.n_levels; level++)
		row_write_level(headers.bytes, &headers.levels[level], headers.payload_at + here, i);
	if (merge->protocol == IPPROTO_TCP)
		row_write_tcp(headers.bytes + headers.levels[headers.n_levels - 1].l4_at, after, i, i + 1 == n);
	row->parts[1] = (struct af_packet_part){last->bytes + (at - before_last), u32_min(present, here)};
	payload_sum = checksum_sum_bytes(row->parts[1].bytes, row->parts[1].n);
	for (uint32_t level = headers.n_levels; level-- > 0;)
		row_write_checksum(&headers, &headers.levels[level], headers.payload_at + here, payload_sum);
	memcpy(row->made, headers.bytes, headers.payload_at);
	row->parts[0] = (struct af_packet_part){row->made, headers.payload_at};
	row->n_parts = 2;
	row->bytes = headers.payload_at + here;
	return n;
}
