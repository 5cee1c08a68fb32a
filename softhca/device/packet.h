// SPDX-License-Identifier: Apache-2.0
/* The headers of a frame as the device reads them. All functions are pure. */
#ifndef SOFTHCA_DEVICE_PACKET_H
#define SOFTHCA_DEVICE_PACKET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The fields that a flow can match, in network byte order, absent ones zero. They are compared as eight 64-bit
 * words; the words that differ most often come first. `ether_type` is the one behind VLAN tags (PRM,
 * fte_match_set_lyr_2_4). */
struct packet_key {
	union {
		struct {
			uint8_t dst_ip[16]; /* IPv4: the first four bytes */
			uint16_t dst_port;
			uint16_t src_port;
			uint8_t ip_proto;
			uint8_t tos;
			uint8_t ip_version;
			uint8_t cvlan; /* 1: has a C-VLAN tag */
			uint8_t dst_mac[6];
			uint16_t ether_type;
			uint8_t src_mac[6];
			uint16_t vlan_tci;
			uint8_t src_ip[16];
			uint32_t flow_label;
			uint16_t tcp_flags; /* 9 bits */
			uint8_t ttl;        /* or hop limit */
			uint8_t fragment;   /* 1: any fragment, the first one included */
		};
		uint64_t word[8];
	};
};
static_assert(sizeof(struct packet_key) == 64, "packet key");
static_assert(offsetof(struct packet_key, dst_mac) == 24, "packet key has no holes");

struct packet {
	struct packet_key key;
	uint32_t l3_offset, l4_offset; /* 0: none */
	uint32_t ipv4_bytes;           /* of the IPv4 header */
	uint32_t l3_end;               /* end of the IP packet; padding follows */
	bool cut;                      /* the IP header gives a length that is longer than the frame */
};

/* The frame may lie in memory that another program writes. Therefore its lengths are read here, and nowhere else. */
void packet_read_headers(struct packet *p, const uint8_t *frame, uint32_t len);

/* Ones' complement sum of `len` bytes, folded to 16 bits, as it lies in memory. */
uint16_t packet_sum(const void *data, size_t len);

/* The same of the IP packet of a frame, without what pads it; 0: there is none (mlx5_core: mlx5e_handle_csum). */
uint16_t packet_ip_sum(const uint8_t *frame, uint32_t len);

/* Are the checksums right? A UDP packet over IPv4 that carries none counts as right, as the device reports it. */
bool packet_ipv4_csum_ok(const struct packet *p, const uint8_t *frame);
bool packet_l4_csum_ok(const struct packet *p, const uint8_t *frame);

/* Fills in the IPv4 header's and the TCP or UDP checksum of a complete frame. */
void packet_fill_csums(uint8_t *frame, uint32_t len, bool l3, bool l4);

#endif
