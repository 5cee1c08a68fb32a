// SPDX-License-Identifier: Apache-2.0
/*
 * What the peer's answers say of the work requests of an RC queue pair: these complete in their order, fail, or are
 * sent again (IBTA volume 1, 9.7.5.2, 9.7.6).
 */
#include "requester.h"
#include "send_wqe.h"

#define INFINITE 7 /* IBTA 9.7.6.1: RNR retry counter */

struct roce_sent *requester_sent(const struct roce_qp *q, uint16_t index)
{
	return &q->requester.sent[index & (q->qp->sq.n_bb - 1)];
}

bool requester_is_read(const struct roce_sent *e)
{
	return e->opcode == HW_OPCODE_READ || e->opcode == HW_OPCODE_COMPARE_SWAP || e->opcode == HW_OPCODE_FETCH_ADD;
}

/* From the oldest packet that is not acknowledged, which belongs to the oldest work request, all are sent again. */
static void requester_rewind(struct roce_qp *q)
{
	struct roce_requester *r = &q->requester;

	r->begun |= r->next != q->qp->sq.taken;
	r->next = q->qp->sq.taken;
	r->psn = r->una;
	r->n_reads = 0;
	r->timeout_ns = 0;
}

void requester_complete(struct roce_qp *q)
{
	struct roce_requester *r = &q->requester;
	struct sq *sq = &q->qp->sq;

	while (sq->taken != r->next) {
		const struct roce_sent *e = requester_sent(q, sq->taken);

		if (psn_diff(r->una, psn_add(e->psn, e->n_psns)) < 0)
			break;
		if (requester_is_read(e))
			r->n_reads--;
		if (e->signalled)
			send_wqe_complete(q->qp, sq->taken, e->opcode, e->bytes);
		sq->taken = (uint16_t)(sq->taken + e->n_bb);
	}
}

void requester_fail(struct roce_qp *q, enum hw_syndrome error)
{
	struct sq *sq = &q->qp->sq;

	cq_post_error(sq->cq, q->qp->uidx, q->qp->qpn, HW_CQE_REQ_ERR, sq->taken, error);
	sq->taken = (uint16_t)(sq->taken + requester_sent(q, sq->taken)->n_bb);
	roce_qp_fail(q);
}

void requester_retry(struct roce_qp *q)
{
	if (!q->requester.retries_left) {
		requester_fail(q, HW_SYNDROME_RETRY_EXCEEDED);
		return;
	}
	q->requester.retries_left--;
	requester_rewind(q);
}

/* The peer has all packets before `end`. False if among them is a read or an atomic whose response was lost. */
static bool requester_advance(struct roce_qp *q, uint32_t end)
{
	struct roce_requester *r = &q->requester;
	bool whole = true;

	for (uint16_t i = q->qp->sq.taken; i != r->next; i = (uint16_t)(i + requester_sent(q, i)->n_bb)) {
		const struct roce_sent *e = requester_sent(q, i);

		if (psn_diff(e->psn, end) >= 0)
			break;
		if (requester_is_read(e) && psn_diff(r->una, psn_add(e->psn, e->n_psns)) < 0) {
			end = psn_diff(r->una, e->psn) > 0 ? r->una : e->psn;
			whole = false;
			break;
		}
	}
	if (psn_diff(end, r->una) <= 0)
		return whole;
	r->una = end;
	r->retries_left = q->attributes.retry_cnt;
	r->rnr_retries_left = q->attributes.rnr_retry;
	r->repeated_psn = UINT32_MAX;
	r->timeout_ns = 0; /* runs anew if something is on the way */
	requester_complete(q);
	return whole;
}

/* A response is missing (IBTA 9.7.5.2, implied NAK): one repetition for all packets that show it. */
static void requester_repeat(struct roce_qp *q)
{
	struct roce_requester *r = &q->requester;

	if (r->repeated_psn == r->una)
		return;
	r->repeated_psn = r->una;
	q->roce->device->counters.implied_nak_seq_err++;
	requester_retry(q);
}

/* IBTA 9.7.5.2, RNR NAK: the time that it asks for. After 0, which is the longest, come 10 and 20 µs; then each two
 * steps double it. */
static uint64_t requester_rnr_ns(uint8_t timer)
{
	unsigned int n = timer & 31;

	if (!n)
		return 655360000;
	return (n < 3 ? n : n & 1 ? 3ull << ((n - 3) / 2) : 4ull << ((n - 4) / 2)) * 10000;
}

static void requester_wait(struct roce_qp *q, uint8_t timer)
{
	struct roce_requester *r = &q->requester;

	q->roce->device->counters.rnr_nak_retry_err++;
	if (!r->rnr_retries_left) {
		requester_fail(q, HW_SYNDROME_RNR_EXCEEDED);
		return;
	}
	if (q->attributes.rnr_retry != INFINITE)
		r->rnr_retries_left--;
	requester_rewind(q);
	r->rnr_until_ns = clock_raw_ns() + requester_rnr_ns(timer);
}

static void requester_acknowledged(struct roce_qp *q, const struct roce_packet *p)
{
	if (AETH_KIND(p->syndrome) == AETH_KIND(AETH_ACK)) {
		if (!requester_advance(q, psn_add(p->psn, 1)))
			requester_repeat(q);
		return;
	}
	if (!requester_advance(q, p->psn)) {
		requester_repeat(q);
		return;
	}
	if (AETH_KIND(p->syndrome) == AETH_RNR_NAK) {
		requester_wait(q, p->syndrome);
		return;
	}
	switch (p->syndrome) {
	case AETH_NAK_SEQUENCE:
		q->roce->device->counters.packet_seq_err++;
		requester_retry(q);
		break;
	case AETH_NAK_INVALID:
		requester_fail(q, HW_SYNDROME_REMOTE_INVALID);
		break;
	case AETH_NAK_ACCESS:
		requester_fail(q, HW_SYNDROME_REMOTE_ACCESS);
		break;
	case AETH_NAK_OPERATION:
		requester_fail(q, HW_SYNDROME_REMOTE_OP);
		break;
	default: /* reserved: IBTA 9.7.5.2 has it ignored */
		break;
	}
}

/* IBTA 9.7.5.2: is it the packet of a response that comes next? */
static bool requester_response_fits(const struct roce_qp *q, const struct roce_packet *p, const struct roce_sent *e)
{
	uint32_t n = psn_since(p->psn, e->psn), mtu = q->attributes.mtu_bytes;
	bool last = n + 1 == e->n_psns;

	if (p->opcode == RC_ATOMIC_ACKNOWLEDGE)
		return e->opcode != HW_OPCODE_READ;
	return e->opcode == HW_OPCODE_READ && last == !!(roce_traits(p->opcode) & ROCE_LAST) &&
	       p->bytes == (last ? e->bytes - n * mtu : mtu);
}

static void requester_response(struct roce_qp *q, const struct roce_packet *p)
{
	struct roce_requester *r = &q->requester;
	uint16_t index;
	const struct roce_sent *e;
	struct send_wqe w;
	enum hw_syndrome error;
	uint64_t result = p->atomic_result;

	/* The response acknowledges all requests before it. */
	if (r->una != p->psn && (!requester_advance(q, p->psn) || r->una != p->psn)) {
		requester_repeat(q);
		return;
	}
	index = q->qp->sq.taken;
	e = requester_sent(q, index);
	if (index == r->next || !requester_is_read(e))
		return; /* nothing was asked for */
	if (!requester_response_fits(q, p, e)) {
		requester_fail(q, HW_SYNDROME_BAD_RESPONSE);
		return;
	}
	error = send_wqe_read(q->qp, false, index, &w);
	if (!error && p->opcode == RC_ATOMIC_ACKNOWLEDGE)
		error = send_wqe_copy(q->qp, &w, 0, (uint8_t *)&result, ATOMIC_BYTES, true);
	else if (!error)
		error = send_wqe_copy(q->qp, &w, psn_since(p->psn, e->psn) * q->attributes.mtu_bytes,
		                      (uint8_t *)p->payload, p->bytes, true);
	if (error) {
		requester_fail(q, error);
		return;
	}
	r->una = psn_add(p->psn, 1);
	r->retries_left = q->attributes.retry_cnt;
	r->repeated_psn = UINT32_MAX;
	r->timeout_ns = 0;
	requester_complete(q);
}

void requester_receive(struct roce_qp *q, const struct roce_packet *p)
{
	const struct roce_requester *r = &q->requester;

	/* IBTA 9.7.5.2: an answer to a packet that was not sent, or has its answer, is dropped. */
	if (q->qp->state != QP_RTS || q->qp->sq.state != WQ_RDY || psn_diff(p->psn, r->una) < 0 ||
	    psn_diff(p->psn, r->psn) >= 0)
		return;
	if (p->opcode == RC_ACKNOWLEDGE)
		requester_acknowledged(q, p);
	else
		requester_response(q, p);
}
