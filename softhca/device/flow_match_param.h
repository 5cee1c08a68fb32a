// SPDX-License-Identifier: Apache-2.0
/* What a flow matcher and its flows match: the PRM's fte_match_param, as programs give it to mlx5_ib. */
#ifndef SOFTHCA_DEVICE_FLOW_MATCH_PARAM_H
#define SOFTHCA_DEVICE_FLOW_MATCH_PARAM_H

#include "flow.h"

#define MATCH_PARAM_BYTES 512 /* struct mlx5_ib_match_params */

/* Which sections of a mask count (match_criteria_enable), one bit each, in their order. */
enum match_section { MATCH_OUTER, MATCH_MISC };

struct flow_matcher {
	uint8_t mask[MATCH_PARAM_BYTES];
	uint8_t criteria;
	uint16_t priority;
};

/* Sets the rule's match and table. 0, -EINVAL, or -EOPNOTSUPP for a field that softhca does not read. */
int flow_match_param(struct flow_rule *rule, const struct flow_matcher *m, const uint8_t value[MATCH_PARAM_BYTES]);

#endif
