// SPDX-License-Identifier: Apache-2.0
/*
 * Send queues, and the hot path of sending, which posts packets and reaps completions: no allocation, no lock, no
 * system call there.
 *
 * It uses ibv_wr_*: with two SGEs and checksums by the device, libmlx5 takes 189 instructions a packet (`scripts/bench
 * send`, libmlx5 44). Chains for ibv_post_send() took 237.
 */
#include "daemon/backend/verbs/verbs.h"

#include <errno.h>
#include <inttypes.h>

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

static inline __attribute__((always_inline)) int
verbs_post_packets(struct verbs_send_queue *send, const struct backend_packet *packets, uint32_t n, unsigned flags)
{
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

		verbs_put_packet(send, packets, send->n_posted + i, flags | (signalled ? IBV_SEND_SIGNALED : 0));
	}
	error = ibv_wr_complete(send->qp); /* the doorbell */
	if (error)
		return -error;
	send->n_posted += n;
	return (int)n;
}

int verbs_send_post(struct backend_queue *base, const struct backend_packet *packets, uint32_t n)
{
	struct verbs_send_queue *send = verbs_send_queue(base);

	return verbs_post_packets(send, packets, n, send->flags);
}

int verbs_send_post_summed(struct backend_queue *base, const struct backend_packet *packets, uint32_t n)
{
	return verbs_post_packets(verbs_send_queue(base), packets, n, 0);
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

/* ---- the queue ---------------------------------------------------------------------------------- */

#define SIGNAL_EVERY_MAX 32

static int verbs_check_send_options(const struct verbs_backend *backend, const struct backend_send_options *options,
                                    struct failure *failure)
{
	const char *device = verbs_device_name(backend);
	struct backend_capabilities is;

	backend->base.ops->capabilities(&backend->base, &is);
	if (options->slots == 0 || options->slots > is.max_send_slots)
		return failure_set(failure, EX_CONFIG, EINVAL, "send queue of %u slots on %s: accepted are 1 to %u",
		                   options->slots, device, is.max_send_slots);
	if (options->checksums && !is.send_checksums)
		return failure_set(
			failure, EX_UNAVAILABLE, ENOTSUP,
			"%s cannot fill in checksums: set udp_checksum = \"software\" (or \"zero\", for IPv4)", device);
	if (options->rate_bps && !is.max_rate_bps)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP, "%s cannot pace what it sends", device);
	if (options->rate_bps && (options->rate_bps < is.min_rate_bps || options->rate_bps > is.max_rate_bps))
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "%s cannot pace to %" PRIu64 " bit/s: it can to %" PRIu64 " to %" PRIu64, device,
		                   options->rate_bps, is.min_rate_bps, is.max_rate_bps);
	return 0;
}

/* A power of two. At most a quarter of a short queue waits for a signalled completion. */
static uint32_t verbs_signal_every(uint32_t slots)
{
	uint32_t every = SIGNAL_EVERY_MAX;

	while (every > 1 && every > slots / 4)
		every /= 2;
	return every;
}

static int verbs_create_send_qp(struct verbs_queue *queue, uint32_t slots, struct failure *failure)
{
	/*
	 * One receive work request, which is never posted: without a receive queue, mlx5_ib does not report that the
	 * send queue is in the error state.
	 */
	struct ibv_qp_cap given = {.max_send_wr = slots, .max_send_sge = 2, .max_recv_wr = 1, .max_recv_sge = 1};
	int n_cqe = ibv_cq_ex_to_cq(queue->cq)->cqe;

	/* After an error every posted packet completes, signalled or not. */
	if ((uint32_t)n_cqe < slots)
		return failure_set(failure, EX_UNAVAILABLE, EOVERFLOW,
		                   "%s gave a completion queue of %d entries for a send queue of %u: it would overrun",
		                   verbs_device_name(queue->backend), n_cqe, slots);
	return verbs_queue_create_qp(queue, &given, failure);
}

int verbs_create_send_queue(struct backend *base, const struct backend_send_options *options,
                            struct backend_queue **out, struct failure *failure)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct verbs_send_queue *send;
	struct verbs_queue *queue;
	int error;

	error = verbs_check_send_options(backend, options, failure);
	if (error)
		return error;
	queue = verbs_queue_new(backend, sizeof(*send), failure);
	if (!queue)
		return -ENOMEM;
	queue->sends = true;
	send = verbs_send_queue(&queue->base);
	send->slots = options->slots;
	send->signal_mask = verbs_signal_every(options->slots) - 1;
	send->headers_lkey = verbs_lkey(options->headers);
	send->flags = options->checksums ? IBV_SEND_IP_CSUM : 0;
	send->rate.rate_limit = (uint32_t)(options->rate_bps / 1000);
	send->rate.max_burst_sz = options->rate_bps ? options->burst_bytes : 0;
	error = verbs_queue_create_cq(queue, options->slots, 0, options->completion_events, failure);
	if (!error)
		error = verbs_create_send_qp(queue, options->slots, failure);
	if (!error)
		send->qp = ibv_qp_to_qp_ex(queue->qp);
	if (error)
		verbs_destroy_queue(&queue->base);
	else
		*out = &queue->base;
	return error;
}
