// SPDX-License-Identifier: Apache-2.0
/*
 * Several queues behind one handle: all of a stream, or those that a group gives this member. Each is a handle of its
 * own. This file opens, describes and closes them.
 */
#include "lib/ibvcap/rx_set.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/rx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static int open_queue(struct rx_set *set, uint32_t queue, const struct ibvcap_rx_options *options)
{
	struct ibvcap_rx_options one = *options;
	struct ibvcap_rx *part;
	int r;

	one.queue = queue;
	r = rx_open(set->path, set->stream, &one, &part);
	if (r < 0)
		return r;
	rx_set_put_part(set, (int)queue, part);
	set->epoch = part->info.epoch;
	set->n_queues = u32_min(part->info.n_queues, IBVCAP_QUEUES_MAX);
	return rx_set_watch_part(set, part);
}

/* Opens all queues but those that have failed. The first queue that opens tells the number of queues. */
static int open_all(struct rx_set *set, const struct ibvcap_rx_options *options)
{
	uint32_t n = IBVCAP_QUEUES_MAX;
	int r = 0;

	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = open_queue(set, i, options);
		if (r == 0)
			n = set->n_queues;
		if (r != -EIO)
			continue;
		set->failed |= UINT32_C(1) << i;
		set->counts.failures++;
		r = 0;
	}
	return r == -EINVAL && set->failed
	               ? error_set(-EIO, "stream '%s': all of its queues have failed: systemctl restart ibvcapd",
	                           set->stream)
	               : r;
}

int rx_set_new(struct rx_set **out, const char *path, const char *stream, const struct ibvcap_rx_options *options)
{
	struct rx_set *set = calloc(1, sizeof(*set));
	int r;

	if (!set)
		return error_set(-ENOMEM, "out of memory");
	set->options = *options;
	set->options.start = IBVCAP_START_OLDEST; /* for queues that come later, so that no packet is left out */
	set->is_group = options->group[0];
	set->is_tap = options->policy == IBVCAP_POLICY_TAP;
	set->counts.size = sizeof(set->counts);
	strncpy(set->stream, stream, sizeof(set->stream) - 1);
	set->path = strdup(client_path(path));
	set->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!set->path || set->poll_fd < 0)
		r = error_set(set->path ? -errno : -ENOMEM, "stream '%s': cannot create a descriptor for poll(): %s",
		              stream, strerror(set->path ? errno : ENOMEM));
	else
		r = set->is_group ? rx_set_join(set, options) : open_all(set, options);
	if (r < 0)
		rx_set_free(set);
	else
		*out = set;
	return r;
}

void rx_set_free(struct rx_set *set)
{
	if (!set)
		return;
	/* Close it first: a child of fork() shares the epoll set and must not remove descriptors from it. */
	if (set->poll_fd >= 0)
		close(set->poll_fd);
	for (uint32_t i = 0; i < set->n_parts; i++)
		rx_handle_free(set->parts[i]);
	rx_handle_free(set->ask);
	free(set->path);
	free(set);
}

struct ibvcap_rx *rx_set_first(const struct rx_set *set)
{
	for (uint32_t i = 0; i < set->n_parts; i++)
		if (set->parts[i] && !set->parts[i]->reattach.away)
			return set->parts[i];
	return NULL;
}

void rx_set_describe(const struct rx_set *set, struct ibvcap_rx_info *info)
{
	uint32_t n = 0, disconnected = 0, failed = set->failed;
	uint64_t back = 0;

	*info = (struct ibvcap_rx_info){.size = sizeof(*info), .epoch = set->epoch, .n_queues = set->n_queues};
	memcpy(info->stream, set->stream, sizeof(info->stream));
	for (uint32_t i = set->n_parts; i-- > 0;) {
		if (!set->parts[i])
			continue;
		rx_handle_describe(set->parts[i], info);
		back += info->attach_back;
		disconnected |= info->disconnected;
		failed |= info->failed_queues;
		n++;
	}
	info->queue = IBVCAP_QUEUE_ALL;
	info->n_attached = n;
	info->attach_back = back;
	info->disconnected = disconnected;
	info->failed_queues = failed;
}

void rx_set_count(const struct rx_set *set, struct ibvcap_rx_counts *counts)
{
	*counts = set->counts;
	counts->size = sizeof(*counts);
	for (uint32_t i = 0; i < set->n_parts; i++)
		if (set->parts[i])
			rx_set_add_counts(counts, set->parts[i]);
}

/* ---- moments ------------------------------------------------------------------------------------- */

void rx_set_take_moment(const struct rx_set *set, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_moment sum = {.size = sizeof(sum)}, part;
	struct ibvcap_rx_counts counts;

	for (uint32_t i = 0; i < set->n_parts; i++) {
		if (!set->parts[i])
			continue;
		rx_moment_take(set->parts[i], &part);
		rx_moment_add_queue(&sum, &part);
	}
	rx_set_count(set, &counts);
	sum.n_queues = set->n_queues;
	sum.epochs = counts.epochs;
	sum.delivered = counts.delivered;
	sum.skipped = counts.skipped;
	sum.abandoned = counts.abandoned;
	sum.failures = counts.failures;
	sum.state |= set->failed ? RX_MOMENT_FAILED : 0;
	if (set->is_group) /* other members have the other queues */
		sum.state &= ~(uint32_t)RX_MOMENT_ALL_QUEUES;
	*moment = sum;
}

bool rx_set_settle_moment(const struct rx_set *set, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_moment sum = {0}, part;

	if (moment->is_settled)
		return true;
	for (uint32_t i = 0; i < set->n_parts; i++) {
		if (!set->parts[i])
			continue;
		part = *moment;
		part.queues = UINT32_C(1) << set->parts[i]->info.queue % IBVCAP_QUEUES_MAX;
		if (!rx_moment_settle(set->parts[i], &part))
			return false;
		rx_moment_add_queue(&sum, &part);
	}
	moment->state |= (sum.state & ~(uint32_t)RX_MOMENT_ALL_QUEUES) |
	                 (sum.queues != moment->queues ? RX_MOMENT_UNSETTLED : 0);
	moment->after = sum.after;
	moment->outage_from_ns = sum.outage_from_ns;
	moment->outage_until_ns = sum.outage_until_ns;
	moment->is_settled = 1;
	return true;
}
