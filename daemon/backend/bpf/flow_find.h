/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of the BPF programs that steer frames, and the search for the rule of a frame. */
#ifndef DAEMON_BACKEND_BPF_FLOW_FIND_H
#define DAEMON_BACKEND_BPF_FLOW_FIND_H

#include "flow_key.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* the daemon sets it */
	__type(key, struct flow_key);
	__type(value, struct flow_target);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_CONDITIONS_MAX);
	__type(key, __u32);
	__type(value, struct flow_conditional);
} conditions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the daemon sets it: queues */
	__type(key, __u32);
	__type(value, struct flow_group);
} groups SEC(".maps");

/*
 * Where the later fragments of a datagram go. Only its first one has ports, so they go to the target of the first, or
 * with rank 0 to the kernel. If a fragment comes before the first one, only its address is known.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOW_DATAGRAMS_MAX);
	__type(key, struct flow_datagram);
	__type(value, struct flow_target);
} fragments SEC(".maps");

/*
 * The headers of a frame are in a map, not on the stack: until Linux 6.8 the verifier forbids a process without
 * CAP_PERFMON to write a part of a word on the stack. Later kernels put a barrier against speculation behind each first
 * store to the stack instead, which costs 0.3 us a frame.
 */
struct flow_scratch {
	struct flow_headers frame;
	struct flow_key wanted; /* those of its fields that an exact rule may have */
	struct flow_target target;
	struct flow_datagram datagram;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_scratch);
} scratch SEC(".maps");

static __always_inline bool flow_needs_wide(const struct flow_settings *now)
{
	return now->n_conditions || now->n_reassemble;
}

/* Or NULL. The headers of the frame are 0. */
static __always_inline struct flow_scratch *flow_scratch_get(void)
{
	__u32 zero = 0;
	struct flow_scratch *mine = bpf_map_lookup_elem(&scratch, &zero);

	if (mine)
		__builtin_memset(&mine->frame, 0, sizeof(mine->frame));
	return mine;
}

/*
 * Set the target to that of the exact rule that matches the frame, or its rank to 0 if no rule does. Takes one look-up
 * for each combination of optional fields that exact rules have.
 */
static __always_inline void flow_find_exact(struct flow_scratch *mine, const struct flow_settings *now)
{
#pragma unroll
	for (__u32 fields = 0; fields < FLOW_KEY_N_COMBINATIONS; fields++) {
		const struct flow_target *target;

		if (!(now->combinations & 1U << fields) || fields & ~mine->frame.key.fields)
			continue;
		mine->wanted = mine->frame.key;
		flow_key_keep(&mine->wanted, fields);
		target = bpf_map_lookup_elem(&flows, &mine->wanted);
		if (target) {
			mine->target = *target;
			return;
		}
	}
}

/*
 * Let a condition of higher rank replace the target. No loop: without CAP_PERFMON the verifier of Linux 6.1 finds one
 * too complex.
 */
static __always_inline void flow_find_conditional(struct flow_scratch *mine, const struct flow_settings *now)
{
#pragma unroll
	for (__u32 i = 0; i < FLOW_CONDITIONS_MAX; i++) {
		const struct flow_conditional *one;
		__u32 key = i;

		if (i >= now->n_conditions)
			return;
		one = bpf_map_lookup_elem(&conditions, &key);
		if (one && one->target.rank > mine->target.rank && flow_condition_holds(&one->condition, &mine->frame))
			mine->target = one->target;
	}
}

static __always_inline void flow_read_datagram(struct flow_scratch *mine)
{
	__builtin_memcpy(mine->datagram.destination, mine->frame.key.destination, sizeof(mine->datagram.destination));
	__builtin_memcpy(mine->datagram.source, mine->frame.key.source, sizeof(mine->datagram.source));
	mine->datagram.id = mine->frame.fragment.id;
	mine->datagram.ip_version = mine->frame.key.ip_version;
}

/* False: its first fragment has not come, or too long ago. */
static __always_inline bool flow_find_datagram(struct flow_scratch *mine)
{
	const struct flow_target *target;

	flow_read_datagram(mine);
	target = bpf_map_lookup_elem(&fragments, &mine->datagram);
	if (!target)
		return false;
	mine->target = *target;
	return true;
}

/* Remember where the datagram's first fragment went. A queue that reassembles no fragments gets only first ones. */
static __always_inline void flow_keep_datagram(struct flow_scratch *mine)
{
	__u32 rank = mine->target.rank;

	mine->frame.key.fields |= FLOW_KEY_FRAGMENT;
	flow_read_datagram(mine);
	if (!mine->target.reassembles)
		mine->target.rank = 0;
	bpf_map_update_elem(&fragments, &mine->datagram, &mine->target, BPF_ANY);
	mine->target.rank = rank;
}

static __always_inline void flow_share_out(struct flow_scratch *mine)
{
	const struct flow_group *group = bpf_map_lookup_elem(&groups, &mine->target.queue);

	if (group)
		mine->target.queue = flow_group_choose(group, &mine->frame.key);
}

/*
 * True: a rule matches the frame, and the target says which queue gets it. flow_needs_wide(): the headers are
 * wide. The target is a copy: without CAP_PERFMON the verifier of Linux 6.1 refuses a pointer to it that may be NULL.
 */
static __always_inline bool flow_find(struct flow_scratch *mine, const struct flow_settings *now)
{
	struct flow_key *key = &mine->frame.key;
	__u32 position =
		now->n_reassemble && key->protocol == FLOW_KEY_UDP ? mine->frame.fragment.position : FLOW_FRAGMENT_NONE;

	mine->target.rank = 0;
	if (position != FLOW_FRAGMENT_LATER || !flow_find_datagram(mine)) {
		/* The first fragment has ports: rules for fragments of all ports do not count. */
		if (position == FLOW_FRAGMENT_FIRST)
			key->fields &= (__u8)~FLOW_KEY_FRAGMENT;
		if (key->fields & FLOW_KEY_SOURCE_PORT && key->protocol != FLOW_KEY_TCP)
			flow_find_exact(mine, now);
		if (now->n_conditions)
			flow_find_conditional(mine, now);
		if (position == FLOW_FRAGMENT_FIRST)
			flow_keep_datagram(mine);
	}
	if (mine->target.rank && mine->target.is_group)
		flow_share_out(mine);
	return mine->target.rank != 0;
}

#endif
