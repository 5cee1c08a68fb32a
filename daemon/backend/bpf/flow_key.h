// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
/*
 * How a frame is compared with flow rules: its headers become a key, and a hash table has the keys of the rules. The
 * BPF programs and the daemon include this header. It answers as the steering of a ConnectX does: a rule without a
 * VLAN matches tagged and untagged frames, a VLAN is the id of an outer tag of type 0x8100, up to two tags and IP
 * options are skipped, a later fragment matches no rule because it has no ports, and lengths in headers do not count.
 */
#ifndef DAEMON_BACKEND_BPF_FLOW_KEY_H
#define DAEMON_BACKEND_BPF_FLOW_KEY_H

#include <linux/types.h>
#include <stdbool.h>

/* The fields that a rule may leave open. A key has those that are in its `fields`; the others are 0. */
enum flow_key_field {
	FLOW_KEY_SOURCE = 1 << 0,
	FLOW_KEY_SOURCE_PORT = 1 << 1,
	FLOW_KEY_VLAN = 1 << 2,
};
#define FLOW_KEY_N_COMBINATIONS 8

/* Addresses and ports in network order; every byte counts, so there is no padding. */
struct flow_key {
	__u8 destination[16];
	__u8 source[16];
	__u8 destination_mac[6];
	__u16 vlan;
	__u16 destination_port_be;
	__u16 source_port_be;
	__u8 ip_version;
	__u8 fields;
	__u8 reserved[2];
};

/* The only entry of the map of that name. */
struct flow_settings {
	__u32 combinations; /* bit i: some rule has the fields i */
	__u32 n_channels;   /* a packet of a later queue finds no socket */
	__u32 max_channels; /* the socket of stream s for queue q is in slot s * max_channels + q */
	__u32 no_ethernet;  /* frames begin with IP, and keys have no MAC */
};

/* What a key stands for in the map of rules. */
struct flow_target {
	__u32 stream;
	__u32 has_time; /* the 8 bytes before a frame become the time of its arrival: CLOCK_TAI, in ns */
};

/* Of a stream, on one CPU. */
struct flow_counts {
	__u64 matched;
	__u64 no_socket; /* of these, dropped because there was no socket for them */
};

static inline __attribute__((always_inline)) __u16 flow_key_be16(const __u8 *p)
{
	return (__u16)(p[0] << 8 | p[1]);
}

static inline __attribute__((always_inline)) bool flow_key_read_ports(const __u8 *udp, const __u8 *end,
                                                                      struct flow_key *key)
{
	if (udp + 4 > end)
		return false;
	__builtin_memcpy(&key->source_port_be, udp, 2);
	__builtin_memcpy(&key->destination_port_be, udp + 2, 2);
	key->fields |= FLOW_KEY_SOURCE | FLOW_KEY_SOURCE_PORT;
	return true;
}

static inline __attribute__((always_inline)) bool flow_key_read_ipv4(const __u8 *ip, const __u8 *end,
                                                                     struct flow_key *key)
{
	if (ip + 20 > end || ip[0] >> 4 != 4 || ip[9] != 17 || flow_key_be16(ip + 6) & 0x1fff)
		return false;
	key->ip_version = 4;
	__builtin_memcpy(key->source, ip + 12, 4);
	__builtin_memcpy(key->destination, ip + 16, 4);
	/*
	 * The verifier admits no computed offset to a process without CAP_PERFMON, hence a branch for each length of
	 * the header; the empty statements keep the compiler from making one computation of them.
	 */
	for (__u32 words = 5; words <= 15; words++) {
		const __u8 *udp = ip + words * 4;

		__asm__ volatile("" : "+r"(udp));
		if ((ip[0] & 15) == words)
			return flow_key_read_ports(udp, end, key);
	}
	return false;
}

static inline __attribute__((always_inline)) bool flow_key_read_ipv6(const __u8 *ip, const __u8 *end,
                                                                     struct flow_key *key)
{
	if (ip + 40 > end || ip[0] >> 4 != 6 || ip[6] != 17)
		return false;
	key->ip_version = 6;
	__builtin_memcpy(key->source, ip + 8, 16);
	__builtin_memcpy(key->destination, ip + 24, 16);
	return flow_key_read_ports(ip + 40, end, key);
}

static inline __attribute__((always_inline)) bool flow_key_read_ip(const __u8 *ip, const __u8 *end, __u16 ethertype,
                                                                   struct flow_key *key)
{
	if (ethertype == 0x0800)
		return flow_key_read_ipv4(ip, end, key);
	return ethertype == 0x86dd && flow_key_read_ipv6(ip, end, key);
}

/**
 * Fill in the key of a frame; false: no rule can match it. *key is 0, or has the VLAN of an outer tag that is no longer
 * in the frame (n_tags_gone: 1).
 */
static inline __attribute__((always_inline)) bool flow_key_read_frame(const __u8 *frame, const __u8 *end,
                                                                      __u32 n_tags_gone, struct flow_key *key)
{
	const __u8 *type_at = frame + 12;
	__u16 ethertype;

	if (frame + 14 > end)
		return false;
	__builtin_memcpy(key->destination_mac, frame, 6);
	ethertype = flow_key_be16(type_at);
	/* The limit is a constant, so that the compiler makes two branches of it and no loop, for the verifier. */
	for (__u32 i = 0; i < 2; i++) {
		if (i + n_tags_gone >= 2 || (ethertype != 0x8100 && ethertype != 0x88a8))
			break;
		if (type_at + 6 > end)
			return false;
		if (i + n_tags_gone == 0 && ethertype == 0x8100) {
			key->vlan = flow_key_be16(type_at + 2) & 0x0fff;
			key->fields |= FLOW_KEY_VLAN;
		}
		type_at += 4;
		ethertype = flow_key_be16(type_at);
	}
	return flow_key_read_ip(type_at + 2, end, ethertype, key);
}

/** Leave only these optional fields in the key. */
static inline __attribute__((always_inline)) void flow_key_keep(struct flow_key *key, __u8 fields)
{
	if (!(fields & FLOW_KEY_SOURCE))
		__builtin_memset(key->source, 0, sizeof(key->source));
	if (!(fields & FLOW_KEY_SOURCE_PORT))
		key->source_port_be = 0;
	if (!(fields & FLOW_KEY_VLAN))
		key->vlan = 0;
	key->fields = fields;
}

#endif
