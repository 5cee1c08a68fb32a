// SPDX-License-Identifier: Apache-2.0
/* Checks a transition of a queue pair's state by the table of its type. */
#include "qp_attr.h"

#include "../device/refuse.h"

#include <errno.h>

int qp_check_transition(qp_transitions transitions, enum qp_state from, enum qp_state to, uint32_t mask)
{
	const struct qp_transition *t = &transitions[from][to];

	if (!t->valid)
		return refuse(EINVAL, "qp_state", "there is no such transition",
		              "ib_core: qp_state_table; mlx5_ib: optab");
	if ((mask & t->required) != t->required)
		return refuse(EINVAL, "attr_mask", "this transition needs an attribute that is not there",
		              "ib_core: qp_state_table");
	if (mask & ~(t->required | t->optional | QP_ATTR_STATE))
		return refuse(EINVAL, "attr_mask", "this transition does not take one of the attributes",
		              "ib_core: qp_state_table");
	return 0;
}
