// SPDX-License-Identifier: Apache-2.0
/*
 * Adds and removes the queues of a handle, each with its own connection. One epoll set has the descriptors of all of
 * them.
 */
#include "lib/base/fd.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/rx/rx.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

void rx_part_put(struct ibvcap_rx *rx, uint32_t index, struct rx_queue *part)
{
	rx->parts[index] = part;
	if (rx->n_parts <= index)
		rx->n_parts = index + 1;
}

uint32_t rx_part_count(const struct ibvcap_rx *rx)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rx->n_parts; i++)
		n += rx->parts[i] != NULL;
	return n;
}

void rx_part_drop(struct ibvcap_rx *rx, uint32_t index)
{
	struct ibvcap_rx_counts *counts = &rx->shared.counts;
	struct rx_queue *part = rx->parts[index];

	rx_queue_add_counts(part, counts);
	counts->published -= counts->lag;
	counts->lag = 0;
	rx->parts[index] = NULL;
	while (rx->n_parts && !rx->parts[rx->n_parts - 1])
		rx->n_parts--;
	/* A child of fork() may have a copy, which would keep it in the set. */
	rx_poll_remove(part, part->waiter.control);
	rx_queue_unmap(part);
	rx_queue_free(part);
}

int rx_part_watch(const struct ibvcap_rx *rx, struct rx_queue *part)
{
	return rx->is_tap || rx->shared.poll_fd < 0 ? 0 : rx_poll_begin(part);
}

int rx_part_new(struct ibvcap_rx *rx, uint32_t queue, struct rx_queue **part)
{
	struct ibvcap_rx_options options = rx->options;
	int r;

	*part = NULL;
	options.queue = queue;
	r = rx_reattach_new(part, &rx->shared, &options);
	if (r < 0)
		return r;
	r = rx_part_watch(rx, *part);
	if (r < 0) {
		rx_queue_free(*part);
		*part = NULL;
	}
	return r;
}

int rx_open_poll(struct ibvcap_rx *rx)
{
	int r;

	if (rx->shared.poll_fd >= 0)
		return rx->shared.poll_fd;
	rx->shared.poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (rx->shared.poll_fd < 0)
		return error_set(-errno, "stream '%s': cannot create a descriptor for poll(): %s", rx->shared.stream,
		                 strerror(errno));
	r = rx->n_parts ? rx_part_watch(rx, rx->parts[0]) : 0;
	if (r == 0)
		return rx->shared.poll_fd;
	fd_close(&rx->shared.poll_fd);
	return r;
}

struct rx_queue *rx_first(const struct ibvcap_rx *rx)
{
	for (uint32_t i = 0; i < rx->n_parts; i++)
		if (rx->parts[i] && (rx->is_single || !rx->parts[i]->reattach.away))
			return rx->parts[i];
	return NULL;
}
