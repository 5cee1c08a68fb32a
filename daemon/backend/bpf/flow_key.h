// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
/*
 * Compares a frame with flow rules. The frame's headers become a key. A hash table has the keys of exact rules: those
 * for one UDP port of one address. All other rules are conditions: each is compared with the headers in turn. The BPF
 * programs and the daemon include this header.
 *
 * A ConnectX steers in the same way: a rule without a VLAN matches tagged and untagged frames; a VLAN is the id of an
 * outer tag of type 0x8100; the EtherType is the one behind up to two tags; IP options are skipped; a later fragment
 * has no ports; lengths in headers do not count. Other than a ConnectX, the programs look behind headers of options and
 * routing of IPv6, too.
 */
#ifndef DAEMON_BACKEND_BPF_FLOW_KEY_H
#define DAEMON_BACKEND_BPF_FLOW_KEY_H

#include <linux/types.h>
#include <stdbool.h>

#define FLOW_KEY_UDP 17
#define FLOW_KEY_TCP 6

/* Next headers of IPv6. */
#define FLOW_KEY_HOP_BY_HOP          0
#define FLOW_KEY_ROUTING             43
#define FLOW_KEY_IPV6_FRAGMENT       44
#define FLOW_KEY_DESTINATION_OPTIONS 60

/* Limits of IPv6 headers of options and routing that are skipped: their number, and their units of 8 bytes in all. */
#define FLOW_KEY_OPTIONS_MAX  4
#define FLOW_KEY_OPTION_UNITS 8

/* The fields that an exact rule may leave open. A key has those that are in its `fields`; the others are 0. */
enum flow_key_field {
	FLOW_KEY_SOURCE = 1 << 0,
	FLOW_KEY_SOURCE_PORT = 1 << 1,
	FLOW_KEY_VLAN = 1 << 2,
	FLOW_KEY_FRAGMENT =
		1 << 3, /* marks, in wide headers, a fragment; in no key of a rule, but conditions ask for it */
};
#define FLOW_KEY_N_COMBINATIONS 8

/* All in network order; every byte counts, so there is no padding. Fields that a frame does not have are 0. */
struct flow_key {
	__u8 destination[16];
	__u8 source[16];
	__u8 destination_mac[6];
	__u16 vlan_be;
	__u16 source_port_be;
	__u16 destination_port_be;
	__u8 ip_version;
	__u8 fields;
	__u8 protocol;      /* in keys of exact rules 0, because it is UDP */
	__u8 traffic_class; /* likewise; its upper 6 bits are the DSCP */
} __attribute__((aligned(8)));

typedef __u64 __attribute__((may_alias)) flow_word;

/* Which fragment of a datagram a frame is, in wide headers. */
enum flow_fragment_position { FLOW_FRAGMENT_NONE, FLOW_FRAGMENT_FIRST, FLOW_FRAGMENT_LATER };
struct flow_fragment {
	__u32 id;
	__u32 position;
};

/* All fields of a frame that a rule can name, compared as words of 64 bits, and a last word that none can. */
struct flow_headers {
	struct flow_key key;
	__u8 source_mac[6];
	__u16 ether_type_be;
	struct flow_fragment fragment;
};
#define FLOW_HEADERS_N_WORDS 7

_Static_assert(sizeof(struct flow_headers) == 8 * FLOW_HEADERS_N_WORDS + sizeof(struct flow_fragment), "no padding");

/*
 * The headers that a rule asks for. No bit of the value is outside the mask. A frame that is not IP has the version 0,
 * so a rule for both versions asks for the bit that 4 and 6 have in common.
 */
#define FLOW_IP_VERSION_BIT 4
struct flow_condition {
	struct flow_headers value;
	struct flow_headers mask;
};

/* The only entry of the map of that name. */
struct flow_settings {
	__u32 combinations;    /* bit i: some exact rule has the fields i */
	__u32 n_conditions;    /* in use in the map of that name */
	__u32 n_card_queues;   /* a packet of a later one finds no socket */
	__u32 max_card_queues; /* the socket of queue q on card queue c is in slot q * max_card_queues + c */
	__u32 no_ethernet;     /* frames begin with IP, and keys have no MAC */
	__u32 n_reassemble;    /* rules of queues that reassemble fragments */
};

/* A datagram of which a fragment came, in the map `fragments`. No padding. */
struct flow_datagram {
	__u8 destination[16];
	__u8 source[16];
	__u32 id;
	__u32 ip_version;
};
#define FLOW_DATAGRAMS_MAX 4096

/* The value of a key in the map of rules. */
struct flow_target {
	__u32 queue;
	__u32 has_time;    /* the time of its arrival is put before a frame: CLOCK_TAI, a __u64 of ns */
	__u32 rank;        /* of two rules that match a frame, the one with the higher rank has it; 0: no rule */
	__u32 is_group;    /* a hash chooses a member of the group that begins with the queue */
	__u32 reassembles; /* the later fragments of its datagrams go there, too */
	__u32 drops;       /* the kernel does not handle its packets (packet.bpf.c) */
};

/* Queues that share packets out, in the map `groups` at the number of the first one. */
#define FLOW_GROUP_MAX 16
struct flow_group {
	__u32 n_members;
	__u32 has_ports;                        /* the hash takes them, too */
	__u64 member_bytes[FLOW_GROUP_MAX / 8]; /* queue numbers, the first one in the lowest byte */
};

#define FLOW_CONDITIONS_MAX 64

/* An entry of the map of conditions. */
struct flow_conditional {
	struct flow_condition condition;
	struct flow_target target;
};

/*
 * The decision about a frame. The filters of packet sockets and packet_drop read it: first in an entry of map `works`.
 */
struct packet_verdict {
	__u32 fanout_index;
	__u32 drops;
};

/* Counts of a queue on one CPU. */
struct flow_counts {
	__u64 matched;
	__u64 no_socket; /* of these, dropped because there was no socket for them */
};

/*
 * flow_position: where in a frame a reader is. flow_source: what it reads from. By default a position is a pointer, and
 * the source is a pointer to the frame's end. A program that may not read the frame by pointers defines FLOW_KEY_LOADS
 * before it includes this header. Then a position is an offset, and the program defines the two functions below.
 */
#ifdef FLOW_KEY_LOADS
typedef __u32 flow_position;
typedef struct flow_load *flow_source;
static __always_inline bool flow_key_load(flow_source source, flow_position at, __u32 n);
static __always_inline const __u8 *flow_key_loaded(flow_source source);
#else
typedef const __u8 *flow_position;
typedef const __u8 *flow_source;
#endif

/* Does the frame have n bytes there? Then flow_key_bytes() of this position has them, until the next call. */
static inline __attribute__((always_inline)) bool flow_key_has(flow_source source, flow_position at, __u32 n)
{
#ifdef FLOW_KEY_LOADS
	return flow_key_load(source, at, n);
#else
	return at + n <= source;
#endif
}

static inline __attribute__((always_inline)) const __u8 *flow_key_bytes(flow_source source, flow_position at)
{
#ifdef FLOW_KEY_LOADS
	(void)at;
	return flow_key_loaded(source);
#else
	(void)source;
	return at;
#endif
}

/*
 * To a process without CAP_PERFMON the verifier admits no computed offset, so each offset where a header can begin has
 * a branch of its own. The empty statement keeps the compiler from merging the branches into one computation.
 */
static inline __attribute__((always_inline)) flow_position flow_key_apart(flow_position at)
{
#ifndef FLOW_KEY_LOADS
	__asm__ volatile("" : "+r"(at));
#endif
	return at;
}

static inline __attribute__((always_inline)) __u16 flow_key_be16(const __u8 *p)
{
	return (__u16)(p[0] << 8 | p[1]);
}

/*
 * wide: read every field that a condition may ask for, as far as the frame has it. Otherwise the result is false as
 * soon as no exact rule can match the frame. The argument is a constant in each caller, so the compiler makes separate
 * code for each.
 */
static inline __attribute__((always_inline)) bool flow_key_read_ports(flow_position at, flow_source source,
                                                                      struct flow_key *key, bool wide)
{
	const __u8 *ports;

	at = flow_key_apart(at);
	if (!flow_key_has(source, at, 4))
		return wide;
	ports = flow_key_bytes(source, at);
	__builtin_memcpy(&key->source_port_be, ports, 2);
	__builtin_memcpy(&key->destination_port_be, ports + 2, 2);
	key->fields |= FLOW_KEY_SOURCE | FLOW_KEY_SOURCE_PORT;
	return true;
}

static inline __attribute__((always_inline)) bool flow_key_has_ports(const struct flow_key *key)
{
	return key->protocol == FLOW_KEY_UDP || key->protocol == FLOW_KEY_TCP;
}

static inline __attribute__((always_inline)) bool flow_key_is_option(__u8 protocol)
{
	return protocol == FLOW_KEY_HOP_BY_HOP || protocol == FLOW_KEY_ROUTING ||
	       protocol == FLOW_KEY_DESTINATION_OPTIONS;
}

static inline __attribute__((always_inline)) void flow_key_note_fragment(struct flow_headers *headers, __u32 offset,
                                                                         __u32 id)
{
	headers->key.fields |= FLOW_KEY_FRAGMENT;
	headers->fragment.id = id;
	headers->fragment.position = offset ? FLOW_FRAGMENT_LATER : FLOW_FRAGMENT_FIRST;
}

static inline __attribute__((always_inline)) void flow_key_read_ipv4_fields(const __u8 *ip,
                                                                            struct flow_headers *headers, bool wide)
{
	struct flow_key *key = &headers->key;
	__u16 fragment = flow_key_be16(ip + 6);

	key->ip_version = 4;
	__builtin_memcpy(key->source, ip + 12, 4);
	__builtin_memcpy(key->destination, ip + 16, 4);
	if (!wide)
		return;
	key->protocol = ip[9];
	key->traffic_class = ip[1];
	if (fragment & 0x3fff)
		flow_key_note_fragment(headers, fragment & 0x1fff, flow_key_be16(ip + 4));
}

static inline __attribute__((always_inline)) bool flow_key_read_ipv4(flow_position at, flow_source source,
                                                                     struct flow_headers *headers, bool wide)
{
	struct flow_key *key = &headers->key;
	flow_position usual;
	const __u8 *ip;
	bool has_ports;
	__u8 first;

	if (!flow_key_has(source, at, 20))
		return wide;
	ip = flow_key_bytes(source, at);
	if (ip[0] < 0x45 || ip[0] > 0x4f)
		return wide;
	if (!wide && (ip[9] != FLOW_KEY_UDP || flow_key_be16(ip + 6) & 0x1fff))
		return false;
	first = ip[0];
	flow_key_read_ipv4_fields(ip, headers, wide);
	has_ports = !wide || (flow_key_has_ports(key) && !(flow_key_be16(ip + 6) & 0x1fff));
	if (!has_ports)
		return wide;
	usual = flow_key_apart(at + 20);
	if (first == 0x45)
		return flow_key_read_ports(usual, source, key, wide);
	for (__u32 words = 6; words <= 15; words++) {
		flow_position ports = flow_key_apart(at + words * 4);

		if ((first & 15) == words)
			return flow_key_read_ports(ports, source, key, wide);
	}
	return wide;
}

/* One without offset and more fragments is no fragment. */
static inline __attribute__((always_inline)) bool flow_key_read_ipv6_fragment(flow_position at, flow_source source,
                                                                              struct flow_headers *headers, bool wide)
{
	struct flow_key *key = &headers->key;
	const __u8 *header;
	__u16 fragment;

	if (!flow_key_has(source, at, 8))
		return wide;
	header = flow_key_bytes(source, at);
	fragment = flow_key_be16(header + 2);
	key->protocol = header[0];
	if (wide && fragment & 0xfff9)
		flow_key_note_fragment(headers, fragment & 0xfff8,
		                       (__u32)flow_key_be16(header + 4) << 16 | flow_key_be16(header + 6));
	if (!flow_key_has_ports(key) || fragment & 0xfff8)
		return wide;
	return flow_key_read_ports(at + 8, source, key, wide);
}

/* Options and routing, then a fragment header or the ports. No loop, for the verifier. */
static inline __attribute__((always_inline)) bool flow_key_read_ipv6_headers(flow_position ip, flow_source source,
                                                                             struct flow_headers *headers, bool wide)
{
	struct flow_key *key = &headers->key;
	__u32 at = 0, n = 0;

#ifdef __clang__
#pragma unroll
#endif
	for (__u32 unit = 0; unit <= FLOW_KEY_OPTION_UNITS; unit++) {
		flow_position position = flow_key_apart(ip + 40 + unit * 8);
		const __u8 *header;

		if (at != unit)
			continue;
		if (flow_key_has_ports(key))
			return flow_key_read_ports(position, source, key, wide);
		if (key->protocol == FLOW_KEY_IPV6_FRAGMENT)
			return flow_key_read_ipv6_fragment(position, source, headers, wide);
		if (!flow_key_is_option(key->protocol) || n++ == FLOW_KEY_OPTIONS_MAX ||
		    !flow_key_has(source, position, 8))
			return wide;
		header = flow_key_bytes(source, position);
		key->protocol = header[0];
		at += 1 + header[1];
	}
	return wide;
}

static inline __attribute__((always_inline)) bool flow_key_read_ipv6(flow_position at, flow_source source,
                                                                     struct flow_headers *headers, bool wide)
{
	struct flow_key *key = &headers->key;
	const __u8 *ip;

	if (!flow_key_has(source, at, 40))
		return wide;
	ip = flow_key_bytes(source, at);
	if (ip[0] >> 4 != 6)
		return wide;
	key->ip_version = 6;
	__builtin_memcpy(key->source, ip + 8, 16);
	__builtin_memcpy(key->destination, ip + 24, 16);
	key->protocol = ip[6];
	if (wide)
		key->traffic_class = (__u8)(flow_key_be16(ip) >> 4);
	return flow_key_read_ipv6_headers(at, source, headers, wide) && (wide || key->protocol == FLOW_KEY_UDP);
}

/** Without an Ethernet header: the headers have no MAC and no EtherType. */
static inline __attribute__((always_inline)) bool
flow_key_read_ip(flow_position ip, flow_source source, __u16 ethertype, struct flow_headers *headers, bool wide)
{
	if (ethertype == 0x0800)
		return flow_key_read_ipv4(ip, source, headers, wide);
	if (ethertype == 0x86dd)
		return flow_key_read_ipv6(ip, source, headers, wide);
	return wide;
}

/* The Ethernet header and up to two tags. False: no rule can match. *ip: where the header behind them begins. */
static inline __attribute__((always_inline)) bool flow_key_read_ethernet(flow_position frame, flow_source source,
                                                                         __u32 n_tags_gone,
                                                                         struct flow_headers *headers, bool wide,
                                                                         flow_position *ip, __u16 *ethertype)
{
	struct flow_key *key = &headers->key;
	flow_position type_at = frame + 12;
	const __u8 *bytes;
	__u16 type;

	if (!flow_key_has(source, frame, 14))
		return false;
	bytes = flow_key_bytes(source, frame);
	__builtin_memcpy(key->destination_mac, bytes, 6);
	if (wide)
		__builtin_memcpy(headers->source_mac, bytes + 6, 6);
	type = flow_key_be16(bytes + 12);
	/* The limit is a constant, so that the compiler makes two branches of it and no loop, for the verifier. */
	for (__u32 i = 0; i < 2; i++) {
		const __u8 *tag;

		if (i + n_tags_gone >= 2 || (type != 0x8100 && type != 0x88a8))
			break;
		if (!flow_key_has(source, type_at + 2, 4))
			return false;
		tag = flow_key_bytes(source, type_at + 2);
		if (i + n_tags_gone == 0 && type == 0x8100) {
			__u8 id[2] = {tag[0] & 0x0f, tag[1]};

			__builtin_memcpy(&key->vlan_be, id, 2);
			key->fields |= FLOW_KEY_VLAN;
		}
		type_at += 4;
		type = flow_key_be16(tag + 2);
	}
	if (wide) {
		__u8 type_be[2] = {(__u8)(type >> 8), (__u8)type};

		__builtin_memcpy(&headers->ether_type_be, type_be, 2);
	}
	*ip = type_at + 2;
	*ethertype = type;
	return true;
}

/**
 * Fill in the headers of a frame, all of them or (wide = false) the key of UDP; false: no rule can match it. They are
 * 0, or have the VLAN of an outer tag that is no longer in the frame (n_tags_gone: 1).
 */
static inline __attribute__((always_inline)) bool
flow_key_read_frame(flow_position frame, flow_source source, __u32 n_tags_gone, struct flow_headers *headers, bool wide)
{
	flow_position ip;
	__u16 ethertype;

	return flow_key_read_ethernet(frame, source, n_tags_gone, headers, wide, &ip, &ethertype) &&
	       flow_key_read_ip(ip, source, ethertype, headers, wide);
}

/** Make it the key of an exact rule that has only these optional fields. */
static inline __attribute__((always_inline)) void flow_key_keep(struct flow_key *key, __u8 fields)
{
	if (!(fields & FLOW_KEY_SOURCE))
		__builtin_memset(key->source, 0, sizeof(key->source));
	if (!(fields & FLOW_KEY_SOURCE_PORT))
		key->source_port_be = 0;
	if (!(fields & FLOW_KEY_VLAN))
		key->vlan_be = 0;
	key->fields = fields;
	key->protocol = 0;
	key->traffic_class = 0;
}

static inline __attribute__((always_inline)) bool flow_condition_holds(const struct flow_condition *condition,
                                                                       const struct flow_headers *headers)
{
	const flow_word *value = (const flow_word *)&condition->value, *mask = (const flow_word *)&condition->mask;
	const flow_word *is = (const flow_word *)headers;
	__u64 differs = 0;

	for (__u32 i = 0; i < FLOW_HEADERS_N_WORDS; i++)
		differs |= (is[i] & mask[i]) ^ value[i];
	return differs == 0;
}

/* One end of a conversation. 0 stays 0. */
static inline __attribute__((always_inline)) __u64 flow_hash_end(const __u8 *address, __u16 port)
{
	const flow_word *words = (const flow_word *)address;
	__u64 hash = (words[0] * 0x9e3779b97f4a7c15U) ^ words[1];

	hash ^= hash >> 32;
	hash = (hash * 0xd6e8feb86659fd93U) ^ port;
	hash *= 0xd6e8feb86659fd93U;
	return hash ^ hash >> 32;
}

/*
 * The sum of both ends, so both directions have the same hash. Ports count for UDP only, and not for fragments, because
 * only the first fragment has them. Narrow headers are those of UDP; a frame that is not IP has the hash 0.
 */
static inline __attribute__((always_inline)) __u32 flow_hash(const struct flow_key *key, bool has_ports)
{
	bool with_ports = has_ports && !(key->fields & FLOW_KEY_FRAGMENT) && key->protocol != FLOW_KEY_TCP;
	__u64 hash = flow_hash_end(key->source, with_ports ? key->source_port_be : 0) +
	             flow_hash_end(key->destination, with_ports ? key->destination_port_be : 0);

	return (__u32)(hash * 0x9e3779b97f4a7c15U >> 32);
}

/** The number of the queue that gets a packet with these headers. */
static inline __attribute__((always_inline)) __u32 flow_group_choose(const struct flow_group *group,
                                                                     const struct flow_key *key)
{
	/*
	 * A multiplication shares the hash out as evenly as a division. The verifier admits no computed offset here
	 * either: both words are read, and the empty statement keeps them apart.
	 */
	__u32 member = (__u32)((__u64)flow_hash(key, group->has_ports) * group->n_members >> 32);
	__u64 low = group->member_bytes[0], high = group->member_bytes[1];

	__asm__ volatile("" : "+r"(low), "+r"(high));
	return (member < 8 ? low : high) >> member % 8 * 8 & 0xff;
}

/** Can the headers of one frame fulfil both? */
static inline bool flow_condition_overlaps(const struct flow_condition *a, const struct flow_condition *b)
{
	const flow_word *value_a = (const flow_word *)&a->value, *mask_a = (const flow_word *)&a->mask;
	const flow_word *value_b = (const flow_word *)&b->value, *mask_b = (const flow_word *)&b->mask;
	__u64 differs = 0;

	for (__u32 i = 0; i < FLOW_HEADERS_N_WORDS; i++)
		differs |= (value_a[i] ^ value_b[i]) & mask_a[i] & mask_b[i];
	return differs == 0;
}

#endif
