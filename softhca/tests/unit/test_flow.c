// SPDX-License-Identifier: Apache-2.0
/* Flow rules, where system tests cannot look: which table a rule goes into, and what it matches then. */
#include "device/flow.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

enum { SPEC_ETH = 0x20, SPEC_IPV4 = 0x30, SPEC_UDP = 0x41 };
#define PRIORITIES 16

static const struct flow_limits limits = {.n_priorities = PRIORITIES, .sniffer = true, .dont_trap = true};

#define MULTICAST "239.1.2.3"

struct wish {
	struct flow_request req;
	uint8_t specs[512];
};

static void *add(struct wish *w, uint32_t type, uint16_t bytes)
{
	struct ib_uverbs_flow_spec_hdr *h = (void *)(w->specs + w->req.specs_bytes);

	w->req.specs = w->specs;
	w->req.port = 1;
	w->req.specs_bytes += bytes;
	w->req.n_specs++;
	h->type = type;
	h->size = bytes;
	return h;
}

static struct ib_uverbs_flow_spec_eth *add_eth(struct wish *w)
{
	return add(w, SPEC_ETH, sizeof(struct ib_uverbs_flow_spec_eth));
}

static struct ib_uverbs_flow_spec_ipv4 *add_ipv4(struct wish *w, const char *dst)
{
	struct ib_uverbs_flow_spec_ipv4 *s = add(w, SPEC_IPV4, sizeof(*s));

	inet_pton(AF_INET, dst, &s->val.dst_ip);
	s->mask.dst_ip = 0xffffffffu;
	return s;
}

static struct ib_uverbs_flow_spec_tcp_udp *add_udp(struct wish *w, uint16_t port)
{
	struct ib_uverbs_flow_spec_tcp_udp *s = add(w, SPEC_UDP, sizeof(*s));

	s->val.dst_port = htons(port);
	s->mask.dst_port = 0xffff;
	return s;
}

static struct flow_rule parsed(struct wish *w)
{
	struct flow_rule r[FLOW_MAX_RULES];

	cr_assert_eq(flow_parse(r, &w->req, &limits), 1);
	return r[0];
}

static int refusal(struct wish *w)
{
	struct flow_rule r[FLOW_MAX_RULES];

	return flow_parse(r, &w->req, &limits);
}

static struct packet_key udp_key(const char *dst, uint16_t port)
{
	struct packet_key k = {.ip_version = 4, .ip_proto = 17, .dst_port = htons(port), .ether_type = htons(0x0800)};

	inet_pton(AF_INET, dst, k.dst_ip);
	return k;
}

Test(flow, ipv4_first_makes_a_multicast_rule)
{
	struct wish w = {};

	add_ipv4(&w, MULTICAST);
	add_udp(&w, 4000);
	w.req.priority = 3;
	cr_assert_eq(parsed(&w).table, FLOW_TABLE_MULTICAST, "and its priority does not count");
}

Test(flow, eth_first_with_wildcard_mac_is_unicast)
{
	struct wish w = {};

	add_eth(&w);
	add_ipv4(&w, MULTICAST);
	w.req.priority = 3;
	cr_assert_eq(parsed(&w).table, 3 * 2 + 1);
}

Test(flow, eth_first_with_group_mac_is_multicast)
{
	struct wish w = {};
	struct ib_uverbs_flow_spec_eth *eth = add_eth(&w);

	memcpy(eth->val.dst_mac, "\x01\x00\x5e\x01\x02\x03", 6);
	memset(eth->mask.dst_mac, 0xff, 6);
	cr_assert_eq(parsed(&w).table, FLOW_TABLE_MULTICAST);
}

Test(flow, dont_trap_comes_before_trap_of_the_same_priority)
{
	struct wish w = {};

	add_ipv4(&w, "10.0.0.1");
	w.req.flags = 1 << 1;
	cr_assert_eq(parsed(&w).table, 0);
	w.req.flags = 0;
	cr_assert_eq(parsed(&w).table, 1);
}

Test(flow, trailing_bytes_are_refused)
{
	struct wish w = {};

	add_ipv4(&w, "10.0.0.1");
	w.req.specs_bytes += 4;
	cr_assert_eq(refusal(&w), -EINVAL);
	w.req.specs_bytes -= 8;
	cr_assert_eq(refusal(&w), -EINVAL, "missing ones too");
}

Test(flow, matches_only_what_the_mask_covers)
{
	struct flow_steering s;
	struct wish w = {};
	struct flow_rule r;
	struct packet_key k = udp_key("10.0.0.1", 4000);
	unsigned int table = 0;

	add_ipv4(&w, "10.0.0.1");
	add_udp(&w, 4000);
	r = parsed(&w);
	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 65536);
	cr_assert_eq(flow_add(&s, &r), 0);
	cr_assert_not_null(flow_lookup(&s, &k, &table, FLOW_N_TABLES));
	k.vlan_tci = htons(5);
	k.cvlan = 1;
	cr_assert_not_null(flow_lookup(&s, &k, &table, FLOW_N_TABLES), "no VLAN mask: tagged ones as well");
	k.dst_port = htons(4001);
	cr_assert_null(flow_lookup(&s, &k, &table, FLOW_N_TABLES));
	flow_remove(&s, &r);
	cr_assert_eq(s.occupied, 0);
}

Test(flow, vlan_mask_needs_a_tag)
{
	struct flow_steering s;
	struct wish w = {};
	struct flow_rule r;
	struct packet_key k = udp_key("10.0.0.1", 4000);
	struct ib_uverbs_flow_spec_eth *eth = add_eth(&w);
	unsigned int table = 0;

	eth->mask.vlan_tag = htons(0x0fff);
	eth->val.vlan_tag = htons(0);
	r = parsed(&w);
	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 65536);
	flow_add(&s, &r);
	cr_assert_null(flow_lookup(&s, &k, &table, FLOW_N_TABLES), "id 0 is not no tag");
	k.cvlan = 1;
	k.vlan_tci = htons(0xe000); /* a priority, which the mask leaves out */
	cr_assert_not_null(flow_lookup(&s, &k, &table, FLOW_N_TABLES));
	flow_remove(&s, &r);
}

Test(flow, a_unicast_rule_takes_a_multicast_packet_first)
{
	struct flow_steering s;
	struct wish uni = {}, multi = {};
	struct flow_rule ru, rm;
	struct packet_key k = udp_key(MULTICAST, 4000);
	unsigned int table = 0;

	add_ipv4(&multi, MULTICAST);
	add_eth(&uni); /* wildcard MAC: the classic mistake */
	add_udp(&uni, 4000);
	uni.req.priority = 15;
	rm = parsed(&multi);
	ru = parsed(&uni);
	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 65536);
	flow_add(&s, &rm);
	flow_add(&s, &ru);
	cr_assert_eq(TAILQ_FIRST(&flow_lookup(&s, &k, &table, FLOW_N_TABLES)->rules), &ru);
	flow_remove(&s, &ru);
	table = 0;
	cr_assert_eq(TAILQ_FIRST(&flow_lookup(&s, &k, &table, FLOW_N_TABLES)->rules), &rm);
	flow_remove(&s, &rm);
}

Test(flow, the_higher_priority_wins)
{
	struct flow_steering s;
	struct wish a = {}, b = {};
	struct flow_rule ra, rb;
	struct packet_key k = udp_key("10.0.0.1", 4000);
	unsigned int table = 0;

	add_ipv4(&a, "10.0.0.1");
	add_udp(&b, 4000);
	a.req.priority = 5;
	b.req.priority = 4;
	ra = parsed(&a);
	rb = parsed(&b);
	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 65536);
	flow_add(&s, &ra);
	flow_add(&s, &rb);
	cr_assert_eq(TAILQ_FIRST(&flow_lookup(&s, &k, &table, FLOW_N_TABLES)->rules), &rb);
	flow_remove(&s, &ra);
	flow_remove(&s, &rb);
}

Test(flow, the_same_rule_twice_is_one_entry)
{
	struct flow_steering s;
	struct wish w = {};
	struct flow_rule a, b;
	struct packet_key k = udp_key("10.0.0.1", 4000);
	struct flow_entry *e;
	unsigned int table = 0;

	add_ipv4(&w, "10.0.0.1");
	a = parsed(&w);
	b = parsed(&w);
	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 65536);
	cr_assert_eq(flow_add(&s, &a), 0);
	cr_assert_eq(flow_add(&s, &b), 0);
	e = flow_lookup(&s, &k, &table, FLOW_N_TABLES);
	cr_assert(TAILQ_FIRST(&e->rules) == &a && TAILQ_NEXT(&a, entry_link) == &b);
	flow_remove(&s, &a);
	flow_remove(&s, &b);
}

/* ---- specs of other sizes: ib_uverbs, ib_uverbs_kern_spec_to_ib_spec_filter ---- */

/* An IPv4 spec whose filters have `bytes` each. */
static int ipv4_of(uint16_t bytes, uint8_t last_mask_byte, struct flow_rule rules[FLOW_MAX_RULES])
{
	struct wish w = {};
	uint8_t *filters = (uint8_t *)add(&w, SPEC_IPV4, (uint16_t)(8 + 2 * bytes)) + 8;

	inet_pton(AF_INET, "10.0.0.1", filters + 4);
	if (bytes >= 8)
		memset(filters + bytes + 4, 0xff, 4);
	if (bytes)
		filters[2 * bytes - 1] |= last_mask_byte;
	return flow_parse(rules, &w.req, &limits);
}

Test(flow, a_short_filter_is_completed_with_zeros)
{
	struct flow_rule r[FLOW_MAX_RULES];

	cr_assert_eq(ipv4_of(8, 0, r), 1, "libibverbs sends this for IBV_FLOW_SPEC_IPV4");
	cr_assert_eq(r[0].mask.dst_ip[3], 0xff);
	cr_assert_eq(r[0].value.dst_ip[3], 1);
	cr_assert_eq(r[0].mask.ip_proto, 0);
	cr_assert_eq(ipv4_of(4, 0, r), 1, "down to four bytes");
	cr_assert_eq(ipv4_of(0, 0, r), -EINVAL);
	cr_assert_eq(ipv4_of(10, 0, r), -EINVAL, "not a multiple of four");
}

Test(flow, a_long_filter_must_end_in_zeros)
{
	struct flow_rule r[FLOW_MAX_RULES];

	cr_assert_eq(ipv4_of(16, 0, r), 1);
	cr_assert_eq(ipv4_of(16, 1, r), -EINVAL);
}

Test(flow, the_reserved_byte_of_an_ipv6_mask_is_no_field)
{
	struct wish w = {};
	struct ib_uverbs_flow_spec_ipv6 *s = add(&w, 0x31, sizeof(*s));

	s->mask.reserved = 1;
	cr_assert_eq(refusal(&w), -EINVAL);
}

Test(flow, actions_have_one_size)
{
	struct wish tag = {}, drop = {}, handle = {}, count = {};

	add(&tag, 0x1000, 8);
	cr_assert_eq(refusal(&tag), -EINVAL);
	add(&drop, 0x1001, 16);
	cr_assert_eq(refusal(&drop), -EINVAL);
	add(&handle, 0x1002, 8);
	cr_assert_eq(refusal(&handle), -EOPNOTSUPP, "as the kernel has it");
	add(&count, 0x1003, 24);
	cr_assert_eq(refusal(&count), -EINVAL);
}

Test(flow, the_kernels_order_of_refusals)
{
	struct wish w = {};

	/* ib_uverbs reads the specs before mlx5_ib looks at the priority, and the Ethertype comes last. */
	add_ipv4(&w, "10.0.0.1")->mask.ttl = 1;
	w.req.priority = PRIORITIES;
	cr_assert_eq(refusal(&w), -ENOMEM);
	w.req.flags = 1 << 3;
	cr_assert_eq(refusal(&w), -EINVAL);
	w.req.flags = 0;
	w.req.priority = 0;
	cr_assert_eq(refusal(&w), -EOPNOTSUPP);
	add_eth(&w)->mask.ether_type = htons(0xff);
	cr_assert_eq(refusal(&w), -EINVAL);
}

Test(flow, specs_without_a_count_are_refused)
{
	struct wish w = {};

	add_ipv4(&w, "10.0.0.1");
	w.req.n_specs = 0;
	cr_assert_eq(refusal(&w), -EINVAL, "ib_uverbs_ex_create_flow: size > specs * sizeof");
}

Test(flow, all_default_is_two_rules_behind_the_kernels)
{
	struct wish w = {.req = {.type = 1, .port = 1}};
	struct flow_rule r[FLOW_MAX_RULES];

	cr_assert_eq(flow_parse(r, &w.req, &limits), 2);
	cr_assert(r[0].table == FLOW_TABLE_LEFTOVERS && r[1].table == FLOW_TABLE_LEFTOVERS);
	cr_assert(!flow_traps(&r[0]), "it takes nothing from the kernel");
	w.req.type = 2;
	cr_assert_eq(flow_parse(r, &w.req, &limits), 1);
	cr_assert_eq(r[0].value.dst_mac[0], 1, "MC_DEFAULT: groups only");
}
