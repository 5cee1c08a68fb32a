// SPDX-License-Identifier: Apache-2.0
/*
 * A queue pair: a receive queue and a send queue in the program's memory. A raw packet queue pair with RSS, and one of
 * RC or UD with a shared receive queue, have fewer of their own.
 */
#ifndef SOFTHCA_DEVICE_QP_H
#define SOFTHCA_DEVICE_QP_H

#include "pacing.h"
#include "rq.h"
#include "rss.h"

#include <endian.h>

struct roce_qp;
struct sq_batch;

enum qp_state { QP_RESET, QP_INIT, QP_RTR, QP_RTS, QP_SQD, QP_SQE, QP_ERR };

struct sq {
	struct cq *cq;
	const uint8_t *buf;
	const uint32_t *dbrec;
	uint32_t n_bb; /* size in basic blocks */
	enum wq_state state;
	uint16_t taken;  /* blocks that the device has used up, modulo 2^16 */
	uint16_t traced; /* blocks that a trace has shown */
	bool signal_all;
	uint16_t watched;       /* blocks that warning_look() has seen */
	uint32_t n_unsignalled; /* work requests of these since the last signalled one */
	struct pacing pacing;
};

struct qp {
	struct device *device;
	const struct pd *pd;
	enum qp_state state; /* as the driver knows it; an error of a queue shows when the state is queried */
	uint32_t qpn, uidx;
	uint32_t max_send_wr; /* as asked for */
	struct rq rq;
	struct sq sq;
	const struct rss *rss; /* or NULL */
	struct roce_qp *roce;  /* the state of RC or UD; NULL: raw packet */
	/* Sends some of what is posted. Returns a number that is not 0 if it has done something. */
	int (*work)(struct qp *qp, struct sq_batch *b);
	TAILQ_ENTRY(qp) link;
	void *owner; /* the uverbs object */
};

/* Of a raw packet queue pair: goes to the next state, which the caller has checked. ERR flushes what is posted, RESET
 * forgets it. */
void qp_set_state(struct qp *qp, enum qp_state state);

/* A last turn of a queue pair that is about to go. A card has sent a few work requests within microseconds, which is
 * sooner than it reads the next command. */
void qp_send_posted(struct qp *qp);

/* The state that follows from the states of its queues (mlx5_ib: sqrq_state_to_qp_state), or -EINVAL. */
int qp_query_state(struct qp *qp);

/* The receive queue to which this queue pair gives the packet; without RSS the hash is 0. */
static inline struct rq *qp_receive_queue(struct qp *qp, const struct packet *p, uint32_t *hash_be)
{
	if (qp->rss)
		return rss_queue(qp->rss, p, hash_be);
	*hash_be = 0;
	return &qp->rq;
}

/* The number of a new queue. With the fault "reuse" it is the lowest that no queue has. */
uint32_t queue_number(struct device *d);

/* Flushes what is posted to queues in the error state. Returns whether there are such queues. */
bool queues_flush(struct device *d);

/* The same as rq_fail(). */
void sq_fail(struct qp *qp, bool completed);
/* ERR flushes what is posted, RST forgets it. */
void sq_set_state(struct qp *qp, enum wq_state state);

/* The place in an entry that begins at block `index`. An entry that reaches the end of the queue goes on at its start.
 */
static inline const uint8_t *sq_at(const struct sq *sq, uint16_t index, uint32_t offset)
{
	uint32_t size = sq->n_bb * HW_SEND_WQE_BB;

	return sq->buf + ((uint32_t)(index & (sq->n_bb - 1)) * HW_SEND_WQE_BB + offset) % size;
}

/* The number of blocks of an entry, of which at most `left` are posted: the program may have written another length. */
static inline uint16_t sq_blocks(const struct hw_ctrl_seg *ctrl, uint16_t left)
{
	uint32_t n = ((be32toh(ctrl->qpn_ds_be) & 0x3f) * 16 + HW_SEND_WQE_BB - 1) / HW_SEND_WQE_BB;

	return n > left ? left : n ? (uint16_t)n : 1;
}

#endif
