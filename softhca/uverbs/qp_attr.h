// SPDX-License-Identifier: Apache-2.0
/* Attributes of queue pairs, and the transitions of their states. */
#ifndef SOFTHCA_UVERBS_QP_ATTR_H
#define SOFTHCA_UVERBS_QP_ATTR_H

#include "../device/qp.h"

/* enum ib_qp_attr_mask: kernel-internal names, but ABI. */
enum qp_attr {
	QP_ATTR_STATE = 1 << 0,
	QP_ATTR_CUR_STATE = 1 << 1,
	QP_ATTR_ACCESS = 1 << 3,
	QP_ATTR_PKEY_INDEX = 1 << 4,
	QP_ATTR_PORT = 1 << 5,
	QP_ATTR_QKEY = 1 << 6,
	QP_ATTR_AV = 1 << 7,
	QP_ATTR_PATH_MTU = 1 << 8,
	QP_ATTR_TIMEOUT = 1 << 9,
	QP_ATTR_RETRY_CNT = 1 << 10,
	QP_ATTR_RNR_RETRY = 1 << 11,
	QP_ATTR_RQ_PSN = 1 << 12,
	QP_ATTR_MAX_QP_RD_ATOMIC = 1 << 13,
	QP_ATTR_ALT_PATH = 1 << 14,
	QP_ATTR_MIN_RNR_TIMER = 1 << 15,
	QP_ATTR_SQ_PSN = 1 << 16,
	QP_ATTR_MAX_DEST_RD_ATOMIC = 1 << 17,
	QP_ATTR_PATH_MIG_STATE = 1 << 18,
	QP_ATTR_DEST_QPN = 1 << 20,
	QP_ATTR_STANDARD = (1 << 21) - 1, /* all that MODIFY_QP takes */
	QP_ATTR_RATE_LIMIT = 1 << 25,
};

struct qp_transition {
	bool valid;
	uint32_t required, optional; /* beside QP_ATTR_STATE */
};
typedef const struct qp_transition qp_transitions[QP_ERR + 1][QP_ERR + 1]; /* from, to */

#define QP_PLAIN              \
	{                     \
		.valid = true \
	}
#define QP_NEEDS(needs, may)                                          \
	{                                                             \
		.valid = true, .required = (needs), .optional = (may) \
	}

/* 0 or -EINVAL. */
int qp_check_transition(qp_transitions transitions, enum qp_state from, enum qp_state to, uint32_t mask);

#endif
