// SPDX-License-Identifier: Apache-2.0
/* Flow tables: the look-up by hash finds the same rule as a comparison with every rule. */
#include "device/flow.h"

#include <criterion/criterion.h>
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

/* Where the reference keeps a table's masks: the first free place, which stays until the last rule with it goes. */
struct reference {
	struct packet_key masks[FLOW_N_TABLES][N_RULES];
	unsigned int users[FLOW_N_TABLES][N_RULES];
	const struct flow_rule *rules[N_RULES]; /* NULL: removed */
};

static unsigned int place_of(const struct reference *ref, const struct flow_rule *r)
{
	for (unsigned int i = 0; i < N_RULES; i++)
		if (ref->users[r->table][i] && !memcmp(&ref->masks[r->table][i], &r->mask, sizeof(r->mask)))
			return i;
	return N_RULES;
}

static void reference_add(struct reference *ref, unsigned int number, const struct flow_rule *r)
{
	unsigned int place = place_of(ref, r);

	if (place == N_RULES)
		for (place = 0; ref->users[r->table][place];)
			place++;
	ref->masks[r->table][place] = r->mask;
	ref->users[r->table][place]++;
	ref->rules[number] = r;
}

static void reference_remove(struct reference *ref, unsigned int number)
{
	const struct flow_rule *r = ref->rules[number];

	ref->users[r->table][place_of(ref, r)]--;
	ref->rules[number] = NULL;
}

/* Every rule is asked: the lowest table, in it the lowest place, of those the oldest. */
static const struct flow_rule *reference_lookup(const struct reference *ref, const struct packet_key *k,
                                                unsigned int first, unsigned int end)
{
	const struct flow_rule *best = NULL;

	for (unsigned int i = 0; i < N_RULES; i++) {
		const struct flow_rule *r = ref->rules[i];

		if (!r || r->table < first || r->table >= end || !matches(r, k))
			continue;
		if (!best || r->table < best->table ||
		    (r->table == best->table && place_of(ref, r) < place_of(ref, best)))
			best = r;
	}
	return best;
}

static void compare(const struct flow_steering *s, const struct reference *ref, uint32_t *seed)
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
	static struct reference ref;
	struct flow_steering s;
	unsigned int n = 0;

	memset(&ref, 0, sizeof(ref));
	flow_steering_init(&s, FLOW_DUPLICATES_COPY);
	for (unsigned int i = 0; i < N_RULES; i++) {
		rules[i] = random_rule(&seed);
		cr_assert_eq(flow_add(&s, &rules[i]), 0);
		reference_add(&ref, i, &rules[i]);
		if (next_random(&seed) % 4)
			continue;
		n = next_random(&seed) % (i + 1);
		if (!ref.rules[n])
			continue;
		flow_remove(&s, &rules[n]);
		reference_remove(&ref, n);
	}
	for (unsigned int i = 0; i < N_PACKETS; i++)
		compare(&s, &ref, &seed);
	for (unsigned int i = 0; i < N_RULES; i++)
		if (ref.rules[i])
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

	flow_steering_init(&s, FLOW_DUPLICATES_COPY);
	for (uint32_t i = 0; i < 20000; i++) {
		memset(rules[i].mask.dst_ip, 0xff, 4);
		memcpy(rules[i].value.dst_ip, &i, 4);
		cr_assert_eq(flow_add(&s, &rules[i]), 0);
	}
	cr_assert_geq(rules[0].entry->group->n_chains, 20000u, "chains stay short");
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
	flow_steering_init(&s, FLOW_DUPLICATES_COPY);
	flow_add(&s, &a);
	flow_add(&s, &b);
	flow_remove(&s, &a);
	flow_add(&s, &c);
	cr_assert_eq(flow_lookup(&s, &k, &table, FLOW_N_TABLES), c.entry);
	flow_remove(&s, &b);
	flow_remove(&s, &c);
}
