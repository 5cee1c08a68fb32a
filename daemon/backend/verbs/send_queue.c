// SPDX-License-Identifier: Apache-2.0
/* Creates a send queue: checks its options against the device, and sizes its queue pair and completion queue. */
#include "daemon/backend/verbs/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

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
