// SPDX-License-Identifier: Apache-2.0
/* A queue that sends: what it asks of the device. */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define SIGNAL_EVERY_MAX 32

static int check_options(const struct verbs_backend *backend, const struct backend_send_options *options,
                         struct failure *failure)
{
	const char *device = verbs_device_name(backend);
	struct backend_capabilities is;

	verbs_backend_ops.capabilities(&backend->base, &is);
	if (options->slots == 0 || options->slots > is.max_send_slots)
		return failure_set(failure, EX_CONFIG, EINVAL, "send queue of %u slots on %s: accepted are 1 to %u",
		                   options->slots, device, is.max_send_slots);
	if (options->checksums && !is.send_checksums)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP,
		                   "%s fills in no checksums: set udp_checksum = \"software\" (or \"zero\", for IPv4)",
		                   device);
	if (options->rate_bps && !is.max_rate_bps)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP, "%s cannot pace what it sends", device);
	if (options->rate_bps && (options->rate_bps < is.min_rate_bps || options->rate_bps > is.max_rate_bps))
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "%s cannot pace to %" PRIu64 " bit/s: it can to %" PRIu64 " to %" PRIu64, device,
		                   options->rate_bps, is.min_rate_bps, is.max_rate_bps);
	return 0;
}

/* A power of two. Of a short queue a quarter at most waits for its signal. */
static uint32_t signal_every(uint32_t slots)
{
	uint32_t every = SIGNAL_EVERY_MAX;

	while (every > 1 && every > slots / 4)
		every /= 2;
	return every;
}

static int create_qp(struct verbs_queue *queue, uint32_t slots, struct failure *failure)
{
	/*
	 * One receive that is never posted: without a receive queue, mlx5_ib does not say that the send queue is in
	 * error when it is asked for the state.
	 */
	struct ibv_qp_cap given = {.max_send_wr = slots, .max_send_sge = 2, .max_recv_wr = 1, .max_recv_sge = 1};
	int n_cqe = ibv_cq_ex_to_cq(queue->cq)->cqe;

	/* After an error every packet that is under way completes, signalled or not. */
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

	error = check_options(backend, options, failure);
	if (error)
		return error;
	queue = verbs_queue_new(backend, sizeof(*send), failure);
	if (!queue)
		return -ENOMEM;
	queue->sends = true;
	send = verbs_send_queue(&queue->base);
	send->slots = options->slots;
	send->signal_mask = signal_every(options->slots) - 1;
	send->headers_lkey = verbs_lkey(options->headers);
	send->flags = options->checksums ? IBV_SEND_IP_CSUM : 0;
	send->rate.rate_limit = (uint32_t)(options->rate_bps / 1000);
	send->rate.max_burst_sz = options->rate_bps ? options->burst_bytes : 0;
	error = verbs_queue_create_cq(queue, options->slots, 0, options->completion_events, failure);
	if (!error)
		error = create_qp(queue, options->slots, failure);
	if (!error)
		send->qp = ibv_qp_to_qp_ex(queue->qp);
	if (error)
		verbs_destroy_queue(&queue->base);
	else
		*out = &queue->base;
	return error;
}

/* The device forgets its rate with every reset. */
static int set_rate(struct verbs_send_queue *send)
{
	int error = ibv_modify_qp_rate_limit(send->queue.qp, &send->rate);

	if (error == EINVAL && send->rate.max_burst_sz) {
		log_info("%s paces, but takes no burst of %u bytes", verbs_device_name(send->queue.backend),
		         send->rate.max_burst_sz);
		send->rate.max_burst_sz = 0;
		error = ibv_modify_qp_rate_limit(send->queue.qp, &send->rate);
	}
	return -error;
}

int verbs_send_start(struct verbs_send_queue *send)
{
	int error = verbs_queue_modify(&send->queue, IBV_QPS_RTS);

	return error || !send->rate.rate_limit ? error : set_rate(send);
}
