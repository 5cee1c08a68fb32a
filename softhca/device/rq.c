// SPDX-License-Identifier: Apache-2.0
/* Receive queues: scatters frames into the program's buffers along the posted work requests, and completes them. */
#include "rq.h"

#include "../wire/dma.h"
#include "fault.h"
#include "packet.h"

#include <endian.h>
#include <string.h>

void rq_fail(struct rq *rq, bool completed)
{
	const struct device_events *events = rq->device->events;

	if (rq->state == WQ_ERR)
		return;
	rq_set_state(rq, WQ_ERR);
	if (completed && !rq->device->config.error_events)
		return;
	/* mlx5_ib: mlx5_ib_qp_event and mlx5_ib_wq_event, for a WQ catastrophic error. */
	if (rq->qp)
		events->qp_fatal(rq->qp);
	else
		events->wq_fatal(rq);
}

/* Copies the frame along the entry's scatter list. Returns 0 or the error. */
static enum hw_syndrome rq_scatter(const struct rq *rq, const struct hw_data_seg *seg, uint32_t n_segs,
                                   const uint8_t *frame, uint32_t left)
{
	const struct mkey_table *keys = &rq->device->mkeys;

	for (; left && n_segs; n_segs--, seg++) {
		uint32_t lkey = be32toh(seg->lkey_be);
		uint32_t bytes = be32toh(seg->byte_count_be);
		uint64_t addr = be64toh(seg->addr_be);

		if (lkey == HW_INVALID_LKEY)
			break;
		if (bytes > left)
			bytes = left;
		if (lkey != MKEY_NULL) {
			uint8_t *to = mkey_translate(keys, rq->pd, lkey, addr, bytes, true);

			if (!to)
				return HW_SYNDROME_LOCAL_PROT;
			if (frame)
				dma_copy(to, frame, bytes);
		}
		if (frame)
			frame += bytes;
		left -= bytes;
	}
	return left ? HW_SYNDROME_LOCAL_LENGTH : 0;
}

uint32_t rq_room(struct rq *rq)
{
	if (rq->state != WQ_RDY || !rq->n_wqe)
		return 0;
	/* The program writes the record with every post, so each reading moves a cache line: read it only when no
	 * entry seems left. */
	if (rq->posted == rq->taken)
		rq->posted = wq_posted(rq->dbrec);
	return (uint16_t)(rq->posted - rq->taken);
}

/* The fault "receive-error". */
static bool rq_is_refused(struct injected *i)
{
	if (!i->receive_every || ++i->receive_count < i->receive_every)
		return false;
	i->receive_count = 0;
	return true;
}

static void rq_complete_error(struct rq *rq, enum hw_syndrome error)
{
	cq_post_error(rq->cq, rq->uidx, rq->number, HW_CQE_RESP_ERR, rq->taken, error);
	rq->taken++;
	rq->stride = 0;
	if (error != HW_SYNDROME_LOCAL_LENGTH || rq->device->config.length_error_is_fatal)
		rq_fail(rq, true);
}

/* False if the queue takes no more frames: it or its completion queue is in error. */
static bool rq_receive_one(struct rq *rq, const uint8_t *frame, uint32_t len, const struct hw_cqe *described)
{
	const uint8_t *wqe = rq->buf + ((size_t)(rq->taken & (rq->n_wqe - 1)) << rq->wqe_shift);
	enum hw_syndrome error = rq_scatter(rq, (const void *)wqe, 1u << rq->wqe_shift >> 4, frame, len);
	struct hw_cqe *cqe;

	if (!error && rq_is_refused(&rq->device->injected))
		error = rq->device->injected.receive_status;
	if (error) {
		rq_complete_error(rq, error);
		return rq->state == WQ_RDY;
	}
	cqe = cq_next(rq->cq);
	if (!cqe)
		return false;
	memcpy(cqe, described, offsetof(struct hw_cqe, wqe_counter_be));
	cqe->wqe_counter_be = htobe16(rq->taken);
	cqe->signature = 0;
	rq->taken++;
	cq_post(rq->cq, cqe, HW_CQE_RESP_SEND);
	return true;
}

/* Copies the frame along an entry's scatter list from byte `skip` of it on. A length of 0 is 2 GiB (PRM, data segment).
 */
static enum hw_syndrome striding_scatter(const struct rq *rq, const struct hw_data_seg *seg, uint64_t skip,
                                         const uint8_t *frame, uint32_t left)
{
	uint32_t n_segs = (1u << rq->wqe_shift >> 4) - 1;

	for (; left && n_segs && be32toh(seg->lkey_be) != HW_INVALID_LKEY; n_segs--, seg++) {
		uint64_t bytes = be32toh(seg->byte_count_be) ? be32toh(seg->byte_count_be) : 1ull << 31;
		uint32_t now = bytes - skip < left ? (uint32_t)(bytes - skip) : left;
		uint8_t *to;

		if (skip >= bytes) {
			skip -= bytes;
			continue;
		}
		to = mkey_translate(&rq->device->mkeys, rq->pd, be32toh(seg->lkey_be), be64toh(seg->addr_be) + skip,
		                    now, true);
		if (!to)
			return HW_SYNDROME_LOCAL_PROT;
		if (frame)
			dma_copy(to, frame, now);
		frame = frame ? frame + now : NULL;
		left -= now;
		skip = 0;
	}
	return left ? HW_SYNDROME_LOCAL_LENGTH : 0;
}

/* Uses up strides of the entry. False if the completion queue has overrun. */
static bool striding_complete(struct rq *rq, const struct hw_cqe *described, uint32_t byte_cnt, uint32_t n)
{
	struct hw_cqe *cqe = cq_next(rq->cq);

	if (!cqe)
		return false;
	memcpy(cqe, described, offsetof(struct hw_cqe, wqe_counter_be));
	cqe->wqe_id_be = htobe16(rq->taken);
	cqe->byte_cnt_be = htobe32(byte_cnt | n << 16);
	cqe->wqe_counter_be = htobe16((uint16_t)rq->stride);
	cqe->signature = 0;
	rq->stride += n;
	if (rq->stride >> rq->log_strides) {
		rq->stride = 0;
		rq->taken++;
	}
	cq_post(rq->cq, cqe, HW_CQE_RESP_SEND);
	return true;
}

/* False if the queue takes no more frames. */
static bool striding_receive_one(struct rq *rq, const uint8_t *frame, uint32_t len, const struct hw_cqe *described)
{
	const struct hw_cqe filler = {.uidx_be = described->uidx_be};
	uint32_t n = ((len + rq->shift_bytes - 1) >> rq->log_stride_bytes) + 1, all = 1u << rq->log_strides;
	const struct hw_data_seg *wqe;
	enum hw_syndrome error;

	/* A packet does not go beyond its entry: a completion without a packet uses up what is left of that. */
	if (rq->stride && rq->stride + n > all && !striding_complete(rq, &filler, HW_STRIDE_FILLER, all - rq->stride))
		return false;
	if (!rq_room(rq)) {
		rq->device->counters.out_of_buffer++;
		return true;
	}
	wqe = (const void *)(rq->buf + ((size_t)(rq->taken & (rq->n_wqe - 1)) << rq->wqe_shift));
	error = n > all || len > UINT16_MAX
	                ? HW_SYNDROME_LOCAL_LENGTH
	                : striding_scatter(rq, wqe + 1,
	                                   ((uint64_t)rq->stride << rq->log_stride_bytes) + rq->shift_bytes, frame,
	                                   len);
	if (!error && rq_is_refused(&rq->device->injected))
		error = rq->device->injected.receive_status;
	if (!error)
		return striding_complete(rq, described, len, n);
	rq_complete_error(rq, error);
	return rq->state == WQ_RDY;
}

/* What few queues ask for. */
static void rq_describe_more(struct hw_cqe *cqe, const struct cq *cq, const struct rx_info *info, const uint8_t *frame,
                             uint32_t len)
{
	if (cq->real_time)
		cqe->timestamp_be = htobe64(info->real_time);
	if (cq->mini_format != HW_MINI_HASH && frame)
		cqe->check_sum = packet_ip_sum(frame, len);
}

void rq_receive(struct rq *rq, const uint8_t *frame, uint32_t len, const struct rx_info *info, uint32_t times)
{
	struct hw_cqe described;

	/* verbs-rules.md "Bring-up": before RTR a matching frame is dropped without being counted. */
	if (rq->state != WQ_RDY || !rq->n_wqe)
		return;
	/* All fields of a completion but the work request's counter and the owner. */
	described = (struct hw_cqe){
		.rx_hash_be = info->rx_hash_be,
		.hds_ip_ext = info->checked,
		.l4_hdr_type_etc = info->hdr_type,
		.vlan_info_be = info->vlan_tci_be,
		.uidx_be = htobe32(rq->uidx),
		.byte_cnt_be = htobe32(len),
		.timestamp_be = htobe64(info->timestamp),
		.sop_drop_qpn_be = htobe32(info->flow_tag),
	};
	if (rq->cq->asks_more) {
		rq_describe_more(&described, rq->cq, info, frame, len);
		if (rq->log_strides) {
			while (times-- && striding_receive_one(rq, frame, len, &described))
				;
			return;
		}
	}
	for (; times; times--) {
		if (!rq_room(rq)) {
			rq->device->counters.out_of_buffer += times;
			return;
		}
		if (!rq_receive_one(rq, frame, len, &described))
			return;
	}
	if ((uint16_t)(rq->posted - rq->taken) >= DEVICE_BURST)
		return;
	rq->posted = wq_posted(rq->dbrec);
	rq->device->starves |= (uint16_t)(rq->posted - rq->taken) < DEVICE_BURST;
}

void rq_flush(void *arg)
{
	struct rq *rq = arg;

	while (rq->n_wqe && wq_posted(rq->dbrec) != rq->taken && !rq->cq->failed) {
		cq_post_error(rq->cq, rq->uidx, rq->number, HW_CQE_RESP_ERR, rq->taken, HW_SYNDROME_WR_FLUSH);
		rq->taken++;
	}
}

void rq_set_state(struct rq *rq, enum wq_state state)
{
	rq->state = state;
	if (state == WQ_RST)
		rq->taken = rq->posted = rq->traced = 0, rq->stride = 0;
	else if (state == WQ_ERR)
		fault_guard(rq->device, rq_flush, rq);
}
