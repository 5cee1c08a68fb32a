// SPDX-License-Identifier: Apache-2.0
/* Flow tables: the look-up by hash finds the same rule as a comparison with every rule. */
#include "device/flow.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define N_RULES   300
#define N_PACKETS 3000

/* xorshift: the same on every machine. */
static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Few values, so that rules meet packets and each other. */
static struct packet_key random_key(uint32_t *seed)
{
	struct packet_key k = {};

	k.ip_version = next_random(seed) & 1 ? 4 : 6;
	k.ip_proto = next_random(seed) & 1 ? 6 : 17;
	k.tos = next_random(seed) & 3;
	k.dst_port = next_random(seed) & 7;
	k.src_port = next_random(seed) & 3;
	k.dst_ip[next_random(seed) & 15] = next_random(seed) & 3;
	k.src_ip[0] = next_random(seed) & 3;
	k.dst_mac[5] = next_random(seed) & 3;
	k.vlan_tci = next_random(seed) & 1;
	k.flow_label = next_random(seed) & 1;
	return k;
}

static struct flow_rule random_rule(uint32_t *seed)
{
	static const uint16_t port_masks[] = {0, 0, 0xffff, 6};
	struct packet_key k = random_key(seed);
	struct flow_rule r = {.table = next_random(seed) % FLOW_N_TABLES};

	r.mask.dst_port = port_masks[next_random(seed) & 3];
	r.mask.src_port = port_masks[next_random(seed) & 3];
	r.mask.ip_version = next_random(seed) & 1 ? 0xf : 0;
	r.mask.dst_mac[5] = next_random(seed) & 1 ? 0xff : 0;
	if (next_random(seed) & 1)
		memset(r.mask.dst_ip, 0xff, 16);
	if (next_random(seed) & 1)
		r.mask.tos = 0xff;
	for (size_t i = 0; i < sizeof(k.word) / sizeof(k.word[0]); i++)
		r.value.word[i] = k.word[i] & r.mask.word[i];
	return r;
}

static bool matches(const struct flow_rule *r, const struct packet_key *k)
{
	const uint8_t *mask = (const void *)&r->mask, *value = (const void *)&r->value;
	const uint8_t *key = (const void *)k;

	for (size_t i = 0; i < sizeof(*k); i++)
		if ((key[i] & mask[i]) != value[i])
			return false;
	return true;
}

static uint32_t place_of(const struct flow_rule *r)
{
	return r->entry->group->start;
}

/* Every rule is asked: the lowest table, in it the lowest place, of those the oldest. */
/* rules: NULL where one was removed. */
static const struct flow_rule *reference_lookup(const struct flow_rule *const *rules, const struct packet_key *k,
                                                unsigned int first, unsigned int end)
{
	const struct flow_rule *best = NULL;

	for (unsigned int i = 0; i < N_RULES; i++) {
		const struct flow_rule *r = rules[i];

		if (!r || r->table < first || r->table >= end || !matches(r, k))
			continue;
		if (!best || r->table < best->table || (r->table == best->table && place_of(r) < place_of(best)))
			best = r;
	}
	return best;
}

static void compare(const struct flow_steering *s, const struct flow_rule *const *ref, uint32_t *seed)
{
	struct packet_key k = random_key(seed);
	unsigned int first = next_random(seed) % FLOW_N_TABLES, table = first;
	unsigned int end = first + 1 + next_random(seed) % (FLOW_N_TABLES - first);
	const struct flow_rule *expected = reference_lookup(ref, &k, first, end);
	const struct flow_entry *e = flow_lookup(s, &k, &table, end);

	cr_assert_eq(!e, !expected);
	if (!e)
		return;
	cr_assert_eq(table, expected->table);
	cr_assert_eq(e, expected->entry);
}

/* Fields of rules and packets of one seed; rules come and go meanwhile. */
static void against_reference(uint32_t seed)
{
	static struct flow_rule rules[N_RULES];
	const struct flow_rule *ref[N_RULES] = {};
	struct flow_steering s;
	unsigned int n = 0;

	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 65536);
	for (unsigned int i = 0; i < N_RULES; i++) {
		rules[i] = random_rule(&seed);
		cr_assert_eq(flow_add(&s, &rules[i]), 0);
		ref[i] = &rules[i];
		if (next_random(&seed) % 4)
			continue;
		n = next_random(&seed) % (i + 1);
		if (!ref[n])
			continue;
		flow_remove(&s, &rules[n]);
		ref[n] = NULL;
	}
	for (unsigned int i = 0; i < N_PACKETS; i++)
		compare(&s, ref, &seed);
	for (unsigned int i = 0; i < N_RULES; i++)
		if (ref[i])
			flow_remove(&s, &rules[i]);
	cr_assert_eq(s.occupied, 0);
}

Test(flow_table, finds_what_asking_every_rule_finds)
{
	for (uint32_t seed = 1; seed <= 10; seed++)
		against_reference(seed);
}

Test(flow_table, many_rules_of_one_mask_are_one_look_up)
{
	static struct flow_rule rules[20000];
	struct flow_steering s;
	struct packet_key k = {};

	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 65536);
	for (uint32_t i = 0; i < 20000; i++) {
		memset(rules[i].mask.dst_ip, 0xff, 4);
		memcpy(rules[i].value.dst_ip, &i, 4);
		cr_assert_eq(flow_add(&s, &rules[i]), 0);
	}
	/* A group has a seventh of the table, so these are three. */
	cr_assert_geq(rules[0].entry->group->n_chains, 65536u / 7, "chains stay short");
	for (uint32_t i = 0; i < 20000; i++) {
		unsigned int table = 0;

		memcpy(k.dst_ip, &i, 4);
		cr_assert_eq(flow_lookup(&s, &k, &table, FLOW_N_TABLES), rules[i].entry);
	}
	for (uint32_t i = 0; i < 20000; i++)
		flow_remove(&s, &rules[i]);
}

Test(flow_table, a_new_mask_takes_the_place_that_another_left)
{
	struct flow_rule a = {}, b = {}, c = {};
	struct packet_key k = {.dst_port = 1, .src_port = 1, .tos = 1};
	struct flow_steering s;
	unsigned int table = 0;

	/* mlx5_core: alloc_auto_flow_group looks for the first gap. */
	a.mask.dst_port = a.value.dst_port = 1;
	b.mask.src_port = b.value.src_port = 1;
	c.mask.tos = c.value.tos = 1;
	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 65536);
	flow_add(&s, &a);
	flow_add(&s, &b);
	flow_remove(&s, &a);
	flow_add(&s, &c);
	cr_assert_eq(flow_lookup(&s, &k, &table, FLOW_N_TABLES), c.entry);
	flow_remove(&s, &b);
	flow_remove(&s, &c);
}

/* Rules of the given mask, each with another value, until one is refused. */
static unsigned int fill(struct flow_steering *s, struct flow_rule *rules, unsigned int n, struct packet_key mask)
{
	for (unsigned int i = 0; i < n; i++) {
		rules[i] = (struct flow_rule){.mask = mask};
		rules[i].value.src_port = (uint16_t)(i & mask.src_port);
		rules[i].value.dst_port = (uint16_t)(i & mask.dst_port);
		if (flow_add(s, &rules[i])) {
			cr_assert_eq(flow_add(s, &rules[i]), -ENOSPC);
			return i;
		}
	}
	return n;
}

/* mlx5_core: alloc_auto_flow_group. 70 entries: groups of ten. */
Test(flow_table, one_mask_can_fill_the_table)
{
	static struct flow_rule rules[100];
	const struct packet_key mask = {.src_port = 0xff};
	struct flow_steering s;

	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 70);
	cr_assert_eq(fill(&s, rules, 100, mask), 70);
	flow_remove(&s, &rules[35]);
	cr_assert_eq(flow_add(&s, &rules[70]), 0, "a place that is free again is not used");
}

Test(flow_table, masks_past_the_sixth_get_single_entries)
{
	static struct flow_rule rules[100], last;
	struct flow_steering s;
	struct packet_key mask = {};

	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 70);
	for (unsigned int i = 0; i < 16; i++) {
		mask.tos = (uint8_t)(i + 1);
		cr_assert_eq(fill(&s, &rules[i], 1, mask), 1, "mask %u", i);
	}
	mask.tos = 17;
	last = (struct flow_rule){.mask = mask};
	cr_assert_eq(flow_add(&s, &last), -ENOSPC, "six groups of ten and ten of one are all");
	/* Entries of the same match need no place of their own. */
	last = rules[15];
	cr_assert_eq(flow_add(&s, &last), 0);
}

Test(flow_table, each_priority_has_a_table)
{
	static struct flow_rule rules[100], other;
	const struct packet_key mask = {.src_port = 0xff};
	struct flow_steering s;

	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 70);
	cr_assert_eq(fill(&s, rules, 100, mask), 70);
	other = (struct flow_rule){.mask = mask, .table = 1};
	cr_assert_eq(flow_add(&s, &other), 0);
}

Test(flow_table, a_table_smaller_than_its_groups_takes_no_rule)
{
	struct flow_rule rule = {.mask = {.tos = 1}};
	struct flow_steering s;

	flow_steering_init(&s, FLOW_DUPLICATES_COPY, 5);
	cr_assert_eq(flow_add(&s, &rule), -ENOSPC);
}
