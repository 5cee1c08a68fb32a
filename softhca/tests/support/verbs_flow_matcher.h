// SPDX-License-Identifier: Apache-2.0
/* Flows by mlx5dv's matchers. */
#ifndef TESTS_VERBS_FLOW_MATCHER_H
#define TESTS_VERBS_FLOW_MATCHER_H

#include "verbs_common.h"

#include <infiniband/mlx5dv.h>

#define MATCH_BYTES 512 /* fte_match_param */

/* One as struct mlx5dv_flow_match_parameters has it. */
struct match {
	size_t size;
	uint8_t bytes[MATCH_BYTES];
};

/* Mask and value of the flow's specs; tags and other actions have none. */
void match_of_specs(const struct flow_rule *f, struct match *mask, struct match *value);

/* A matcher with this mask for received frames, or NULL and errno. */
struct mlx5dv_flow_matcher *matcher_new(struct queue *q, struct match *mask, uint16_t priority);

/* The flow with its actions, by a matcher of its own. `miss`: the frames go to the kernel. NULL and errno if it is
 * refused. */
struct ibv_flow *matcher_flow(struct queue *q, const struct flow_rule *f, bool miss,
                              struct mlx5dv_flow_matcher **matcher);

#endif
