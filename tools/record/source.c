// SPDX-License-Identifier: Apache-2.0
/* Attaches to streams, and describes them by the daemon's status. */
#include "tools/record/account.h"

#include "lib/base/time.h"
#include "lib/recording/account_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void source_print_name(char name[SOURCE_NAME_BYTES], const char *stream, uint32_t queue, uint32_t n_queues)
{
	if (n_queues > 1)
		snprintf(name, SOURCE_NAME_BYTES, "%s/%u", stream, queue);
	else
		snprintf(name, SOURCE_NAME_BYTES, "%s", stream);
}

int source_open(struct source *source, const struct record_options *options, const char *stream, uint32_t queue)
{
	struct ibvcap_rx_options attach = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	uint64_t now_ns = time_utc_ns();
	int r;

	*source = (struct source){.queue = queue,
	                          .batch = IBVCAP_INIT(struct ibvcap_rx_batch),
	                          .card = IBVCAP_INIT(struct ibvcap_rx_losses)};
	attach.queue = queue;
	attach.start = options->oldest ? IBVCAP_START_OLDEST : IBVCAP_START_NEWEST;
	attach.back = options->back_ns;
	if (options->from_ns && now_ns > options->from_ns)
		attach.back = now_ns - options->from_ns;
	if (options->back_ns || options->from_ns)
		attach.start = IBVCAP_START_NS_BACK;
	attach.reattach_ms = options->reattach_ms;
	attach.policy = options->policy == RECORD_POLICY_LOSSY ? IBVCAP_POLICY_LOSSY : IBVCAP_POLICY_LOSSLESS;
	r = ibvcap_rx_open(options->socket, stream, &attach, &source->rx);
	if (r == -EACCES && options->policy == RECORD_POLICY_AUTO) {
		attach.policy = IBVCAP_POLICY_LOSSY;
		r = ibvcap_rx_open(options->socket, stream, &attach, &source->rx);
	}
	if (r < 0)
		return r;
	source->filter = options->filter;
	source->is_lossless = attach.policy == IBVCAP_POLICY_LOSSLESS;
	ibvcap_rx_info(source->rx, &info);
	source->n_queues = info.n_queues ? info.n_queues : 1;
	source->has_flow_numbers = info.flags & IBVCAP_RING_FLAG_FLOWS;
	snprintf(source->stream, sizeof(source->stream), "%s", stream);
	source_print_name(source->name, stream, queue, info.n_queues);
	return 0;
}

int source_begin(struct source *sources, unsigned n)
{
	struct ibvcap_rx *handles[RECORD_SOURCES_MAX] = {0};
	int r;

	for (unsigned i = 0; i < n; i++)
		handles[i] = sources[i].rx;
	r = ibvcap_rx_begin_together(handles, n);
	for (unsigned i = 0; i < n; i++) {
		source_take_moment(&sources[i], &sources[i].from);
		losses_caught_up(&sources[i].losses, time_monotonic_ns());
	}
	return r;
}

void source_close(struct source *source)
{
	ibvcap_rx_close(source->rx);
	source->rx = NULL;
	json_decref(source->sequence);
	source->sequence = NULL;
}

static void tell_queues(struct source *source)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(source->rx, &info);
	if (source->queue || source->queues_told || info.disconnected || info.n_queues == source->n_queues)
		return;
	source->queues_told = true;
	fprintf(stderr,
	        "ibvcap record: stream '%s' has %u queues now, and this recording has %u: packets of the others are "
	        "not recorded, and later files say so; start the recording again\n",
	        source->stream, info.n_queues, source->n_queues);
}

static void tell_failed_queue(struct source *source)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	ibvcap_rx_counts(source->rx, &counts);
	if (!counts.failures || source->failure_told)
		return;
	source->failure_told = true;
	fprintf(stderr,
	        "ibvcap record: %s: its queue has failed; its packets are lost, until the daemon is started again: "
	        "systemctl restart ibvcapd\n",
	        source->name);
}

void source_tell_changes(struct source *source)
{
	tell_failed_queue(source);
	tell_queues(source);
}

void source_tell_away(struct source *source)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(source->rx, &info);
	if (info.disconnected && !source->away_told && !source->queue)
		fprintf(stderr,
		        "ibvcap record: stream '%s': ibvcapd has ended; this waits for its next run: systemctl status "
		        "ibvcapd\n",
		        source->stream);
	source->away_told = info.disconnected;
}

/* The kernel's and the worker's stamps are CLOCK_REALTIME: none is later than a later reading of that clock. */
uint64_t source_clock_error_ns(const struct source *source)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(source->rx, &info);
	return info.clock_error_ns == IBVCAP_NOT_KNOWN ? 0 : info.clock_error_ns;
}

/* ---- description --------------------------------------------------------------------------------- */

void source_describe_again(struct source *source, const struct record_options *options)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct ibvcap_sequence sequence = options->own_sequence;
	char clock_text[STATUS_CLOCK_BYTES];
	struct status_clock clock;

	ibvcap_rx_info(source->rx, &info);
	STATUS_CLOCK_COPY(&clock, &info);
	snprintf(source->clock, sizeof(source->clock), "%s; epoch %016" PRIx64 ", first packet %" PRIu64,
	         status_clock_text(&clock, clock_text), info.epoch, info.attach_sequence);
	json_decref(source->sequence);
	source->sequence = NULL;
	if (sequence.bytes || ibvcap_rx_sequence(source->rx, &sequence) > 0)
		source->sequence = sequence_to_json(&sequence, info.flags & IBVCAP_RING_FLAG_FRAMES);
}

void source_describe(struct source *source, const struct record_options *options)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct status_view view;

	source_describe_again(source, options);
	if (status_view_ask(&view, options->socket, 0) < 0)
		return;
	ibvcap_rx_info(source->rx, &info);
	for (int i = 0; i < view.n_streams; i++) {
		const struct ibvcap_status_stream *stream = &view.streams[i];

		if (strcmp(stream->name, info.stream) != 0 || stream->queue != source->queue)
			continue;
		snprintf(source->interface, sizeof(source->interface), "interface %s, backend %s", stream->interface,
		         stream->backend);
		snprintf(source->device, sizeof(source->device), "%s", stream->device);
	}
	for (int i = 0; i < view.n_flows; i++)
		if (!strcmp(view.flows[i].stream, info.stream) && view.flows[i].queue == source->queue) {
			size_t used = strlen(source->flows);

			snprintf(source->flows + used, sizeof(source->flows) - used, "%s%s", used ? "; " : "",
			         view.flows[i].text);
		}
	status_view_deinit(&view);
}
