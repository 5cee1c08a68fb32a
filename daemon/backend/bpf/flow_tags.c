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
	return atomic_load_explicit(&tag->state, memory_order_acquire);
}

static struct flow_tag *flow_tags_find_in_state(struct flow_tags *tags, enum flow_tag_state state)
{
	for (uint32_t i = 0; i < FLOW_TAGS_MAX; i++)
		if (flow_tag_state(&tags->tags[i]) == state)
			return &tags->tags[i];
	return NULL;
}

/* The rule that was removed first has waited longest for its last packets, and its place is taken when all are used. */
int flow_tags_add(struct flow_tags *tags, const struct flow_rule *rule, bool has_ethernet)
{
	struct flow_tag *tag;
	uint32_t n;

	if (!tags)
		return 0;
	tag = flow_tags_find_in_state(tags, FLOW_TAG_FREE);
	if (!tag)
		tag = flow_tags_find_in_state(tags, FLOW_TAG_REMOVED);
	if (!tag)
		return -E2BIG;
	atomic_store_explicit(&tag->state, FLOW_TAG_FREE, memory_order_release);
	tag->condition = flow_table_condition(rule, has_ethernet);
	tag->rank = flow_table_rank(rule);
	tag->tag = rule->tag;
	atomic_store_explicit(&tag->state, FLOW_TAG_LIVE, memory_order_release);
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
			atomic_store_explicit(&tag->state, FLOW_TAG_REMOVED, memory_order_release);
	}
}

/* A flow that is there has the packet before one that was removed; of two of them, the one of higher rank. */
uint32_t flow_tags_find(const struct flow_tags *tags, const struct flow_headers *headers)
{
	uint32_t n = atomic_load_explicit(&tags->n, memory_order_acquire), tag = 0, best = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct flow_tag *one = &tags->tags[i];
		enum flow_tag_state state = flow_tag_state(one);
		uint32_t order;

		if (state == FLOW_TAG_FREE || !flow_condition_holds(&one->condition, headers))
			continue;
		order = 2 * one->rank + 1 + (state == FLOW_TAG_LIVE ? UINT16_MAX : 0);
		if (order <= best)
			continue;
		best = order;
		tag = one->tag;
	}
	return tag;
}
