// SPDX-License-Identifier: Apache-2.0
/* Gives warnings, and finds those pitfalls that show in the queues. */
#include "warning.h"

#include "../wire/clock_now.h"
#include "../wire/complain.h"
#include "../wire/lines.h"
#include "qp.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

void warning_give(struct device *d, enum warning w, uint32_t number)
{
	const struct warning_row *row = &warning_rows[w];
	struct warning_given *g = &d->warnings[w];
	char queue[24] = "";

	if (!d->config.warnings || g->count++)
		return;
	g->first_ns = clock_now_ns(CLOCK_REALTIME);
	g->number = number;
	if (number)
		snprintf(queue, sizeof(queue), " (queue 0x%x)", number);
	complain("%s: warning: %s%s: %s; %s (%s)", d->name, row->name, queue, row->what, row->remedy, row->source);
}

void warning_begin(struct device *d)
{
	struct qp *qp;

	if (d->config.warnings)
		return;
	d->config.warnings = true;
	TAILQ_FOREACH (qp, &d->qps, link) {
		qp->sq.watched = qp->sq.taken;
		qp->sq.n_unsignalled = 0;
	}
}

/* The work requests that the device has taken since the last look are still in the queue. */
static void warning_look_for_signals(struct qp *qp)
{
	struct sq *sq = &qp->sq;

	if (!sq->n_bb || (uint16_t)(sq->taken - sq->watched) > sq->n_bb)
		sq->watched = sq->taken;
	while (sq->watched != sq->taken) {
		struct hw_ctrl_seg ctrl;

		memcpy(&ctrl, sq_at(sq, sq->watched, 0), sizeof(ctrl));
		sq->watched = (uint16_t)(sq->watched + sq_blocks(&ctrl, (uint16_t)(sq->taken - sq->watched)));
		sq->n_unsignalled = ctrl.fm_ce_se & HW_CTRL_CQ_UPDATE ? 0 : sq->n_unsignalled + 1;
		if (qp->max_send_wr && sq->n_unsignalled == qp->max_send_wr)
			warning_give(qp->device, WARNING_UNSIGNALLED, qp->qpn);
	}
}

/* The work requests that may complete there at a time. */
static uint64_t warning_demand(const struct device *d, const struct cq *cq)
{
	const struct qp *qp;
	const struct rq *rq;
	uint64_t n = 0;

	TAILQ_FOREACH (qp, &d->qps, link) {
		if (qp->rq.n_wqe && qp->rq.cq == cq)
			n += qp->rq.n_wqe;
		if (qp->sq.n_bb && qp->sq.cq == cq)
			n += qp->max_send_wr;
	}
	TAILQ_FOREACH (rq, &d->wqs, link)
		n += rq->cq == cq ? (uint64_t)rq->n_wqe << rq->log_strides : 0;
	return n;
}

static void warning_look_at_cq(struct device *d, const struct cq *cq)
{
	uint32_t consumer = be32toh(__atomic_load_n(&cq->dbrec[HW_DBR_CQ_CONSUMER], __ATOMIC_ACQUIRE));
	uint32_t unread = (cq->producer - consumer) & HW_CQ_INDEX_MASK;

	if (unread * 4ull >= cq->n_cqe * 3ull && warning_demand(d, cq) > cq->n_cqe && !cq->ignore_overrun)
		warning_give(d, WARNING_SLOW_POLL, cq->cqn);
}

/* rdma-core pull request 1381: libmlx5's ibv_post_wq_recv() writes the data segment where the other one is, and nothing
 * behind it. */
static void warning_look_at_strides(struct rq *rq)
{
	const struct hw_data_seg *wqe =
		(const void *)(rq->buf + ((size_t)(rq->taken & (rq->n_wqe - 1)) << rq->wqe_shift));

	if (rq->log_strides && rq->state == WQ_RDY && wq_posted(rq->dbrec) != rq->taken && wqe[0].lkey_be &&
	    !wqe[1].lkey_be)
		warning_give(rq->device, WARNING_STRIDING_POST, rq->number);
}

void warning_look(struct device *d)
{
	struct qp *qp;
	struct rq *rq;

	TAILQ_FOREACH (qp, &d->qps, link) {
		warning_look_for_signals(qp);
		if (qp->sq.n_bb)
			warning_look_at_cq(d, qp->sq.cq);
		if (qp->rq.n_wqe)
			warning_look_at_cq(d, qp->rq.cq);
	}
	TAILQ_FOREACH (rq, &d->wqs, link)
		if (rq->n_wqe) {
			warning_look_at_cq(d, rq->cq);
			warning_look_at_strides(rq);
		}
}

void warning_report(const struct device *d, struct lines *lines)
{
	for (unsigned int i = 0; i < N_WARNINGS; i++) {
		if (!d->warnings[i].count)
			continue;
		lines_begin(lines, "warning");
		lines_text(lines, "device", d->name);
		lines_text(lines, "name", warning_rows[i].name);
		if (d->warnings[i].number)
			lines_hex(lines, "queue", d->warnings[i].number);
		lines_number(lines, "times", d->warnings[i].count);
		lines_time(lines, "first", d->warnings[i].first_ns);
		lines_text(lines, "problem", warning_rows[i].what);
		lines_text(lines, "remedy", warning_rows[i].remedy);
		lines_text(lines, "source", warning_rows[i].source);
		lines_end(lines);
	}
}
