// SPDX-License-Identifier: Apache-2.0
/*
 * From flow specs to a rule, refusing what the kernel and mlx5 refuse. Sources: ib_uverbs
 * (ib_uverbs_ex_create_flow, kern_spec_to_ib_spec), mlx5_ib (mlx5_ib_create_flow,
 * parse_flow_attr, is_valid_ethertype, flow_is_multicast_only), mlx5_core (check_valid_spec).
 */
#include "flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

/* enum ib_flow_spec_type, enum ib_flow_attr_type and _flags: kernel-internal, but ABI. */
enum { SPEC_ETH = 0x20, SPEC_IPV4 = 0x30, SPEC_IPV6 = 0x31, SPEC_TCP = 0x40, SPEC_UDP = 0x41 };
enum { SPEC_TAG = 0x1000, SPEC_DROP = 0x1001, SPEC_COUNT = 0x1003 };
enum { FLOW_NORMAL = 0, FLOW_ALL_DEFAULT = 1, FLOW_MC_DEFAULT = 2, FLOW_SNIFFER = 3 };
enum { FLAG_DONT_TRAP = 1 << 1, FLAG_EGRESS = 1 << 2, FLAGS_END = 1 << 3 };
#define MAX_SPECS 10
#define MAX_TAG (1u << 24)

union spec {
	struct ib_uverbs_flow_spec_hdr hdr;
	struct ib_uverbs_flow_spec_eth eth;
	struct ib_uverbs_flow_spec_ipv4 ipv4;
	struct ib_uverbs_flow_spec_ipv6 ipv6;
	struct ib_uverbs_flow_spec_tcp_udp tcp_udp;
	struct ib_uverbs_flow_spec_action_tag tag;
	struct ib_uverbs_flow_spec_action_drop drop;
	struct ib_uverbs_flow_spec_action_count count;
};

struct parser {
	struct flow_rule *rule;
	uint16_t eth_type, eth_type_mask; /* of the ETH spec */
	uint32_t ip_spec;
};

/* A second spec may repeat the IP protocol but not contradict it (mlx5_ib: set_proto). */
static int set_proto(struct flow_rule *r, uint8_t mask, uint8_t value)
{
	if (!mask)
		return 0;
	if (!r->mask.ip_proto) {
		r->mask.ip_proto = mask;
		r->value.ip_proto = value;
		return 0;
	}
	return r->mask.ip_proto == mask && r->value.ip_proto == value ? 0 : -EINVAL;
}

static int parse_eth(struct parser *p, const union spec *s)
{
	struct flow_rule *r = p->rule;

	memcpy(r->mask.dst_mac, s->eth.mask.dst_mac, ETH_ALEN);
	memcpy(r->value.dst_mac, s->eth.val.dst_mac, ETH_ALEN);
	memcpy(r->mask.src_mac, s->eth.mask.src_mac, ETH_ALEN);
	memcpy(r->value.src_mac, s->eth.val.src_mac, ETH_ALEN);
	if (s->eth.mask.vlan_tag) {
		r->mask.cvlan = r->value.cvlan = 1;
		r->mask.vlan_tci = s->eth.mask.vlan_tag;
		r->value.vlan_tci = s->eth.val.vlan_tag;
	}
	r->mask.ether_type = s->eth.mask.ether_type;
	r->value.ether_type = s->eth.val.ether_type;
	if (s->eth.mask.ether_type) {
		p->eth_type_mask = ntohs(s->eth.mask.ether_type);
		p->eth_type = ntohs(s->eth.val.ether_type);
	}
	return 0;
}

static int parse_ipv4(struct parser *p, const union spec *s)
{
	struct flow_rule *r = p->rule;

	/* verbs-rules.md "Flow rules": TTL and flags cannot be matched. */
	if (s->ipv4.mask.ttl || s->ipv4.mask.flags)
		return -EOPNOTSUPP;
	p->ip_spec = SPEC_IPV4;
	r->mask.ip_version = 0xf;
	r->value.ip_version = 4;
	memcpy(r->mask.src_ip, &s->ipv4.mask.src_ip, 4);
	memcpy(r->value.src_ip, &s->ipv4.val.src_ip, 4);
	memcpy(r->mask.dst_ip, &s->ipv4.mask.dst_ip, 4);
	memcpy(r->value.dst_ip, &s->ipv4.val.dst_ip, 4);
	r->mask.tos = s->ipv4.mask.tos;
	r->value.tos = s->ipv4.val.tos;
	return set_proto(r, s->ipv4.mask.proto, s->ipv4.val.proto);
}

static int parse_ipv6(struct parser *p, const union spec *s)
{
	struct flow_rule *r = p->rule;

	/* ib_uverbs: a flow label has 20 bits. */
	if (ntohl(s->ipv6.mask.flow_label) >> 20 || ntohl(s->ipv6.val.flow_label) >> 20)
		return -EINVAL;
	if (s->ipv6.mask.hop_limit || s->ipv6.mask.reserved)
		return -EOPNOTSUPP;
	p->ip_spec = SPEC_IPV6;
	r->mask.ip_version = 0xf;
	r->value.ip_version = 6;
	memcpy(r->mask.src_ip, s->ipv6.mask.src_ip, 16);
	memcpy(r->value.src_ip, s->ipv6.val.src_ip, 16);
	memcpy(r->mask.dst_ip, s->ipv6.mask.dst_ip, 16);
	memcpy(r->value.dst_ip, s->ipv6.val.dst_ip, 16);
	r->mask.tos = s->ipv6.mask.traffic_class;
	r->value.tos = s->ipv6.val.traffic_class;
	r->mask.flow_label = s->ipv6.mask.flow_label;
	r->value.flow_label = s->ipv6.val.flow_label;
	return set_proto(r, s->ipv6.mask.next_hdr, s->ipv6.val.next_hdr);
}

static int parse_tcp_udp(struct parser *p, const union spec *s)
{
	struct flow_rule *r = p->rule;
	int ret = set_proto(r, 0xff, s->hdr.type == SPEC_UDP ? IPPROTO_UDP : IPPROTO_TCP);

	r->mask.src_port = s->tcp_udp.mask.src_port;
	r->value.src_port = s->tcp_udp.val.src_port;
	r->mask.dst_port = s->tcp_udp.mask.dst_port;
	r->value.dst_port = s->tcp_udp.val.dst_port;
	return ret;
}

static int parse_tag(struct parser *p, const union spec *s)
{
	if (s->tag.tag_id >= MAX_TAG)
		return -EINVAL;
	p->rule->tag = s->tag.tag_id;
	p->rule->has_tag = true;
	return 0;
}

static int parse_drop(struct parser *p, const union spec *s)
{
	(void)s;
	p->rule->drop = true;
	return 0;
}

static int parse_count(struct parser *p, const union spec *s)
{
	if (p->rule->has_counters)
		return -EINVAL; /* one counters object a flow */
	p->rule->has_counters = true;
	p->rule->counters_handle = s->count.handle;
	return 0;
}

/* The specs the device knows; any other is refused. */
static const struct spec_type {
	uint32_t type;
	uint16_t bytes;
	int (*parse)(struct parser *p, const union spec *s);
} spec_types[] = {
	{SPEC_ETH, sizeof(struct ib_uverbs_flow_spec_eth), parse_eth},
	{SPEC_IPV4, sizeof(struct ib_uverbs_flow_spec_ipv4), parse_ipv4},
	{SPEC_IPV6, sizeof(struct ib_uverbs_flow_spec_ipv6), parse_ipv6},
	{SPEC_TCP, sizeof(struct ib_uverbs_flow_spec_tcp_udp), parse_tcp_udp},
	{SPEC_UDP, sizeof(struct ib_uverbs_flow_spec_tcp_udp), parse_tcp_udp},
	{SPEC_TAG, sizeof(struct ib_uverbs_flow_spec_action_tag), parse_tag},
	{SPEC_DROP, sizeof(struct ib_uverbs_flow_spec_action_drop), parse_drop},
	{SPEC_COUNT, sizeof(struct ib_uverbs_flow_spec_action_count), parse_count},
};

static const struct spec_type *spec_type(uint32_t type)
{
	for (size_t i = 0; i < sizeof(spec_types) / sizeof(spec_types[0]); i++)
		if (spec_types[i].type == type)
			return &spec_types[i];
	return NULL;
}

/*
 * Only the first spec decides whether a rule is a multicast one, and the IPv4 test does not even
 * look at the mask (mlx5_ib: flow_is_multicast_only; verbs-rules.md "Flow rules").
 */
static bool is_multicast_only(const struct flow_request *req)
{
	union spec first = {};

	if (!req->n_specs)
		return false;
	memcpy(&first, req->specs,
	       req->specs_bytes < sizeof(first) ? req->specs_bytes : sizeof(first));
	if (first.hdr.type == SPEC_IPV4)
		return (ntohl(first.ipv4.val.dst_ip) & 0xf0000000u) == 0xe0000000u;
	if (first.hdr.type == SPEC_ETH)
		return first.eth.mask.dst_mac[0] & first.eth.val.dst_mac[0] & 1;
	return false;
}

/* Beside an IP spec, an Ethertype must be exact and say the same (is_valid_ethertype). */
static bool ethertype_agrees(const struct parser *p)
{
	if (!p->eth_type_mask || !p->ip_spec)
		return true;
	return p->eth_type_mask == 0xffff &&
	       (p->eth_type == (p->ip_spec == SPEC_IPV4 ? ETH_P_IP : ETH_P_IPV6) ||
		p->eth_type == ETH_P_MPLS_UC || p->eth_type == ETH_P_MPLS_MC);
}

static int parse_specs(struct parser *p, const struct flow_request *req)
{
	const uint8_t *at = req->specs;
	uint32_t left = req->specs_bytes;

	for (unsigned int i = 0; i < req->n_specs; i++) {
		union spec s = {};
		const struct spec_type *t;
		int r;

		if (left < sizeof(s.hdr))
			return -EINVAL;
		memcpy(&s.hdr, at, sizeof(s.hdr));
		t = spec_type(s.hdr.type);
		if (s.hdr.size > left || s.hdr.reserved || !t || s.hdr.size != t->bytes)
			return -EINVAL;
		memcpy(&s, at, s.hdr.size);
		r = t->parse(p, &s);
		if (r)
			return r;
		at += s.hdr.size;
		left -= s.hdr.size;
	}
	return left ? -EINVAL : 0; /* bytes behind the last spec */
}

static int check_request(const struct flow_request *req, unsigned int n_priorities)
{
	bool leftovers = req->type == FLOW_ALL_DEFAULT || req->type == FLOW_MC_DEFAULT;

	if (req->flags >= FLAGS_END || (req->flags & ~(uint32_t)(FLAG_DONT_TRAP | FLAG_EGRESS)))
		return -EINVAL;
	if (leftovers && req->flags)
		return -EINVAL;
	if (req->n_specs > MAX_SPECS || req->port != 1)
		return -EINVAL;
	if (req->priority >= n_priorities)
		return -ENOMEM; /* verbs-rules.md "Flow rules" */
	if (req->type > FLOW_SNIFFER)
		return -EINVAL;
	/* No leftovers, sniffer or egress tables in this device. */
	return req->type == FLOW_NORMAL && !(req->flags & FLAG_EGRESS) ? 0 : -EOPNOTSUPP;
}

int flow_parse(struct flow_rule *rule, const struct flow_request *req, unsigned int n_priorities)
{
	struct parser p = {.rule = rule};
	int r;

	memset(rule, 0, sizeof(*rule));
	r = check_request(req, n_priorities);
	if (!r)
		r = parse_specs(&p, req);
	if (r)
		return r;
	if (!ethertype_agrees(&p))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(rule->mask.word) / sizeof(rule->mask.word[0]); i++)
		if (rule->value.word[i] & ~rule->mask.word[i])
			return -EINVAL; /* mlx5_core: check_valid_spec */
	rule->dont_trap = req->flags & FLAG_DONT_TRAP;
	rule->table = is_multicast_only(req) && !rule->dont_trap
			      ? FLOW_TABLE_MULTICAST
			      : req->priority * 2u + !rule->dont_trap;
	return 0;
}
