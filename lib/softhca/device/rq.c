// SPDX-License-Identifier: Apache-2.0
#include "dma.h"
#include "qp.h"

#include <endian.h>
#include <string.h>

static uint16_t posted(const uint32_t *dbrec)
{
	/* Pairs with libmlx5's barrier between writing entries and writing the record. */
	return (uint16_t)be32toh(__atomic_load_n(dbrec, __ATOMIC_ACQUIRE));
}

static void complete_error(struct qp *qp, struct cq *cq, enum hw_cqe_opcode opcode,
			   uint16_t wqe_counter, enum hw_syndrome syndrome)
{
	struct hw_cqe_err *cqe = cq_next(cq);

	if (!cqe)
		return;
	memset(cqe, 0, offsetof(struct hw_cqe_err, op_own));
	cqe->uidx_be = htobe32(qp->uidx);
	cqe->syndrome = (uint8_t)syndrome;
	cqe->wqe_opcode_qpn_be = htobe32(qp->qpn);
	cqe->wqe_counter_be = htobe16(wqe_counter);
	cq_post(cq, cqe, opcode);
}

static void rq_error(struct qp *qp, enum hw_syndrome syndrome, bool fatal)
{
	complete_error(qp, qp->rq.cq, HW_CQE_RESP_ERR, qp->rq.taken, syndrome);
	qp->rq.taken++;
	if (fatal) {
		qp_set_state(qp, QP_ERR);
		qp->device->events->qp_fatal(qp);
	}
}

/* Copies the frame along the entry's scatter list. 0, or what went wrong. */
static enum hw_syndrome scatter(const struct qp *qp, const struct hw_data_seg *seg,
				uint32_t n_segs, const uint8_t *frame, uint32_t left)
{
	const struct mkey_table *keys = &qp->device->mkeys;

	for (; left && n_segs; n_segs--, seg++) {
		uint32_t lkey = be32toh(seg->lkey_be);
		uint32_t bytes = be32toh(seg->byte_count_be);
		uint64_t addr = be64toh(seg->addr_be);

		if (lkey == HW_INVALID_LKEY)
			break;
		if (bytes > left)
			bytes = left;
		if (lkey != MKEY_NULL) {
			uint8_t *to = mkey_translate(keys, qp->pd, lkey, addr, bytes, true);

			if (!to)
				return HW_SYNDROME_LOCAL_PROT;
			dma_copy(to, frame, bytes);
		}
		frame += bytes;
		left -= bytes;
	}
	return left ? HW_SYNDROME_LOCAL_LENGTH : 0;
}

void rq_receive(struct qp *qp, const uint8_t *frame, uint32_t len, const struct rx_info *info)
{
	struct rq *rq = &qp->rq;
	enum hw_syndrome error;
	struct hw_cqe *cqe;

	/* verbs-rules.md "Bring-up": before RTR a match is dropped without a name. */
	if (qp->state < QP_RTR || qp->state == QP_ERR || !rq->n_wqe)
		return;
	if (posted(rq->dbrec) == rq->taken) {
		qp->device->counters.out_of_buffer++;
		return;
	}
	error = scatter(qp,
			(const void *)(rq->buf +
				       ((size_t)(rq->taken & (rq->n_wqe - 1)) << rq->wqe_shift)),
			1u << rq->wqe_shift >> 4, frame, len);
	if (error) {
		rq_error(qp, error,
			 error != HW_SYNDROME_LOCAL_LENGTH ||
				 qp->device->config.length_error_is_fatal);
		return;
	}
	cqe = cq_next(rq->cq);
	if (!cqe)
		return;
	memset(cqe, 0, 28);
	cqe->hds_ip_ext = info->checked;
	cqe->l4_hdr_type_etc = info->hdr_type;
	cqe->vlan_info_be = info->vlan_tci_be;
	cqe->uidx_be = htobe32(qp->uidx);
	cqe->rsvd36 = 0;
	memset(cqe->rsvd40, 0, 4);
	cqe->byte_cnt_be = htobe32(len);
	cqe->timestamp_be = htobe64(info->timestamp);
	cqe->sop_drop_qpn_be = htobe32(info->flow_tag);
	cqe->wqe_counter_be = htobe16(rq->taken);
	cqe->signature = 0;
	rq->taken++;
	cq_post(rq->cq, cqe, HW_CQE_RESP_SEND);
}

static void flush_sends(struct qp *qp)
{
	struct sq *sq = &qp->sq;

	while (posted(sq->dbrec) != sq->taken) {
		const struct hw_ctrl_seg *ctrl =
			(const void *)(sq->buf +
				       (size_t)(sq->taken & (sq->n_bb - 1)) * HW_SEND_WQE_BB);
		uint32_t ds = be32toh(ctrl->qpn_ds_be) & 0x3f;

		complete_error(qp, sq->cq, HW_CQE_REQ_ERR, sq->taken, HW_SYNDROME_WR_FLUSH);
		if (sq->cq->failed || !ds)
			break;
		sq->taken = (uint16_t)(sq->taken + (ds * 16 + HW_SEND_WQE_BB - 1) / HW_SEND_WQE_BB);
	}
}

void qp_flush(struct qp *qp)
{
	struct rq *rq = &qp->rq;

	while (rq->n_wqe && posted(rq->dbrec) != rq->taken && !rq->cq->failed) {
		complete_error(qp, rq->cq, HW_CQE_RESP_ERR, rq->taken, HW_SYNDROME_WR_FLUSH);
		rq->taken++;
	}
	if (qp->sq.n_bb && !qp->sq.cq->failed)
		flush_sends(qp);
}

void qp_set_state(struct qp *qp, enum qp_state state)
{
	qp->state = state;
	if (state == QP_RESET) {
		qp->rq.taken = 0;
		qp->sq.taken = 0;
	} else if (state == QP_ERR) {
		qp_flush(qp);
	}
}
