// SPDX-License-Identifier: Apache-2.0
/* Opens, describes and closes a handle, and takes its moments. */
#include "lib/ibvcap/rx.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/owner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_queue(struct ibvcap_rx *rx, uint32_t queue, const struct ibvcap_rx_options *options)
{
	struct ibvcap_rx_options one = *options;
	struct rx_queue *part;
	int r;

	one.queue = queue;
	r = rx_open_queue(&part, &rx->shared, &one);
	if (r < 0)
		return r;
	rx_part_put(rx, rx->is_single ? 0 : (int)queue, part);
	rx->epoch = part->info.epoch;
	rx->n_queues = u32_min(part->info.n_queues, IBVCAP_QUEUES_MAX);
	return rx_part_watch(rx, part);
}

/* Opens all queues but those that have failed. The first queue that opens tells the number of queues. */
static int open_all(struct ibvcap_rx *rx, const struct ibvcap_rx_options *options)
{
	uint32_t n = IBVCAP_QUEUES_MAX;
	int r = 0;

	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = open_queue(rx, i, options);
		if (r == 0)
			n = rx->n_queues;
		if (r != -EIO)
			continue;
		rx->failed |= UINT32_C(1) << i;
		rx->counts.failures++;
		r = 0;
	}
	return r == -EINVAL && rx->failed
	               ? error_set(-EIO, "stream '%s': all of its queues have failed: systemctl restart ibvcapd",
	                           rx->shared.stream)
	               : r;
}

int rx_new(struct ibvcap_rx **out, const char *path, const char *stream, const struct ibvcap_rx_options *options)
{
	struct ibvcap_rx *rx;
	size_t length = strlen(stream);

	if (length == 0 || length >= sizeof(rx->shared.stream))
		return error_set(-EINVAL, "stream '%s': a stream's name has 1 to %zu bytes", stream,
		                 sizeof(rx->shared.stream) - 1);
	rx = calloc(1, sizeof(*rx));
	if (!rx)
		return error_set(-ENOMEM, "out of memory");
	rx->shared.poll_fd = -1;
	memcpy(rx->shared.stream, stream, length);
	rx->options = *options;
	rx->options.start = IBVCAP_START_OLDEST; /* for queues that come later, so that no packet is left out */
	rx->is_group = options->group[0];
	rx->is_single = !rx->is_group && options->queue != IBVCAP_QUEUE_ALL;
	rx->is_tap = options->policy == IBVCAP_POLICY_TAP;
	rx->counts.size = sizeof(rx->counts);
	rx->shared.path = strdup(client_path(path));
	if (!rx->shared.path) {
		rx_free(rx);
		return error_set(-ENOMEM, "out of memory");
	}
	*out = rx;
	return 0;
}

int rx_attach(struct ibvcap_rx *rx, const struct ibvcap_rx_options *options)
{
	int r = rx->is_single ? 0 : rx_open_poll(rx);

	if (r < 0)
		return r;
	r = rx->is_group    ? rx_member_join(rx, options)
	    : rx->is_single ? open_queue(rx, options->queue, options)
	                    : open_all(rx, options);
	return r < 0 ? r : owner_mark_new(&rx->shared.owner);
}

void rx_free(struct ibvcap_rx *rx)
{
	if (!rx)
		return;
	/* Close it first: a child of fork() shares the epoll set and must not remove descriptors from it. */
	if (rx->shared.poll_fd >= 0)
		close(rx->shared.poll_fd);
	rx->shared.poll_fd = -1;
	for (uint32_t i = 0; i < rx->n_parts; i++)
		rx_queue_free(rx->parts[i]);
	rx_queue_free(rx->ask);
	owner_mark_free(rx->shared.owner);
	free(rx->shared.path);
	free(rx);
}

void rx_describe(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	uint32_t n = 0, disconnected = 0, failed = rx->failed;
	uint64_t back = 0;

	if (rx->is_single) {
		rx_queue_describe(rx->parts[0], info);
		return;
	}
	*info = (struct ibvcap_rx_info){.size = sizeof(*info), .epoch = rx->epoch, .n_queues = rx->n_queues};
	memcpy(info->stream, rx->shared.stream, sizeof(info->stream));
	for (uint32_t i = rx->n_parts; i-- > 0;) {
		if (!rx->parts[i])
			continue;
		rx_queue_describe(rx->parts[i], info);
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

void rx_count(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts)
{
	*counts = rx->counts;
	counts->size = sizeof(*counts);
	for (uint32_t i = 0; i < rx->n_parts; i++)
		if (rx->parts[i])
			rx_part_add_counts(counts, rx->parts[i]);
}

/* ---- moments ------------------------------------------------------------------------------------- */

void rx_take_moment(const struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_moment sum = {.size = sizeof(sum)}, part;
	struct ibvcap_rx_counts counts;

	if (rx->is_single) {
		rx_moment_take(rx->parts[0], moment);
		return;
	}
	for (uint32_t i = 0; i < rx->n_parts; i++) {
		if (!rx->parts[i])
			continue;
		rx_moment_take(rx->parts[i], &part);
		rx_moment_add_queue(&sum, &part);
	}
	rx_count(rx, &counts);
	sum.n_queues = rx->n_queues;
	sum.epochs = counts.epochs;
	sum.delivered = counts.delivered;
	sum.skipped = counts.skipped;
	sum.abandoned = counts.abandoned;
	sum.failures = counts.failures;
	sum.state |= rx->failed ? RX_MOMENT_FAILED : 0;
	if (rx->is_group) /* other members have the other queues */
		sum.state &= ~(uint32_t)RX_MOMENT_ALL_QUEUES;
	*moment = sum;
}

bool rx_settle_moment(const struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_moment sum = {0}, part;

	if (rx->is_single)
		return rx_moment_settle(rx->parts[0], moment);
	if (moment->is_settled)
		return true;
	for (uint32_t i = 0; i < rx->n_parts; i++) {
		if (!rx->parts[i])
			continue;
		part = *moment;
		part.queues = UINT32_C(1) << rx->parts[i]->info.queue % IBVCAP_QUEUES_MAX;
		if (!rx_moment_settle(rx->parts[i], &part))
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
