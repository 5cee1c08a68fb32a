// SPDX-License-Identifier: Apache-2.0
/* Reads the stream between the submissions of the channel, in the same thread. */
#include "tools/send/replay_stats.h"

#include "daemon/base/time.h"
#include "tools/capture/datagram.h"
#include "tools/common/report.h"
#include "tools/status/status_view.h"
#include "tools/common/stop_signal.h"
#include "tools/status/stream_sum.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define WAIT_MS 50

/* ---- life ---------------------------------------------------------------------------------------- */

static uint64_t read_no_buffer(const struct replay_stats *stats)
{
	struct status_view view;
	uint64_t n = 0;

	if (status_view_ask(&view, stats->socket, 0) < 0)
		return 0;
	for (int i = 0; i < view.n_streams; i++)
		if (!strcmp(view.streams[i].name, stats->stream) && stream_sum_is_first(&view, i))
			n += counters_value(COUNTERS_OF(&view.streams[i]), "no_buffer");
	status_view_deinit(&view);
	return n;
}

int replay_stats_open(struct replay_stats *stats, const char *socket, const char *stream)
{
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	int r;

	*stats = (struct replay_stats){.socket = socket,
	                               .stream = stream,
	                               .info = IBVCAP_INIT(struct ibvcap_rx_info),
	                               .batch = IBVCAP_INIT(struct ibvcap_rx_batch),
	                               .counts = IBVCAP_INIT(struct ibvcap_rx_counts)};
	options.queue = IBVCAP_QUEUE_ALL;
	options.reattach_ms = IBVCAP_NO_REATTACH;
	r = ibvcap_rx_open(socket, stream, &options, &stats->rx);
	if (r < 0)
		return report_failure("replay", r);
	ibvcap_rx_info(stats->rx, &stats->info);
	stats->payload = malloc((size_t)stats->info.application_header_bytes + stats->info.row_stride);
	if (!stats->payload)
		return EX_OSERR;
	stats->no_buffer = read_no_buffer(stats);
	return EX_OK;
}

void replay_stats_close(struct replay_stats *stats)
{
	ibvcap_rx_close(stats->rx);
	stats->rx = NULL;
	free(stats->payload);
	stats->payload = NULL;
	arrivals_deinit(&stats->arrivals);
}

/* ---- packets ------------------------------------------------------------------------------------- */

int replay_stats_sent(struct replay_stats *stats, const uint8_t *payload, uint32_t bytes)
{
	stats->bytes += bytes;
	return arrivals_sent(&stats->arrivals, payload, bytes);
}

/* The row's payload, behind network headers that are longer than those of an ordinary packet. */
static bool find_in_row(const struct replay_stats *stats, uint32_t i, struct datagram *datagram)
{
	const struct ibvcap_rx_batch *batch = &stats->batch;
	const struct ibvcap_meta *meta = &batch->meta[i];
	uint32_t in_headers = batch->application_header_bytes, network_bytes = batch->header_bytes - in_headers;
	uint32_t longer = meta->header_length > network_bytes ? meta->header_length - network_bytes : 0;

	if (meta->flags & (IBVCAP_PACKET_FLAG_ERROR | IBVCAP_PACKET_FLAG_UNUSABLE) ||
	    longer + meta->length > batch->stride)
		return false;
	memcpy(stats->payload, ibvcap_rx_headers(batch, i) + network_bytes, in_headers);
	memcpy(stats->payload + in_headers, batch->payload + (size_t)i * batch->stride, longer + meta->length);
	*datagram = (struct datagram){.payload = stats->payload + longer, .bytes = in_headers + meta->length};
	return !(stats->info.flags & IBVCAP_RING_FLAG_FRAMES) ||
	       datagram_find(DATAGRAM_LINK_ETHERNET, datagram->payload, datagram->bytes, datagram->bytes, datagram) ==
	               DATAGRAM_WHOLE;
}

/* False: nothing has come, or nothing can come any more. */
static bool take_batch(struct replay_stats *stats, int timeout_ms)
{
	struct datagram datagram;
	int n = stats->error ? 0 : ibvcap_rx_acquire(stats->rx, &stats->batch, INT32_MAX, 1, timeout_ms);

	if (n < 0 && n != -EINTR)
		stats->error = n;
	if (n <= 0)
		return false;
	for (uint32_t i = 0; i < stats->batch.n; i++) {
		stats->n_cut += (stats->batch.meta[i].flags & IBVCAP_PACKET_FLAG_TRUNCATED) != 0;
		if (find_in_row(stats, i, &datagram))
			arrivals_came(&stats->arrivals, datagram.payload, datagram.bytes);
	}
	ibvcap_rx_release(stats->rx, &stats->batch);
	return true;
}

void replay_stats_take(void *context)
{
	while (take_batch(context, 0))
		;
}

void replay_stats_finish(struct replay_stats *stats)
{
	uint64_t came_ns = time_monotonic_ns(), now_ns = came_ns;

	while (arrivals_expected(&stats->arrivals) && !stats->error && now_ns - came_ns < TIME_SECOND_NS) {
		bool came = take_batch(stats, WAIT_MS);

		now_ns = time_monotonic_ns();
		came_ns = came ? now_ns : came_ns;
	}
	arrivals_end(&stats->arrivals);
	ibvcap_rx_counts(stats->rx, &stats->counts);
	stats->no_buffer = read_no_buffer(stats) - stats->no_buffer;
}

/* ---- the summary --------------------------------------------------------------------------------- */

void replay_stats_print(const struct replay_stats *stats)
{
	const struct arrivals *arrivals = &stats->arrivals;

	printf("stats: the file has %" PRIu64 " packets with %" PRIu64 " payload bytes for the channel; stream '%s' "
	       "published %" PRIu64 "\n",
	       arrivals->n_sent, stats->bytes, stats->stream, stats->counts.published);
	printf("stats: came as in the file and in order %" PRIu64 ", late %" PRIu64 ", missing %" PRIu64
	       ", other packets %" PRIu64 "\n",
	       arrivals->n_in_order, arrivals->n_late, arrivals->n_missing, arrivals->n_others);
	if (arrivals->first_difference[0])
		printf("stats: first difference: %s\n", arrivals->first_difference);
	if (stats->counts.skipped)
		printf("stats: this program was too slow for %" PRIu64 " packets of the stream (skipped)\n",
		       stats->counts.skipped);
	if (stats->no_buffer)
		printf("stats: the card had no free row for %" PRIu64
		       " packets (no_buffer); 'ibvcap why %s' says more\n",
		       stats->no_buffer, stats->stream);
	if (stats->n_cut)
		printf("stats: %" PRIu64 " packets were longer than the stream's payload_size\n", stats->n_cut);
	if (stats->error)
		printf("stats: the stream could be read no longer: %s\n", strerror(-stats->error));
}

json_t *replay_stats_to_json(const struct replay_stats *stats)
{
	const struct arrivals *arrivals = &stats->arrivals;

	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s?}", "stream", stats->stream,
	                 "packets", (json_int_t)arrivals->n_sent, "bytes", (json_int_t)stats->bytes, "published",
	                 (json_int_t)stats->counts.published, "in_order", (json_int_t)arrivals->n_in_order, "late",
	                 (json_int_t)arrivals->n_late, "missing", (json_int_t)arrivals->n_missing, "others",
	                 (json_int_t)arrivals->n_others, "skipped", (json_int_t)stats->counts.skipped, "no_buffer",
	                 (json_int_t)stats->no_buffer, "cut", (json_int_t)stats->n_cut, "first_difference",
	                 arrivals->first_difference[0] ? arrivals->first_difference : NULL);
}
