// SPDX-License-Identifier: Apache-2.0
/* Reads port counters, link state, clock and asynchronous events of a device. */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/net/net.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

uint64_t wide_counter_add(struct wide_counter *counter, uint64_t reading)
{
	uint64_t delta = reading - counter->last;

	if (((reading | counter->last) >> 32) == 0)
		delta = (uint32_t)delta; /* wraps at 2^32, as mlx5's q counters do */
	counter->last = reading;
	counter->total += delta;
	return counter->total;
}

/* Packets that the whole port dropped because no receive work request was posted. The kernel caches it for 10 ms. */
static int read_out_of_buffer(const struct verbs_backend *backend, uint64_t *reading)
{
	char path[PATH_MAX];
	int n_fields;
	FILE *file;

	snprintf(path, sizeof(path), "%s/ports/%u/hw_counters/out_of_buffer", backend->context->device->ibdev_path,
	         backend->port);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n_fields = fscanf(file, "%" SCNu64, reading);
	fclose(file);
	return n_fields == 1 ? 0 : -EIO;
}

int verbs_statistics_init(struct verbs_backend *backend, struct failure *failure)
{
	int error = read_out_of_buffer(backend, &backend->out_of_buffer.last);

	if (error)
		return failure_set(
			failure, EX_UNAVAILABLE, -error,
			"cannot read %s/ports/%u/hw_counters/out_of_buffer, without which losses can't be named: "
			"%s: mlx5 devices (ConnectX-4 and later) have it",
			backend->context->device->ibdev_path, backend->port, strerror(-error));
	net_port_discards(backend->interface, &backend->discards_at_open);
	return 0;
}

int verbs_read_port(struct backend *base, struct backend_port_statistics *statistics)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct ibv_port_attr port;
	uint64_t reading, discards;
	int error;

	error = read_out_of_buffer(backend, &reading);
	if (!error)
		error = -ibv_query_port(backend->context, backend->port, &port);
	if (error)
		return error;
	*statistics = (struct backend_port_statistics){
		.out_of_buffer = wide_counter_add(&backend->out_of_buffer, reading),
		.port_active = port.state == IBV_PORT_ACTIVE,
	};
	if (net_port_discards(backend->interface, &discards) == 0) {
		statistics->discards = discards - backend->discards_at_open;
		statistics->has_discards = true;
	}
	return 0;
}

int verbs_read_clock(struct backend *base, uint64_t *raw)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	int error = -ibv_query_rt_values_ex(verbs_backend(base)->context, &values);

	if (error)
		return error == -EOPNOTSUPP ? -ENOTSUP : error;
	*raw = (uint64_t)values.raw_clock.tv_nsec; /* ticks, whatever the field's name says */
	return 0;
}

int verbs_notice_fd(const struct backend *base)
{
	return verbs_backend(base)->context->async_fd;
}

/* The event comes after the flushed completions. The worker may have reset the queue since: then it works again. */
static struct backend_queue *fail_qp(struct ibv_qp *qp)
{
	struct verbs_queue *queue = qp->qp_context;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	/* SQE: the send queue failed and the receive queue works. */
	if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) != 0 || attr.qp_state == IBV_QPS_ERR ||
	    attr.qp_state == IBV_QPS_SQE)
		atomic_store_explicit(&queue->failed, true, memory_order_relaxed);
	return &queue->base;
}

/* The completion queue overran, and only a new one would help. */
static struct backend_queue *fail_cq(struct ibv_cq *cq)
{
	struct verbs_queue *queue = cq->cq_context;

	atomic_store_explicit(&queue->cq_failed, true, memory_order_relaxed);
	atomic_store_explicit(&queue->failed, true, memory_order_relaxed);
	return &queue->base;
}

int verbs_read_notice(struct backend *base, struct backend_notice *notice)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(verbs_backend(base)->context, &event) != 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	*notice = (struct backend_notice){
		.type = BACKEND_NOTICE_OTHER,
		.text = ibv_event_type_str(event.event_type),
	};
	switch (event.event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		if (event.element.port_num == verbs_backend(base)->port)
			notice->type = event.event_type == IBV_EVENT_PORT_ACTIVE ? BACKEND_NOTICE_PORT_UP
			                                                         : BACKEND_NOTICE_PORT_DOWN;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		notice->type = BACKEND_NOTICE_QUEUE_FAILED;
		notice->queue = fail_qp(event.element.qp);
		break;
	case IBV_EVENT_CQ_ERR:
		notice->type = BACKEND_NOTICE_QUEUE_FAILED;
		notice->queue = fail_cq(event.element.cq);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		notice->type = BACKEND_NOTICE_DEVICE_FAILED;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&event);
	return 1;
}
