// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the flow of a queue that a packet matched. The programs in the kernel choose packets but cannot tag them, so
 * the worker compares the headers once more, for queues whose events have tags. The control thread adds and removes
 * rules while the worker compares.
 */
#ifndef DAEMON_BACKEND_BPF_FLOW_TAGS_H
#define DAEMON_BACKEND_BPF_FLOW_TAGS_H

#include "daemon/backend/bpf/flow_key.h"
#include "daemon/flow/flow.h"

#include <stdatomic.h>

#define FLOW_TAGS_MAX 1024 /* a stream has 256 flows, and twice as many while a reload exchanges them */

enum flow_tag_state {
	FLOW_TAG_FREE,
	FLOW_TAG_LIVE,
	FLOW_TAG_REMOVED, /* packets that matched before may still come */
};

#define FLOW_TAG_STATES 4 /* the state of an entry is modulo this; above it, how often the entry was taken */

/* The worker reads the words of an entry one by one, while it may become that of another rule: see flow_tags.c. */
struct flow_tag {
	struct flow_condition condition;
	_Atomic uint32_t rank;
	_Atomic uint32_t tag;
	_Atomic uint32_t state;
};

struct flow_tags {
	_Atomic uint32_t n; /* that were ever in use */
	struct flow_tag tags[FLOW_TAGS_MAX];
};

/** On the heap. NULL: no memory. */
struct flow_tags *flow_tags_new(void);
void flow_tags_free(struct flow_tags *tags);

/** No effect if tags is NULL, or if the rule is one for fragments. 0 or -E2BIG. */
int flow_tags_add(struct flow_tags *tags, const struct flow_rule *rule, bool has_ethernet);
void flow_tags_remove(struct flow_tags *tags, const struct flow_rule *rule, bool has_ethernet);

/** Worker: the tag of the flow that has a packet with these headers, all of them. 0: there is none. */
uint32_t flow_tags_find(const struct flow_tags *tags, const struct flow_headers *headers);

#endif
