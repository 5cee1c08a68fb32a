// SPDX-License-Identifier: Apache-2.0
/* Creates a receive queue: checks its options against the device, and sizes its queue pair and completion queue. */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/base/log.h"
#include "daemon/base/size.h"

#include <errno.h>

static int verbs_check_receive_options(const struct verbs_backend *backend, const struct backend_queue_options *options,
                                       struct failure *failure)
{
	const char *device = verbs_device_name(backend);
	const struct ibv_device_attr *attr = &backend->attr.orig_attr;
	int n_sges = verbs_sges_of_slot(options);

	if (options->slots == 0 || options->slots % VERBS_CHAIN != 0 || options->slots > (uint32_t)attr->max_qp_wr ||
	    options->slots > (uint32_t)attr->max_cqe)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "receive queue of %u slots on %s: accepted are multiples of %d up to %d",
		                   options->slots, device, VERBS_CHAIN, attr->max_qp_wr / VERBS_CHAIN * VERBS_CHAIN);
	if (options->oversize_sink && !backend->sink)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP,
		                   "%s has no null memory region for longer packets: set oversize_sink = false",
		                   device);
	if (options->timestamps && backend->timestamps == VERBS_TIMESTAMPS_NONE)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP,
		                   "%s has no timestamps in its completions: set timestamps = \"software\"", device);
	if (attr->max_sge < n_sges)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP, "%s takes %d SGEs a receive, %d are needed",
		                   device, attr->max_sge, n_sges);
	return 0;
}

static int verbs_create_receive_cq(struct verbs_queue *queue, const struct backend_queue_options *options,
                                   struct failure *failure)
{
	uint64_t wc_flags = IBV_WC_EX_WITH_BYTE_LEN;

	/*
	 * Raw ticks, because the library converts WALLCLOCK by a clock that it reads itself; real time needs no
	 * conversion.
	 */
	if (options->timestamps)
		wc_flags |= queue->backend->timestamps == VERBS_TIMESTAMPS_REAL_TIME
		                    ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
		                    : IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	if (options->flow_tags)
		wc_flags |= IBV_WC_EX_WITH_FLOW_TAG;
	/* The provider rounds the receive queue up to a power of two, and a completion queue that overruns is lost. */
	return verbs_queue_create_cq(queue, round_up_to_power_of_two(options->slots), wc_flags,
	                             options->completion_events, failure);
}

static int verbs_create_receive_qp(struct verbs_queue *queue, const struct backend_queue_options *options,
                                   struct failure *failure)
{
	struct ibv_qp_cap given = {.max_recv_wr = options->slots,
	                           .max_recv_sge = (uint32_t)verbs_sges_of_slot(options)};
	const char *device = verbs_device_name(queue->backend);
	int n_cqe = ibv_cq_ex_to_cq(queue->cq)->cqe, error;

	error = verbs_queue_create_qp(queue, &given, failure);
	if (error)
		return error;
	if (given.max_recv_wr != options->slots)
		log_info("%s: receive queue on %s: asked for %u slots, given %u; completion queue %d entries",
		         queue->backend->interface, device, options->slots, given.max_recv_wr, n_cqe);
	if ((uint32_t)n_cqe < given.max_recv_wr)
		return failure_set(
			failure, EX_UNAVAILABLE, EOVERFLOW,
			"%s gave a completion queue of %d entries for a receive queue of %u: it would overrun", device,
			n_cqe, given.max_recv_wr);
	return 0;
}

int verbs_create_queue(struct backend *base, const struct backend_queue_options *options, struct backend_queue **out,
                       struct failure *failure)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct verbs_receive_queue *receive;
	struct verbs_queue *queue;
	int error;

	error = verbs_check_receive_options(backend, options, failure);
	if (error)
		return error;
	queue = verbs_queue_new(backend, sizeof(*receive), failure);
	if (!queue)
		return -ENOMEM;
	receive = verbs_receive_queue(&queue->base);
	receive->header_stride = options->header_stride;
	receive->row_stride = options->row_stride;
	receive->flow_tags = options->flow_tags;
	receive->timestamps = options->timestamps ? backend->timestamps : VERBS_TIMESTAMPS_NONE;
	verbs_chain_init(receive, options);
	error = verbs_create_receive_cq(queue, options, failure);
	if (!error)
		error = options->in_group ? verbs_create_member(queue, options, failure)
		                          : verbs_create_receive_qp(queue, options, failure);
	if (!error)
		error = verbs_counters_create(queue, failure);
	if (error)
		verbs_destroy_queue(&queue->base);
	else
		*out = &queue->base;
	return error;
}
