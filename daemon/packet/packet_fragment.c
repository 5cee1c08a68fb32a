// SPDX-License-Identifier: Apache-2.0
/* Cuts datagrams into IP fragments: sizes, offsets and headers. */
#include "daemon/packet/packet_fragment.h"

#include "daemon/packet/packet_plain.h"
#include "lib/frame/checksum.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define OFFSET_UNIT         8u
#define FRAGMENT_BYTES      8u /* the fragment header of IPv6 */
#define IPV4_LENGTH         2
#define IPV4_ID             4
#define IPV4_OFFSET         6
#define IPV4_CHECKSUM       10
#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV6_LENGTH         4
#define IPV6_NEXT_HEADER    6
#define IPV6_MORE_FRAGMENTS 1
#define UDP_LENGTH          4
#define UDP_CHECKSUM        6

static uint32_t cut_ip_bytes(bool ipv6)
{
	return ipv6 ? PACKET_IPV6_BYTES + FRAGMENT_BYTES : PACKET_IPV4_BYTES;
}

static uint32_t cut_fragment_bytes(bool ipv6, uint32_t mtu)
{
	uint32_t headers = cut_ip_bytes(ipv6);

	return mtu > headers ? (mtu - headers) / OFFSET_UNIT * OFFSET_UNIT : 0;
}

void packet_cut_init(struct packet_cut *cut, bool ipv6, uint32_t payload_bytes, uint32_t mtu)
{
	uint32_t bytes = PACKET_UDP_BYTES + payload_bytes, each = cut_fragment_bytes(ipv6, mtu);

	*cut = (struct packet_cut){.ipv6 = ipv6, .datagram_bytes = bytes, .fragment_bytes = each};
	if (bytes + (ipv6 ? PACKET_IPV6_BYTES : PACKET_IPV4_BYTES) <= mtu)
		cut->n = 1;
	else if (each > 0)
		cut->n = (bytes + each - 1) / each;
}

uint32_t packet_cut_payload_max(bool ipv6, uint32_t mtu, uint32_t n)
{
	uint32_t bytes = n * cut_fragment_bytes(ipv6, mtu);

	return bytes > PACKET_UDP_BYTES ? bytes - PACKET_UDP_BYTES : 0;
}

uint32_t packet_cut_mtu_min(bool ipv6, uint32_t payload_bytes, uint32_t n)
{
	uint32_t each = (PACKET_UDP_BYTES + payload_bytes + n - 1) / n;

	return cut_ip_bytes(ipv6) + (each + OFFSET_UNIT - 1) / OFFSET_UNIT * OFFSET_UNIT;
}

/* Of the datagram. */
static uint32_t cut_bytes_of(const struct packet_cut *cut, uint32_t i)
{
	return i + 1 < cut->n ? cut->fragment_bytes : cut->datagram_bytes - i * cut->fragment_bytes;
}

struct packet_fragment packet_cut_fragment(const struct packet_cut *cut, const struct packet_template *packet,
                                           uint32_t i)
{
	uint32_t udp_bytes = i ? 0 : PACKET_UDP_BYTES;

	return (struct packet_fragment){
		.header_bytes = packet->l3 + cut_ip_bytes(cut->ipv6) + udp_bytes,
		.payload_at = i ? i * cut->fragment_bytes - PACKET_UDP_BYTES : 0,
		.payload_bytes = cut_bytes_of(cut, i) - udp_bytes,
	};
}

uint16_t packet_cut_checksum(const struct packet_cut *cut, const struct packet_template *packet, uint64_t payload_sum)
{
	/* The length counts twice: in the pseudo header and in the header. */
	return checksum_of_transport(packet->udp_sum + 2ull * htons((uint16_t)cut->datagram_bytes) + payload_sum);
}

/* ---- headers -------------------------------------------------------------------------------------- */

static void fragment_store16(uint8_t *at, uint32_t value)
{
	uint16_t be = htons((uint16_t)value);

	memcpy(at, &be, sizeof(be));
}

static void write_ipv4(const struct packet_cut *cut, uint8_t *ip, uint32_t i, uint32_t identification)
{
	uint32_t more = i + 1 < cut->n ? IPV4_MORE_FRAGMENTS : 0;
	uint16_t sum;

	fragment_store16(ip + IPV4_LENGTH, PACKET_IPV4_BYTES + cut_bytes_of(cut, i));
	fragment_store16(ip + IPV4_ID, identification);
	fragment_store16(ip + IPV4_OFFSET, i * cut->fragment_bytes / OFFSET_UNIT | more);
	sum = (uint16_t)~checksum_fold(checksum_sum_bytes(ip, PACKET_IPV4_BYTES));
	memcpy(ip + IPV4_CHECKSUM, &sum, sizeof(sum));
}

static void write_ipv6(const struct packet_cut *cut, uint8_t *ip, uint32_t i, uint32_t identification)
{
	uint8_t *fragment = ip + PACKET_IPV6_BYTES;

	fragment_store16(ip + IPV6_LENGTH, FRAGMENT_BYTES + cut_bytes_of(cut, i));
	ip[IPV6_NEXT_HEADER] = IPPROTO_FRAGMENT;
	fragment[0] = IPPROTO_UDP;
	fragment[1] = 0;
	/* The offset's unit of 8 bytes and its place, three bits up, cancel out. */
	fragment_store16(fragment + 2, i * cut->fragment_bytes | (i + 1 < cut->n ? IPV6_MORE_FRAGMENTS : 0));
	fragment_store16(fragment + 4, identification >> 16);
	fragment_store16(fragment + 6, identification);
}

void packet_write_fragment(const struct packet_cut *cut, const struct packet_template *packet, uint8_t *row, uint32_t i,
                           uint32_t identification, uint16_t udp_checksum)
{
	const uint8_t *udp = packet->bytes + packet->header_bytes - PACKET_UDP_BYTES;
	uint8_t *ip = row + packet->l3, *to = ip + cut_ip_bytes(cut->ipv6);

	memcpy(row, packet->bytes, PACKET_HEADERS_MAX);
	if (cut->ipv6)
		write_ipv6(cut, ip, i, identification);
	else
		write_ipv4(cut, ip, i, identification);
	if (i > 0)
		return;
	memcpy(to, udp, PACKET_UDP_BYTES);
	fragment_store16(to + UDP_LENGTH, cut->datagram_bytes);
	memcpy(to + UDP_CHECKSUM, &udp_checksum, sizeof(udp_checksum));
}
