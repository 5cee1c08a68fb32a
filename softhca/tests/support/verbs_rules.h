// SPDX-License-Identifier: Apache-2.0
/* Rules of raw packet verbs, each a function that tries to break it. */
#ifndef TESTS_VERBS_RULES_H
#define TESTS_VERBS_RULES_H

#include "verbs_common.h"

#include <errno.h>
#include <string.h>

struct rule {
	const char *name;
	const char *source; /* where the rule comes from */
	/* NULL, or what was seen instead. One of the two is set. */
	const char *(*check)(void);
	const char *(*check_queue)(struct queue *q); /* with a queue of its own */
	const struct queue_config *config;           /* of that queue */
};

/* Each file's rules, ended by a row without a name. */
extern const struct rule basic_rules[], completion_rules[], counters_rules[], dmabuf_rules[], dv_rules[], flow_rules[],
	fork_rules[], matcher_rules[], memory_rules[], misuse_rules[], object_rules[], queue_rules[], receive_rules[],
	rss_rules[], send_rules[], rdma_rules[], thread_rules[];
/* The same of one profile alone, */
extern const struct rule connectx4_rules[], connectx6_rules[], minimal_rules[];
/* and of one setting. */
extern const struct rule real_time_rules[], flow_entries_rules[], switchdev_rules[], roce_rules[], objects_rules[],
	comp_vectors_rules[], faults_rules[];

/* For receive rules: an unconnected UDP socket in the same namespace cannot reach the device (its
 * frames would be outgoing), so they ask this one for frames: "PORT COUNT PAYLOAD\n" on stdout,
 * and wait for a line on stdin. */
void ask_for_frames(unsigned int port, unsigned int count, unsigned int payload);

#define EXPECT(condition, text)      \
	do {                         \
		if (!(condition))    \
			return text; \
	} while (0)

/* A call that returns NULL and sets errno, or returns the errno. */
#define EXPECT_ERRNO(value, call)                                  \
	do {                                                       \
		errno = 0;                                         \
		if ((call) || errno != (value))                    \
			return #call " did not fail with " #value; \
	} while (0)
#define EXPECT_RETURNS(value, call)                             \
	do {                                                    \
		if ((call) != (value))                          \
			return #call " did not return " #value; \
	} while (0)

/* Without this one of the process's rights (CAP_NET_RAW, …). */
void drop_capability(int capability);

/* Between two looks at what the device thread will do. */
void wait_a_little(void);

/* The status of the next completion within `timeout_ms`, and its request where wr_id isn't NULL; -1: none came. */
int next_status(struct queue *q, unsigned int timeout_ms, uint64_t *wr_id);
#define LONG_MS 20000 /* for what must come */

/* What becomes of a frame of 100 bytes that is gathered there. The queue works again afterwards. */
int send_from(struct queue *q, uint64_t address, uint32_t lkey);

/* From the error state back to sending. */
void revive(struct queue *q);

/* One context, domain and queue for the rules that need no special one. */
struct queue *shared_queue(void);
void close_shared_queue(void);

#endif
