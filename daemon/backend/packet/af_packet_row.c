// SPDX-License-Identifier: Apache-2.0
/*
 * Takes apart packets in which the kernel has merged several datagrams: a sender's with UDP_SEGMENT, or received ones
 * that GRO merged. Each datagram gets the headers that it has on the wire. Its UDP checksum is 0, because nobody has
 * computed it yet.
 */
#include "daemon/backend/packet/af_packet.h"

#include "lib/frame/frame.h"

#include <netinet/in.h>
#include <string.h>

#define IPV4_LENGTH   2
#define IPV4_ID       4
#define IPV4_CHECKSUM 10
#define IPV6_BYTES    40
#define IPV6_LENGTH   4
#define UDP_BYTES     8
#define UDP_LENGTH    4
#define UDP_CHECKSUM  6

static void row_put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* The first bytes of all parts together. Returns how many there are, at most AF_PACKET_HEADERS_MAX. */
static uint32_t row_gather(const struct af_packet_row *row, uint8_t headers[AF_PACKET_HEADERS_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < row->n_parts; i++) {
		uint32_t room = AF_PACKET_HEADERS_MAX - n, now = row->parts[i].n < room ? row->parts[i].n : room;

		memcpy(headers + n, row->parts[i].bytes, now);
		n += now;
	}
	return n;
}

/* False: these are not the headers of UDP. Lengths do not count, because the kernel merged several datagrams. */
static bool row_find_headers(const uint8_t *headers, uint32_t n, struct frame *frame)
{
	frame_walk(headers, n, n, frame);
	return frame->l4_at && frame->protocol == IPPROTO_UDP && !frame->fragment_offset &&
	       n >= frame->l4_at + UDP_BYTES;
}

static void row_sum_ipv4(uint8_t *ip, uint32_t bytes)
{
	uint32_t sum = 0;

	row_put16(ip + IPV4_CHECKSUM, 0);
	for (uint32_t i = 0; i < bytes; i += 2)
		sum += frame_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	row_put16(ip + IPV4_CHECKSUM, ~sum);
}

/*
 * Set the lengths of datagram i, which has payload_bytes, and its IP identification, which increases by one per
 * datagram.
 */
static void row_write_headers(uint8_t *headers, const struct frame *frame, uint32_t payload_bytes, uint32_t i)
{
	uint8_t *ip = headers + frame->l3_at, *udp = headers + frame->l4_at;
	uint32_t ip_bytes = frame->l4_at - frame->l3_at;

	row_put16(udp + UDP_LENGTH, UDP_BYTES + payload_bytes);
	row_put16(udp + UDP_CHECKSUM, 0);
	if (frame->ip_version == 6) {
		row_put16(ip + IPV6_LENGTH, ip_bytes - IPV6_BYTES + UDP_BYTES + payload_bytes);
		return;
	}
	row_put16(ip + IPV4_LENGTH, ip_bytes + UDP_BYTES + payload_bytes);
	row_put16(ip + IPV4_ID, frame_be16(ip + IPV4_ID) + i);
	row_sum_ipv4(ip, ip_bytes);
}

uint32_t af_packet_row_cut(struct af_packet_row *row, uint32_t payload_bytes, uint32_t udp_at, uint32_t i)
{
	const struct af_packet_part *last = &row->parts[row->n_parts - 1];
	uint32_t before_last = 0, at, n, here, present;
	uint8_t headers[AF_PACKET_HEADERS_MAX];
	struct frame frame;

	for (uint32_t part = 0; part + 1 < row->n_parts; part++)
		before_last += row->parts[part].n;
	if (payload_bytes == 0 || !row_find_headers(headers, row_gather(row, headers), &frame) ||
	    (udp_at && frame.l4_at != udp_at))
		return 0;
	at = frame.l4_at + UDP_BYTES + i * payload_bytes; /* from the start of the frame */
	if (at >= row->bytes)
		return 0;
	n = i + (row->bytes - at + payload_bytes - 1) / payload_bytes;
	here = row->bytes - at < payload_bytes ? row->bytes - at : payload_bytes;
	present = before_last + last->n > at ? before_last + last->n - at : 0;
	row_write_headers(headers, &frame, here, i);
	row->parts[1] = (struct af_packet_part){last->bytes + (at - before_last), present < here ? present : here};
	memcpy(row->made, headers, frame.l4_at + UDP_BYTES);
	row->parts[0] = (struct af_packet_part){row->made, frame.l4_at + UDP_BYTES};
	row->n_parts = 2;
	row->bytes = frame.l4_at + UDP_BYTES + here;
	return n;
}
