// SPDX-License-Identifier: Apache-2.0
/*
 * Completion queues: the device writes entries into the program's memory, and decides when an armed queue gets an
 * event.
 */
#include "cq.h"

#include "clock.h"
#include "status.h"

#include <endian.h>
#include <string.h>

#define STORE_BUFFER_NS 20000u /* a store becomes visible within less than one microsecond */

void cq_init(struct cq *cq)
{
	cq->producer = cq->consumer = cq->moved = 0;
	cq->traced_arm = CQ_NEVER_ARMED;
	cq->fired_sn = -1;
	cq->pending = cq->recheck = cq->solicited = cq->failed = false;
	cq->n_held = 0;
}

void cq_deinit(struct cq *cq)
{
	if (cq->pending || cq->recheck)
		TAILQ_REMOVE(&cq->device->armed_later, cq, pending_link);
	cq->pending = cq->recheck = false;
}

static uint32_t cq_consumer_index(struct cq *cq)
{
	uint32_t index = be32toh(__atomic_load_n(&cq->dbrec[HW_DBR_CQ_CONSUMER], __ATOMIC_ACQUIRE));

	if (((index - cq->moved) & HW_CQ_INDEX_MASK) <= HW_CQ_INDEX_MASK / 2)
		cq->moved = index & HW_CQ_INDEX_MASK;
	return cq->moved;
}

/* The program writes its index with every poll, so each reading moves a cache line between cores: read it only when
 * the queue seems full. */
static bool cq_has_room(struct cq *cq)
{
	if (((cq->producer - cq->consumer) & HW_CQ_INDEX_MASK) < cq->n_cqe)
		return true;
	cq->consumer = cq_consumer_index(cq);
	return ((cq->producer - cq->consumer) & HW_CQ_INDEX_MASK) < cq->n_cqe;
}

void *cq_next(struct cq *cq)
{
	if (cq->failed)
		return NULL;
	if (!cq_has_room(cq) && !cq->ignore_overrun) {
		/* verbs-rules.md "Bring-up": an overrun is a fatal async event. */
		cq->failed = true;
		cq->device->events->cq_error(cq);
		return NULL;
	}
	return cq_entry(cq, cq->producer);
}

/* PRM, RESIZE_CQ: the entry takes a place as any other. libmlx5 copies what it has not read to places that are one
 * further in the new buffer, and writes its index, which then is one further, too, only when it polls. */
bool cq_move(struct cq *cq, uint8_t *buf, uint32_t cqe_bytes, uint32_t n_cqe)
{
	uint32_t consumer = cq_consumer_index(cq), n_unread = (cq->producer - consumer) & HW_CQ_INDEX_MASK;
	struct hw_cqe *cqe;

	if (cq->failed || n_unread >= cq->n_cqe || n_unread >= n_cqe)
		return false;
	cqe = cq_next(cq);
	memset(cqe, 0, offsetof(struct hw_cqe, op_own));
	cq_post(cq, cqe, HW_CQE_RESIZE_CQ);
	cq->buf = buf;
	cq->cqe_bytes = cqe_bytes;
	cq->n_cqe = n_cqe;
	cq->moved = (consumer + 1) & HW_CQ_INDEX_MASK;
	return true;
}

/* Empties an entry for an error. The fault "poison" fills the fields that a program must not read then. */
static void cq_clear_error(const struct cq *cq, struct hw_cqe_err *cqe)
{
	memset(cqe, 0, offsetof(struct hw_cqe_err, op_own));
	if (!cq->device->injected.poison)
		return;
	memset(cqe->rsvd0, CQ_POISON, sizeof(cqe->rsvd0));
	memset(cqe->rsvd36, CQ_POISON, sizeof(cqe->rsvd36));
}

void cq_post_error(struct cq *cq, uint32_t uidx, uint32_t number, enum hw_cqe_opcode opcode, uint16_t wqe_counter,
                   enum hw_syndrome syndrome)
{
	struct hw_cqe_err *cqe = cq_next(cq);

	if (!cqe)
		return;
	cq_clear_error(cq, cqe);
	cqe->uidx_be = htobe32(uidx);
	cqe->syndrome = (uint8_t)syndrome;
	cqe->vendor_syndrome = status_vendor(syndrome, opcode == HW_CQE_RESP_ERR);
	cq->device->n_error_completions += syndrome != HW_SYNDROME_WR_FLUSH;
	cqe->wqe_opcode_qpn_be = htobe32(number);
	cqe->wqe_counter_be = htobe16(wqe_counter);
	cq_post(cq, (struct hw_cqe *)cqe, opcode);
}

/* Is the queue armed, and the arming not answered yet? The sequence number moves on when the program takes an event. */
static bool cq_is_armed(struct cq *cq)
{
	uint32_t arm = be32toh(__atomic_load_n(&cq->dbrec[HW_DBR_CQ_ARM], __ATOMIC_ACQUIRE));

	if (arm == CQ_NEVER_ARMED || (int)(arm >> 28 & 3) == cq->fired_sn)
		return false;
	return !(arm & HW_CQ_ARM_SOLICITED) || cq->solicited;
}

static void cq_fire(struct cq *cq)
{
	cq->fired_sn = be32toh(cq->dbrec[HW_DBR_CQ_ARM]) >> 28 & 3;
	cq->solicited = false;
	cq->n_moderated = 0;
	cq->moderated_ns = 0;
	cq->device->events->cq_completion(cq);
}

void cq_moderate(struct cq *cq, uint16_t count, uint16_t period_us)
{
	cq->moderation_count = count;
	cq->moderation_us = period_us;
}

/* PRM, CQ context: cq_max_count and cq_period. If either is 0, there is no moderation. */
static bool cq_is_due(struct cq *cq)
{
	uint64_t now_ns;

	if (!cq->moderation_count || !cq->moderation_us || cq->n_moderated >= cq->moderation_count)
		return true;
	now_ns = clock_raw_ns();
	if (!cq->moderated_ns)
		cq->moderated_ns = now_ns;
	return now_ns >= cq->moderated_ns + cq->moderation_us * 1000ull;
}

/*
 * After a burst. The program arms the queue, polls once more and sleeps; the device posts, then looks at the arm
 * record behind a full fence, so one of the two sees the other. But libmlx5 puts only a store fence between arming
 * and polling, so its arming may still sit in the store buffer when the device looks. Therefore the device looks
 * again until STORE_BUFFER_NS after the last completion.
 */
void cq_events(struct device *d)
{
	struct cq *cq, *next;
	uint64_t now_ns;

	if (TAILQ_EMPTY(&d->armed_later))
		return;
	TAILQ_FOREACH (cq, &d->armed_later, pending_link)
		if (cq->n_held)
			cq_release(cq);
	now_ns = clock_raw_ns();
	atomic_thread_fence(memory_order_seq_cst);
	for (cq = TAILQ_FIRST(&d->armed_later); cq; cq = next) {
		bool again;

		next = TAILQ_NEXT(cq, pending_link);
		if (cq->pending)
			cq->recheck_ns = now_ns + STORE_BUFFER_NS;
		again = now_ns < cq->recheck_ns;
		if (!cq_is_armed(cq)) {
			cq->n_moderated = 0;
			cq->moderated_ns = 0;
		} else if (cq_is_due(cq)) {
			cq_fire(cq);
			again = false;
		} else {
			again = true;
		}
		/* The setting SOFTHCA_ARM_FIRES_FOR_PENDING: arming gives an event for completions that were there
		 * before, so the device keeps looking. */
		if (d->config.arm_fires_for_pending && ((cq->producer - cq_consumer_index(cq)) & HW_CQ_INDEX_MASK))
			again = true;
		cq->pending = false;
		cq->recheck = again;
		if (!again) {
			cq->solicited = false;
			TAILQ_REMOVE(&d->armed_later, cq, pending_link);
		}
	}
}
