// SPDX-License-Identifier: Apache-2.0
/* Creates a group of receive queues: its table, its first queue pair and the counters of its flows. */
#include "daemon/backend/verbs/verbs.h"

#include <string.h>

int verbs_create_group(struct backend *base, const struct backend_group_options *options, struct backend_queue **out,
                       struct failure *failure)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct verbs_queue *queue = verbs_queue_new(backend, sizeof(struct verbs_group), failure);
	struct ibv_wq *members[VERBS_GROUP_QUEUES_MAX];
	int error;

	if (!queue)
		return -ENOMEM;
	queue->is_group = true;
	verbs_group(queue)->options = *options;
	verbs_group(queue)->options.queues = NULL;
	for (uint32_t i = 0; i < options->n_queues; i++)
		members[i] = verbs_queue(options->queues[i])->wq;
	error = verbs_group_create_table(queue, members, options->n_queues);
	if (!error)
		error = verbs_group_make_kind(verbs_group(queue), VERBS_GROUP_IPV4);
	if (error) {
		failure_set(failure, EX_UNAVAILABLE, -error, "cannot share packets out to %u queues of %s: %s%s",
		            options->n_queues, verbs_device_name(backend), strerror(-error),
		            verbs_explain_limit(-error));
	} else {
		queue->qp = verbs_group(queue)->qps[VERBS_GROUP_IPV4];
		error = verbs_counters_create(queue, failure);
	}
	if (error)
		verbs_destroy_queue(&queue->base);
	else
		*out = &queue->base;
	return error;
}
