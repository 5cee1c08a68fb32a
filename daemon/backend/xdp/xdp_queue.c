// SPDX-License-Identifier: Apache-2.0
/* The life of a queue: it takes a free number and the sockets of that number, and leaves the sockets empty. Groups. */
#include "daemon/backend/xdp/xdp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static void queue_free(struct xdp_receive *receive)
{
	if (receive->wake_fd >= 0)
		close(receive->wake_fd);
	for (uint32_t i = 0; i < receive->n_sockets; i++)
		receive->sockets[i].is_watched = false;
	posted_rows_deinit(&receive->rows);
	flow_tags_free(receive->tags);
	free(receive);
}

/* Prefer the shallowest rings with room for `slots` packets; if none has room, the deepest. best 0: none yet. */
static bool queue_fits_better(uint32_t slots, uint32_t depth, uint32_t best)
{
	return best >= slots && best > 0 ? depth >= slots && depth < best : depth > best;
}

/* The free queue number whose rings fit `slots` best. n_queues if none is free. */
static uint32_t queue_find_free(const struct xdp_backend *backend, uint32_t slots)
{
	uint32_t best = backend->n_queues, best_depth = 0;

	for (uint32_t i = 0; i < backend->n_queues; i++)
		if (!backend->queues[i] && queue_fits_better(slots, backend->depths[i], best_depth)) {
			best = i;
			best_depth = backend->depths[i];
		}
	return best;
}

static int queue_set_up(struct xdp_receive *receive, const struct backend_queue_options *options,
                        struct failure *failure)
{
	int r = 0;

	for (uint32_t i = 0; i < receive->n_sockets && r == 0; i++)
		r = xdp_socket_bind(&receive->sockets[i], receive->number, failure);
	if (r < 0)
		return r;
	r = posted_rows_init(&receive->rows, options);
	if (r == 0 && options->completion_events) {
		receive->wake_fd = epoll_create1(EPOLL_CLOEXEC);
		r = receive->wake_fd < 0 ? -errno : 0;
	}
	if (r == 0)
		r = xdp_statistics_begin(receive);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "interface %s: cannot make a receive queue: %s",
	                            receive->backend->interface.name, strerror(-r));
}

int xdp_queue_add_socket(struct xdp_receive *receive, struct failure *failure)
{
	struct xdp_socket *socket = &receive->sockets[receive->n_sockets];
	int r = xdp_socket_bind(socket, receive->number, failure);

	if (r < 0)
		return r;
	/* The worker may sleep already. */
	r = receive->wake_fd < 0 ? 0 : xdp_watch_socket(receive, socket);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "cannot watch a socket: %s", strerror(-r));
	xdp_card_queue_admit(socket->card_queue, receive->number);
	receive->n_sockets++; /* the worker polls it from now on */
	return 0;
}

static int queue_create(struct backend *base, const struct backend_queue_options *options, struct backend_queue **queue,
                        struct failure *failure)
{
	struct xdp_backend *backend = xdp_backend(base);
	uint32_t number = queue_find_free(backend, options->slots), n_sockets = backend->interface.n_card_queues;
	struct xdp_receive *receive;
	int r;

	if (number == backend->n_queues)
		return failure_set(failure, EX_CONFIG, ENOSPC,
		                   "interface %s has room for %u queues of streams, and all are in use: set xdp_queues "
		                   "to a larger number and restart the daemon (systemctl restart ibvcapd)",
		                   backend->interface.name, backend->n_queues);
	receive = calloc(1, sizeof(*receive));
	if (!receive)
		return failure_no_memory(failure);
	receive->base.ops = base->ops;
	receive->timestamps = options->timestamps;
	xdp_read_tai_offset(receive);
	receive->backend = backend;
	receive->number = number;
	receive->n_sockets = n_sockets;
	receive->sockets = &backend->sockets[(size_t)number * backend->interface.max_card_queues];
	receive->wake_fd = -1;
	receive->tags = options->flow_tags ? flow_tags_new() : NULL;
	r = options->flow_tags && !receive->tags ? failure_no_memory(failure) : queue_set_up(receive, options, failure);
	if (r < 0) {
		queue_free(receive);
		return r;
	}
	for (uint32_t i = 0; i < n_sockets; i++)
		xdp_card_queue_admit(receive->sockets[i].card_queue, number);
	backend->queues[number] = receive;
	*queue = &receive->base;
	return 0;
}

int xdp_create_queue(struct backend *base, const struct backend_queue_options *options, struct backend_queue **queue,
                     struct failure *failure)
{
	struct xdp_backend *backend = xdp_backend(base);
	int r;

	pthread_mutex_lock(&backend->changing);
	r = queue_create(base, options, queue, failure);
	pthread_mutex_unlock(&backend->changing);
	return r;
}

/* Its flows are gone, so that the rings get no packets any more. */
void xdp_destroy_queue(struct backend_queue *base)
{
	struct xdp_receive *receive = xdp_receive(base);
	struct xdp_backend *backend;

	if (!base)
		return;
	backend = receive->backend;
	pthread_mutex_lock(&backend->changing);
	if (receive->flows_removed)
		frame_wait();
	for (uint32_t i = 0; i < receive->n_sockets; i++) {
		xdp_card_queue_dismiss(receive->sockets[i].card_queue, receive->number);
		xdp_socket_drain(&receive->sockets[i]);
	}
	backend->queues[receive->number] = NULL;
	pthread_mutex_unlock(&backend->changing);
	queue_free(receive);
}

/* ---- groups ------------------------------------------------------------------------------------- */

/* Its queues wait for the packets that are on their way. */
static void xdp_destroy_group(struct backend_queue *base)
{
	free(base);
}

/* All packets count for a member. */
static int xdp_read_group(struct backend_queue *, uint64_t *packets)
{
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
		r = flow_table_set_group(&backend->program->table, numbers, options->n_queues,
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
