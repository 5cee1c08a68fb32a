// SPDX-License-Identifier: Apache-2.0
/* Opens, closes and describes a handle. */
#include "lib/ibvcap/rx/rx.h"

#include "lib/base/fd.h"
#include "lib/base/min.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ibvcap_rx_begin_together(struct ibvcap_rx *const *handles, uint32_t n)
{
	uint32_t n_queues = 0;
	uint64_t begin_ns = 0;
	int r = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < handles[i]->n_parts; k++) {
			if (!handles[i]->parts[k])
				continue;
			begin_ns = u64_max(begin_ns, rx_queue_whole_from(handles[i]->parts[k]));
			n_queues++;
		}
	for (uint32_t i = 0; i < n && n_queues > 1 && begin_ns; i++)
		for (uint32_t k = 0; k < handles[i]->n_parts && r == 0; k++)
			r = handles[i]->parts[k] ? rx_queue_begin_at(handles[i]->parts[k], begin_ns) : 0;
	return r;
}

static int open_queue(struct ibvcap_rx *rx, uint32_t queue, const struct ibvcap_rx_options *options)
{
	struct ibvcap_rx_options one = *options;
	struct rx_queue *part;
	int r;

	one.queue = queue;
	r = rx_open_queue(&part, &rx->shared, &one);
	if (r < 0)
		return r;
	rx_part_put(rx, rx->is_single ? 0 : queue, part);
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
		rx->shared.counts.failures++;
		r = 0;
	}
	if (r == -EINVAL && rx->failed)
		return error_set(-EIO, "stream '%s': all of its queues have failed: systemctl restart ibvcapd",
		                 rx->shared.stream);
	return r < 0 ? r : ibvcap_rx_begin_together(&rx, 1);
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
	rx->shared.counts.size = sizeof(rx->shared.counts);
	rx->shared.path = strdup(client_path(path));
	if (!rx->shared.path) {
		ibvcap_rx_close(rx);
		return error_set(-ENOMEM, "out of memory");
	}
	*out = rx;
	return 0;
}

static int rx_attach(struct ibvcap_rx *rx, const struct ibvcap_rx_options *options)
{
	int r = rx->is_single ? 0 : rx_open_poll(rx);

	if (r < 0)
		return r;
	r = rx->is_group    ? rx_member_join(rx, options)
	    : rx->is_single ? open_queue(rx, options->queue, options)
	                    : open_all(rx, options);
	return r < 0 ? r : owner_mark_new(&rx->shared.owner);
}

int ibvcap_rx_open(const char *socket_path, const char *stream, const struct ibvcap_rx_options *options,
                   struct ibvcap_rx **rx)
{
	struct ibvcap_rx_options known = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_rx *new;
	int r = options ? sized_struct_read(&known, sizeof(known), options, "ibvcap_rx_options") : 0;

	if (r == 0)
		r = rx_new(&new, socket_path, stream, &known);
	if (r < 0)
		return r;
	r = rx_attach(new, &known);
	if (r < 0)
		ibvcap_rx_close(new);
	else
		*rx = new;
	return r;
}

void ibvcap_rx_close(struct ibvcap_rx *rx)
{
	if (!rx)
		return;
	/* Close it first: a child of fork() shares the epoll set and must not remove descriptors from it. */
	fd_close(&rx->shared.poll_fd);
	for (uint32_t i = 0; i < rx->n_parts; i++)
		rx_queue_free(rx->parts[i]);
	rx_queue_free(rx->ask);
	owner_mark_free(rx->shared.owner);
	free(rx->shared.path);
	free(rx);
}

/* ---- what a handle says about itself ----------------------------------------------------------------- */

static void describe_all(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	uint32_t n = 0, disconnected = 0, failed = rx->failed;
	uint64_t back = 0;

	*info = (struct ibvcap_rx_info){.size = sizeof(*info), .epoch = rx->epoch, .n_queues = rx->n_queues};
	memcpy(info->stream, rx->shared.stream, sizeof(info->stream));
	STATUS_CLOCK_COPY(info, &STATUS_CLOCK_NONE);
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

int ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	struct ibvcap_rx_info now;

	if (rx->is_single)
		rx_queue_describe(rx->parts[0], &now);
	else
		describe_all(rx, &now);
	return sized_struct_write(info, &now, sizeof(now), "ibvcap_rx_info");
}

int ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts)
{
	struct ibvcap_rx_counts sum = rx->shared.counts;

	for (uint32_t i = 0; i < rx->n_parts; i++)
		if (rx->parts[i])
			rx_queue_add_counts(rx->parts[i], &sum);
	return sized_struct_write(counts, &sum, sizeof(sum), "ibvcap_rx_counts");
}

int ibvcap_rx_sequence(const struct ibvcap_rx *rx, struct ibvcap_sequence *sequence)
{
	const struct rx_queue *first = rx_first(rx);

	if (!first)
		return error_set(-EAGAIN, "no queue of the group is this handle's yet: ask after its first packets");
	*sequence = first->sequence;
	return sequence->bytes != 0;
}
