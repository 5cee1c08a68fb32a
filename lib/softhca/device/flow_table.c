// SPDX-License-Identifier: Apache-2.0
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool key_equal(const struct packet_key *a, const struct packet_key *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static bool key_matches(const struct packet_key *key, const struct packet_key *mask,
			const struct packet_key *value)
{
	for (size_t i = 0; i < sizeof(key->word) / sizeof(key->word[0]); i++)
		if ((key->word[i] & mask->word[i]) != value->word[i])
			return false;
	return true;
}

void flow_steering_init(struct flow_steering *s)
{
	s->occupied = 0;
	for (unsigned int i = 0; i < FLOW_N_TABLES; i++)
		TAILQ_INIT(&s->tables[i].groups);
}

static struct flow_group *find_group(struct flow_table *t, const struct packet_key *mask)
{
	struct flow_group *g;

	TAILQ_FOREACH (g, &t->groups, link)
		if (key_equal(&g->mask, mask))
			return g;
	return NULL;
}

static struct flow_entry *find_entry(struct flow_group *g, const struct packet_key *value)
{
	struct flow_entry *e;

	TAILQ_FOREACH (e, &g->entries, link)
		if (key_equal(&e->value, value))
			return e;
	return NULL;
}

static struct flow_entry *new_entry(struct flow_steering *s, struct flow_rule *rule)
{
	struct flow_table *t = &s->tables[rule->table];
	struct flow_group *g = find_group(t, &rule->mask);
	struct flow_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g) {
			free(e);
			return NULL;
		}
		g->mask = rule->mask;
		TAILQ_INIT(&g->entries);
		TAILQ_INSERT_TAIL(&t->groups, g, link);
		s->occupied |= 1ULL << rule->table;
	}
	e->value = rule->value;
	TAILQ_INSERT_TAIL(&g->entries, e, link);
	return e;
}

int flow_add(struct flow_steering *s, struct flow_rule *rule)
{
	struct flow_group *g = find_group(&s->tables[rule->table], &rule->mask);
	struct flow_entry *e = g ? find_entry(g, &rule->value) : NULL;

	if (e) {
		/* The same rule again gets one more destination, but one entry has one tag and
		 * one action (mlx5_core: check_conflicting_ftes). */
		struct flow_rule *there = LIST_FIRST(&e->rules);

		if (there->tag != rule->tag || there->drop != rule->drop)
			return -EEXIST;
	} else {
		e = new_entry(s, rule);
		if (!e)
			return -ENOMEM;
	}
	LIST_INSERT_HEAD(&e->rules, rule, entry_link);
	return 0;
}

void flow_remove(struct flow_steering *s, struct flow_rule *rule)
{
	struct flow_table *t = &s->tables[rule->table];
	struct flow_group *g = find_group(t, &rule->mask);
	struct flow_entry *e = find_entry(g, &rule->value);

	LIST_REMOVE(rule, entry_link);
	if (!LIST_EMPTY(&e->rules))
		return;
	TAILQ_REMOVE(&g->entries, e, link);
	free(e);
	if (!TAILQ_EMPTY(&g->entries))
		return;
	TAILQ_REMOVE(&t->groups, g, link);
	free(g);
	if (TAILQ_EMPTY(&t->groups))
		s->occupied &= ~(1ULL << rule->table);
}

struct flow_entry *flow_lookup(const struct flow_steering *s, const struct packet_key *key,
			       unsigned int *table)
{
	uint64_t left = s->occupied >> *table << *table;

	for (; left; left &= left - 1) {
		unsigned int i = (unsigned int)__builtin_ctzll(left);
		struct flow_group *g;

		TAILQ_FOREACH (g, &s->tables[i].groups, link) {
			struct flow_entry *e;

			TAILQ_FOREACH (e, &g->entries, link)
				if (key_matches(key, &g->mask, &e->value)) {
					*table = i;
					return e;
				}
		}
	}
	return NULL;
}
