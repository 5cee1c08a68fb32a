// SPDX-License-Identifier: Apache-2.0
/* Life of a queue: thread domain, completion queue, RAW_PACKET queue pair, its states. */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>

static int check_options(const struct verbs_backend *backend, const struct backend_queue_options *options,
                         struct fault *fault)
{
	const char *device = verbs_device_name(backend);
	const struct ibv_device_attr *attr = &backend->attr.orig_attr;
	int n_sges = options->oversize_sink ? 3 : 2;

	if (options->slots == 0 || options->slots % VERBS_CHAIN != 0 || options->slots > (uint32_t)attr->max_qp_wr ||
	    options->slots > (uint32_t)attr->max_cqe)
		return fault_set(fault, EX_CONFIG, EINVAL,
		                 "receive queue of %u slots on %s: accepted are multiples of %d up to %d", options->slots,
		                 device, VERBS_CHAIN, attr->max_qp_wr / VERBS_CHAIN * VERBS_CHAIN);
	if (options->oversize_sink && !backend->sink)
		return fault_set(fault, EX_UNAVAILABLE, ENOTSUP,
		                 "%s has no null memory region for longer packets: set oversize_sink = false", device);
	if (options->timestamps && !backend->attr.completion_timestamp_mask)
		return fault_set(fault, EX_UNAVAILABLE, ENOTSUP,
		                 "%s has no timestamps in its completions: set timestamps = false", device);
	if (attr->max_sge < n_sges)
		return fault_set(fault, EX_UNAVAILABLE, ENOTSUP, "%s takes %d SGEs a receive, %d are needed", device,
		                 attr->max_sge, n_sges);
	return 0;
}

/* One thread uses the queue pair: without locks of the library, where the provider knows thread domains. */
static void create_domain(struct verbs_queue *queue)
{
	struct ibv_td_init_attr td = {0};

	queue->thread_domain = ibv_alloc_td(queue->backend->context, &td);
	if (queue->thread_domain) {
		struct ibv_parent_domain_init_attr init = {.pd = queue->backend->pd, .td = queue->thread_domain};

		queue->parent_domain = ibv_alloc_parent_domain(queue->backend->context, &init);
	}
	if (!queue->parent_domain)
		log_info("%s has no thread domains (%s): a lock is taken for every chain of posts",
		         verbs_device_name(queue->backend), strerror(errno));
}

static int create_channel(struct verbs_queue *queue, struct fault *fault)
{
	queue->channel = ibv_create_comp_channel(queue->backend->context);
	if (!queue->channel || fcntl(queue->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return fault_set(fault, EX_OSERR, errno, "cannot create a completion channel on %s: %s",
		                 verbs_device_name(queue->backend), strerror(errno));
	return 0;
}

static uint32_t next_power_of_two(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

static int create_cq(struct verbs_queue *queue, const struct backend_queue_options *options, struct fault *fault)
{
	/* The receive queue comes rounded up to a power of two, and an overrun completion queue is fatal. */
	struct ibv_cq_init_attr_ex init = {
		.cqe = next_power_of_two(options->slots),
		.cq_context = queue,
		.channel = queue->channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};

	/* Raw ticks: WALLCLOCK is converted in the library, by a clock it reads itself. */
	if (options->timestamps)
		init.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	queue->cq = ibv_create_cq_ex(queue->backend->context, &init);
	if (!queue->cq)
		return fault_set(fault, EX_UNAVAILABLE, errno,
		                 "cannot create a completion queue of %u entries%s on %s: %s (libibverbs 1.7 or later "
		                 "and a provider with extended completion queues are needed)",
		                 init.cqe, options->timestamps ? " with timestamps" : "",
		                 verbs_device_name(queue->backend), strerror(errno));
	return 0;
}

static int explain_qp(const struct verbs_backend *backend, uint32_t slots, int error, struct fault *fault)
{
	const char *device = verbs_device_name(backend);

	/* EINVAL on some kernels */
	if (error == EPERM || error == EACCES || (error == EINVAL && !verbs_has_capability(CAP_NET_RAW)))
		return fault_set(fault, EX_NOPERM, error, "cannot create a raw packet queue on %s: %s: " VERBS_NET_RAW_HINT,
		                 device, strerror(error));
	if (error == EOPNOTSUPP)
		return fault_set(fault, EX_UNAVAILABLE, error,
		                 "%s has no raw packet queue pairs: a ConnectX-4 or later in Ethernet mode is needed",
		                 device);
	return fault_set(fault, EX_UNAVAILABLE, error, "cannot create a raw packet queue of %u slots on %s: %s", slots,
	                 device, strerror(error));
}

static int create_qp(struct verbs_queue *queue, const struct backend_queue_options *options, struct fault *fault)
{
	struct ibv_qp_init_attr init = {
		.qp_context = queue,
		.send_cq = ibv_cq_ex_to_cq(queue->cq),
		.recv_cq = ibv_cq_ex_to_cq(queue->cq),
		.cap = {.max_recv_wr = options->slots, .max_recv_sge = options->oversize_sink ? 3 : 2},
		.qp_type = IBV_QPT_RAW_PACKET,
	};
	const char *device = verbs_device_name(queue->backend);
	int n_cqe;

	queue->qp = ibv_create_qp(queue->parent_domain ? queue->parent_domain : queue->backend->pd, &init);
	if (!queue->qp)
		return explain_qp(queue->backend, options->slots, errno, fault);
	n_cqe = ibv_cq_ex_to_cq(queue->cq)->cqe;
	if (init.cap.max_recv_wr != options->slots)
		log_info("%s: receive queue on %s: asked for %u slots, given %u; completion queue %d entries",
		         queue->backend->interface, device, options->slots, init.cap.max_recv_wr, n_cqe);
	if ((uint32_t)n_cqe < init.cap.max_recv_wr)
		return fault_set(fault, EX_UNAVAILABLE, EOVERFLOW,
		                 "%s gave a completion queue of %d entries for a receive queue of %u: it would overrun",
		                 device, n_cqe, init.cap.max_recv_wr);
	return 0;
}

static int modify(struct verbs_queue *queue, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = queue->backend->port};

	/* What mlx5_ib takes for a raw packet queue pair, no more and no less. */
	return -ibv_modify_qp(queue->qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

int verbs_create_queue(struct backend *base, const struct backend_queue_options *options, struct backend_queue **out,
                       struct fault *fault)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct verbs_queue *queue = NULL;
	int error;

	error = check_options(backend, options, fault);
	if (error)
		return error;
	queue = aligned_alloc(_Alignof(struct verbs_queue), sizeof(*queue));
	if (!queue)
		return fault_set(fault, EX_OSERR, ENOMEM, "no memory for a queue");
	memset(queue, 0, sizeof(*queue));
	queue->base.ops = &verbs_backend_ops;
	queue->backend = backend;
	queue->header_stride = options->header_stride;
	queue->slot_bytes = options->slot_bytes;
	queue->timestamps = options->timestamps;
	verbs_chain_init(queue, options);

	create_domain(queue);
	if (options->completion_events)
		error = create_channel(queue, fault);
	if (!error)
		error = create_cq(queue, options, fault);
	if (!error)
		error = create_qp(queue, options, fault);
	if (!error && (error = modify(queue, IBV_QPS_INIT)) < 0)
		fault_set(fault, EX_UNAVAILABLE, -error, "cannot initialise a queue on port %u of %s: %s", backend->port,
		          verbs_device_name(backend), strerror(-error));
	if (!error)
		error = verbs_counters_create(queue, fault);
	if (error)
		verbs_destroy_queue(&queue->base);
	else
		*out = &queue->base;
	return error;
}

void verbs_destroy_queue(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);
	int error = 0;

	if (!queue)
		return;
	verbs_counters_destroy(queue);
	if (queue->qp)
		error = ibv_destroy_qp(queue->qp);
	if (error) /* EBUSY: a flow was forgotten */
		log_error("cannot destroy a queue pair of %s: %s", verbs_device_name(queue->backend), strerror(error));
	/* ibv_destroy_cq() waits until every event that was read is acknowledged. */
	if (queue->n_unacknowledged)
		ibv_ack_cq_events(ibv_cq_ex_to_cq(queue->cq), queue->n_unacknowledged);
	if (queue->cq)
		ibv_destroy_cq(ibv_cq_ex_to_cq(queue->cq));
	if (queue->channel)
		ibv_destroy_comp_channel(queue->channel);
	if (queue->parent_domain)
		ibv_dealloc_pd(queue->parent_domain);
	if (queue->thread_domain)
		ibv_dealloc_td(queue->thread_domain);
	free(queue);
}

int verbs_start(struct backend_queue *base)
{
	return modify(verbs_queue(base), IBV_QPS_RTR);
}

/* RESET also takes the queue pair's completions out of the completion queue (libmlx5: mlx5_cq_clean). */
int verbs_reset(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);
	int error;

	if (atomic_load_explicit(&queue->cq_failed, memory_order_relaxed))
		return -EIO;
	error = modify(queue, IBV_QPS_RESET);
	atomic_store_explicit(&queue->failed, false, memory_order_relaxed);
	return error ? error : modify(queue, IBV_QPS_INIT);
}
