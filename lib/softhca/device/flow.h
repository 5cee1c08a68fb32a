// SPDX-License-Identifier: Apache-2.0
/*
 * Flow steering. A rule is parsed from what the program sent (flow_parse.c, strict as the kernel
 * is) and put in a table (flow_table.c); each packet is looked up in the tables in order of
 * priority.
 */
#ifndef SOFTHCA_DEVICE_FLOW_H
#define SOFTHCA_DEVICE_FLOW_H

#include "packet.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Tables in the order a packet meets them: per priority one for rules that do not trap and one
 * for rules that do, then one for all true multicast rules (mlx5_ib: ib_prio_to_core_prio,
 * MLX5_IB_FLOW_MCAST_PRIO). */
#define FLOW_MAX_PRIORITIES 16
#define FLOW_TABLE_MULTICAST (2 * FLOW_MAX_PRIORITIES)
#define FLOW_N_TABLES (FLOW_TABLE_MULTICAST + 1)

struct qp;

/* What a counters object counts: at steering, before any drop for want of a buffer. */
struct flow_counter {
	uint64_t packets, bytes;
};

struct flow_rule {
	struct packet_key mask, value; /* value has no bit outside mask */
	unsigned int table;
	uint32_t tag;
	bool drop, dont_trap, has_tag;
	bool has_counters;
	uint32_t counters_handle; /* resolved by the caller of flow_parse() */
	struct flow_counter *counter;
	struct qp *qp;
	LIST_ENTRY(flow_rule) entry_link;
};

/* All rules with the same mask and value in one table. */
struct flow_entry {
	struct packet_key value;
	LIST_HEAD(, flow_rule) rules;
	TAILQ_ENTRY(flow_entry) link;
};

struct flow_group {
	struct packet_key mask;
	TAILQ_HEAD(, flow_entry) entries;
	TAILQ_ENTRY(flow_group) link;
};

struct flow_table {
	TAILQ_HEAD(, flow_group) groups; /* oldest first: the order in which they are tried */
};

struct flow_steering {
	struct flow_table tables[FLOW_N_TABLES];
	uint64_t occupied; /* bit n: table n has rules */
};

/* What the program asked for, as uverbs delivered it. */
struct flow_request {
	uint32_t type, flags;
	uint16_t priority;
	uint8_t port, n_specs;
	const void *specs; /* struct ib_uverbs_flow_spec_* one after another */
	uint32_t specs_bytes;
};

/* 0 or a negative errno, the one the kernel gives. */
int flow_parse(struct flow_rule *rule, const struct flow_request *req, unsigned int n_priorities);

void flow_steering_init(struct flow_steering *s);

/* 0, -ENOMEM, or -EEXIST for a rule already there with another tag or action. The rule must
 * stay until flow_remove(). */
int flow_add(struct flow_steering *s, struct flow_rule *rule);
void flow_remove(struct flow_steering *s, struct flow_rule *rule);

/* The first entry in table `table` or after it that matches; `*table` becomes its table. */
struct flow_entry *flow_lookup(const struct flow_steering *s, const struct packet_key *key,
			       unsigned int *table);

#endif
