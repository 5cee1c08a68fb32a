// SPDX-License-Identifier: Apache-2.0
/* The rules of a BPF program: its maps `flows`, `conditions` and `settings`. Control thread. Declares frame_wait.c. */
#ifndef DAEMON_BACKEND_BPF_FLOW_TABLE_H
#define DAEMON_BACKEND_BPF_FLOW_TABLE_H

#include "daemon/backend/bpf/flow_key.h"
#include "daemon/flow/flow.h"
#include "lib/base/failure.h"

#include <stdint.h>

struct bpf_object;

#define FLOW_TABLE_MAX 8192 /* exact rules of an interface */

struct flow_table {
	const char *interface; /* for messages */
	int flows_fd;
	int conditions_fd;
	int settings_fd;
	int fragments_fd;
	int groups_fd;
	struct flow_settings settings;
	uint32_t n_with[FLOW_KEY_N_COMBINATIONS];                /* exact rules with these fields */
	struct flow_conditional conditions[FLOW_CONDITIONS_MAX]; /* copy of the map; rank 0: free */
	bool has_removed;                                        /* rules, which frames on their way may still read */
};

/** True: the program finds the rule by a key; false: by a condition. */
bool flow_table_is_exact(const struct flow_rule *rule);
/** The key that a frame of an exact rule has, without the fields that the rule leaves open. */
struct flow_key flow_table_key(const struct flow_rule *rule, bool has_ethernet);
/** The condition of a rule on the headers of a frame; with CONFIG_MATCH_DEFAULT each frame fulfils it. */
struct flow_condition flow_table_condition(const struct flow_rule *rule, bool has_ethernet);

/** The rule's rank, never 0. If two rules match a frame, the one with the higher rank gets it. */
uint32_t flow_table_rank(const struct flow_rule *rule);

/** Call before the object is loaded: gives the maps room for n_queues. 0 or -errno. */
int flow_table_size(const struct bpf_object *object, uint32_t n_queues);
/** The object is loaded, and keeps the maps. 0 or -errno. */
int flow_table_init(struct flow_table *table, const struct bpf_object *object, const char *interface,
                    const struct flow_settings *settings);
/** table->settings was changed: the program gets it. 0 or -errno. */
int flow_table_apply(const struct flow_table *table);

/** The rank in the target is not read: it follows from the rule. -EEXIST, -E2BIG, and the failure. */
int flow_table_add(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target,
                   struct failure *failure);
/** A rule that was added gets another target, whose rank is not read. No frame finds neither. 0 or -errno. */
int flow_table_replace(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target);
/** A rule that was added. Frames may still match it until frame_wait() returns. */
void flow_table_remove(struct flow_table *table, const struct flow_rule *rule);

/**
 * Queues to which a symmetric hash of the addresses, and of the ports of UDP packets that are no fragments, shares
 * packets out: the group of the first one. Packets without addresses come to the first one. At most 16; numbers below
 * 256; no queue is in two groups. 0 or -errno.
 */
int flow_table_set_group(const struct flow_table *table, const uint32_t *queues, uint32_t n, bool ports);

/** Wait until no frame is on its way any more through the programs and sockets as they were before. Some 20 ms. */
void frame_wait(void);

#endif
