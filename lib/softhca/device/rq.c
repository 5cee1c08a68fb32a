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

/* False if the queue takes no more frames: it or its completion queue is in error. */
static bool rq_receive_one(struct rq *rq, const uint8_t *frame, uint32_t len, const struct hw_cqe *described)
{
	const uint8_t *wqe = rq->buf + ((size_t)(rq->taken & (rq->n_wqe - 1)) << rq->wqe_shift);
	enum hw_syndrome error = rq_scatter(rq, (const void *)wqe, 1u << rq->wqe_shift >> 4, frame, len);
	struct hw_cqe *cqe;

	if (!error && rq_is_refused(&rq->device->injected))
		error = rq->device->injected.receive_status;
	if (error) {
		cq_post_error(rq->cq, rq->uidx, rq->number, HW_CQE_RESP_ERR, rq->taken, error);
		rq->taken++;
		if (error != HW_SYNDROME_LOCAL_LENGTH || rq->device->config.length_error_is_fatal)
			rq_fail(rq, true);
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

/* What few queues ask for. */
static void rq_describe_more(struct hw_cqe *cqe, const struct cq *cq, const struct rx_info *info, const uint8_t *frame,
                             uint32_t len)
{
	if (cq->real_time)
		cqe->timestamp_be = htobe64(info->real_time);
	if (cq->mini_format == HW_MINI_CSUM && frame)
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
	if (rq->cq->asks_more)
		rq_describe_more(&described, rq->cq, info, frame, len);
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
		rq->taken = rq->posted = rq->traced = 0;
	else if (state == WQ_ERR)
		fault_guard(rq->device, rq_flush, rq);
}
