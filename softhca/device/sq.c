// SPDX-License-Identifier: Apache-2.0
/*
 * Send queues: reads the posted work requests, gathers their frames, fills in checksums if asked, gives the frames
 * to the wire and completes them.
 */
#include "sq.h"

#include "../wire/dma.h"
#include "steer.h"

#include <endian.h>
#include <linux/if_ether.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SEND_SEGS        64
#define MAX_FRAME_BYTES      65536
#define COPY_BYTES           (4 * MAX_FRAME_BYTES)
#define ETH_INLINE_IN_SEG    2 /* the Ethernet segment itself holds two bytes of the inline header */
#define INLINE_HEADER_OFFSET (sizeof(struct hw_ctrl_seg) + offsetof(struct hw_eth_seg, inline_hdr))
#define MIN_INLINE_L2        18 /* PRM, min_wqe_inline_mode L2: header and a VLAN tag */
#define VLAN_TAG_BYTES       4

struct tx {
	struct iovec iov[MAX_SEND_SEGS + 2]; /* the last one is padding */
	int n;
	uint32_t bytes;
	uint16_t index; /* of its first block */
	uint16_t n_bb;
	uint8_t cs_flags;
	bool signalled, nop, dropped;
	enum hw_syndrome error;
};

struct sq_batch {
	struct tx tx[WIRE_SEND_MAX];
	uint8_t copies[COPY_BYTES];
};

struct sq_batch *sq_batch_new(void)
{
	return malloc(sizeof(struct sq_batch));
}

void sq_batch_free(struct sq_batch *b)
{
	free(b);
}

static bool sq_add(struct tx *tx, const void *p, uint32_t bytes)
{
	if (tx->n > MAX_SEND_SEGS || tx->bytes + bytes > MAX_FRAME_BYTES)
		return false;
	tx->iov[tx->n++] = (struct iovec){.iov_base = (void *)p, .iov_len = bytes};
	tx->bytes += bytes;
	return true;
}

/* Adds `bytes` that lie in the queue itself, in two pieces if they reach its end. */
static bool sq_add_inline(struct tx *tx, const struct sq *sq, uint32_t offset, uint32_t bytes)
{
	const uint8_t *p = sq_at(sq, tx->index, offset);
	uint32_t to_end = (uint32_t)(sq->buf + (size_t)sq->n_bb * HW_SEND_WQE_BB - p);

	if (bytes <= to_end)
		return sq_add(tx, p, bytes);
	return sq_add(tx, p, to_end) && sq_add(tx, sq->buf, bytes - to_end);
}

static enum hw_syndrome sq_gather_data(const struct qp *qp, struct tx *tx, uint32_t offset, uint32_t end)
{
	static const uint8_t zeros[4096];

	while (offset < end) {
		const struct hw_data_seg *seg = (const void *)sq_at(&qp->sq, tx->index, offset);
		uint32_t bytes = be32toh(seg->byte_count_be);
		/* PRM, data segment: a byte count of 0 means the largest one. */
		uint32_t length = bytes ? bytes : 1u << 31;
		uint32_t lkey = be32toh(seg->lkey_be);

		if (bytes & HW_INLINE_SEG) {
			bytes &= ~HW_INLINE_SEG;
			if (offset + 4 + bytes > end || !sq_add_inline(tx, &qp->sq, offset + 4, bytes))
				return HW_SYNDROME_LOCAL_QP_OP;
			offset += (4 + bytes + 15) & ~15u;
			continue;
		}
		const uint8_t *p = lkey == MKEY_NULL ? (length <= sizeof(zeros) ? zeros : NULL)
		                                     : mkey_translate(&qp->device->mkeys, qp->pd, lkey,
		                                                      be64toh(seg->addr_be), length, false);
		if (!p)
			return HW_SYNDROME_LOCAL_PROT;
		if (!sq_add(tx, p, length))
			return HW_SYNDROME_LOCAL_LENGTH;
		offset += sizeof(*seg);
	}
	return 0;
}

/* Reads the control and the Ethernet segment. `*offset` becomes the start of the data segments, `*end` their end. */
static enum hw_syndrome sq_read_segments(const struct qp *qp, struct tx *tx, uint16_t n_posted, uint32_t *offset,
                                         uint32_t *end)
{
	const struct hw_ctrl_seg *ctrl = (const void *)sq_at(&qp->sq, tx->index, 0);
	const struct hw_eth_seg *eth = (const void *)sq_at(&qp->sq, tx->index, sizeof(*ctrl));
	uint8_t opcode = (uint8_t)be32toh(ctrl->opmod_idx_opcode_be);
	uint32_t inline_bytes = be16toh(eth->inline_hdr_sz_be);

	*end = (be32toh(ctrl->qpn_ds_be) & 0x3f) * 16;
	tx->signalled = ctrl->fm_ce_se & HW_CTRL_CQ_UPDATE;
	tx->n_bb = (uint16_t)((*end + HW_SEND_WQE_BB - 1) / HW_SEND_WQE_BB);
	if (!*end || tx->n_bb > n_posted || tx->n_bb > qp->sq.n_bb || be32toh(ctrl->qpn_ds_be) >> 8 != qp->qpn) {
		tx->n_bb = 1;
		return HW_SYNDROME_LOCAL_QP_OP;
	}
	tx->nop = opcode == HW_OPCODE_NOP;
	if (tx->nop)
		return 0;
	/* This refuses TSO, too: the capabilities say max_tso 0, and libmlx5 does not post it. */
	if (opcode != HW_OPCODE_SEND || *end < sizeof(*ctrl) + sizeof(struct hw_data_seg))
		return HW_SYNDROME_LOCAL_QP_OP;
	tx->cs_flags = eth->cs_flags;
	*offset = sizeof(*ctrl) + sizeof(struct hw_data_seg);
	if (inline_bytes > ETH_INLINE_IN_SEG)
		*offset += (inline_bytes - ETH_INLINE_IN_SEG + 15) & ~15u;
	/* An inline header that is longer than its work request would reach into the next one. */
	if (*offset > *end || (inline_bytes && !sq_add_inline(tx, &qp->sq, INLINE_HEADER_OFFSET, inline_bytes)))
		return HW_SYNDROME_LOCAL_QP_OP;
	return 0;
}

static uint8_t sq_byte_at(const struct tx *tx, uint32_t offset)
{
	const struct iovec *v = tx->iov;

	for (; offset >= v->iov_len; v++)
		offset -= (uint32_t)v->iov_len;
	return ((const uint8_t *)v->iov_base)[offset];
}

/* Checks the frame's length as the port does, and pads a short frame. */
static enum hw_syndrome sq_check_length(const struct device *d, struct tx *tx)
{
	static const uint8_t zeros[ETH_ZLEN];
	uint32_t limit = d->mtu + ETH_HLEN;
	uint16_t type;

	if (tx->bytes < ETH_HLEN)
		return HW_SYNDROME_LOCAL_QP_OP;
	type = (uint16_t)(sq_byte_at(tx, 12) << 8 | sq_byte_at(tx, 13));
	if (type == ETH_P_8021Q || type == ETH_P_8021AD)
		limit += VLAN_TAG_BYTES;
	if (tx->bytes > limit) {
		tx->dropped = d->config.long_send == LONG_SEND_IS_DROPPED;
		return tx->dropped ? 0 : HW_SYNDROME_LOCAL_LENGTH;
	}
	/* IEEE 802.3, 4.2.8: the MAC pads to the shortest frame. */
	if (tx->bytes < ETH_ZLEN)
		sq_add(tx, zeros, ETH_ZLEN - tx->bytes);
	return 0;
}

static enum hw_syndrome sq_gather(const struct qp *qp, struct tx *tx, uint16_t n_posted)
{
	uint32_t offset = 0, end = 0, header;
	enum hw_syndrome error;

	tx->n = 0;
	tx->bytes = 0;
	tx->cs_flags = 0;
	tx->nop = tx->dropped = false;
	error = sq_read_segments(qp, tx, n_posted, &offset, &end);
	if (error || tx->nop)
		return error;
	header = tx->bytes;
	error = sq_gather_data(qp, tx, offset, end);
	if (error)
		return error;
	if (qp->device->config.profile->eth_min_inline == MLX5_USER_INLINE_MODE_L2 && header < MIN_INLINE_L2 &&
	    header < tx->bytes)
		return HW_SYNDROME_LOCAL_QP_OP;
	return sq_check_length(qp->device, tx);
}

/* Checksums are filled in a copy, since the device only reads the program's memory. */
static void sq_offload(struct tx *tx, uint8_t *copy)
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

static void sq_complete(struct qp *qp, const struct tx *tx, uint64_t timestamp)
{
	struct sq *sq = &qp->sq;
	uint32_t number = (tx->nop ? HW_OPCODE_NOP : HW_OPCODE_SEND) << 24 | qp->qpn;
	struct hw_cqe *cqe;

	if (tx->error) {
		cq_post_error(sq->cq, qp->uidx, number, HW_CQE_REQ_ERR, tx->index, tx->error);
		return;
	}
	cqe = tx->signalled ? cq_next(sq->cq) : NULL;
	if (!cqe)
		return;
	memset(cqe, 0, offsetof(struct hw_cqe, op_own));
	cqe->uidx_be = htobe32(qp->uidx);
	cqe->wqe_counter_be = htobe16(tx->index);
	cqe->sop_drop_qpn_be = htobe32(number);
	cqe->timestamp_be = htobe64(timestamp);
	cq_post(sq->cq, cqe, HW_CQE_REQ);
}

/* The fault "send-error": returns the number of work requests up to the one that fails. */
static int sq_refuse(struct injected *i, struct tx *tx, int n)
{
	for (int k = 0; k < n; k++) {
		if (++i->send_count < i->send_every)
			continue;
		i->send_count = 0;
		if (!tx[k].error)
			tx[k].error = i->send_status;
		return k + 1;
	}
	return n;
}

/* Reads what is posted, up to `max` work requests or the first bad one. Returns the number. */
static int sq_collect(const struct qp *qp, struct sq_batch *b, int max)
{
	const struct sq *sq = &qp->sq;
	uint16_t head = wq_posted(sq->dbrec), index = sq->taken;
	uint32_t copied = 0;
	int n = 0;

	while (n < max && index != head && copied + MAX_FRAME_BYTES <= COPY_BYTES) {
		struct tx *tx = &b->tx[n++];

		tx->index = index;
		tx->error = sq_gather(qp, tx, (uint16_t)(head - index));
		if (tx->error)
			break;
		if (!tx->nop && (tx->cs_flags & (HW_ETH_L3_CSUM | HW_ETH_L4_CSUM))) {
			sq_offload(tx, b->copies + copied);
			copied += tx->bytes;
		}
		index = (uint16_t)(index + tx->n_bb);
	}
	return n;
}

static bool sq_is_frame(const struct tx *tx)
{
	return !tx->error && !tx->nop && !tx->dropped;
}

/* Returns the number of the batch's frames that the wire took. */
static int sq_send_batch(struct qp *qp, const struct sq_batch *b, int n)
{
	struct wire *wire = qp->device->wire;
	const struct iovec *iov[WIRE_SEND_MAX];
	int iovcnt[WIRE_SEND_MAX], n_frames = 0;

	for (int i = 0; i < n; i++) {
		if (!sq_is_frame(&b->tx[i]))
			continue;
		iov[n_frames] = b->tx[i].iov;
		iovcnt[n_frames++] = b->tx[i].n;
	}
	return n_frames ? wire->ops->send(wire, iov, iovcnt, n_frames) : 0;
}

static int sq_send_some(struct qp *qp, struct sq_batch *b, int max)
{
	struct device *d = qp->device;
	struct sq *sq = &qp->sq;
	int n, sent, done = 0;
	uint64_t timestamp;

	if (sq->cq->failed)
		return 0;
	n = sq_collect(qp, b, max);
	if (!n)
		return 0;
	if (d->injected.send_every)
		n = sq_refuse(&d->injected, b->tx, n);
	sent = sq_send_batch(qp, b, n);
	timestamp = cq_timestamp_now(sq->cq);
	for (; done < n && sq->state == WQ_RDY; done++) {
		const struct tx *tx = &b->tx[done];

		if (sq_is_frame(tx)) {
			if (!sent--)
				break; /* the link is busy: the next turn sends the rest */
			d->counters.tx_packets++;
			d->counters.tx_bytes += tx->bytes;
			steer_sent(d, tx->iov, tx->n);
			pacing_sent(&sq->pacing, tx->bytes);
		}
		sq_complete(qp, tx, timestamp);
		sq->taken = (uint16_t)(sq->taken + tx->n_bb);
		if (tx->error)
			sq_fail(qp, true);
	}
	return done;
}

int sq_work(struct qp *qp, struct sq_batch *b)
{
	struct sq *sq = &qp->sq;
	int done = 0, n = 1;

	if (!sq->pacing.rate_kbps)
		return sq_send_some(qp, b, WIRE_SEND_MAX);
	if (wq_posted(sq->dbrec) == sq->taken)
		pacing_idle(&sq->pacing);
	for (; n && done < WIRE_SEND_MAX && sq->state == WQ_RDY && wq_posted(sq->dbrec) != sq->taken &&
	       pacing_may_send(&sq->pacing, clock_raw_ns());
	     done += n)
		n = sq_send_some(qp, b, 1);
	return done;
}
