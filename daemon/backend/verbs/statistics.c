// SPDX-License-Identifier: Apache-2.0
/* Reads port counters, link state and asynchronous events of a device, and counts what a queue's flows match. */
#include "daemon/backend/verbs/verbs.h"
#include "daemon/base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t wide_counter_add(struct wide_counter *counter, uint64_t reading)
{
	uint64_t delta = reading - counter->last;

	if (((reading | counter->last) >> 32) == 0)
		delta = (uint32_t)delta; /* wraps at 2^32, as mlx5's q counters do */
	counter->last = reading;
	counter->total += delta;
	return counter->total;
}

bool verbs_find_counter(const char *device, unsigned port, const char *name, char *path, size_t bytes)
{
	/*
	 * In switchdev mode mlx5 has the device's counters in the first directory; the second one is missing then, or
	* its counters of the uplink stay 0 (mlx5_ib, mlx5_ib_query_q_counters_vport). In legacy mode there is only
	 * the second one.
	 */
	snprintf(path, bytes, "%s/hw_counters/%s", device, name);
	if (access(path, R_OK) == 0)
		return true;
	snprintf(path, bytes, "%s/ports/%u/hw_counters/%s", device, port, name);
	if (access(path, R_OK) == 0)
		return true;
	path[0] = '\0';
	return false;
}

/* Packets that the whole port dropped because no receive work request was posted. The kernel caches it for 10 ms. */
static int read_out_of_buffer(const struct verbs_backend *backend, uint64_t *reading)
{
	FILE *file = fopen(backend->out_of_buffer_path, "re");
	int n_fields;

	if (!file)
		return -errno;
	n_fields = fscanf(file, "%" SCNu64, reading);
	fclose(file);
	return n_fields == 1 ? 0 : -EIO;
}

/* out_of_buffer is optional: the sum of losses does not need it. */
void verbs_statistics_init(struct verbs_backend *backend)
{
	const char *device = backend->context->device->ibdev_path;

	if (!verbs_find_counter(device, backend->port, "out_of_buffer", backend->out_of_buffer_path,
	                        sizeof(backend->out_of_buffer_path)) ||
	    read_out_of_buffer(backend, &backend->out_of_buffer.last) < 0) {
		log_warning(
			"interface %s: device %s shows no out_of_buffer in %s/hw_counters and ports/%u/hw_counters: "
			"that counter is missing in the status; no_buffer of each stream is exact without it",
			backend->interface, verbs_device_name(backend), device, backend->port);
		backend->out_of_buffer_path[0] = '\0';
	}
}

int verbs_read_port(struct backend *base, struct backend_port_statistics *statistics)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct ibv_port_attr port;
	uint64_t reading;
	int error;

	error = -ibv_query_port(backend->context, backend->port, &port);
	if (error)
		return error;
	*statistics = (struct backend_port_statistics){.port_active = port.state == IBV_PORT_ACTIVE};
	if (backend->out_of_buffer_path[0] && read_out_of_buffer(backend, &reading) == 0) {
		statistics->out_of_buffer = wide_counter_add(&backend->out_of_buffer, reading);
		statistics->has_out_of_buffer = true;
	}
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

static struct backend_queue *fail_wq(struct ibv_wq *wq)
{
	struct verbs_queue *queue = wq->wq_context;

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
	case IBV_EVENT_WQ_FATAL:
		notice->type = BACKEND_NOTICE_QUEUE_FAILED;
		notice->queue = fail_wq(event.element.wq);
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

/* ---- counters ----------------------------------------------------------------------------------- */

void verbs_guard_rule(struct flow_rule *rule, uint32_t qp_num)
{
	uint32_t destination = htonl(qp_num & 0x00ffffff);

	/*
	 * MAC 00:00:00:00:00:00 and address 0.x.y.z, which are no valid destinations (RFC 1122, 3.2.1.3), and UDP port
	 * 0. The queue pair's number makes the rule different from those of other queues, because mlx5 merges equal
	 * rules.
	 */
	*rule = (struct flow_rule){.family = AF_INET, .value = {.protocol = IPPROTO_UDP}, .mask = FLOW_MASK_UDP_IPV4};
	memcpy(rule->value.destination, &destination, sizeof(destination));
}

static int create_guard(struct verbs_queue *queue)
{
	struct verbs_flow_attr attr;
	struct flow_rule rule;

	verbs_guard_rule(&rule, queue->qp->qp_num);
	rule.value.destination_mac[5] = queue->table != NULL; /* such queue pairs have numbers of their own */
	verbs_flow_attr_build(&attr, &rule, queue->backend->port, queue->counters);
	queue->guard = ibv_create_flow(queue->qp, &attr.attr);
	return queue->guard ? 0 : -errno;
}

int verbs_counters_create(struct verbs_queue *queue, struct failure *failure)
{
	struct ibv_counters_init_attr init = {0};
	struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS, .index = 0};
	int error;

	queue->counters = ibv_create_counters(queue->backend->context, &init);
	error = queue->counters ? -ibv_attach_counters_point_flow(queue->counters, &attach, NULL) : -errno;
	if (error == 0)
		error = create_guard(queue);
	if (error == 0)
		return 0;
	if (error == -EPERM || error == -EACCES)
		return failure_set(failure, EX_NOPERM, -error, "cannot create a flow on %s: %s: " VERBS_NET_RAW_HINT,
		                   verbs_device_name(queue->backend), strerror(-error));
	if (error == -ENOSPC || *verbs_explain_limit(-error))
		return failure_set(failure, EX_UNAVAILABLE, -error, "cannot count the packets of a queue on %s: %s%s",
		                   verbs_device_name(queue->backend), strerror(-error),
		                   verbs_explain_flow(-error, NULL));
	return failure_set(failure, EX_UNAVAILABLE, -error,
	                   "%s cannot count what its flow rules match (%s), and without that losses cannot be named: "
	                   "flow counters need mlx5 (ConnectX-4 or later), Linux 4.18 and rdma-core 20 or later",
	                   verbs_device_name(queue->backend), strerror(-error));
}

void verbs_counters_destroy(struct verbs_queue *queue)
{
	if (queue->guard)
		ibv_destroy_flow(queue->guard);
	if (queue->counters)
		ibv_destroy_counters(queue->counters);
	queue->guard = NULL;
	queue->counters = NULL;
}

int verbs_read_matched(struct backend_queue *base, uint64_t *packets)
{
	return -ibv_read_counters(verbs_queue(base)->counters, packets, 1, 0);
}
