// SPDX-License-Identifier: Apache-2.0
/*
 * Flow steering. A request is taken apart as ib_uverbs does it (flow_spec.c), made into rules as mlx5_ib does it
 * (flow_parse.c), and put in tables as mlx5_core does it (flow_table.c). Each packet is looked up in the tables in
 * their order.
 */
#ifndef SOFTHCA_DEVICE_FLOW_H
#define SOFTHCA_DEVICE_FLOW_H

#include "packet.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * Tables in the order in which a packet meets them: for each priority, one for rules that do not trap and one for
 * rules that do; then one for all rules that are truly multicast (mlx5_ib: ib_prio_to_core_prio,
 * MLX5_IB_FLOW_MCAST_PRIO); then the one for what the kernel's own rules leave (the LEFTOVERS namespace). The
 * sniffers' table stands beside them: it gets a copy of every frame.
 */
#define FLOW_MAX_PRIORITIES  16
#define FLOW_TABLE_MULTICAST (2 * FLOW_MAX_PRIORITIES)
#define FLOW_TABLE_LEFTOVERS (FLOW_TABLE_MULTICAST + 1)
#define FLOW_TABLE_SNIFFER   (FLOW_TABLE_LEFTOVERS + 1)
#define FLOW_N_TABLES        (FLOW_TABLE_SNIFFER + 1)

struct qp;

/* What a second queue pair with the same rule gets. This is not known without hardware. */
enum flow_duplicates {
	FLOW_DUPLICATES_COPY,   /* both get each frame */
	FLOW_DUPLICATES_FIRST,  /* the older rule gets the frames until it is removed */
	FLOW_DUPLICATES_REFUSE, /* the second rule is refused with EEXIST */
};

/* A counters object counts at steering, before a frame can be dropped for want of a buffer. */
struct flow_counter {
	uint64_t packets, bytes;
};

/* What becomes of the frames of a rule. */
enum flow_action {
	FLOW_FORWARD, /* its queue pair gets them */
	FLOW_DROP,
	FLOW_MISS, /* the kernel's own rules get them, and no later table */
};

struct flow_rule {
	struct packet_key mask, value; /* value has no bit outside mask */
	unsigned int table;
	uint32_t tag;
	enum flow_action action;
	bool dont_trap, has_tag;
	bool has_counters;
	uint32_t counters_handle; /* resolved by the caller of flow_parse() */
	struct flow_counter *counter;
	struct qp *qp;            /* NULL unless it forwards */
	struct flow_entry *entry; /* NULL while it is in no table */
	TAILQ_ENTRY(flow_rule) entry_link;
};

/* All rules with the same mask and value in one table; mlx5_core calls this an FTE. */
struct flow_entry {
	struct packet_key value;
	uint32_t tag; /* of the oldest rule */
	enum flow_action action;
	struct flow_group *group;
	TAILQ_HEAD(, flow_rule) rules; /* oldest first, never empty */
	struct flow_entry *next;       /* in the hash chain */
};

/* Entries with the same mask, at the places `start` to `start + size - 1` of the table. */
struct flow_group {
	struct packet_key mask;
	uint32_t start, size;
	uint8_t n_words, words[8]; /* words in which the mask is not zero */
	uint32_t n_entries, n_chains;
	struct flow_entry **chains;
	TAILQ_ENTRY(flow_group) link;
};

struct flow_table {
	TAILQ_HEAD(, flow_group) groups; /* by place, which is the order in which they are tried */
	uint32_t size, group_size;       /* in entries */
	unsigned int n_large_groups;     /* groups of group_size entries */
};

struct flow_steering {
	struct flow_table tables[FLOW_N_TABLES];
	uint64_t occupied; /* bit n: table n has rules */
	enum flow_duplicates duplicates;
};

/* The request for a flow, as uverbs delivered it. */
struct flow_request {
	uint32_t type, flags;
	uint16_t priority;
	uint8_t port, n_specs;
	const void *specs; /* struct ib_uverbs_flow_spec_*, one after another */
	uint32_t specs_bytes;
};

/* What a model can do. */
struct flow_limits {
	unsigned int n_priorities;
	bool sniffer;   /* allow_sniffer_and_nic_rx_shared_tir */
	bool dont_trap; /* nic_rx_multi_path_tirs */
};

#define FLOW_MAX_RULES 2 /* ALL_DEFAULT has two: one for unicast and one for multicast */

/* The number of rules that the request becomes (1 to FLOW_MAX_RULES), or the negative errno that the kernel gives. */
int flow_parse(struct flow_rule rules[FLOW_MAX_RULES], const struct flow_request *req,
               const struct flow_limits *limits);

/* Does the rule end a frame's way, so that neither later tables nor the kernel get the frame? */
static inline bool flow_traps(const struct flow_rule *rule)
{
	/* mlx5_ib (_create_flow_rule): a drop rule forwards to no later table, with DONT_TRAP or without. */
	return rule->table <= FLOW_TABLE_MULTICAST && rule->action != FLOW_MISS &&
	       (!rule->dont_trap || rule->action == FLOW_DROP);
}

/* `n_entries`: of the table that each priority has. */
void flow_steering_init(struct flow_steering *s, enum flow_duplicates duplicates, uint32_t n_entries);

/* Adds the rule, which must stay until flow_remove(). 0, -ENOMEM, -ENOSPC if the table is full, or -EEXIST if there is
 * such a rule with another tag or action. */
int flow_add(struct flow_steering *s, struct flow_rule *rule);
void flow_remove(struct flow_steering *s, struct flow_rule *rule);

/* The first entry that matches, in tables `*table` to `end` - 1. `*table` becomes the table of that entry. */
struct flow_entry *flow_lookup(const struct flow_steering *s, const struct packet_key *key, unsigned int *table,
                               unsigned int end);

/* Does this rule deliver the entry's frames to its queue pair? A queue pair gets one copy, however many rules it has
 * (mlx5_core: find_flow_rule counts references). */
bool flow_delivers(const struct flow_steering *s, const struct flow_rule *rule);

#endif
