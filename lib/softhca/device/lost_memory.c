// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of the program went away while the device worked in it: find the queues and memory keys that use the page, put
 * the queues in the error state and make the keys invalid. A real device has its pages pinned and never meets this.
 */
#include "lost_memory.h"

#include "qp.h"

#define PAGE_BYTES 4096u

static uintptr_t page_of(const void *address)
{
	return (uintptr_t)address & ~(uintptr_t)(PAGE_BYTES - 1);
}

static void claim(struct fault_loss *l)
{
	struct lost_pages *lost = &l->device->lost_pages;

	l->found = true;
	lost->pages[lost->next++ % LOST_PAGES] = page_of(l->address);
}

static bool is_lost(const struct fault_loss *l, const void *start, uint64_t bytes)
{
	uintptr_t page = page_of(l->address);
	uintptr_t first = (uintptr_t)start;

	return bytes && first < page + PAGE_BYTES && first + bytes > page;
}

static void lose_rq(struct fault_loss *l, struct rq *rq)
{
	if (!rq->n_wqe ||
	    (!is_lost(l, rq->dbrec, sizeof(*rq->dbrec)) && !is_lost(l, rq->buf, (uint64_t)rq->n_wqe << rq->wqe_shift)))
		return;
	claim(l);
	rq->n_wqe = 0;
	rq_fail(rq, false);
}

static void lose_sq(struct fault_loss *l, struct qp *qp)
{
	struct sq *sq = &qp->sq;

	if (!sq->n_bb ||
	    (!is_lost(l, sq->dbrec, sizeof(*sq->dbrec)) && !is_lost(l, sq->buf, (uint64_t)sq->n_bb * HW_SEND_WQE_BB)))
		return;
	claim(l);
	sq->n_bb = 0;
	sq_fail(qp, false);
}

static void lose_cq(struct fault_loss *l, struct cq *cq)
{
	if (!cq || (!is_lost(l, cq->dbrec, 2 * sizeof(*cq->dbrec)) &&
	            !is_lost(l, cq->buf, (uint64_t)cq->n_cqe * cq->cqe_bytes)))
		return;
	claim(l);
	cq_deinit(cq); /* also one that had overrun: its arm record is still looked at */
	if (cq->failed)
		return;
	cq->failed = true;
	l->device->events->cq_error(cq);
}

static void lose_keys(struct fault_loss *l)
{
	struct mkey_table *t = &l->device->mkeys;

	for (uint32_t i = 0; i < t->size; i++)
		if (t->keys[i].used && is_lost(l, t->keys[i].start, t->keys[i].length)) {
			claim(l);
			t->keys[i].length = 0;
		}
}

void lost_memory_recover(void *loss)
{
	struct fault_loss *l = loss;
	struct device *d = l->device;
	struct cq *cq, *next;
	struct qp *qp;
	struct rq *rq;

	lose_keys(l);
	for (cq = TAILQ_FIRST(&d->armed_later); cq; cq = next) {
		next = TAILQ_NEXT(cq, pending_link);
		lose_cq(l, cq);
	}
	TAILQ_FOREACH (qp, &d->qps, link) {
		lose_cq(l, qp->rq.cq);
		lose_cq(l, qp->sq.cq);
		lose_rq(l, &qp->rq);
		lose_sq(l, qp);
	}
	TAILQ_FOREACH (rq, &d->wqs, link) {
		lose_cq(l, rq->cq);
		lose_rq(l, rq);
	}
	/* Lost already, and touched again by who was at it: an outer guard's work. */
	for (unsigned int i = 0; i < LOST_PAGES; i++)
		l->found |= page_of(l->address) && d->lost_pages.pages[i] == page_of(l->address);
}
