// SPDX-License-Identifier: Apache-2.0
/* Takes receive work requests for RC and UD, from a shared queue or from a queue pair's own. */
#include "srq.h"

#include "../wire/dma.h"

#include <endian.h>

static void recv_wqe_copy(struct recv_wqe *wqe, const void *segs, uint32_t n_segs)
{
	wqe->n_segs = n_segs < RECV_MAX_SEGS ? n_segs : RECV_MAX_SEGS;
	dma_copy(wqe->segs, segs, wqe->n_segs * sizeof(wqe->segs[0]));
}

bool rq_take(struct rq *rq, struct recv_wqe *wqe)
{
	if (!rq_room(rq))
		return false;
	wqe->index = rq->taken++;
	recv_wqe_copy(wqe, rq->buf + ((size_t)(wqe->index & (rq->n_wqe - 1)) << rq->wqe_shift),
	              1u << rq->wqe_shift >> 4);
	return true;
}

/* libmlx5 (set_next_tail): an entry names its successor before it is posted. */
bool srq_take(struct srq *srq, struct recv_wqe *wqe)
{
	const struct hw_srq_next_seg *next;
	uint16_t left = srq->n_wqe ? (uint16_t)(wq_posted(srq->dbrec) - srq->taken) : 0;

	if (!left)
		return false;
	next = (const void *)(srq->buf + ((size_t)(srq->head & (srq->n_wqe - 1)) << srq->wqe_shift));
	wqe->index = srq->head & (uint16_t)(srq->n_wqe - 1);
	recv_wqe_copy(wqe, next + 1, (1u << srq->wqe_shift >> 4) - 1);
	srq->head = be16toh(next->next_be);
	srq->taken++;
	/* IBTA 10.2.9: the limit is disarmed when it has given its event. */
	if (left - 1u < srq->limit) {
		srq->limit = 0;
		srq->device->events->srq_event(srq, EVENT_SRQ_LIMIT_REACHED);
	}
	return true;
}
