// SPDX-License-Identifier: Apache-2.0
/*
 * The hot path of sending: posts packets and reaps completions. No allocation, no lock, no system call.
 *
 * It uses ibv_wr_*: with two SGEs and checksums by the device, libmlx5 takes 189 instructions a packet (`scripts/bench
 * send`, libmlx5 44). Chains for ibv_post_send() took 237.
 */
#include "daemon/backend/verbs/verbs.h"

#include <errno.h>

/* id: the number of packets posted so far, including this one. */
static inline void verbs_put_packet(const struct verbs_send_queue *send, const struct backend_packet *packet,
                                    uint32_t id, unsigned flags)
{
	struct ibv_sge sges[2] = {
		{.addr = (uintptr_t)packet->headers, .length = packet->header_bytes, .lkey = send->headers_lkey}};
	size_t n_sges = 1;

	send->qp->wr_id = id;
	send->qp->wr_flags = flags;
	ibv_wr_send(send->qp);
	if (packet->payload_bytes) { /* an SGE of no bytes is one of 2 GiB (PRM, data segment) */
		sges[n_sges++] = (struct ibv_sge){.addr = (uintptr_t)packet->payload,
		                                  .length = packet->payload_bytes,
		                                  .lkey = verbs_lkey(packet->payload_memory)};
	}
	ibv_wr_set_sge_list(send->qp, n_sges, sges);
}

int verbs_send_post(struct backend_queue *base, const struct backend_packet *packets, uint32_t n)
{
	struct verbs_send_queue *send = verbs_send_queue(base);
	uint32_t n_free = send->slots - (send->n_posted - send->n_reaped);
	int error;

	/* Never more than there is room for: the library posts all packets of a batch or none. */
	if (n > n_free)
		n = n_free;
	if (n == 0)
		return 0;
	ibv_wr_start(send->qp);
	for (uint32_t i = 1; i <= n; i++, packets++) {
		/*
		 * Only a signalled completion frees places in the send queue: its own and those of all packets before.
		 */
		bool signalled = (i & send->signal_mask) == 0 || i == n;

		verbs_put_packet(send, packets, send->n_posted + i, send->flags | (signalled ? IBV_SEND_SIGNALED : 0));
	}
	error = ibv_wr_complete(send->qp); /* the doorbell */
	if (error)
		return -error;
	send->n_posted += n;
	return (int)n;
}

/*
 * A failed completion. An error concerns its own packet: the packets before it were sent, because packets are sent in
 * order. A flush says nothing about the unsignalled packets before it, so all of them count as flushed.
 */
static __attribute__((noinline, cold)) struct backend_sent *
verbs_take_send_error(struct verbs_send_queue *send, enum ibv_wc_status status, uint32_t n, struct backend_sent *sent)
{
	atomic_store_explicit(&send->queue.failed, true, memory_order_relaxed);
	if (status == IBV_WC_WR_FLUSH_ERR) {
		*sent++ = (struct backend_sent){.n = n, .status = BACKEND_FLUSHED};
		return sent;
	}
	if (n > 1)
		*sent++ = (struct backend_sent){.n = n - 1, .status = BACKEND_OK};
	*sent++ = (struct backend_sent){.n = 1, .status = BACKEND_SLOT_ERROR};
	return sent;
}

int verbs_send_reap(struct backend_queue *base, struct backend_sent *sent, uint32_t max)
{
	struct verbs_send_queue *send = verbs_send_queue(base);
	struct backend_sent *next = sent;
	const struct backend_sent *end = sent + max;
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq_ex *cq = send->queue.cq;
	int error;

	error = ibv_start_poll(cq, &attr);
	if (error == ENOENT) /* no ibv_end_poll() is due after ibv_start_poll() failed */
		return atomic_load_explicit(&send->queue.failed, memory_order_relaxed) ? -EIO : 0;
	if (error)
		return -error;
	do {
		uint32_t n = (uint32_t)cq->wr_id - send->n_reaped;

		send->n_reaped += n;
		if (__builtin_expect(cq->status == IBV_WC_SUCCESS, 1))
			*next++ = (struct backend_sent){.n = n, .status = BACKEND_OK};
		else
			next = verbs_take_send_error(send, cq->status, n, next);
	} while (end - next >= 2 && ibv_next_poll(cq) == 0);
	ibv_end_poll(cq);
	return (int)(next - sent);
}
