// SPDX-License-Identifier: Apache-2.0
/*
 * Makes rules from flow specs and refuses what the kernel and mlx5 refuse, in their order. Sources: ib_uverbs
 * (ib_uverbs_ex_create_flow), mlx5_ib (mlx5_ib_create_flow, get_flow_table, parse_flow_attr, is_valid_ethertype,
 * flow_is_multicast_only), mlx5_core (check_valid_spec).
 */
#include "flow_spec.h"
#include "refuse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

#define MAX_TAG           (1u << 24)
#define UVERBS_SPEC_BYTES 88u /* sizeof(struct ib_uverbs_flow_spec), the kernel's union */

/* A second spec may repeat the IP protocol but not contradict it (mlx5_ib: set_proto). */
static int flow_set_proto(struct flow_rule *r, uint8_t mask, uint8_t value)
{
	if (!mask)
		return 0;
	if (!r->mask.ip_proto) {
		r->mask.ip_proto = mask;
		r->value.ip_proto = value;
		return 0;
	}
	return r->mask.ip_proto == mask && r->value.ip_proto == value
	               ? 0
	               : refuse(EINVAL, "specs", "two specs want different IP protocols", "mlx5_ib: set_proto");
}

static int flow_parse_eth(struct flow_rule *r, const struct flow_spec *s)
{
	memcpy(r->mask.dst_mac, s->mask.eth.dst_mac, ETH_ALEN);
	memcpy(r->value.dst_mac, s->value.eth.dst_mac, ETH_ALEN);
	memcpy(r->mask.src_mac, s->mask.eth.src_mac, ETH_ALEN);
	memcpy(r->value.src_mac, s->value.eth.src_mac, ETH_ALEN);
	if (s->mask.eth.vlan_tag) {
		r->mask.cvlan = r->value.cvlan = 1;
		r->mask.vlan_tci = s->mask.eth.vlan_tag;
		r->value.vlan_tci = s->value.eth.vlan_tag;
	}
	r->mask.ether_type = s->mask.eth.ether_type;
	r->value.ether_type = s->value.eth.ether_type;
	return 0;
}

static int flow_parse_ipv4(struct flow_rule *r, const struct flow_spec *s)
{
	/* LAST_IPV4_FIELD: TTL and flags cannot be matched. */
	if (s->mask.ipv4.ttl || s->mask.ipv4.flags)
		return -EOPNOTSUPP;
	r->mask.ip_version = 0xf;
	r->value.ip_version = 4;
	memcpy(r->mask.src_ip, &s->mask.ipv4.src_ip, 4);
	memcpy(r->value.src_ip, &s->value.ipv4.src_ip, 4);
	memcpy(r->mask.dst_ip, &s->mask.ipv4.dst_ip, 4);
	memcpy(r->value.dst_ip, &s->value.ipv4.dst_ip, 4);
	r->mask.tos = s->mask.ipv4.tos;
	r->value.tos = s->value.ipv4.tos;
	return flow_set_proto(r, s->mask.ipv4.proto, s->value.ipv4.proto);
}

static int flow_parse_ipv6(struct flow_rule *r, const struct flow_spec *s)
{
	/* LAST_IPV6_FIELD: the hop limit cannot be matched. */
	if (s->mask.ipv6.hop_limit)
		return refuse(EOPNOTSUPP, "ipv6.hop_limit", "cannot be matched", "mlx5_ib: LAST_IPV6_FIELD");
	r->mask.ip_version = 0xf;
	r->value.ip_version = 6;
	memcpy(r->mask.src_ip, s->mask.ipv6.src_ip, 16);
	memcpy(r->value.src_ip, s->value.ipv6.src_ip, 16);
	memcpy(r->mask.dst_ip, s->mask.ipv6.dst_ip, 16);
	memcpy(r->value.dst_ip, s->value.ipv6.dst_ip, 16);
	r->mask.tos = s->mask.ipv6.traffic_class;
	r->value.tos = s->value.ipv6.traffic_class;
	r->mask.flow_label = s->mask.ipv6.flow_label;
	r->value.flow_label = s->value.ipv6.flow_label;
	return flow_set_proto(r, s->mask.ipv6.next_hdr, s->value.ipv6.next_hdr);
}

static int flow_parse_tcp_udp(struct flow_rule *r, const struct flow_spec *s)
{
	r->mask.src_port = s->mask.tcp_udp.src_port;
	r->value.src_port = s->value.tcp_udp.src_port;
	r->mask.dst_port = s->mask.tcp_udp.dst_port;
	r->value.dst_port = s->value.tcp_udp.dst_port;
	return flow_set_proto(r, 0xff, s->type == FLOW_SPEC_UDP ? IPPROTO_UDP : IPPROTO_TCP);
}

static int flow_parse_tag(struct flow_rule *r, const struct flow_spec *s)
{
	if (s->id >= MAX_TAG)
		return refuse(EINVAL, "action_tag", "more than 24 bits", "mlx5_ib: parse_flow_attr");
	r->tag = s->id;
	r->has_tag = true;
	return 0;
}

static int flow_parse_drop(struct flow_rule *r, const struct flow_spec *s)
{
	(void)s;
	r->action = FLOW_DROP;
	return 0;
}

static int flow_parse_count(struct flow_rule *r, const struct flow_spec *s)
{
	if (r->has_counters)
		return refuse(EINVAL, "action_count", "a flow has one counters object at most",
		              "mlx5_ib: parse_flow_attr");
	r->has_counters = true;
	r->counters_handle = s->id;
	return 0;
}

/* The specs that this device can match. The other types need headers that it does not parse: EOPNOTSUPP. */
static const struct spec_type {
	uint32_t type;
	int (*parse)(struct flow_rule *r, const struct flow_spec *s);
} spec_types[] = {
	{FLOW_SPEC_ETH, flow_parse_eth},     {FLOW_SPEC_IPV4, flow_parse_ipv4},   {FLOW_SPEC_IPV6, flow_parse_ipv6},
	{FLOW_SPEC_TCP, flow_parse_tcp_udp}, {FLOW_SPEC_UDP, flow_parse_tcp_udp}, {FLOW_SPEC_TAG, flow_parse_tag},
	{FLOW_SPEC_DROP, flow_parse_drop},   {FLOW_SPEC_COUNT, flow_parse_count},
};

static int flow_parse_spec(struct flow_rule *r, const struct flow_spec *s)
{
	for (size_t i = 0; i < sizeof(spec_types) / sizeof(spec_types[0]); i++)
		if (spec_types[i].type == s->type)
			return spec_types[i].parse(r, s);
	return refuse(EOPNOTSUPP, "spec", "the device does not parse these headers", "mlx5_ib: parse_flow_attr");
}

/*
 * Only the first spec decides whether a rule is a multicast one, and the IPv4 test does not even
 * look at the mask (mlx5_ib: flow_is_multicast_only; verbs-rules.md "Flow rules").
 */
static bool flow_is_multicast_only(const struct flow_spec *first)
{
	if (first->type == FLOW_SPEC_IPV4)
		return IN_MULTICAST(ntohl(first->value.ipv4.dst_ip));
	if (first->type == FLOW_SPEC_ETH)
		return first->mask.eth.dst_mac[0] & first->value.eth.dst_mac[0] & 1;
	return false;
}

/* An Ethertype beside an IP spec must be exact and agree with it (is_valid_ethertype). */
static bool flow_ethertype_agrees(const struct flow_spec *specs, unsigned int n)
{
	uint16_t type = 0, mask = 0;
	uint32_t ip = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (specs[i].type == FLOW_SPEC_ETH && specs[i].mask.eth.ether_type) {
			mask = ntohs(specs[i].mask.eth.ether_type);
			type = ntohs(specs[i].value.eth.ether_type);
		} else if (specs[i].type == FLOW_SPEC_IPV4 || specs[i].type == FLOW_SPEC_IPV6) {
			ip = specs[i].type;
		}
	}
	if (!mask || !ip)
		return true;
	return mask == 0xffff && (type == (ip == FLOW_SPEC_IPV4 ? ETH_P_IP : ETH_P_IPV6) || type == ETH_P_MPLS_UC ||
	                          type == ETH_P_MPLS_MC);
}

static bool flow_is_leftovers(const struct flow_request *req)
{
	return req->type == FLOW_ALL_DEFAULT || req->type == FLOW_MC_DEFAULT;
}

/* ib_uverbs_ex_create_flow, before it looks at the specs. */
static int flow_check_request(const struct flow_request *req)
{
	if (req->flags >= FLOW_FLAGS_END || ((req->flags & FLOW_DONT_TRAP) && flow_is_leftovers(req)))
		return refuse(EINVAL, "flags", "unknown flag, or DONT_TRAP with a leftovers flow",
		              "ib_uverbs: ib_uverbs_ex_create_flow");
	if (req->n_specs > FLOW_MAX_SPECS || req->specs_bytes > req->n_specs * UVERBS_SPEC_BYTES)
		return refuse(EINVAL, "num_of_specs", "too many specs", "ib_uverbs: ib_uverbs_ex_create_flow");
	return req->port == 1 ? 0 : refuse(EINVAL, "port", "no such port", "ib_uverbs: ib_uverbs_ex_create_flow");
}

/* mlx5_ib_create_flow and get_flow_table. */
static int flow_check_kind(const struct flow_request *req, const struct flow_limits *limits)
{
	if (req->priority >= limits->n_priorities)
		return refuse(ENOMEM, "priority", "past the last", "mlx5_ib: get_flow_table");
	if (req->flags & ~(uint32_t)(FLOW_DONT_TRAP | FLOW_EGRESS))
		return refuse(EINVAL, "flags", "unknown flag", "mlx5_ib: mlx5_ib_create_flow");
	if ((req->flags & FLOW_EGRESS) && flow_is_leftovers(req))
		return refuse(EINVAL, "flags", "EGRESS with a leftovers flow", "mlx5_ib: mlx5_ib_create_flow");
	if (req->type == FLOW_SNIFFER && !limits->sniffer)
		return refuse(EOPNOTSUPP, "type", "the device has no sniffer",
		              "mlx5_ib: allow_sniffer_and_nic_rx_shared_tir");
	/* The device has no flow tables for frames on their way out (no EGRESS namespace). */
	return req->type > FLOW_SNIFFER || (req->flags & FLOW_EGRESS)
	               ? refuse(EOPNOTSUPP, "type, flags", "no such type, or EGRESS, which the device has not",
	                        "mlx5_ib: get_flow_table")
	               : 0;
}

static int flow_parse_normal(struct flow_rule *rule, const struct flow_request *req, const struct flow_spec *specs,
                             const struct flow_limits *limits)
{
	if (!flow_ethertype_agrees(specs, req->n_specs))
		return refuse(EINVAL, "eth.ether_type", "it must be exact and agree with the IP spec",
		              "mlx5_ib: is_valid_ethertype");
	for (unsigned int i = 0; i < req->n_specs; i++) {
		int r = flow_parse_spec(rule, &specs[i]);

		if (r)
			return r;
	}
	rule->dont_trap = req->flags & FLOW_DONT_TRAP;
	if (rule->dont_trap && rule->action != FLOW_DROP && !limits->dont_trap)
		return refuse(EOPNOTSUPP, "flags", "DONT_TRAP is not offered", "mlx5_core: fwd_next_prio_supported");
	for (size_t i = 0; i < sizeof(rule->mask.word) / sizeof(rule->mask.word[0]); i++)
		if (rule->value.word[i] & ~rule->mask.word[i])
			return refuse(EINVAL, "spec", "a value has bits outside of its mask",
			              "mlx5_core: check_valid_spec");
	rule->table = req->n_specs && flow_is_multicast_only(&specs[0]) && !rule->dont_trap
	                      ? FLOW_TABLE_MULTICAST
	                      : req->priority * 2u + !rule->dont_trap;
	return 1;
}

/* The rules of the other types are fixed: the request's specs, priority and actions have no effect (mlx5_ib:
 * create_leftovers_rule, create_sniffer_rule). */
static int flow_fixed_rules(struct flow_rule rules[FLOW_MAX_RULES], const struct flow_request *req)
{
	if (req->type == FLOW_SNIFFER) {
		rules[0].table = FLOW_TABLE_SNIFFER;
		return 1;
	}
	for (unsigned int i = 0; i < 2; i++) {
		rules[i].table = FLOW_TABLE_LEFTOVERS;
		rules[i].mask.dst_mac[0] = 1;
		rules[i].value.dst_mac[0] = !i;
	}
	return req->type == FLOW_ALL_DEFAULT ? 2 : 1;
}

int flow_parse(struct flow_rule rules[FLOW_MAX_RULES], const struct flow_request *req, const struct flow_limits *limits)
{
	struct flow_spec specs[FLOW_MAX_SPECS];
	int r;

	memset(rules, 0, FLOW_MAX_RULES * sizeof(*rules));
	r = flow_check_request(req);
	if (!r)
		r = flow_read_specs(specs, req);
	if (!r)
		r = flow_check_kind(req, limits);
	if (r)
		return r;
	return req->type == FLOW_NORMAL ? flow_parse_normal(&rules[0], req, specs, limits)
	                                : flow_fixed_rules(rules, req);
}
