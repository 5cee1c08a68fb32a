// SPDX-License-Identifier: Apache-2.0
/*
 * Flow tables. A table consists of groups of entries with the same mask, and each group has a hash over the masked
 * fields. A packet costs one look-up for each group, however many rules there are.
 */
#include "flow.h"
#include "refuse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N_WORDS      (sizeof(struct packet_key) / sizeof(uint64_t))
#define FIRST_CHAINS 8u
/* mlx5_ib: MLX5_FS_MAX_ENTRIES, MLX5_FS_MAX_TYPES */
#define MAX_ENTRIES      65536
#define MAX_LARGE_GROUPS 6

static_assert(FLOW_N_TABLES <= 64, "a bit a table");

void flow_steering_init(struct flow_steering *s, enum flow_duplicates duplicates, uint32_t n_entries)
{
	s->occupied = 0;
	s->duplicates = duplicates;
	for (unsigned int i = 0; i < FLOW_N_TABLES; i++) {
		struct flow_table *t = &s->tables[i];

		TAILQ_INIT(&t->groups);
		t->n_large_groups = 0;
		t->size = i <= FLOW_TABLE_MULTICAST ? n_entries : MAX_ENTRIES;
		/* mlx5_core: mlx5_create_auto_grouped_flow_table keeps room for one group more. */
		t->group_size = t->size / (MAX_LARGE_GROUPS + 1);
	}
}

static uint32_t flow_hash_key(const struct flow_group *g, const struct packet_key *key)
{
	uint64_t h = 0x9e3779b97f4a7c15u;

	for (unsigned int i = 0; i < g->n_words; i++) {
		unsigned int w = g->words[i];

		h = (h ^ (key->word[w] & g->mask.word[w])) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return (uint32_t)h;
}

static bool flow_group_matches(const struct flow_group *g, const struct flow_entry *e, const struct packet_key *key)
{
	for (unsigned int i = 0; i < g->n_words; i++) {
		unsigned int w = g->words[i];

		if ((key->word[w] & g->mask.word[w]) != e->value.word[w])
			return false;
	}
	return true;
}

static struct flow_entry *flow_find_entry(const struct flow_group *g, const struct packet_key *key)
{
	struct flow_entry *e = g->chains[flow_hash_key(g, key) & (g->n_chains - 1)];

	while (e && !flow_group_matches(g, e, key))
		e = e->next;
	return e;
}

static bool flow_has_mask(const struct flow_group *g, const struct packet_key *mask)
{
	return !memcmp(&g->mask, mask, sizeof(*mask));
}

/* The entry with this mask and value, or NULL; `*room` becomes a group with room for it, or NULL. */
static struct flow_entry *flow_find_rule(const struct flow_table *t, const struct flow_rule *rule,
                                         struct flow_group **room)
{
	struct flow_group *g;

	*room = NULL;
	TAILQ_FOREACH (g, &t->groups, link) {
		struct flow_entry *e = flow_has_mask(g, &rule->mask) ? flow_find_entry(g, &rule->value) : NULL;

		if (e)
			return e;
		if (!*room && g->n_entries < g->size && flow_has_mask(g, &rule->mask))
			*room = g;
	}
	return NULL;
}

/* A new group takes the first gap that is large enough (mlx5_core: alloc_auto_flow_group). */
static int flow_place_group(struct flow_table *t, struct flow_group *g)
{
	struct flow_group *next;

	if (t->size < MAX_LARGE_GROUPS)
		return refuse(ENOSPC, "flow", "the flow table is full", "mlx5_core: alloc_auto_flow_group");
	g->size = t->n_large_groups < MAX_LARGE_GROUPS && t->group_size ? t->group_size : 1;
	TAILQ_FOREACH (next, &t->groups, link) {
		if (g->start + g->size <= next->start)
			break;
		g->start = next->start + next->size;
	}
	if (g->start + g->size > t->size)
		return refuse(ENOSPC, "flow", "the flow table is full", "mlx5_core: alloc_auto_flow_group");
	if (next)
		TAILQ_INSERT_BEFORE(next, g, link);
	else
		TAILQ_INSERT_TAIL(&t->groups, g, link);
	t->n_large_groups += g->size == t->group_size;
	return 0;
}

static int flow_new_group(struct flow_table *t, const struct packet_key *mask, struct flow_group **group)
{
	struct flow_group *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	g->chains = calloc(FIRST_CHAINS, sizeof(*g->chains));
	r = g->chains ? flow_place_group(t, g) : -ENOMEM;
	if (r) {
		free(g->chains);
		free(g);
		return r;
	}
	g->n_chains = FIRST_CHAINS;
	g->mask = *mask;
	for (unsigned int w = 0; w < N_WORDS; w++)
		if (mask->word[w])
			g->words[g->n_words++] = (uint8_t)w;
	*group = g;
	return 0;
}

static void flow_chain_put(struct flow_group *g, struct flow_entry *e)
{
	struct flow_entry **chain = &g->chains[flow_hash_key(g, &e->value) & (g->n_chains - 1)];

	e->next = *chain;
	*chain = e;
}

/* If there is no memory, the chains become longer, which is correct and slower. */
static void flow_chains_grow(struct flow_group *g)
{
	struct flow_entry **old = g->chains, **new = calloc(g->n_chains * 2, sizeof(*new));
	uint32_t n_old = g->n_chains;

	if (!new)
		return;
	g->chains = new;
	g->n_chains = n_old * 2;
	for (uint32_t i = 0; i < n_old; i++)
		for (struct flow_entry *e = old[i], *next; e; e = next) {
			next = e->next;
			flow_chain_put(g, e);
		}
	free(old);
}

static void flow_drop_empty_group(struct flow_steering *s, unsigned int table, struct flow_group *g)
{
	if (g->n_entries)
		return;
	TAILQ_REMOVE(&s->tables[table].groups, g, link);
	s->tables[table].n_large_groups -= g->size == s->tables[table].group_size;
	free(g->chains);
	free(g);
	if (TAILQ_EMPTY(&s->tables[table].groups))
		s->occupied &= ~(1ULL << table);
}

static int flow_new_entry(struct flow_steering *s, const struct flow_rule *rule, struct flow_group *g,
                          struct flow_entry **entry)
{
	struct flow_entry *e;
	int r = g ? 0 : flow_new_group(&s->tables[rule->table], &rule->mask, &g);

	if (r)
		return r;
	e = calloc(1, sizeof(*e));
	if (!e) {
		flow_drop_empty_group(s, rule->table, g);
		return -ENOMEM;
	}
	e->value = rule->value;
	e->tag = rule->tag;
	e->action = rule->action;
	e->group = g;
	TAILQ_INIT(&e->rules);
	if (++g->n_entries > g->n_chains)
		flow_chains_grow(g);
	flow_chain_put(g, e);
	s->occupied |= 1ULL << rule->table;
	*entry = e;
	return 0;
}

static bool flow_has_other_qp(const struct flow_entry *e, const struct qp *qp)
{
	const struct flow_rule *r;

	TAILQ_FOREACH (r, &e->rules, entry_link)
		if (r->qp != qp)
			return true;
	return false;
}

/* A second rule with the same match adds a destination. But an entry has one tag and one action; a rule
 * without a tag fits to any tag (mlx5_core: check_conflicting_ftes). */
static int flow_check_conflict(const struct flow_steering *s, const struct flow_entry *e, const struct flow_rule *rule)
{
	if (e->action != rule->action || (rule->has_tag && e->tag != rule->tag))
		return refuse(EEXIST, "flow", "there is such a rule with another tag or action",
		              "mlx5_core: check_conflicting_ftes");
	if (s->duplicates == FLOW_DUPLICATES_REFUSE && flow_has_other_qp(e, rule->qp))
		return refuse(EEXIST, "flow", "another queue pair has this rule", "SOFTHCA_DUPLICATE_RULES");
	return 0;
}

int flow_add(struct flow_steering *s, struct flow_rule *rule)
{
	struct flow_group *room;
	struct flow_entry *e = flow_find_rule(&s->tables[rule->table], rule, &room);
	int r = e ? flow_check_conflict(s, e, rule) : flow_new_entry(s, rule, room, &e);

	if (r)
		return r;
	rule->entry = e;
	TAILQ_INSERT_TAIL(&e->rules, rule, entry_link);
	return 0;
}

void flow_remove(struct flow_steering *s, struct flow_rule *rule)
{
	struct flow_entry *e = rule->entry, **at;
	struct flow_group *g = e->group;

	TAILQ_REMOVE(&e->rules, rule, entry_link);
	rule->entry = NULL;
	if (!TAILQ_EMPTY(&e->rules))
		return;
	at = &g->chains[flow_hash_key(g, &e->value) & (g->n_chains - 1)];
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	free(e);
	g->n_entries--;
	flow_drop_empty_group(s, rule->table, g);
}

struct flow_entry *flow_lookup(const struct flow_steering *s, const struct packet_key *key, unsigned int *table,
                               unsigned int end)
{
	uint64_t left = s->occupied >> *table << *table & ((1ULL << end) - 1);

	for (; left; left &= left - 1) {
		unsigned int i = (unsigned int)__builtin_ctzll(left);
		struct flow_group *g;

		TAILQ_FOREACH (g, &s->tables[i].groups, link) {
			struct flow_entry *e = flow_find_entry(g, key);

			if (e) {
				*table = i;
				return e;
			}
		}
	}
	return NULL;
}

bool flow_delivers(const struct flow_steering *s, const struct flow_rule *rule)
{
	const struct flow_rule *r;

	TAILQ_FOREACH (r, &rule->entry->rules, entry_link) {
		if (r == rule)
			return true;
		if (r->qp == rule->qp || s->duplicates == FLOW_DUPLICATES_FIRST)
			return false;
	}
	return false;
}
