// SPDX-License-Identifier: Apache-2.0
/* The send queue: gather a frame, fill in checksums where asked, give it to the wire. */
#include "clock.h"
#include "../wire/dma.h"
#include "qp.h"
#include "steer.h"

#include <endian.h>
#include <string.h>

#define MAX_SEND_SEGS 64
#define MAX_FRAME_BYTES 65536
#define BATCH 16
#define COPY_BYTES (4 * MAX_FRAME_BYTES)
#define ETH_INLINE_IN_SEG 2 /* the Ethernet segment itself holds two bytes of inline header */

struct tx {
	struct iovec iov[MAX_SEND_SEGS + 1];
	int n;
	uint32_t bytes;
	uint16_t index; /* of its first block */
	uint16_t n_bb;
	uint8_t cs_flags;
	bool signalled, nop;
	enum hw_syndrome error;
};

/* Work queue entries wrap at the end of the queue. */
static const uint8_t *at(const struct sq *sq, const struct tx *tx, uint32_t offset)
{
	uint32_t size = sq->n_bb * HW_SEND_WQE_BB;

	return sq->buf + ((uint32_t)(tx->index & (sq->n_bb - 1)) * HW_SEND_WQE_BB + offset) % size;
}

static bool add(struct tx *tx, const void *p, uint32_t bytes)
{
	if (tx->n > MAX_SEND_SEGS || tx->bytes + bytes > MAX_FRAME_BYTES)
		return false;
	tx->iov[tx->n++] = (struct iovec){.iov_base = (void *)p, .iov_len = bytes};
	tx->bytes += bytes;
	return true;
}

/* `bytes` that lie in the queue itself, perhaps in two pieces. */
static bool add_inline(struct tx *tx, const struct sq *sq, uint32_t offset, uint32_t bytes)
{
	const uint8_t *p = at(sq, tx, offset);
	uint32_t to_end = (uint32_t)(sq->buf + (size_t)sq->n_bb * HW_SEND_WQE_BB - p);

	if (bytes <= to_end)
		return add(tx, p, bytes);
	return add(tx, p, to_end) && add(tx, sq->buf, bytes - to_end);
}

static enum hw_syndrome gather_data(const struct qp *qp, struct tx *tx, uint32_t offset,
				    uint32_t end)
{
	static const uint8_t zeros[4096];

	while (offset < end) {
		const struct hw_data_seg *seg = (const void *)at(&qp->sq, tx, offset);
		uint32_t bytes = be32toh(seg->byte_count_be);
		uint32_t lkey = be32toh(seg->lkey_be);

		if (bytes & HW_INLINE_SEG) {
			bytes &= ~HW_INLINE_SEG;
			if (offset + 4 + bytes > end ||
			    !add_inline(tx, &qp->sq, offset + 4, bytes))
				return HW_SYNDROME_LOCAL_QP_OP;
			offset += (4 + bytes + 15) & ~15u;
			continue;
		}
		const uint8_t *p = lkey == MKEY_NULL
					   ? (bytes <= sizeof(zeros) ? zeros : NULL)
					   : mkey_translate(&qp->device->mkeys, qp->pd, lkey,
							    be64toh(seg->addr_be), bytes, false);
		if (!p)
			return HW_SYNDROME_LOCAL_PROT;
		if (!add(tx, p, bytes))
			return HW_SYNDROME_LOCAL_LENGTH;
		offset += sizeof(*seg);
	}
	return 0;
}

static enum hw_syndrome gather(const struct qp *qp, struct tx *tx)
{
	const struct hw_ctrl_seg *ctrl = (const void *)at(&qp->sq, tx, 0);
	uint32_t end = (be32toh(ctrl->qpn_ds_be) & 0x3f) * 16;
	uint8_t opcode = (uint8_t)be32toh(ctrl->opmod_idx_opcode_be);
	const struct hw_eth_seg *eth = (const void *)at(&qp->sq, tx, sizeof(*ctrl));
	uint32_t inline_bytes = be16toh(eth->inline_hdr_sz_be), offset;
	enum hw_syndrome error;

	tx->n = 0;
	tx->bytes = 0;
	tx->nop = opcode == HW_OPCODE_NOP;
	tx->signalled = qp->sq.signal_all || (ctrl->fm_ce_se & HW_CTRL_CQ_UPDATE);
	tx->n_bb = (uint16_t)((end + HW_SEND_WQE_BB - 1) / HW_SEND_WQE_BB);
	if (!end || be32toh(ctrl->qpn_ds_be) >> 8 != qp->qpn) {
		tx->n_bb = 1;
		return HW_SYNDROME_LOCAL_QP_OP;
	}
	if (tx->nop)
		return 0;
	if (opcode != HW_OPCODE_SEND || end < 32)
		return HW_SYNDROME_LOCAL_QP_OP;
	tx->cs_flags = eth->cs_flags;
	offset = (uint32_t)(sizeof(*ctrl) + offsetof(struct hw_eth_seg, inline_hdr));
	if (inline_bytes && (offset + inline_bytes > end ||
			     !add_inline(tx, &qp->sq, offset, inline_bytes)))
		return HW_SYNDROME_LOCAL_QP_OP;
	offset = 32;
	if (inline_bytes > ETH_INLINE_IN_SEG)
		offset += (inline_bytes - ETH_INLINE_IN_SEG + 15) & ~15u;
	error = gather_data(qp, tx, offset, end);
	if (!error && tx->bytes < 14)
		error = HW_SYNDROME_LOCAL_QP_OP;
	return error;
}

/* Checksums are filled in a copy: the program's memory is only read. */
static void offload(struct tx *tx, uint8_t *copy)
{
	uint32_t n = 0;

	for (int i = 0; i < tx->n; i++) {
		dma_copy(copy + n, tx->iov[i].iov_base, tx->iov[i].iov_len);
		n += (uint32_t)tx->iov[i].iov_len;
	}
	packet_fill_csums(copy, n, tx->cs_flags & HW_ETH_L3_CSUM, tx->cs_flags & HW_ETH_L4_CSUM);
	tx->iov[0] = (struct iovec){.iov_base = copy, .iov_len = n};
	tx->n = 1;
}

static void complete(struct qp *qp, const struct tx *tx)
{
	struct sq *sq = &qp->sq;
	struct hw_cqe *cqe;

	if (!tx->error && !tx->signalled)
		return;
	cqe = cq_next(sq->cq);
	if (!cqe)
		return;
	memset(cqe, 0, offsetof(struct hw_cqe, op_own));
	cqe->uidx_be = htobe32(qp->uidx);
	cqe->wqe_counter_be = htobe16(tx->index);
	cqe->sop_drop_qpn_be = htobe32((tx->nop ? HW_OPCODE_NOP : HW_OPCODE_SEND) << 24 | qp->qpn);
	if (tx->error)
		((struct hw_cqe_err *)cqe)->syndrome = (uint8_t)tx->error;
	else
		cqe->timestamp_be = htobe64(
			sq->cq->real_time
				? clock_real_time_stamp(clock_realtime_ns())
				: clock_cycles(clock_raw_ns(),
					       qp->device->config.profile->core_clock_khz));
	cq_post(sq->cq, cqe, tx->error ? HW_CQE_REQ_ERR : HW_CQE_REQ);
}

/* What is posted, up to `max` work requests or the first bad one. */
static int collect(const struct qp *qp, struct tx *batch, int max, uint8_t *copies)
{
	const struct sq *sq = &qp->sq;
	uint16_t head = (uint16_t)be32toh(__atomic_load_n(sq->dbrec, __ATOMIC_ACQUIRE));
	uint16_t index = sq->taken;
	uint32_t copied = 0;
	int n = 0;

	while (n < max && index != head && copied + MAX_FRAME_BYTES <= COPY_BYTES) {
		struct tx *tx = &batch[n++];

		tx->index = index;
		tx->error = gather(qp, tx);
		if (tx->error)
			break;
		if (!tx->nop && (tx->cs_flags & (HW_ETH_L3_CSUM | HW_ETH_L4_CSUM))) {
			offload(tx, copies + copied);
			copied += tx->bytes;
		}
		index = (uint16_t)(index + tx->n_bb);
	}
	return n;
}

/* How many of the batch's frames the wire took. */
static int send_batch(struct qp *qp, const struct tx *batch, int n)
{
	const struct iovec *iov[BATCH];
	int iovcnt[BATCH], n_frames = 0;

	for (int i = 0; i < n; i++) {
		if (batch[i].error || batch[i].nop)
			continue;
		iov[n_frames] = batch[i].iov;
		iovcnt[n_frames++] = batch[i].n;
	}
	return n_frames ? qp->device->wire->ops->send(qp->device->wire, iov, iovcnt, n_frames) : 0;
}

static int send_some(struct qp *qp, int max)
{
	static _Thread_local uint8_t copies[COPY_BYTES];
	static _Thread_local struct tx batch[BATCH];
	struct sq *sq = &qp->sq;
	int n, sent, done = 0;

	if (sq->cq->failed)
		return 0;
	n = collect(qp, batch, max < BATCH ? max : BATCH, copies);
	sent = send_batch(qp, batch, n);
	for (int i = 0; i < n && sq->state == WQ_RDY; i++, done++) {
		struct tx *tx = &batch[i];

		if (!tx->error && !tx->nop) {
			if (!sent--)
				break; /* the link is busy: the rest goes in the next round */
			qp->device->counters.tx_packets++;
			qp->device->counters.tx_bytes += tx->bytes;
			steer_sent(qp->device, tx->iov, tx->n);
			pacing_sent(&sq->pacing, tx->bytes);
		}
		complete(qp, tx);
		sq->taken = (uint16_t)(sq->taken + tx->n_bb);
		if (tx->error)
			sq_fail(qp);
	}
	return done;
}

int sq_work(struct qp *qp, int max)
{
	struct sq *sq = &qp->sq;
	int done = 0, n = 1;

	if (!sq->pacing.rate_kbps)
		return send_some(qp, max);
	if (wq_posted(sq->dbrec) == sq->taken)
		pacing_idle(&sq->pacing);
	for (; n && done < max && sq->state == WQ_RDY && wq_posted(sq->dbrec) != sq->taken &&
	       pacing_allows(&sq->pacing, clock_raw_ns());
	     done += n)
		n = send_some(qp, 1);
	return done;
}
