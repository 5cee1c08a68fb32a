// SPDX-License-Identifier: Apache-2.0
/* Rules of flow steering. */
#include "verbs_rules.h"

#include <arpa/inet.h>

#define CREATE(f) ibv_create_flow(shared_queue()->qp, &(f).attr)

static const char *accepts(struct flow_rule *f)
{
	struct ibv_flow *flow = CREATE(*f);

	EXPECT(flow, "a legal flow was refused");
	EXPECT_RETURNS(0, ibv_destroy_flow(flow));
	return NULL;
}

static const char *plain_udp(void)
{
	struct flow_rule f;

	flow_init(&f);
	flow_add_eth(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	flow_add_udp(&f, 4000);
	return accepts(&f);
}

static const char *ethertype_mask_must_be_full(void)
{
	struct flow_rule f;
	struct ibv_flow_spec_eth *eth;

	flow_init(&f);
	eth = flow_add_eth(&f);
	eth->val.ether_type = htons(0x0800);
	eth->mask.ether_type = htons(0xff00);
	flow_add_ipv4(&f, "10.1.2.3");
	EXPECT_ERRNO(EINVAL, CREATE(f));
	return NULL;
}

static const char *ethertype_must_agree(void)
{
	struct flow_rule f;
	struct ibv_flow_spec_eth *eth;

	flow_init(&f);
	eth = flow_add_eth(&f);
	eth->val.ether_type = htons(0x86dd);
	eth->mask.ether_type = 0xffff;
	flow_add_ipv4(&f, "10.1.2.3");
	EXPECT_ERRNO(EINVAL, CREATE(f));
	eth->val.ether_type = htons(0x0800);
	return accepts(&f);
}

static const char *value_outside_mask(void)
{
	struct flow_rule f;
	struct ibv_flow_spec_tcp_udp *udp;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	udp = flow_add_udp(&f, 4000);
	udp->val.src_port = htons(1);
	EXPECT_ERRNO(EINVAL, CREATE(f));
	udp->val.src_port = 0;
	return accepts(&f);
}

static const char *ttl_cannot_be_matched(void)
{
	struct flow_rule f;
	struct ibv_flow_spec_ipv4_ext *ip;

	flow_init(&f);
	ip = flow_add_ipv4(&f, "10.1.2.3");
	ip->mask.ttl = 0xff;
	ip->val.ttl = 1;
	EXPECT_ERRNO(EOPNOTSUPP, CREATE(f));
	return NULL;
}

static const char *ip_flags_cannot_be_matched(void)
{
	struct flow_rule f;
	struct ibv_flow_spec_ipv4_ext *ip;

	flow_init(&f);
	ip = flow_add_ipv4(&f, "10.1.2.3");
	ip->mask.flags = 1;
	EXPECT_ERRNO(EOPNOTSUPP, CREATE(f));
	return NULL;
}

static const char *hop_limit_cannot_be_matched(void)
{
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv6(&f, "fd00::1")->mask.hop_limit = 0xff;
	EXPECT_ERRNO(EOPNOTSUPP, CREATE(f));
	return NULL;
}

static const char *protocols_must_agree(void)
{
	struct flow_rule f;
	struct ibv_flow_spec_ipv4_ext *ip;

	flow_init(&f);
	ip = flow_add_ipv4(&f, "10.1.2.3");
	ip->mask.proto = 0xff;
	ip->val.proto = 6;
	flow_add_udp(&f, 4000);
	EXPECT_ERRNO(EINVAL, CREATE(f));
	ip->val.proto = 17;
	return accepts(&f);
}

static const char *priority_past_the_last(void)
{
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	f.attr.priority = 16;
	EXPECT_ERRNO(ENOMEM, CREATE(f));
	f.attr.priority = 15;
	return accepts(&f);
}

static const char *unknown_flags(void)
{
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	f.attr.flags = 1;
	EXPECT_ERRNO(EINVAL, CREATE(f));
	f.attr.flags = 8;
	EXPECT_ERRNO(EINVAL, CREATE(f));
	f.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	return accepts(&f);
}

static const char *port_must_exist(void)
{
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	f.attr.port = 2;
	EXPECT_ERRNO(EINVAL, CREATE(f));
	f.attr.port = 0;
	EXPECT_ERRNO(EINVAL, CREATE(f));
	return NULL;
}

static const char *special_types(void)
{
	struct flow_rule f;

	for (int type = IBV_FLOW_ATTR_ALL_DEFAULT; type <= IBV_FLOW_ATTR_SNIFFER; type++) {
		const char *seen;

		flow_init(&f);
		f.attr.type = type;
		seen = accepts(&f);
		if (seen)
			return seen;
	}
	flow_init(&f);
	f.attr.type = 99;
	EXPECT_ERRNO(EOPNOTSUPP, CREATE(f));
	return NULL;
}

static const char *leftovers_have_no_flags(void)
{
	struct flow_rule f;

	for (int type = IBV_FLOW_ATTR_ALL_DEFAULT; type <= IBV_FLOW_ATTR_MC_DEFAULT; type++) {
		flow_init(&f);
		f.attr.type = type;
		f.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
		EXPECT_ERRNO(EINVAL, CREATE(f));
		f.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
		EXPECT_ERRNO(EINVAL, CREATE(f));
	}
	return NULL;
}

static const char *no_egress_rules(void)
{
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	f.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	EXPECT_ERRNO(EOPNOTSUPP, CREATE(f));
	return NULL;
}

static const char *special_types_ignore_specs(void)
{
	struct flow_rule f;
	struct ibv_flow_spec_ipv4_ext *ip;

	flow_init(&f);
	f.attr.type = IBV_FLOW_ATTR_SNIFFER;
	ip = flow_add_ipv4(&f, "10.1.2.3");
	ip->mask.ttl = 0xff; /* a normal rule is refused for it */
	return accepts(&f);
}

static const char *specs_it_cannot_match(void)
{
	static const struct {
		enum ibv_flow_spec_type type;
		uint16_t bytes;
	} specs[] = {
		{IBV_FLOW_SPEC_ESP, sizeof(struct ibv_flow_spec_esp)},
		{IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre)},
		{IBV_FLOW_SPEC_MPLS, sizeof(struct ibv_flow_spec_mpls)},
		{IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(struct ibv_flow_spec_tunnel)},
		{IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_eth)},
		{IBV_FLOW_SPEC_UDP | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_tcp_udp)},
	};
	struct flow_rule f;

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		flow_init(&f);
		flow_add_spec(&f, specs[i].type, specs[i].bytes);
		EXPECT_ERRNO(EOPNOTSUPP, CREATE(f));
	}
	return NULL;
}

static const char *tunnel_id_has_24_bits(void)
{
	struct ibv_flow_spec_tunnel *tunnel;
	struct flow_rule f;

	flow_init(&f);
	tunnel = flow_add_spec(&f, IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(*tunnel));
	tunnel->mask.tunnel_id = htonl(1u << 24);
	EXPECT_ERRNO(EINVAL, CREATE(f));
	return NULL;
}

static const char *short_ipv4_spec(void)
{
	struct flow_rule f;
	struct ibv_flow_spec_ipv4 *ip;

	flow_init(&f);
	ip = flow_add_spec(&f, IBV_FLOW_SPEC_IPV4, sizeof(*ip));
	ip->val.dst_ip = htonl(0x0a010203);
	ip->mask.dst_ip = 0xffffffffu;
	return accepts(&f);
}

static const char *too_many_specs(void)
{
	struct flow_rule f;

	flow_init(&f);
	for (int i = 0; i < 11; i++)
		flow_add_eth(&f);
	EXPECT_ERRNO(EINVAL, CREATE(f));
	return NULL;
}

static const char *tag_has_24_bits(void)
{
	struct ibv_flow_spec_action_tag *tag;
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	tag = flow_add_spec(&f, IBV_FLOW_SPEC_ACTION_TAG, sizeof(*tag));
	tag->tag_id = 1 << 24;
	EXPECT_ERRNO(EINVAL, CREATE(f));
	tag->tag_id = 0xffffff;
	return accepts(&f);
}

static const char *same_rule_other_tag(void)
{
	struct ibv_flow_spec_action_tag *tag;
	struct ibv_flow *first;
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	tag = flow_add_spec(&f, IBV_FLOW_SPEC_ACTION_TAG, sizeof(*tag));
	tag->tag_id = 1;
	first = CREATE(f);
	EXPECT(first, "the first flow was refused");
	tag->tag_id = 2;
	EXPECT_ERRNO(EEXIST, CREATE(f));
	ibv_destroy_flow(first);
	return NULL;
}

static const char *ipv6_flow_label_has_20_bits(void)
{
	struct ibv_flow_spec_ipv6 *ip;
	struct flow_rule f;

	flow_init(&f);
	ip = flow_add_ipv6(&f, "fd00::1");
	ip->mask.flow_label = htonl(1u << 20);
	EXPECT_ERRNO(EINVAL, CREATE(f));
	ip->mask.flow_label = htonl(0xfffff);
	return accepts(&f);
}

static const char *same_rule_without_a_tag(void)
{
	struct ibv_flow_spec_action_tag *tag;
	struct ibv_flow *first, *second;
	struct flow_rule f, plain;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	plain = f;
	tag = flow_add_spec(&f, IBV_FLOW_SPEC_ACTION_TAG, sizeof(*tag));
	tag->tag_id = 1;
	first = CREATE(f);
	second = CREATE(plain);
	EXPECT(first && second, "the same rule without a tag was refused");
	EXPECT_RETURNS(0, ibv_destroy_flow(first));
	EXPECT_RETURNS(0, ibv_destroy_flow(second));
	return NULL;
}

static const char *same_rule_other_action(void)
{
	struct ibv_flow *first;
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	first = CREATE(f);
	EXPECT(first, "the first flow was refused");
	flow_add_spec(&f, IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop));
	EXPECT_ERRNO(EEXIST, CREATE(f));
	EXPECT_RETURNS(0, ibv_destroy_flow(first));
	return NULL;
}

static const struct queue_config config = {.depth = 4, .n_sge = 1, .payload_bytes = 2048};

static const char *qp_with_flow_is_busy(struct queue *q)
{
	EXPECT_RETURNS(0, queue_add_udp_flow(q, "10.1.2.3", 4001, false));
	EXPECT_RETURNS(EBUSY, ibv_destroy_qp(q->qp));
	return NULL;
}

const struct rule flow_rules[] = {
	{"flow-plain-udp", "verbs-rules: Flow rules", .check = plain_udp},
	{"flow-ethertype-mask-full", "mlx5_ib: is_valid_ethertype", .check = ethertype_mask_must_be_full},
	{"flow-ethertype-agrees", "mlx5_ib: is_valid_ethertype", .check = ethertype_must_agree},
	{"flow-value-outside-mask", "mlx5_core: check_valid_spec", .check = value_outside_mask},
	{"flow-no-ttl", "mlx5_ib: parse_flow_attr, LAST_IPV4_FIELD", .check = ttl_cannot_be_matched},
	{"flow-no-ip-flags", "mlx5_ib: parse_flow_attr, LAST_IPV4_FIELD", .check = ip_flags_cannot_be_matched},
	{"flow-no-hop-limit", "mlx5_ib: parse_flow_attr, LAST_IPV6_FIELD", .check = hop_limit_cannot_be_matched},
	{"flow-protocols-agree", "mlx5_ib: set_proto", .check = protocols_must_agree},
	{"flow-priority-past-last", "mlx5_ib: mlx5_ib_create_flow, ENOMEM", .check = priority_past_the_last},
	{"flow-unknown-flags", "mlx5_ib: mlx5_ib_create_flow", .check = unknown_flags},
	{"flow-port-must-exist", "ib_uverbs: ib_uverbs_ex_create_flow", .check = port_must_exist},
	{"flow-special-types", "mlx5_ib: get_flow_table", .check = special_types},
	{"flow-special-types-ignore-specs", "mlx5_ib: create_sniffer_rule", .check = special_types_ignore_specs},
	{"flow-leftovers-flags", "ib_uverbs: ib_uverbs_ex_create_flow; mlx5_ib: mlx5_ib_create_flow",
         .check = leftovers_have_no_flags},
	{"flow-no-egress", "mlx5_ib: get_flow_table without the EGRESS namespace", .check = no_egress_rules},
	{"flow-other-specs", "mlx5_ib: parse_flow_attr, fields the device has not", .check = specs_it_cannot_match},
	{"flow-tunnel-id-24-bits", "ib_uverbs: ib_uverbs_kern_spec_to_ib_spec_filter", .check = tunnel_id_has_24_bits},
	{"flow-short-ipv4-spec", "ib_uverbs: spec_filter_size", .check = short_ipv4_spec},
	{"flow-too-many-specs", "ib_uverbs: IB_FLOW_SPEC_SUPPORT_LAYERS", .check = too_many_specs},
	{"flow-tag-24-bits", "mlx5_ib: parse_flow_attr", .check = tag_has_24_bits},
	{"flow-same-rule-other-tag", "mlx5_core: check_conflicting_ftes", .check = same_rule_other_tag},
	{"flow-same-rule-no-tag", "mlx5_core: check_conflicting_ftes", .check = same_rule_without_a_tag},
	{"flow-same-rule-other-action", "mlx5_core: check_conflicting_actions", .check = same_rule_other_action},
	{"flow-label-20-bits", "ib_uverbs: kern_spec_to_ib_spec_filter", .check = ipv6_flow_label_has_20_bits},
	{"qp-with-flow-is-busy", "ib_core: ib_destroy_qp_user usecnt", .check_queue = qp_with_flow_is_busy,
         .config = &config},
	{},
};
