// SPDX-License-Identifier: Apache-2.0
/*
 * Adds and removes the handles of single queues, each with its own connection. One epoll set has the descriptors of
 * all of them.
 */
#include "lib/ibvcap/rx_set.h"

#include <errno.h>
#include <sys/epoll.h>

int rx_set_watch_part(const struct rx_set *set, struct ibvcap_rx *part)
{
	int fd = set->is_tap ? 0 : rx_poll_open(part);

	return set->is_tap || fd < 0 ? fd : rx_poll_watch(set->poll_fd, fd, set->stream);
}

void rx_set_unwatch_part(const struct rx_set *set, const struct ibvcap_rx *part)
{
	if (part->reattach.poll_fd >= 0)
		epoll_ctl(set->poll_fd, EPOLL_CTL_DEL, part->reattach.poll_fd, NULL);
	if (set->is_group && part->waiter.control >= 0)
		epoll_ctl(set->poll_fd, EPOLL_CTL_DEL, part->waiter.control, NULL);
}

int rx_set_find_place(const struct rx_set *set)
{
	for (int i = 0; i < RX_SET_PARTS_MAX; i++)
		if (!set->parts[i])
			return i;
	return -ENOBUFS;
}

void rx_set_put_part(struct rx_set *set, int index, struct ibvcap_rx *part)
{
	set->parts[index] = part;
	if (set->n_parts <= (uint32_t)index)
		set->n_parts = (uint32_t)index + 1;
}

uint32_t rx_set_count_parts(const struct rx_set *set)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < set->n_parts; i++)
		n += set->parts[i] != NULL;
	return n;
}

void rx_set_add_counts(struct ibvcap_rx_counts *sum, const struct ibvcap_rx *part)
{
	struct ibvcap_rx_counts counts;

	rx_handle_count(part, &counts);
	sum->published += counts.published;
	sum->delivered += counts.delivered;
	sum->skipped += counts.skipped;
	sum->lag += counts.lag;
	sum->abandoned += counts.abandoned;
	sum->failures += counts.failures;
	if (counts.epochs > sum->epochs)
		sum->epochs = counts.epochs;
}

void rx_set_drop_part(struct rx_set *set, uint32_t index)
{
	struct ibvcap_rx *part = set->parts[index];

	rx_set_add_counts(&set->counts, part);
	set->counts.published -= set->counts.lag;
	set->counts.lag = 0;
	set->parts[index] = NULL;
	while (set->n_parts && !set->parts[set->n_parts - 1])
		set->n_parts--;
	rx_set_unwatch_part(set, part);
	rx_handle_unmap(part);
	rx_handle_free(part);
}

int rx_set_new_part(const struct rx_set *set, uint32_t queue, struct ibvcap_rx **part)
{
	struct ibvcap_rx_options options = set->options;
	int r;

	*part = NULL;
	options.queue = queue;
	r = rx_reattach_new(part, set->path, set->stream, &options, set->member);
	if (r < 0)
		return r;
	r = rx_set_watch_part(set, *part);
	if (r < 0) {
		rx_handle_free(*part);
		*part = NULL;
	}
	return r;
}
