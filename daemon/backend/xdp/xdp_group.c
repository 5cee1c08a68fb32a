// SPDX-License-Identifier: Apache-2.0
/*
 * A group of queues. The program shares the packets of a flow out to them. Each queue keeps its own number, sockets and
 * counts, so a packet counts for the queue that gets it.
 */
#include "daemon/backend/xdp/xdp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Its queues wait for the packets that are on their way. */
static void xdp_destroy_group(struct backend_queue *base)
{
	free(base);
}

/* All packets count for a member. */
static int xdp_read_group(struct backend_queue *base, uint64_t *packets)
{
	(void)base;
	*packets = 0;
	return 0;
}

const struct backend_ops xdp_group_ops = {
	.name = "xdp",
	.destroy_queue = xdp_destroy_group,
	.read_matched = xdp_read_group,
};

/* The hash is symmetric, and always of both addresses. */
static bool group_has_hash(const struct backend_group_options *options)
{
	uint32_t addresses = BACKEND_HASH_SOURCE | BACKEND_HASH_DESTINATION;

	return options->hash == BACKEND_HASH_SYMMETRIC && (options->fields & addresses) == addresses;
}

int xdp_create_group(struct backend *base, const struct backend_group_options *options, struct backend_queue **out,
                     struct failure *failure)
{
	struct xdp_backend *backend = xdp_backend(base);
	struct xdp_group *group = calloc(1, sizeof(*group));
	uint32_t numbers[XDP_GROUP_MAX];
	int r = options->n_queues <= XDP_GROUP_MAX && group_has_hash(options) ? 0 : -ENOTSUP;

	if (!group)
		return failure_no_memory(failure);
	for (uint32_t i = 0; i < options->n_queues && r == 0; i++) {
		group->members.at[i] = xdp_receive(options->queues[i]);
		numbers[i] = group->members.at[i]->number;
	}
	if (r == 0)
		r = xdp_program_set_group(backend->program, numbers, options->n_queues,
		                          options->fields & BACKEND_HASH_PORTS);
	if (r < 0) {
		free(group);
		return failure_set(failure, EX_UNAVAILABLE, -r,
		                   "interface %s: cannot share packets out to %u queues: %s", backend->interface.name,
		                   options->n_queues, strerror(-r));
	}
	group->base.ops = &xdp_group_ops;
	group->members.n = options->n_queues;
	*out = &group->base;
	return 0;
}
