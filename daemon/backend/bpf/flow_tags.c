// SPDX-License-Identifier: Apache-2.0
/* The flows of a queue by the headers of their packets. */
#include "daemon/backend/bpf/flow_tags.h"

#include "daemon/backend/bpf/flow_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct flow_tags *flow_tags_new(void)
{
	return calloc(1, sizeof(struct flow_tags));
}

void flow_tags_free(struct flow_tags *tags)
{
	free(tags);
}

static enum flow_tag_state flow_tag_state(const struct flow_tag *tag)
{
	return atomic_load_explicit(&tag->state, memory_order_acquire) % FLOW_TAG_STATES;
}

/* ---- the control thread ---------------------------------------------------------------------------- */

static void flow_tag_write_word(flow_word *word, flow_word value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/*
 * The worker may read the entry at the same time. Each word of the new rule is stored with release and loaded with
 * acquire, after the new state. So a worker that has read a word of the new rule finds another number in the state
 * afterwards.
 */
static void flow_tag_write(struct flow_tag *tag, const struct flow_condition *condition, uint32_t rank, uint32_t number)
{
	uint32_t state = atomic_load_explicit(&tag->state, memory_order_relaxed);
	uint32_t taken = (state / FLOW_TAG_STATES + 1) * FLOW_TAG_STATES;
	const flow_word *from = (const flow_word *)condition;
	flow_word *to = (flow_word *)&tag->condition;

	atomic_store_explicit(&tag->state, taken + FLOW_TAG_FREE, memory_order_relaxed);
	for (size_t i = 0; i < sizeof(*condition) / sizeof(*from); i++)
		flow_tag_write_word(&to[i], from[i]);
	atomic_store_explicit(&tag->rank, rank, memory_order_release);
	atomic_store_explicit(&tag->tag, number, memory_order_release);
	atomic_store_explicit(&tag->state, taken + FLOW_TAG_LIVE, memory_order_release);
}

static struct flow_tag *flow_tags_find_in_state(struct flow_tags *tags, enum flow_tag_state state)
{
	for (uint32_t i = 0; i < FLOW_TAGS_MAX; i++)
		if (flow_tag_state(&tags->tags[i]) == state)
			return &tags->tags[i];
	return NULL;
}

/*
 * When all tags are used, the new rule gets the tag of the rule that was removed first. A rule for fragments has no
 * tag: it would match first fragments, too, whose flow is that of their ports.
 */
int flow_tags_add(struct flow_tags *tags, const struct flow_rule *rule, bool has_ethernet)
{
	struct flow_condition condition;
	struct flow_tag *tag;
	uint32_t n;

	if (!tags || rule->fragments)
		return 0;
	tag = flow_tags_find_in_state(tags, FLOW_TAG_FREE);
	if (!tag)
		tag = flow_tags_find_in_state(tags, FLOW_TAG_REMOVED);
	if (!tag)
		return -E2BIG;
	condition = flow_table_condition(rule, has_ethernet);
	flow_tag_write(tag, &condition, flow_table_rank(rule), rule->tag);
	n = (uint32_t)(tag - tags->tags) + 1;
	if (n > atomic_load_explicit(&tags->n, memory_order_relaxed))
		atomic_store_explicit(&tags->n, n, memory_order_release);
	return 0;
}

void flow_tags_remove(struct flow_tags *tags, const struct flow_rule *rule, bool has_ethernet)
{
	const struct flow_condition condition = flow_table_condition(rule, has_ethernet);

	for (uint32_t i = 0; tags && i < FLOW_TAGS_MAX; i++) {
		struct flow_tag *tag = &tags->tags[i];

		if (flow_tag_state(tag) == FLOW_TAG_LIVE && tag->tag == rule->tag &&
		    tag->rank == flow_table_rank(rule) && memcmp(&tag->condition, &condition, sizeof(condition)) == 0)
			atomic_fetch_add_explicit(&tag->state, FLOW_TAG_REMOVED - FLOW_TAG_LIVE, memory_order_release);
	}
}

/* ---- the worker ------------------------------------------------------------------------------------ */

static flow_word flow_tag_read_word(const flow_word *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool flow_tag_holds(const struct flow_tag *tag, const struct flow_headers *headers)
{
	const flow_word *value = (const flow_word *)&tag->condition.value;
	const flow_word *mask = (const flow_word *)&tag->condition.mask, *is = (const flow_word *)headers;

	for (uint32_t i = 0; i < FLOW_HEADERS_N_WORDS; i++)
		if ((is[i] & flow_tag_read_word(&mask[i])) != flow_tag_read_word(&value[i]))
			return false;
	return true;
}

/* True: the entry was taken again since the state was read, so the words read after it may be of two rules. */
static bool flow_tag_was_taken(const struct flow_tag *tag, uint32_t state)
{
	return atomic_load_explicit(&tag->state, memory_order_relaxed) / FLOW_TAG_STATES != state / FLOW_TAG_STATES;
}

/* A removed flow matches only if no other flow does; of two others, the one of higher rank matches. */
uint32_t flow_tags_find(const struct flow_tags *tags, const struct flow_headers *headers)
{
	uint32_t n = atomic_load_explicit(&tags->n, memory_order_acquire), tag = 0, best = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct flow_tag *one = &tags->tags[i];
		uint32_t state = atomic_load_explicit(&one->state, memory_order_acquire), order, number;

		if (state % FLOW_TAG_STATES == FLOW_TAG_FREE || !flow_tag_holds(one, headers))
			continue;
		order = 2 * atomic_load_explicit(&one->rank, memory_order_acquire) + 1 +
		        (state % FLOW_TAG_STATES == FLOW_TAG_LIVE ? UINT16_MAX : 0);
		number = atomic_load_explicit(&one->tag, memory_order_acquire);
		if (order <= best || flow_tag_was_taken(one, state))
			continue;
		best = order;
		tag = number;
	}
	return tag;
}
