/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps that both BPF programs have, and the search for the rule of a frame. */
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

/*
 * The keys of a frame are in a map, and not on the stack: until Linux 6.8 the verifier lets no process without
 * CAP_PERFMON write a part of a word that is on the stack. Later kernels put a barrier against speculation behind each
 * first store to the stack instead: together 0.3 us a frame.
 */
struct flow_keys {
	struct flow_key frame;
	struct flow_key wanted; /* those of its fields that a rule may have */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_keys);
} keys SEC(".maps");

/* Or NULL. The key of the frame is 0. */
static __always_inline struct flow_keys *flow_keys_get(void)
{
	__u32 zero = 0;
	struct flow_keys *mine = bpf_map_lookup_elem(&keys, &zero);

	if (mine)
		__builtin_memset(&mine->frame, 0, sizeof(mine->frame));
	return mine;
}

/* What the frame is for, or NULL. One look-up for each combination of fields that rules have. */
static __always_inline const struct flow_target *flow_find(struct flow_keys *mine, const struct flow_settings *now)
{
#pragma unroll
	for (__u32 fields = 0; fields < FLOW_KEY_N_COMBINATIONS; fields++) {
		const struct flow_target *target;

		if (!(now->combinations & 1U << fields) || fields & ~mine->frame.fields)
			continue;
		mine->wanted = mine->frame;
		flow_key_keep(&mine->wanted, fields);
		target = bpf_map_lookup_elem(&flows, &mine->wanted);
		if (target)
			return target;
	}
	return NULL;
}

#endif
