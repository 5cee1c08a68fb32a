// SPDX-License-Identifier: Apache-2.0
/*
 * One counters object for all flows of a queue counts the packets that steering gave it, before any drop. It can be
 * read only while a flow is attached to it, and the first flow binds its layout (mlx5_ib: EINVAL otherwise). So it gets
 * a guard flow that no packet matches, which is created first and destroyed last.
 */
#include "daemon/backend/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

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
