// SPDX-License-Identifier: Apache-2.0
/*
 * The responder of an RC queue pair: checks requests and carries them out, each once and in order, and sends
 * acknowledgements and responses (IBTA volume 1, 9.7.4 and 9.7.5).
 */
#include "receive.h"
#include "roce_qp.h"

#include "../wire/dma.h"

#define ATOMIC_BYTES 8u

static void responder_nak(struct roce_qp *q, enum roce_syndrome syndrome)
{
	q->responder.ack_due = true;
	q->responder.syndrome = (uint8_t)syndrome;
}

/* Refuse a request: the responder sends the NAK and puts the queue pair into error (IBTA 9.9.3, class C). */
static bool responder_refuse(struct roce_qp *q, enum roce_syndrome syndrome, enum device_event event)
{
	responder_nak(q, syndrome);
	q->responder.fatal = event;
	return false;
}

/* The receive work request itself is at fault (class A and B): it completes in error. */
static bool responder_fail_receive(struct roce_qp *q, enum hw_syndrome error)
{
	receive_fail(q, &q->responder.wqe, error);
	q->responder.has_wqe = false;
	return responder_refuse(q, error == HW_SYNDROME_LOCAL_LENGTH ? AETH_NAK_INVALID : AETH_NAK_OPERATION,
	                        EVENT_QP_FATAL);
}

static bool responder_may(const struct roce_qp *q, enum mkey_remote access)
{
	return q->attributes.access & access;
}

/* IBTA 9.7.3: an access of no bytes needs no key. */
static uint8_t *responder_memory(const struct roce_qp *q, uint32_t rkey, uint64_t va, uint32_t bytes,
                                 enum mkey_remote access)
{
	static uint8_t nothing[1];

	return bytes ? mkey_translate_remote(&q->roce->device->mkeys, q->qp->pd, rkey, va, bytes, access) : nothing;
}

/* IBTA 9.7.4.1: the order of the packets of a message, and their lengths. */
static bool responder_in_order(const struct roce_qp *q, const struct roce_packet *p, uint32_t traits)
{
	const struct roce_responder *s = &q->responder;
	uint32_t mtu = q->attributes.mtu_bytes;

	if (traits & ROCE_FIRST ? s->traits : s->traits != (traits & (ROCE_SEND | ROCE_WRITE)))
		return false;
	if (!(traits & ROCE_PAYLOAD))
		return true;
	if (!(traits & ROCE_LAST))
		return p->bytes == mtu;
	return p->bytes <= mtu && (p->bytes || (traits & ROCE_FIRST));
}

/* Takes a receive work request if the message has none yet. False: the requester is asked to wait. */
static bool responder_take_wqe(struct roce_qp *q)
{
	if (q->responder.has_wqe)
		return true;
	q->responder.has_wqe = receive_take(q, &q->responder.wqe);
	if (!q->responder.has_wqe) {
		q->roce->device->counters.out_of_buffer++;
		warning_give(q->roce->device, WARNING_NOT_READY, q->qp->qpn);
		responder_nak(q, (enum roce_syndrome)(AETH_RNR_NAK | q->attributes.min_rnr_timer));
		q->responder.gap_reported = true; /* what follows is sent again, too */
	}
	return q->responder.has_wqe;
}

static bool responder_send(struct roce_qp *q, const struct roce_packet *p)
{
	struct roce_responder *s = &q->responder;
	enum hw_syndrome error;

	if (!responder_take_wqe(q))
		return false;
	error = receive_scatter(q, &s->wqe, s->received, p->payload, p->bytes);
	if (error)
		return responder_fail_receive(q, error);
	s->received += p->bytes;
	return true;
}

static bool responder_write(struct roce_qp *q, const struct roce_packet *p, uint32_t traits)
{
	struct roce_responder *s = &q->responder;
	uint8_t *to;

	if (traits & ROCE_FIRST) {
		if (!responder_may(q, MKEY_REMOTE_WRITE))
			return responder_refuse(q, AETH_NAK_INVALID, EVENT_QP_REQ_ERR);
		s->va = p->va;
		s->rkey = p->rkey;
		s->left = p->dma_bytes;
		if (!responder_memory(q, s->rkey, s->va, s->left, MKEY_REMOTE_WRITE))
			return responder_refuse(q, AETH_NAK_ACCESS, EVENT_QP_ACCESS_ERR);
	}
	if (p->bytes > s->left || (traits & ROCE_LAST && p->bytes != s->left))
		return responder_refuse(q, AETH_NAK_INVALID, EVENT_QP_REQ_ERR);
	if ((traits & ROCE_IMM) && !responder_take_wqe(q))
		return false;
	to = responder_memory(q, s->rkey, s->va, p->bytes, MKEY_REMOTE_WRITE);
	if (!to) /* the region has gone since the first packet */
		return responder_refuse(q, AETH_NAK_ACCESS, EVENT_QP_ACCESS_ERR);
	dma_copy(to, p->payload, p->bytes);
	s->va += p->bytes;
	s->left -= p->bytes;
	s->received += p->bytes;
	if (traits & ROCE_FIRST)
		q->roce->device->counters.rx_write_requests++;
	return true;
}

static struct roce_reply *responder_add_reply(struct roce_qp *q, const struct roce_packet *p)
{
	struct roce_responder *s = &q->responder;
	struct roce_reply *reply = &s->replies[s->n_replies++ % ROCE_MAX_RD_ATOMIC];

	*reply = (struct roce_reply){.psn = p->psn, .va = p->va, .rkey = p->rkey, .bytes = p->dma_bytes, .n_psns = 1};
	s->ack_due = false; /* the response acknowledges what was before */
	return reply;
}

static bool responder_read(struct roce_qp *q, const struct roce_packet *p)
{
	struct roce_reply *reply;

	if (!responder_may(q, MKEY_REMOTE_READ))
		return responder_refuse(q, AETH_NAK_INVALID, EVENT_QP_REQ_ERR);
	if (!responder_memory(q, p->rkey, p->va, p->dma_bytes, MKEY_REMOTE_READ))
		return responder_refuse(q, AETH_NAK_ACCESS, EVENT_QP_ACCESS_ERR);
	reply = responder_add_reply(q, p);
	reply->n_psns = roce_n_packets(q, p->dma_bytes);
	q->roce->device->counters.rx_read_requests++;
	return true;
}

static bool responder_atomic(struct roce_qp *q, const struct roce_packet *p)
{
	uint64_t *at = NULL, old = p->compare;
	struct roce_reply *reply;

	/* IBTA 9.4, atomic operations: the address must be aligned. */
	if (!responder_may(q, MKEY_REMOTE_ATOMIC) || p->va % ATOMIC_BYTES)
		return responder_refuse(q, AETH_NAK_INVALID, EVENT_QP_REQ_ERR);
	at = (uint64_t *)(void *)responder_memory(q, p->rkey, p->va, ATOMIC_BYTES, MKEY_REMOTE_ATOMIC);
	if (!at || (uintptr_t)at % ATOMIC_BYTES)
		return responder_refuse(q, AETH_NAK_ACCESS, EVENT_QP_ACCESS_ERR);
	if (p->opcode == RC_FETCH_ADD)
		old = __atomic_fetch_add(at, p->swap_add, __ATOMIC_SEQ_CST);
	else
		__atomic_compare_exchange_n(at, &old, p->swap_add, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	reply = responder_add_reply(q, p);
	reply->atomic = true;
	reply->result = old;
	q->roce->device->counters.rx_atomic_requests++;
	return true;
}

/* Reads and atomics that are waiting for their answer are as many as the peer was told it may have. */
static bool responder_has_room(const struct roce_qp *q)
{
	const struct roce_responder *s = &q->responder;

	return s->n_replies - s->n_replied < q->attributes.max_dest_rd_atomic;
}

static bool responder_execute(struct roce_qp *q, const struct roce_packet *p, uint32_t traits)
{
	if (traits & ROCE_SEND)
		return responder_send(q, p);
	if (traits & ROCE_WRITE)
		return responder_write(q, p, traits);
	if (!responder_has_room(q))
		return responder_refuse(q, AETH_NAK_INVALID, EVENT_QP_REQ_ERR);
	return p->opcode == RC_READ_REQUEST ? responder_read(q, p) : responder_atomic(q, p);
}

static void responder_finish_message(struct roce_qp *q, const struct roce_packet *p, uint32_t traits)
{
	struct roce_responder *s = &q->responder;

	if (s->has_wqe && (traits & (ROCE_SEND | ROCE_IMM))) {
		enum hw_cqe_opcode opcode = traits & ROCE_WRITE ? HW_CQE_RESP_WRITE_IMM
		                            : traits & ROCE_IMM ? HW_CQE_RESP_SEND_IMM
		                                                : HW_CQE_RESP_SEND;

		receive_complete(q, &s->wqe, opcode, s->received, p, 0);
	}
	s->has_wqe = false;
	s->traits = 0;
	s->received = 0;
	s->msn = (s->msn + 1) & 0xffffff;
	if (!(traits & ROCE_PAYLOAD))
		s->replies[(s->n_replies - 1) % ROCE_MAX_RD_ATOMIC].msn = s->msn;
}

/* IBTA 9.7.5.1: a repeated read may begin in the midst of the first, and asks for the same memory. */
static bool responder_is_same(const struct roce_qp *q, const struct roce_reply *reply, const struct roce_packet *p,
                              uint32_t skipped)
{
	uint32_t at = skipped * q->attributes.mtu_bytes;

	if (p->opcode != RC_READ_REQUEST)
		return reply->atomic;
	return !reply->atomic && p->rkey == reply->rkey && p->va == reply->va + at && p->dma_bytes == reply->bytes - at;
}

/* Answers request `n` from packet `skipped` on, and what came after it. */
static void responder_reply_again(struct roce_responder *s, unsigned int n, uint32_t skipped)
{
	for (unsigned int i = n; i < s->n_replied; i++)
		s->replies[i % ROCE_MAX_RD_ATOMIC].next = s->replies[i % ROCE_MAX_RD_ATOMIC].first = 0;
	if (n < s->n_replied)
		s->n_replied = n;
	s->replies[n % ROCE_MAX_RD_ATOMIC].next = s->replies[n % ROCE_MAX_RD_ATOMIC].first = skipped;
}

/* IBTA 9.7.5.1: a request that was carried out is not carried out again. A read is, since that changes nothing; an
 * atomic has its answer saved. */
static void responder_repeat(struct roce_qp *q, const struct roce_packet *p, uint32_t traits)
{
	struct roce_responder *s = &q->responder;
	unsigned int oldest = s->n_replies > ROCE_MAX_RD_ATOMIC ? s->n_replies - ROCE_MAX_RD_ATOMIC : 0;

	q->roce->device->counters.duplicate_request++;
	if (traits & ROCE_PAYLOAD) {
		if (!s->ack_due)
			responder_nak(q, AETH_ACK);
		return;
	}
	for (unsigned int n = s->n_replies; n-- > oldest;) {
		struct roce_reply *reply = &s->replies[n % ROCE_MAX_RD_ATOMIC];
		int32_t skipped = psn_diff(p->psn, reply->psn);

		if (skipped >= 0 && (uint32_t)skipped < reply->n_psns) {
			if (responder_is_same(q, reply, p, (uint32_t)skipped))
				responder_reply_again(s, n, (uint32_t)skipped);
			return;
		}
	}
}

void responder_receive(struct roce_qp *q, const struct roce_packet *p)
{
	struct roce_responder *s = &q->responder;
	uint32_t traits = roce_traits(p->opcode);
	int32_t ahead = psn_diff(p->psn, s->psn);

	if ((q->qp->state != QP_RTR && q->qp->state != QP_RTS) || s->fatal)
		return;
	if (q->qp->rq.state == WQ_ERR) { /* its completion queue overran, or its memory is gone */
		roce_qp_fail(q);
		return;
	}
	if (q->qp->state == QP_RTR && !s->established)
		q->roce->device->events->qp_event(q->qp, EVENT_COMM_EST);
	s->established = true;
	if (ahead > 0) { /* IBTA 9.7.5.1: one NAK for a gap */
		q->roce->device->counters.out_of_sequence++;
		if (!s->gap_reported)
			responder_nak(q, AETH_NAK_SEQUENCE);
		s->gap_reported = true;
		return;
	}
	if (ahead < 0) {
		responder_repeat(q, p, traits);
		return;
	}
	s->gap_reported = false;
	if (!responder_in_order(q, p, traits)) {
		responder_refuse(q, AETH_NAK_INVALID, EVENT_QP_REQ_ERR);
		return;
	}
	if (!responder_execute(q, p, traits))
		return;
	s->psn = psn_add(s->psn, p->opcode == RC_READ_REQUEST ? roce_n_packets(q, p->dma_bytes) : 1);
	if (traits & ROCE_FIRST)
		s->traits = traits & (ROCE_SEND | ROCE_WRITE);
	if (traits & ROCE_LAST)
		responder_finish_message(q, p, traits);
	if (traits & ROCE_PAYLOAD) {
		if (p->ack_request)
			s->ack_due = true;
		s->syndrome = AETH_ACK;
	}
}

static uint8_t responder_read_opcode(const struct roce_reply *reply)
{
	bool last = reply->next + 1 == reply->n_psns;

	if (reply->next == reply->first)
		return last ? RC_READ_RESPONSE_ONLY : RC_READ_RESPONSE_FIRST;
	return last ? RC_READ_RESPONSE_LAST : RC_READ_RESPONSE_MIDDLE;
}

/* Sends the next packet of a response. False if the wire is busy, or the memory is not to be read any more. */
static bool responder_reply(struct roce_qp *q, struct roce_reply *reply)
{
	struct roce_packet p = {.opcode = RC_ATOMIC_ACKNOWLEDGE,
	                        .dest_qpn = q->attributes.dest_qpn,
	                        .psn = psn_add(reply->psn, reply->next),
	                        .syndrome = AETH_ACK,
	                        .msn = reply->msn,
	                        .atomic_result = reply->result};
	uint32_t mtu = q->attributes.mtu_bytes, at = reply->next * mtu;
	const uint8_t *from = NULL;
	uint8_t *to;

	if (!reply->atomic) {
		p.opcode = responder_read_opcode(reply);
		p.bytes = reply->bytes - at < mtu ? reply->bytes - at : mtu;
		from = responder_memory(q, reply->rkey, reply->va + at, p.bytes, MKEY_REMOTE_READ);
		if (!from) {
			q->responder.n_replied = q->responder.n_replies;
			responder_refuse(q, AETH_NAK_ACCESS, EVENT_QP_ACCESS_ERR);
			return false;
		}
	}
	to = roce_begin(q->roce, &p, &q->attributes.path);
	if (!to)
		return false;
	if (from)
		dma_copy(to, from, p.bytes);
	roce_end(q->roce);
	reply->next++;
	return true;
}

static bool responder_acknowledge(struct roce_qp *q)
{
	struct roce_responder *s = &q->responder;
	/* A NAK names the packet that it refuses, which is the expected one. */
	struct roce_packet p = {.opcode = RC_ACKNOWLEDGE,
	                        .dest_qpn = q->attributes.dest_qpn,
	                        .psn = s->syndrome == AETH_ACK ? psn_add(s->psn, 0xffffff) : s->psn,
	                        .syndrome = s->syndrome,
	                        .msn = s->msn};

	if (!roce_begin(q->roce, &p, &q->attributes.path))
		return false;
	s->ack_due = false;
	roce_end(q->roce);
	return true;
}

int responder_work(struct roce_qp *q)
{
	struct roce_responder *s = &q->responder;
	int n = 0;

	while (n < WIRE_SEND_MAX && s->n_replied != s->n_replies) {
		struct roce_reply *reply = &s->replies[s->n_replied % ROCE_MAX_RD_ATOMIC];

		if (!responder_reply(q, reply))
			break;
		n++;
		if (reply->next == reply->n_psns)
			s->n_replied++;
	}
	if (s->n_replied == s->n_replies && s->ack_due && responder_acknowledge(q)) {
		n++;
		if (s->fatal) {
			q->roce->device->events->qp_event(q->qp, (enum device_event)s->fatal);
			roce_qp_fail(q);
		}
	}
	return n;
}
