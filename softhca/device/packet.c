// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the headers of a frame into the fields that steering, RSS and completions use, and computes and checks its
 * checksums.
 */
#include "packet.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

#define UDP_HEADER_BYTES  8
#define TCP_HEADER_BYTES  20
#define IPV6_HEADER_BYTES 40
#define IPV4_CSUM_OFFSET  10
#define UDP_CSUM_OFFSET   6
#define TCP_CSUM_OFFSET   16

static uint16_t packet_load16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, 2);
	return v;
}

static void packet_read_ports(struct packet *p, const uint8_t *frame)
{
	uint32_t header = p->key.ip_proto == IPPROTO_UDP   ? UDP_HEADER_BYTES
	                  : p->key.ip_proto == IPPROTO_TCP ? TCP_HEADER_BYTES
	                                                   : UINT32_MAX;

	if (header == UINT32_MAX || p->l4_offset + header > p->l3_end) {
		p->l4_offset = 0;
		return;
	}
	p->key.src_port = packet_load16(frame + p->l4_offset);
	p->key.dst_port = packet_load16(frame + p->l4_offset + 2);
	if (header == TCP_HEADER_BYTES)
		p->key.tcp_flags = packet_load16(frame + p->l4_offset + 12) & htons(0x1ff);
}

/* Steering looks at header fields, not at lengths: rdma-core's test_ipv6_spec_flow_traffic sends a payload length
 * that includes the IPv6 header, and its rule matches. */
static void packet_set_l3_end(struct packet *p, uint32_t end, uint32_t len)
{
	p->cut = end > len;
	p->l3_end = p->cut ? len : end;
}

static void packet_read_ipv4(struct packet *p, const uint8_t *frame, uint32_t len, uint32_t at)
{
	uint32_t ihl, total;

	if (at + 20 > len || frame[at] >> 4 != 4)
		return;
	ihl = (frame[at] & 15u) * 4;
	total = ntohs(packet_load16(frame + at + 2));
	if (ihl < 20 || at + ihl > len)
		return;
	p->l3_offset = at;
	p->ipv4_bytes = ihl;
	packet_set_l3_end(p, at + (total < ihl ? len : total), len);
	p->key.ip_version = 4;
	p->key.tos = frame[at + 1];
	p->key.ttl = frame[at + 8];
	p->key.ip_proto = frame[at + 9];
	memcpy(p->key.src_ip, frame + at + 12, 4);
	memcpy(p->key.dst_ip, frame + at + 16, 4);
	uint16_t frag = ntohs(packet_load16(frame + at + 6));
	p->key.fragment = frag & 0x3fff ? 1 : 0;
	if (frag & 0x1fff)
		return; /* a later fragment has no transport header */
	p->l4_offset = at + ihl;
	packet_read_ports(p, frame);
}

static void packet_read_ipv6(struct packet *p, const uint8_t *frame, uint32_t len, uint32_t at)
{
	uint32_t payload;

	if (at + IPV6_HEADER_BYTES > len || frame[at] >> 4 != 6)
		return;
	payload = ntohs(packet_load16(frame + at + 4));
	p->l3_offset = at;
	packet_set_l3_end(p, at + IPV6_HEADER_BYTES + payload, len);
	p->key.ip_version = 6;
	p->key.tos = (uint8_t)(frame[at] << 4 | frame[at + 1] >> 4);
	p->key.flow_label = htonl((frame[at + 1] & 15u) << 16 | (uint32_t)frame[at + 2] << 8 | frame[at + 3]);
	p->key.ip_proto = frame[at + 6];
	p->key.ttl = frame[at + 7];
	p->key.fragment = p->key.ip_proto == IPPROTO_FRAGMENT;
	memcpy(p->key.src_ip, frame + at + 8, 16);
	memcpy(p->key.dst_ip, frame + at + 24, 16);
	p->l4_offset = at + IPV6_HEADER_BYTES;
	packet_read_ports(p, frame);
}

void packet_read_headers(struct packet *p, const uint8_t *frame, uint32_t len)
{
	uint32_t at = 2 * ETH_ALEN;
	uint16_t type;

	memset(p, 0, sizeof(*p));
	if (len < ETH_HLEN)
		return;
	memcpy(p->key.dst_mac, frame, ETH_ALEN);
	memcpy(p->key.src_mac, frame + ETH_ALEN, ETH_ALEN);
	type = ntohs(packet_load16(frame + at));
	if (type == ETH_P_8021Q && at + 6 <= len) {
		p->key.cvlan = 1;
		p->key.vlan_tci = packet_load16(frame + at + 2);
	}
	for (int tags = 0; tags < 2 && (type == ETH_P_8021Q || type == ETH_P_8021AD); tags++) {
		if (at + 6 > len)
			return;
		at += 4;
		type = ntohs(packet_load16(frame + at));
	}
	p->key.ether_type = htons(type);
	if (type == ETH_P_IP)
		packet_read_ipv4(p, frame, len, at + 2);
	else if (type == ETH_P_IPV6)
		packet_read_ipv6(p, frame, len, at + 2);
}

static uint16_t packet_sum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffffu) + (sum >> 32);
	sum = (sum & 0xffffffffu) + (sum >> 32);
	sum = (sum & 0xffffu) + (sum >> 16);
	sum = (sum & 0xffffu) + (sum >> 16);
	return (uint16_t)sum;
}

uint16_t packet_sum(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t a = 0, b = 0;

	/* 32-bit lanes in 64-bit sums cannot overflow below 16 GiB. */
	for (; len >= 32; len -= 32, p += 32) {
		uint32_t w[8];

		memcpy(w, p, 32);
		a += (uint64_t)w[0] + w[1] + w[2] + w[3];
		b += (uint64_t)w[4] + w[5] + w[6] + w[7];
	}
	for (; len >= 2; len -= 2, p += 2)
		a += packet_load16(p);
	if (len) {
		uint8_t last[2] = {*p, 0};
		a += packet_load16(last);
	}
	return packet_sum_fold((uint64_t)packet_sum_fold(a) + packet_sum_fold(b));
}

uint16_t packet_ip_sum(const uint8_t *frame, uint32_t len)
{
	struct packet p;

	packet_read_headers(&p, frame, len);
	return packet_sum(frame + p.l3_offset, p.l3_offset ? p.l3_end - p.l3_offset : 0);
}

static uint16_t packet_pseudo_header_sum(const struct packet *p, uint32_t l4_len)
{
	size_t n = p->key.ip_version == 4 ? 4 : 16;

	return packet_sum_fold((uint64_t)packet_sum(p->key.src_ip, n) + packet_sum(p->key.dst_ip, n) +
	                       htons(p->key.ip_proto) + htons((uint16_t)l4_len));
}

bool packet_ipv4_csum_ok(const struct packet *p, const uint8_t *frame)
{
	return packet_sum(frame + p->l3_offset, p->ipv4_bytes) == 0xffff;
}

bool packet_l4_csum_ok(const struct packet *p, const uint8_t *frame)
{
	uint32_t l4_len = p->l3_end - p->l4_offset;

	if (!p->l4_offset || p->key.fragment || p->cut)
		return false;
	if (p->key.ip_proto == IPPROTO_UDP) {
		if (!packet_load16(frame + p->l4_offset + UDP_CSUM_OFFSET))
			return p->key.ip_version == 4;
		uint32_t udp_len = ntohs(packet_load16(frame + p->l4_offset + 4));
		if (udp_len < UDP_HEADER_BYTES || udp_len > l4_len)
			return false;
		l4_len = udp_len;
	}
	return packet_sum_fold((uint64_t)packet_pseudo_header_sum(p, l4_len) +
	                       packet_sum(frame + p->l4_offset, l4_len)) == 0xffff;
}

static void packet_store_csum(uint8_t *at, uint64_t sum, bool zero_means_none)
{
	uint16_t csum = (uint16_t)~packet_sum_fold(sum);

	if (!csum && zero_means_none)
		csum = 0xffff;
	memcpy(at, &csum, 2);
}

void packet_fill_csums(uint8_t *frame, uint32_t len, bool l3, bool l4)
{
	struct packet p;

	packet_read_headers(&p, frame, len);
	if (l3 && p.key.ip_version == 4) {
		uint8_t *csum = frame + p.l3_offset + IPV4_CSUM_OFFSET;

		memset(csum, 0, 2);
		packet_store_csum(csum, packet_sum(frame + p.l3_offset, p.ipv4_bytes), false);
	}
	if (l4 && p.l4_offset && !p.key.fragment && !p.cut) {
		bool udp = p.key.ip_proto == IPPROTO_UDP;
		uint8_t *csum = frame + p.l4_offset + (udp ? UDP_CSUM_OFFSET : TCP_CSUM_OFFSET);
		uint32_t l4_len = p.l3_end - p.l4_offset;

		memset(csum, 0, 2);
		packet_store_csum(
			csum, (uint64_t)packet_pseudo_header_sum(&p, l4_len) + packet_sum(frame + p.l4_offset, l4_len),
			udp);
	}
}
