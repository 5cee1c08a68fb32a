// SPDX-License-Identifier: Apache-2.0
/* Raw packet queue pairs: their states, and the flush of queues that are in error. */
#include "qp.h"

#include "fault.h"

#include <errno.h>

static void sq_flush(void *arg)
{
	struct qp *qp = arg;
	struct sq *sq = &qp->sq;
	uint16_t left;

	while (sq->n_bb && !sq->cq->failed && (left = (uint16_t)(wq_posted(sq->dbrec) - sq->taken))) {
		uint16_t n_bb = sq_blocks((const void *)sq_at(sq, sq->taken, 0), left);

		cq_post_error(sq->cq, qp->uidx, qp->qpn, HW_CQE_REQ_ERR, sq->taken, HW_SYNDROME_WR_FLUSH);
		sq->taken = (uint16_t)(sq->taken + n_bb);
	}
}

void sq_set_state(struct qp *qp, enum wq_state state)
{
	qp->sq.state = state;
	if (state != WQ_RDY) /* mlx5_ib: modify_raw_packet_qp_sq forgets the rate */
		pacing_set(&qp->sq.pacing, 0, 0, 0);
	if (state == WQ_RST)
		qp->sq.taken = qp->sq.traced = qp->sq.watched = 0, qp->sq.n_unsignalled = 0;
	else if (state == WQ_ERR)
		fault_guard(qp->device, sq_flush, qp);
}

void sq_fail(struct qp *qp, bool completed)
{
	if (qp->sq.state == WQ_ERR)
		return;
	sq_set_state(qp, WQ_ERR);
	if (!completed || qp->device->config.error_events)
		qp->device->events->qp_fatal(qp);
}

/* mlx5_ib: modify_raw_packet_qp. The kernel makes the receive queue ready in INIT, this device in RTR: before RTR
 * nothing can be posted, and matching frames are dropped without being counted. */
void qp_set_state(struct qp *qp, enum qp_state state)
{
	qp->state = state;
	switch (state) {
	case QP_RESET:
	case QP_INIT:
		rq_set_state(&qp->rq, WQ_RST);
		sq_set_state(qp, WQ_RST);
		break;
	case QP_RTR:
		rq_set_state(&qp->rq, WQ_RDY);
		break;
	case QP_RTS:
		sq_set_state(qp, qp->sq.n_bb ? WQ_RDY : WQ_RST);
		break;
	default:
		rq_set_state(&qp->rq, WQ_ERR);
		sq_set_state(qp, WQ_ERR);
	}
}

static void qp_work(void *arg)
{
	struct qp *qp = arg;

	qp->work(qp, qp->device->sq_batch);
}

void qp_send_posted(struct qp *qp)
{
	if (qp->sq.state == WQ_RDY && !qp->device->halted)
		fault_guard(qp->device, qp_work, qp);
}

int qp_query_state(struct qp *qp)
{
	bool has_rq = qp->rq.n_wqe, has_sq = qp->sq.n_bb;

	if (has_rq && qp->rq.state == WQ_ERR) {
		/* The kernel treats this combination as a bug and warns in its log. */
		if (has_sq && qp->sq.state != WQ_ERR)
			return -EINVAL;
		qp->state = QP_ERR;
	} else if (has_rq && has_sq && qp->sq.state == WQ_ERR) {
		qp->state = QP_SQE;
	}
	return (int)qp->state;
}

static bool queue_number_is_used(const struct device *d, uint32_t number)
{
	const struct qp *qp;
	const struct rq *rq;

	TAILQ_FOREACH (qp, &d->qps, link)
		if (qp->qpn == number)
			return true;
	TAILQ_FOREACH (rq, &d->wqs, link)
		if (rq->number == number)
			return true;
	return false;
}

uint32_t queue_number(struct device *d)
{
	uint32_t number = DEVICE_FIRST_QPN;

	if (!injection_is_on(d, FAULT_REUSE, NULL))
		return d->next_qpn++ & 0xffffff;
	while (queue_number_is_used(d, number))
		number++;
	return number;
}

/* What was posted before the error is flushed already. */
static void queue_check_error(struct device *d, const struct cq *cq, const uint32_t *dbrec, uint16_t taken,
                              uint32_t number)
{
	if (cq && !cq->failed && wq_posted(dbrec) != taken)
		warning_give(d, WARNING_POST_IN_ERROR, number);
}

bool queues_flush(struct device *d)
{
	bool any = false;
	struct qp *qp;
	struct rq *rq;

	TAILQ_FOREACH (qp, &d->qps, link) {
		if (qp->rq.state == WQ_ERR) {
			queue_check_error(d, qp->rq.n_wqe ? qp->rq.cq : NULL, qp->rq.dbrec, qp->rq.taken, qp->qpn);
			rq_flush(&qp->rq);
		}
		if (qp->sq.state == WQ_ERR) {
			queue_check_error(d, qp->sq.n_bb ? qp->sq.cq : NULL, qp->sq.dbrec, qp->sq.taken, qp->qpn);
			sq_flush(qp);
		}
		any |= qp->rq.state == WQ_ERR || qp->sq.state == WQ_ERR;
	}
	TAILQ_FOREACH (rq, &d->wqs, link)
		if (rq->state == WQ_ERR) {
			queue_check_error(d, rq->n_wqe ? rq->cq : NULL, rq->dbrec, rq->taken, rq->number);
			rq_flush(rq);
			any = true;
		}
	return any;
}
