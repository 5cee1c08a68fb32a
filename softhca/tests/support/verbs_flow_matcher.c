// SPDX-License-Identifier: Apache-2.0
/* Flows by mlx5dv's matchers: the same specs, as the PRM's fte_match_param. */
#include "verbs_flow_matcher.h"

#include <errno.h>

#define MISC 64 /* where misc_parameters begin */

static void put(uint8_t *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] |= ((const uint8_t *)from)[i];
}

static void put_eth(uint8_t *p, const struct ibv_flow_eth_filter *f, bool tagged)
{
	put(p, f->src_mac, 6);
	put(p + 6, &f->ether_type, 2);
	put(p + 8, f->dst_mac, 6);
	put(p + 14, &f->vlan_tag, 2);
	p[18] |= tagged ? 0x80 : 0; /* cvlan_tag */
}

static void put_ipv4(uint8_t *p, const struct ibv_flow_ipv4_ext_filter *f, uint8_t version)
{
	p[16] |= f->proto;
	p[17] |= f->tos;
	p[18] |= (uint8_t)(version << 1);
	p[18] |= f->flags ? 0x20 : 0; /* frag */
	p[27] |= f->ttl;
	put(p + 32 + 12, &f->src_ip, 4);
	put(p + 48 + 12, &f->dst_ip, 4);
}

static void put_ipv6(uint8_t *p, const struct ibv_flow_ipv6_filter *f, uint8_t version)
{
	p[16] |= f->next_hdr;
	p[17] |= f->traffic_class;
	p[18] |= (uint8_t)(version << 1);
	p[27] |= f->hop_limit;
	put(p + 32, f->src_ip, 16);
	put(p + 48, f->dst_ip, 16);
	put(p + MISC + 28, &f->flow_label, 4);
}

static void put_ports(uint8_t *p, const struct ibv_flow_tcp_udp_filter *f, uint8_t protocol, bool udp)
{
	p[16] |= protocol;
	put(p + (udp ? 28 : 20), &f->src_port, 2);
	put(p + (udp ? 30 : 22), &f->dst_port, 2);
}

static void put_spec(uint8_t *mask, uint8_t *value, const struct ibv_flow_spec *s)
{
	const struct ibv_flow_spec_ipv4_ext *ip4 = (const void *)s;
	bool udp = s->hdr.type == IBV_FLOW_SPEC_UDP;

	switch (s->hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		put_eth(mask, &s->eth.mask, s->eth.mask.vlan_tag);
		put_eth(value, &s->eth.val, s->eth.mask.vlan_tag);
		break;
	case IBV_FLOW_SPEC_IPV4_EXT:
		put_ipv4(mask, &ip4->mask, 0xf);
		put_ipv4(value, &ip4->val, 4);
		break;
	case IBV_FLOW_SPEC_IPV6:
		put_ipv6(mask, &s->ipv6.mask, 0xf);
		put_ipv6(value, &s->ipv6.val, 6);
		break;
	case IBV_FLOW_SPEC_UDP:
	case IBV_FLOW_SPEC_TCP:
		put_ports(mask, &s->tcp_udp.mask, 0xff, udp);
		put_ports(value, &s->tcp_udp.val, udp ? 17 : 6, udp);
		break;
	default:
		break;
	}
}

void match_of_specs(const struct flow_rule *f, struct match *mask, struct match *value)
{
	*mask = (struct match){.size = MATCH_BYTES};
	*value = (struct match){.size = MATCH_BYTES};
	for (size_t i = 0, at = 0; i < f->attr.num_of_specs; i++) {
		const struct ibv_flow_spec *s = (const void *)(f->specs + at);

		put_spec(mask->bytes, value->bytes, s);
		at += s->hdr.size;
	}
	for (size_t i = 0; i < MATCH_BYTES; i++)
		value->bytes[i] &= mask->bytes[i];
}

struct mlx5dv_flow_matcher *matcher_new(struct queue *q, struct match *mask, uint16_t priority)
{
	struct mlx5dv_flow_matcher_attr attr = {
		.type = IBV_FLOW_ATTR_NORMAL,
		.priority = priority,
		.match_criteria_enable = 1 | 1 << 1, /* outer headers, misc parameters */
		.match_mask = (void *)mask,
	};

	return mlx5dv_create_flow_matcher(q->ctx, &attr);
}

/* With a matcher, what becomes of the frames is no spec. */
struct ibv_flow *matcher_flow(struct queue *q, const struct flow_rule *f, bool miss,
                              struct mlx5dv_flow_matcher **matcher)
{
	struct mlx5dv_flow_action_attr actions[2] = {{.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP, .qp = q->qp}};
	struct match mask, value;
	struct ibv_flow *flow;
	size_t n = 1;

	if (miss)
		actions[0].type = MLX5DV_FLOW_ACTION_DEFAULT_MISS;
	for (size_t i = 0, at = 0; i < f->attr.num_of_specs; i++) {
		const struct ibv_flow_spec *s = (const void *)(f->specs + at);

		if (s->hdr.type == IBV_FLOW_SPEC_ACTION_DROP)
			actions[0].type = MLX5DV_FLOW_ACTION_DROP;
		if (s->hdr.type == IBV_FLOW_SPEC_ACTION_TAG)
			actions[n++] = (struct mlx5dv_flow_action_attr){.type = MLX5DV_FLOW_ACTION_TAG,
			                                                .tag_value = s->flow_tag.tag_id};
		at += s->hdr.size;
	}
	match_of_specs(f, &mask, &value);
	*matcher = matcher_new(q, &mask, f->attr.priority);
	if (!*matcher)
		return NULL;
	flow = mlx5dv_create_flow(*matcher, (void *)&value, n, actions);
	if (!flow) {
		int saved = errno;

		mlx5dv_destroy_flow_matcher(*matcher);
		*matcher = NULL;
		errno = saved;
	}
	return flow;
}
