// SPDX-License-Identifier: Apache-2.0
/*
 * Recovery from a page fault of the device: the program's memory went away while the device worked in it. Finds the
 * queues and memory keys that use the page, puts the queues in the error state and makes the keys invalid. A real
 * device has its pages pinned and never meets this.
 */
#include "lost_memory.h"

#include "qp.h"
#include "srq.h"

#define PAGE_BYTES 4096u

static uintptr_t lost_memory_page(const void *address)
{
	return (uintptr_t)address & ~(uintptr_t)(PAGE_BYTES - 1);
}

static void lost_memory_claim(struct fault_loss *l)
{
	struct lost_pages *lost = &l->device->lost_pages;

	l->found = true;
	lost->pages[lost->next++ % LOST_PAGES] = lost_memory_page(l->address);
}

static bool lost_memory_is_in(const struct fault_loss *l, const void *start, uint64_t bytes)
{
	uintptr_t page = lost_memory_page(l->address);
	uintptr_t first = (uintptr_t)start;

	return bytes && first < page + PAGE_BYTES && first + bytes > page;
}

static void lost_memory_fail_rq(struct fault_loss *l, struct rq *rq)
{
	if (!rq->n_wqe || (!lost_memory_is_in(l, rq->dbrec, sizeof(*rq->dbrec)) &&
	                   !lost_memory_is_in(l, rq->buf, (uint64_t)rq->n_wqe << rq->wqe_shift)))
		return;
	lost_memory_claim(l);
	rq->n_wqe = 0;
	rq_fail(rq, false);
}

static void lost_memory_fail_sq(struct fault_loss *l, struct qp *qp)
{
	struct sq *sq = &qp->sq;

	if (!sq->n_bb || (!lost_memory_is_in(l, sq->dbrec, sizeof(*sq->dbrec)) &&
	                  !lost_memory_is_in(l, sq->buf, (uint64_t)sq->n_bb * HW_SEND_WQE_BB)))
		return;
	lost_memory_claim(l);
	sq->n_bb = 0;
	sq_fail(qp, false);
}

static void lost_memory_fail_srq(struct fault_loss *l, struct srq *srq)
{
	if (!srq->n_wqe || (!lost_memory_is_in(l, srq->dbrec, sizeof(*srq->dbrec)) &&
	                    !lost_memory_is_in(l, srq->buf, (uint64_t)srq->n_wqe << srq->wqe_shift)))
		return;
	lost_memory_claim(l);
	srq->n_wqe = 0;
	l->device->events->srq_event(srq, EVENT_SRQ_ERR);
}

static void lost_memory_fail_cq(struct fault_loss *l, struct cq *cq)
{
	if (!cq || (!lost_memory_is_in(l, cq->dbrec, 2 * sizeof(*cq->dbrec)) &&
	            !lost_memory_is_in(l, cq->buf, (uint64_t)cq->n_cqe * cq->cqe_bytes)))
		return;
	lost_memory_claim(l);
	cq_deinit(cq);  /* even if it has overrun: the device would still look at its arm record */
	cq->buf = NULL; /* a trace would look at it every turn */
	cq->n_held = 0;
	if (cq->failed)
		return;
	cq->failed = true;
	l->device->events->cq_error(cq);
}

void lost_memory_recover(void *loss)
{
	struct fault_loss *l = loss;
	struct device *d = l->device;
	struct cq *cq, *next;
	struct qp *qp;
	struct rq *rq;
	struct srq *srq;
	struct mkey_table *t = &l->device->mkeys;

	for (uint32_t i = 0; i < t->size; i++)
		if (t->keys[i].used && lost_memory_is_in(l, t->keys[i].start, t->keys[i].length)) {
			lost_memory_claim(l);
			t->keys[i].length = 0;
		}
	for (cq = TAILQ_FIRST(&d->armed_later); cq; cq = next) {
		next = TAILQ_NEXT(cq, pending_link);
		lost_memory_fail_cq(l, cq);
	}
	TAILQ_FOREACH (qp, &d->qps, link) {
		lost_memory_fail_cq(l, qp->rq.cq);
		lost_memory_fail_cq(l, qp->sq.cq);
		lost_memory_fail_rq(l, &qp->rq);
		lost_memory_fail_sq(l, qp);
	}
	TAILQ_FOREACH (srq, &d->srqs, link)
		lost_memory_fail_srq(l, srq);
	TAILQ_FOREACH (rq, &d->wqs, link) {
		lost_memory_fail_cq(l, rq->cq);
		lost_memory_fail_rq(l, rq);
	}
	/* Work under an outer guard may touch a page again that was lost before; that guard ends it. */
	for (unsigned int i = 0; i < LOST_PAGES; i++)
		l->found |= lost_memory_page(l->address) && d->lost_pages.pages[i] == lost_memory_page(l->address);
}
