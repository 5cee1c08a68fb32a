// SPDX-License-Identifier: Apache-2.0
/* The states of RC and UD queue pairs, and of their queues. */
#include "receive.h"
#include "roce_qp.h"

static void requester_reset(struct roce_qp *q)
{
	struct roce_requester *r = &q->requester;

	*r = (struct roce_requester){
		.sent = r->sent,
		.next = q->qp->sq.taken,
		.psn = q->attributes.sq_psn,
		.una = q->attributes.sq_psn,
		.retries_left = q->attributes.retry_cnt,
		.rnr_retries_left = q->attributes.rnr_retry,
		.repeated_psn = UINT32_MAX,
	};
}

static void responder_reset(struct roce_qp *q)
{
	q->responder = (struct roce_responder){.psn = q->attributes.rq_psn, .syndrome = AETH_ACK};
}

/* The send queue is "ready" from RTR on, since the responder has its turn with it. */
void roce_qp_set_state(struct roce_qp *q, enum qp_state state)
{
	struct qp *qp = q->qp;
	enum qp_state from = qp->state;

	qp->state = state;
	switch (state) {
	case QP_RESET:
		rq_set_state(&qp->rq, WQ_RST);
		sq_set_state(qp, WQ_RST);
		requester_reset(q);
		responder_reset(q);
		break;
	case QP_INIT:
		/* IBTA 10.3.1: receives may be posted, but are not processed. */
		if (from == QP_RESET)
			rq_set_state(&qp->rq, WQ_RST);
		break;
	case QP_RTR:
		if (from == QP_INIT)
			responder_reset(q);
		rq_set_state(&qp->rq, WQ_RDY);
		sq_set_state(qp, WQ_RDY);
		break;
	case QP_RTS:
		if (from == QP_RTR)
			requester_reset(q);
		sq_set_state(qp, WQ_RDY);
		break;
	case QP_SQE:
		sq_set_state(qp, WQ_ERR);
		break;
	default:
		if (q->responder.has_wqe) /* of a message that is not complete */
			receive_fail(q, &q->responder.wqe, HW_SYNDROME_WR_FLUSH);
		q->responder.has_wqe = false;
		rq_set_state(&qp->rq, WQ_ERR);
		sq_set_state(qp, WQ_ERR);
		/* IBTA 11.6.3: no more receives are taken from the shared queue. */
		if (q->srq && from != QP_ERR && from != QP_RESET && from != QP_INIT)
			qp->device->events->qp_event(qp, EVENT_QP_LAST_WQE_REACHED);
	}
}

void roce_qp_fail(struct roce_qp *q)
{
	if (q->qp->state != QP_ERR)
		roce_qp_set_state(q, QP_ERR);
}

enum qp_state roce_qp_query_state(struct roce_qp *q)
{
	const struct qp *qp = q->qp;

	/* IBTA 10.3.1: an error of the send queue of a datagram queue pair leaves its receive queue as it is. */
	if (qp->rq.state != WQ_ERR && qp->sq.state == WQ_ERR && q->ud && qp->state == QP_RTS)
		q->qp->state = QP_SQE;
	else if (qp->state != QP_SQE && (qp->rq.state == WQ_ERR || qp->sq.state == WQ_ERR))
		roce_qp_fail(q);
	return qp->state;
}
