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

/* What a frame with this key is for, or NULL. One look-up for each combination of fields that rules have. */
static __always_inline const struct flow_target *flow_find(const struct flow_key *frame,
                                                           const struct flow_settings *now)
{
#pragma unroll
	for (__u32 fields = 0; fields < FLOW_KEY_N_COMBINATIONS; fields++) {
		struct flow_key key = *frame;
		const struct flow_target *target;

		if (!(now->combinations & 1U << fields) || fields & ~frame->fields)
			continue;
		flow_key_keep(&key, fields);
		target = bpf_map_lookup_elem(&flows, &key);
		if (target)
			return target;
	}
	return NULL;
}

#endif
