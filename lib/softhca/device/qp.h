// SPDX-License-Identifier: Apache-2.0
/* A raw packet queue pair: a receive queue and a send queue in the program's memory. */
#ifndef SOFTHCA_DEVICE_QP_H
#define SOFTHCA_DEVICE_QP_H

#include "cq.h"

enum qp_state { QP_RESET, QP_INIT, QP_RTR, QP_RTS, QP_SQD, QP_SQE, QP_ERR };

struct rq {
	struct cq *cq;
	const uint8_t *buf;
	const uint32_t *dbrec; /* one word: how many entries were ever posted, modulo 2^16 */
	uint32_t n_wqe, wqe_shift;
	uint16_t taken; /* entries the device has used up */
	bool strip_cvlan;
};

struct sq {
	struct cq *cq;
	const uint8_t *buf;
	const uint32_t *dbrec;
	uint32_t n_bb; /* size in basic blocks */
	uint16_t taken; /* blocks */
	bool signal_all;
};

struct qp {
	struct device *device;
	const struct pd *pd;
	enum qp_state state;
	uint32_t qpn, uidx;
	struct rq rq;
	struct sq sq;
	uint32_t n_flows;
	TAILQ_ENTRY(qp) link;
	void *owner; /* the uverbs object */
};

/* What a completion tells of a packet beside its length. */
struct rx_info {
	uint64_t timestamp;
	uint32_t flow_tag;
	uint8_t checked, hdr_type; /* enum hw_cqe_checked, enum hw_cqe_hdr_type */
	uint16_t vlan_tci_be;
};

/* Next state, checked by the caller; ERR flushes what is posted, RESET forgets it. */
void qp_set_state(struct qp *qp, enum qp_state state);

/* Scatter a frame into the next receive work request. */
void rq_receive(struct qp *qp, const uint8_t *frame, uint32_t len, const struct rx_info *info);
/* In the error state, whatever is posted is flushed. */
void qp_flush(struct qp *qp);

/* Send up to `max` posted frames; returns how many work requests were taken. */
int sq_work(struct qp *qp, int max);

#endif
