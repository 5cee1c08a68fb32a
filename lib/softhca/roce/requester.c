// SPDX-License-Identifier: Apache-2.0
/*
 * The requester of an RC queue pair: makes packets of work requests, keeps track of what the peer has acknowledged,
 * sends again what was lost, and completes work requests in their order (IBTA volume 1, 9.7.3, 9.7.5.2, 9.7.6).
 */
#include "roce_qp.h"
#include "send_wqe.h"

#include <string.h>

#define WINDOW_PACKETS 256 /* on the way, unacknowledged; a device has end-to-end credits instead */
#define ACK_EVERY      32  /* packets of a message that the peer acknowledges one of */
#define ATOMIC_BYTES   8u
#define INFINITE       7 /* IBTA 9.7.6.1: RNR retry counter */

/* IBTA 9.7.6.1: 4.096 µs times 2^timeout. A device that is a thread needs more than the shortest of them. */
#define TIMEOUT_UNIT_NS 4096ull
#define MIN_TIMEOUT     13

/* What was begun at this block. */
static struct roce_sent *requester_sent(const struct roce_qp *q, uint16_t index)
{
	return &q->requester.sent[index & (q->qp->sq.n_bb - 1)];
}

static bool requester_is_read(const struct roce_sent *e)
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

/* Completes what has been acknowledged. */
static void requester_complete(struct roce_qp *q)
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

/* The oldest work request fails, and with it the queue pair. */
static void requester_fail(struct roce_qp *q, enum hw_syndrome error)
{
	struct sq *sq = &q->qp->sq;

	cq_post_error(sq->cq, q->qp->uidx, q->qp->qpn, HW_CQE_REQ_ERR, sq->taken, error);
	sq->taken = (uint16_t)(sq->taken + requester_sent(q, sq->taken)->n_bb);
	roce_qp_fail(q);
}

/* IBTA 9.7.6.1: repetitions are counted until something has been acknowledged. */
static void requester_retry(struct roce_qp *q)
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

	/* What was requested before it has arrived, too. */
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

	/* IBTA 9.7.5.2: an answer to what was not sent, or has been answered, is dropped. */
	if (q->qp->state != QP_RTS || q->qp->sq.state != WQ_RDY || psn_diff(p->psn, r->una) < 0 ||
	    psn_diff(p->psn, r->psn) >= 0)
		return;
	if (p->opcode == RC_ACKNOWLEDGE)
		requester_acknowledged(q, p);
	else
		requester_response(q, p);
}

/* Begins the work request at `next`. False if it has to wait or has failed. */
static bool requester_begin(struct roce_qp *q, struct send_wqe *w)
{
	struct roce_requester *r = &q->requester;
	struct roce_sent *e = requester_sent(q, r->next);
	enum hw_syndrome error = send_wqe_read(q->qp, false, r->next, w);
	bool read;

	*e = (struct roce_sent){.psn = r->psn, .n_bb = w->n_bb, .opcode = w->opcode, .signalled = w->signalled};
	read = requester_is_read(e);
	if (!error && read && !q->attributes.max_rd_atomic)
		error = HW_SYNDROME_LOCAL_QP_OP;
	if (!error && read && w->opcode != HW_OPCODE_READ && w->bytes != ATOMIC_BYTES)
		error = HW_SYNDROME_LOCAL_LENGTH;
	if (error) { /* it fails when its turn comes: those before it may still succeed */
		if (r->next == q->qp->sq.taken)
			requester_fail(q, error);
		return false;
	}
	if ((w->fenced && r->n_reads) || (read && r->n_reads >= q->attributes.max_rd_atomic))
		return false;
	e->bytes = w->bytes;
	e->n_psns = w->opcode == HW_OPCODE_NOP ? 0 : roce_n_packets(q, w->bytes); /* an atomic's 8 bytes are one */
	r->begun = true;
	return true;
}

static uint8_t requester_opcode(const struct send_wqe *w, bool first, bool last)
{
	static const uint8_t send[2][2] = {{RC_SEND_MIDDLE, RC_SEND_LAST}, {RC_SEND_FIRST, RC_SEND_ONLY}};
	static const uint8_t write[2][2] = {{RC_WRITE_MIDDLE, RC_WRITE_LAST}, {RC_WRITE_FIRST, RC_WRITE_ONLY}};

	switch (w->opcode) {
	case HW_OPCODE_READ:
		return RC_READ_REQUEST;
	case HW_OPCODE_COMPARE_SWAP:
		return RC_COMPARE_SWAP;
	case HW_OPCODE_FETCH_ADD:
		return RC_FETCH_ADD;
	case HW_OPCODE_WRITE:
		return write[first][last];
	case HW_OPCODE_WRITE_IMM: /* the opcodes with immediate data follow those without */
		return (uint8_t)(write[first][last] + last);
	case HW_OPCODE_SEND_IMM:
		return (uint8_t)(send[first][last] + last);
	default:
		return send[first][last];
	}
}

/* Fills in the headers of packet `n` of a work request. */
static void requester_fill(const struct roce_qp *q, const struct roce_sent *e, const struct send_wqe *w, uint32_t n,
                           struct roce_packet *p)
{
	uint32_t mtu = q->attributes.mtu_bytes, at = n * mtu;
	bool read = requester_is_read(e), last = read || n + 1 == e->n_psns;

	*p = (struct roce_packet){
		.opcode = requester_opcode(w, !n, last),
		.solicited = w->solicited && last,
		.ack_request = last || n % ACK_EVERY == ACK_EVERY - 1,
		.dest_qpn = q->attributes.dest_qpn,
		.psn = q->requester.psn,
		.va = w->va + (w->opcode == HW_OPCODE_READ ? at : 0),
		.rkey = w->rkey,
		.dma_bytes = w->bytes - (w->opcode == HW_OPCODE_READ ? at : 0),
		.swap_add = w->swap_add,
		.compare = w->compare,
		.imm_be = w->imm_be,
		.bytes = read                  ? 0
	                 : w->bytes - at < mtu ? w->bytes - at
	                                       : mtu,
	};
}

/* Sends the next packet of the work request. False if the wire is busy or the request has failed. */
static bool requester_send(struct roce_qp *q, const struct send_wqe *w)
{
	struct roce_requester *r = &q->requester;
	struct roce_sent *e = requester_sent(q, r->next);
	uint32_t n = psn_since(r->psn, e->psn);
	enum hw_syndrome error;
	struct roce_packet p;
	uint8_t *to;

	requester_fill(q, e, w, n, &p);
	to = roce_begin(q->roce, &p, &q->attributes.path);
	if (!to)
		return false;
	error = p.bytes ? send_wqe_copy(q->qp, w, n * q->attributes.mtu_bytes, to, p.bytes, false) : 0;
	if (error) {
		if (r->next == q->qp->sq.taken)
			requester_fail(q, error);
		return false;
	}
	r->n_reads += requester_is_read(e);
	r->psn = requester_is_read(e) ? psn_add(e->psn, e->n_psns) : psn_add(r->psn, 1);
	if (r->psn == psn_add(e->psn, e->n_psns)) {
		r->next = (uint16_t)(r->next + e->n_bb);
		r->begun = false;
	}
	roce_end(q->roce);
	return true;
}

/* IBTA 9.7.6.1: the timer runs while something is on the way. False if it has run out. */
static bool requester_is_in_time(struct roce_qp *q, uint64_t now_ns)
{
	struct roce_requester *r = &q->requester;
	unsigned int timeout = q->attributes.timeout > MIN_TIMEOUT ? q->attributes.timeout : MIN_TIMEOUT;

	if (r->una == r->psn || !q->attributes.timeout || r->rnr_until_ns)
		return true;
	if (!r->timeout_ns)
		r->timeout_ns = now_ns + (TIMEOUT_UNIT_NS << timeout);
	return now_ns < r->timeout_ns;
}

static bool requester_has_work(const struct roce_qp *q)
{
	const struct roce_requester *r = &q->requester;

	return q->qp->sq.state == WQ_RDY && q->qp->sq.n_bb && psn_diff(r->psn, r->una) < WINDOW_PACKETS &&
	       (r->begun || wq_posted(q->qp->sq.dbrec) != r->next);
}

int requester_work(struct roce_qp *q, uint64_t now_ns)
{
	struct roce_requester *r = &q->requester;
	struct send_wqe w;
	uint16_t loaded = 0;
	bool is_loaded = false;
	int n = 0;

	if (r->rnr_until_ns > now_ns)
		return 0;
	r->rnr_until_ns = 0;
	if (!requester_is_in_time(q, now_ns)) {
		q->roce->device->counters.local_ack_timeout_err++;
		requester_retry(q);
	}
	while (n < WIRE_SEND_MAX && requester_has_work(q)) {
		if (!r->begun) {
			if (!requester_begin(q, &w))
				break;
		} else if (!is_loaded || loaded != r->next) {
			send_wqe_read(q->qp, false, r->next, &w);
		}
		loaded = r->next;
		is_loaded = true;
		if (!requester_sent(q, r->next)->n_psns) { /* NOP */
			r->next = (uint16_t)(r->next + w.n_bb);
			r->begun = false;
			requester_complete(q);
		} else if (!requester_send(q, &w)) {
			break;
		}
		n++;
	}
	return n;
}
