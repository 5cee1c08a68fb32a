// SPDX-License-Identifier: Apache-2.0
/*
 * Life of a queue of either kind: its thread domain, its completion queue, its RAW_PACKET queue pair, and the states
 * and events of these.
 */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/base/log.h"
#include "daemon/priv/priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>

#define ACKNOWLEDGE_BATCH 256 /* each acknowledgement takes a mutex (ibv_ack_cq_events(3)) */

struct verbs_queue *verbs_queue_new(struct verbs_backend *backend, size_t bytes, struct failure *failure)
{
	struct verbs_queue *queue = calloc(1, bytes);

	if (!queue) {
		failure_no_memory(failure);
		return NULL;
	}
	queue->base.ops = backend->base.ops;
	queue->backend = backend;
	return queue;
}

/* One thread uses the queue pair, so with a thread domain the library takes no locks. Not every provider has them. */
static void verbs_create_domain(struct verbs_queue *queue)
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

static int verbs_create_completion_channel(struct verbs_queue *queue, struct failure *failure)
{
	queue->channel = ibv_create_comp_channel(queue->backend->context);
	if (!queue->channel || fcntl(queue->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return failure_set(failure, EX_OSERR, errno, "cannot create a completion channel on %s: %s",
		                   verbs_device_name(queue->backend), strerror(errno));
	return 0;
}

/*
 * Each vector has its own interrupt, which the driver places on its own CPU (mlx5_core: comp_irqs_request_pci). So the
 * events of queues are spread over them in turn. Control thread only.
 */
static uint32_t verbs_next_vector(struct verbs_backend *backend)
{
	int n = backend->context->num_comp_vectors;

	return n > 1 ? backend->n_queues_made++ % (uint32_t)n : 0;
}

/* Spreading is no condition: if the device refuses a vector, the queue takes the first one. */
static struct ibv_cq_ex *verbs_try_vectors(const struct verbs_queue *queue, struct ibv_cq_init_attr_ex *init)
{
	struct ibv_cq_ex *cq = ibv_create_cq_ex(queue->backend->context, init);
	uint32_t vector = init->comp_vector;
	int error = errno;

	if (cq || !vector)
		return cq;
	init->comp_vector = 0;
	cq = ibv_create_cq_ex(queue->backend->context, init);
	if (cq)
		log_warning("%s refuses a completion queue on its vector %u (%s): vector 0 is used",
		            verbs_device_name(queue->backend), vector, strerror(error));
	return cq;
}

int verbs_queue_create_cq(struct verbs_queue *queue, uint32_t n_cqe, uint64_t wc_flags, bool completion_events,
                          struct failure *failure)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = n_cqe,
		.cq_context = queue,
		.wc_flags = wc_flags,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
		.comp_vector = verbs_next_vector(queue->backend),
	};
	int error;

	verbs_create_domain(queue);
	error = completion_events ? verbs_create_completion_channel(queue, failure) : 0;
	if (error)
		return error;
	init.channel = queue->channel;
	queue->cq = verbs_try_vectors(queue, &init);
	if (queue->cq)
		return 0;
	error = errno;
	return failure_set(failure, EX_UNAVAILABLE, error,
	                   "cannot create a completion queue of %u entries%s on %s: %s%s", n_cqe,
	                   wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP ? " with timestamps" : "",
	                   verbs_device_name(queue->backend), strerror(error),
	                   error == ENOSYS || error == EOPNOTSUPP
	                           ? ": libibverbs 1.7 or later and a provider with extended completion queues are "
	                             "needed"
	                           : verbs_explain_limit(error));
}

static int verbs_explain_qp(const struct verbs_backend *backend, uint32_t slots, int error, struct failure *failure)
{
	const char *device = verbs_device_name(backend);

	/* Some kernels answer EINVAL to a process without CAP_NET_RAW. */
	if (error == EPERM || error == EACCES || (error == EINVAL && !priv_has(CAP_NET_RAW)))
		return failure_set(failure, EX_NOPERM, error,
		                   "cannot create a raw packet queue on %s: %s: " VERBS_NET_RAW_HINT, device,
		                   strerror(error));
	if (error == EOPNOTSUPP)
		return failure_set(failure, EX_UNAVAILABLE, error,
		                   "%s refuses raw packet queue pairs: a ConnectX-4 or later in Ethernet mode is "
		                   "needed; if it is one, set timestamps = \"software\"",
		                   device);
	return failure_set(failure, EX_UNAVAILABLE, error, "cannot create a raw packet queue of %u slots on %s: %s%s",
	                   slots, device, strerror(error), verbs_explain_limit(error));
}

int verbs_queue_create_qp(struct verbs_queue *queue, struct ibv_qp_cap *capabilities, struct failure *failure)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_context = queue,
		.send_cq = ibv_cq_ex_to_cq(queue->cq),
		.recv_cq = ibv_cq_ex_to_cq(queue->cq),
		.cap = *capabilities,
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (queue->sends ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = queue->parent_domain ? queue->parent_domain : queue->backend->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	uint32_t slots = queue->sends ? capabilities->max_send_wr : capabilities->max_recv_wr;
	int error;

	queue->qp = ibv_create_qp_ex(queue->backend->context, &init);
	if (!queue->qp)
		return verbs_explain_qp(queue->backend, slots, errno, failure);
	*capabilities = init.cap;
	error = verbs_queue_modify(queue, IBV_QPS_INIT);
	if (error)
		failure_set(failure, EX_UNAVAILABLE, -error, "cannot initialise a queue on port %u of %s: %s",
		            queue->backend->port, verbs_device_name(queue->backend), strerror(-error));
	return error;
}

int verbs_queue_modify(struct verbs_queue *queue, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = queue->backend->port};

	/* mlx5_ib accepts exactly these attributes for a raw packet queue pair. */
	return -ibv_modify_qp(queue->qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

void verbs_destroy_queue(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);

	if (!queue)
		return;
	verbs_counters_destroy(queue);
	verbs_group_release(queue);
	/* ibv_destroy_cq() waits until all events that were read are acknowledged. */
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

/* To be repeated after each reset, which clears the rate. */
static int verbs_set_rate(struct verbs_send_queue *send)
{
	int error = ibv_modify_qp_rate_limit(send->queue.qp, &send->rate);

	if (error == EINVAL && send->rate.max_burst_sz) {
		log_warning("%s paces, but accepts no burst of %u bytes", verbs_device_name(send->queue.backend),
		            send->rate.max_burst_sz);
		send->rate.max_burst_sz = 0;
		error = ibv_modify_qp_rate_limit(send->queue.qp, &send->rate);
	}
	return -error;
}

int verbs_start(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);
	int error;

	if (queue->wq) /* ready once it was made or reset, because it takes slots in that state only */
		return 0;
	error = verbs_queue_modify(queue, IBV_QPS_RTR);
	if (error || !queue->sends)
		return error;
	error = verbs_queue_modify(queue, IBV_QPS_RTS);
	return error || !verbs_send_queue(base)->rate.rate_limit ? error : verbs_set_rate(verbs_send_queue(base));
}

/*
 * RESET also removes the queue pair's completions from the completion queue (libmlx5: mlx5_cq_clean); of a receive
 * queue without one, RDY after RESET does.
 */
int verbs_reset(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);
	int error;

	if (atomic_load_explicit(&queue->cq_failed, memory_order_relaxed))
		return -EIO;
	error = queue->wq ? verbs_group_modify(queue, IBV_WQS_RESET) : verbs_queue_modify(queue, IBV_QPS_RESET);
	atomic_store_explicit(&queue->failed, false, memory_order_relaxed);
	if (queue->sends)
		verbs_send_queue(base)->n_reaped = verbs_send_queue(base)->n_posted;
	if (error)
		return error;
	backend_use_reset(&base->use);
	return queue->wq ? verbs_group_modify(queue, IBV_WQS_RDY) : verbs_queue_modify(queue, IBV_QPS_INIT);
}

static enum backend_status verbs_backend_status(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return BACKEND_OK;
	case IBV_WC_LOC_LEN_ERR:
		return BACKEND_LENGTH_ERROR;
	case IBV_WC_WR_FLUSH_ERR:
		return BACKEND_FLUSHED;
	default:
		return BACKEND_SLOT_ERROR;
	}
}

/*
 * The other fields of a failed completion are undefined (ibv_create_cq_ex(3)). Every error except a packet that is too
 * long stops the queue pair, with or without an asynchronous event (doc/verbs-rules.md, posting and polling).
 */
__attribute__((noinline, cold)) void verbs_take_receive_error(struct verbs_queue *queue, uint32_t slot,
                                                              enum ibv_wc_status status, struct backend_event *event)
{
	*event = (struct backend_event){.slot = slot, .status = (uint8_t)verbs_backend_status(status)};
	if (event->status == BACKEND_SLOT_ERROR)
		atomic_store_explicit(&queue->base.error, ibv_wc_status_str(status), memory_order_relaxed);
	if (event->status != BACKEND_LENGTH_ERROR)
		atomic_store_explicit(&queue->failed, true, memory_order_relaxed);
}

int verbs_fd(const struct backend_queue *base)
{
	const struct verbs_queue *queue = verbs_queue(base);

	return queue->channel ? queue->channel->fd : -ENOTSUP;
}

int verbs_arm(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);

	return queue->channel ? -ibv_req_notify_cq(ibv_cq_ex_to_cq(queue->cq), 0) : -ENOTSUP;
}

void verbs_clear(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);
	struct ibv_cq *cq;
	void *context;

	if (!queue->channel)
		return;
	while (ibv_get_cq_event(queue->channel, &cq, &context) == 0) {
		queue->n_unacknowledged++;
		queue->n_cq_events++;
	}
	if (queue->n_unacknowledged >= ACKNOWLEDGE_BATCH) {
		ibv_ack_cq_events(ibv_cq_ex_to_cq(queue->cq), queue->n_unacknowledged);
		queue->n_unacknowledged = 0;
	}
}
