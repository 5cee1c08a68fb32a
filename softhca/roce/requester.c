// SPDX-License-Identifier: Apache-2.0
/* The requester of an RC queue pair: makes packets of work requests (IBTA volume 1, 9.7.3). */
#include "requester.h"
#include "send_wqe.h"

#define WINDOW_PACKETS 256 /* on the way, unacknowledged; a device has end-to-end credits instead */
#define ACK_EVERY      32  /* packets of a message that the peer acknowledges one of */

/* IBTA 9.7.6.1: 4.096 µs times 2^timeout. A device that is a thread needs more than the shortest of them. */
#define TIMEOUT_UNIT_NS 4096ull
#define MIN_TIMEOUT     13

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
