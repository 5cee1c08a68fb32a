// SPDX-License-Identifier: Apache-2.0
/* Reads the entries of RC and UD send queues, copies along their data segments, and completes them. */
#include "send_wqe.h"

#include "../wire/dma.h"

#include <endian.h>
#include <string.h>

#define MAX_MESSAGE_BYTES 0x40000000u /* as QUERY_PORT says */
#define SEG_BYTES         16u

/* A data segment as it lies at `offset`; the next one is at `*offset` then. */
struct segment {
	bool inlined;
	uint32_t at; /* of inline data: offset in the entry */
	uint32_t bytes, lkey;
	uint64_t addr;
};

static enum hw_syndrome send_wqe_segment(const struct qp *qp, const struct send_wqe *w, uint32_t *offset,
                                         struct segment *s)
{
	const struct hw_data_seg *seg = (const void *)sq_at(&qp->sq, w->index, *offset);
	uint32_t bytes = be32toh(seg->byte_count_be);

	*s = (struct segment){.bytes = bytes & ~HW_INLINE_SEG};
	if (bytes & HW_INLINE_SEG) {
		if (s->bytes > w->end - *offset - 4)
			return HW_SYNDROME_LOCAL_QP_OP;
		s->inlined = true;
		s->at = *offset + 4;
		*offset += (4 + s->bytes + SEG_BYTES - 1) & ~(SEG_BYTES - 1);
		return 0;
	}
	/* PRM, data segment: a byte count of 0 means 2^31, which is more than a message may have. */
	s->bytes = bytes ? bytes : 1u << 31;
	s->lkey = be32toh(seg->lkey_be);
	s->addr = be64toh(seg->addr_be);
	*offset += SEG_BYTES;
	return 0;
}

static enum hw_syndrome send_wqe_measure(const struct qp *qp, struct send_wqe *w)
{
	struct segment s;

	w->bytes = 0;
	for (uint32_t offset = w->offset; offset < w->end;) {
		enum hw_syndrome error = send_wqe_segment(qp, w, &offset, &s);

		if (error)
			return error;
		if (s.bytes > MAX_MESSAGE_BYTES - w->bytes)
			return HW_SYNDROME_LOCAL_LENGTH;
		w->bytes += s.bytes;
	}
	return 0;
}

static enum hw_syndrome send_wqe_read_remote(const struct qp *qp, struct send_wqe *w)
{
	const struct hw_raddr_seg *remote = (const void *)sq_at(&qp->sq, w->index, w->offset);
	const struct hw_atomic_seg *atomic = (const void *)(remote + 1);
	bool is_atomic = w->opcode == HW_OPCODE_COMPARE_SWAP || w->opcode == HW_OPCODE_FETCH_ADD;

	w->offset += (uint32_t)(sizeof(*remote) + (is_atomic ? sizeof(*atomic) : 0));
	if (w->offset > w->end)
		return HW_SYNDROME_LOCAL_QP_OP;
	w->va = be64toh(remote->addr_be);
	w->rkey = be32toh(remote->rkey_be);
	if (is_atomic) {
		w->swap_add = be64toh(atomic->swap_add_be);
		w->compare = be64toh(atomic->compare_be);
	}
	return 0;
}

/* The segments between the control segment and the data; which there are depends on the opcode. */
static enum hw_syndrome send_wqe_read_head(const struct qp *qp, bool ud, struct send_wqe *w)
{
	w->offset = sizeof(struct hw_ctrl_seg);
	if (ud) {
		if ((w->opcode != HW_OPCODE_SEND && w->opcode != HW_OPCODE_SEND_IMM) ||
		    w->offset + sizeof(w->av) > w->end)
			return HW_SYNDROME_LOCAL_QP_OP;
		memcpy(&w->av, sq_at(&qp->sq, w->index, w->offset), sizeof(w->av));
		w->offset += sizeof(w->av);
		return 0;
	}
	switch (w->opcode) {
	case HW_OPCODE_SEND:
	case HW_OPCODE_SEND_IMM:
		return 0;
	case HW_OPCODE_WRITE:
	case HW_OPCODE_WRITE_IMM:
	case HW_OPCODE_READ:
	case HW_OPCODE_COMPARE_SWAP:
	case HW_OPCODE_FETCH_ADD:
		return send_wqe_read_remote(qp, w);
	default:
		return HW_SYNDROME_LOCAL_QP_OP;
	}
}

enum hw_syndrome send_wqe_read(const struct qp *qp, bool ud, uint16_t index, struct send_wqe *w)
{
	const struct hw_ctrl_seg *ctrl = (const void *)sq_at(&qp->sq, index, 0);
	uint16_t n_posted = (uint16_t)(wq_posted(qp->sq.dbrec) - index);
	uint32_t qpn_ds = be32toh(ctrl->qpn_ds_be);
	enum hw_syndrome error;

	*w = (struct send_wqe){
		.index = index,
		.opcode = (uint8_t)be32toh(ctrl->opmod_idx_opcode_be),
		.signalled = ctrl->fm_ce_se & HW_CTRL_CQ_UPDATE,
		.solicited = ctrl->fm_ce_se & HW_CTRL_SOLICITED,
		.fenced = ctrl->fm_ce_se & HW_CTRL_FENCE,
		.imm_be = ctrl->imm_be,
		.end = (qpn_ds & 0x3f) * SEG_BYTES,
	};
	w->n_bb = (uint16_t)((w->end + HW_SEND_WQE_BB - 1) / HW_SEND_WQE_BB);
	if (!w->end || w->n_bb > n_posted || w->n_bb > qp->sq.n_bb || qpn_ds >> 8 != qp->qpn) {
		w->n_bb = 1;
		return HW_SYNDROME_LOCAL_QP_OP;
	}
	if (w->opcode == HW_OPCODE_NOP) {
		w->offset = w->end;
		return 0;
	}
	error = send_wqe_read_head(qp, ud, w);
	return error ? error : send_wqe_measure(qp, w);
}

/* Inline data may reach the end of the queue and go on at its start. */
static void send_wqe_copy_inline(const struct qp *qp, const struct send_wqe *w, uint32_t at, uint8_t *to,
                                 uint32_t bytes)
{
	const uint8_t *from = sq_at(&qp->sq, w->index, at);
	uint32_t to_end = (uint32_t)(qp->sq.buf + (size_t)qp->sq.n_bb * HW_SEND_WQE_BB - from);
	uint32_t first = bytes < to_end ? bytes : to_end;

	dma_copy(to, from, first);
	dma_copy(to + first, qp->sq.buf, bytes - first);
}

enum hw_syndrome send_wqe_copy(const struct qp *qp, const struct send_wqe *w, uint32_t at, uint8_t *buffer,
                               uint32_t bytes, bool to_program)
{
	struct segment s;

	for (uint32_t offset = w->offset; bytes && offset < w->end;) {
		enum hw_syndrome error = send_wqe_segment(qp, w, &offset, &s);
		uint32_t n;
		uint8_t *p;

		if (error)
			return error;
		if (at >= s.bytes) {
			at -= s.bytes;
			continue;
		}
		n = s.bytes - at < bytes ? s.bytes - at : bytes;
		if (s.inlined) {
			if (to_program)
				return HW_SYNDROME_LOCAL_QP_OP;
			send_wqe_copy_inline(qp, w, s.at + at, buffer, n);
		} else if (s.lkey == MKEY_NULL) {
			if (!to_program)
				memset(buffer, 0, n);
		} else {
			p = mkey_translate(&qp->device->mkeys, qp->pd, s.lkey, s.addr + at, n, to_program);
			if (!p)
				return HW_SYNDROME_LOCAL_PROT;
			if (to_program)
				dma_copy(p, buffer, n);
			else
				dma_copy(buffer, p, n);
		}
		buffer += n;
		bytes -= n;
		at = 0;
	}
	return bytes ? HW_SYNDROME_LOCAL_LENGTH : 0;
}

void send_wqe_complete(struct qp *qp, uint16_t index, uint8_t opcode, uint32_t bytes)
{
	struct hw_cqe *cqe = cq_next(qp->sq.cq);

	if (!cqe)
		return;
	memset(cqe, 0, offsetof(struct hw_cqe, op_own));
	cqe->uidx_be = htobe32(qp->uidx);
	cqe->byte_cnt_be = htobe32(bytes);
	cqe->timestamp_be = htobe64(cq_timestamp_now(qp->sq.cq));
	cqe->sop_drop_qpn_be = htobe32((uint32_t)opcode << 24 | qp->qpn);
	cqe->wqe_counter_be = htobe16(index);
	cq_post(qp->sq.cq, cqe, HW_CQE_REQ);
}
