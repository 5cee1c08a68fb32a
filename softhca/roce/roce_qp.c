// SPDX-License-Identifier: Apache-2.0
/* Makes and frees RC and UD queue pairs, and gives them the turn in which they send. */
#include "roce_qp.h"

#include "../device/clock.h"

#include <errno.h>
#include <stdlib.h>

/* The device thread's turn. */
static int roce_qp_work(struct qp *qp, struct sq_batch *b)
{
	struct roce_qp *q = qp->roce;
	int n;

	(void)b;
	if (q->ud)
		n = qp->state == QP_RTS ? datagram_work(q) : 0;
	else
		n = responder_work(q) + (qp->state == QP_RTS ? requester_work(q, clock_raw_ns()) : 0);
	roce_flush(q->roce);
	return n;
}

int roce_qp_new(struct qp *qp, struct srq *srq, bool ud)
{
	struct roce_qp *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->requester.sent = calloc(qp->sq.n_bb + 1u, sizeof(*q->requester.sent));
	if (!q->requester.sent) {
		free(q);
		return -ENOMEM;
	}
	LIST_INIT(&q->groups);
	q->qp = qp;
	q->roce = qp->device->roce;
	q->srq = srq;
	q->ud = ud;
	qp->roce = q;
	qp->work = roce_qp_work;
	if (roce_add(q->roce, q))
		return 0;
	free(q->requester.sent);
	free(q);
	qp->roce = NULL;
	return -ENOMEM;
}

void roce_qp_free(struct roce_qp *q)
{
	struct roce_group *g;

	roce_remove(q->roce, q);
	while ((g = LIST_FIRST(&q->groups))) {
		LIST_REMOVE(g, link);
		free(g);
	}
	free(q->requester.sent);
	q->qp->roce = NULL;
	free(q);
}
