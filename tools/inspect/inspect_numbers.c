// SPDX-License-Identifier: Apache-2.0
/* Gives the packets of a recording to a tracker for each stream, whose description the interface's comment has. */
#include "tools/inspect/inspect_numbers.h"

#include "lib/base/min.h"
#include "lib/recording/account_json.h"
#include "lib/recording/capture.h"
#include "tools/common/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of "lidar/1", queue 1 of a stream: "lidar". */
static size_t stream_length(const char *name)
{
	return strcspn(name, "/");
}

const struct inspect_numbered *inspect_numbers_find(const struct inspect_numbers *numbers, const char *name)
{
	size_t length = stream_length(name);

	for (uint32_t i = 0; i < numbers->n_streams; i++) {
		const struct inspect_numbered *numbered = &numbers->streams[i];

		if (!strncmp(numbered->stream, name, length) && !numbered->stream[length])
			return numbered;
	}
	return NULL;
}

static struct inspect_numbered *find_stream(struct inspect_numbers *numbers, const char *name)
{
	const struct inspect_numbered *found = inspect_numbers_find(numbers, name);

	return found ? &numbers->streams[found - numbers->streams] : NULL;
}

/*
 * A file of one flow has only a part of the numbers if all flows count together, and so has a file of what a filter
 * takes: they are not tracked.
 */
static int add_stream(struct inspect_numbers *numbers, const struct inspect_source *source,
                      const struct pcapng_interface *interface)
{
	struct ibvcap_tracker_options options = IBVCAP_INIT(struct ibvcap_tracker_options);
	struct inspect_numbered *numbered = &numbers->streams[numbers->n_streams];
	struct ibvcap_sequence sequence;
	int r;

	if (numbers->n_streams == INSPECT_NUMBERS_MAX || inspect_numbers_find(numbers, source->name) ||
	    !sequence_from_comment(interface->comment.at, interface->comment.bytes, &sequence, &numbered->has_frames) ||
	    source->is_filtered || (source->is_one_flow && sequence.source != IBVCAP_SOURCE_FLOW))
		return 0;
	options.max_sources = tracker_max_sources(&sequence);
	options.max_missing = TRACKER_MISSING_MAX;
	r = ibvcap_tracker_new(&sequence, &options, &numbered->tracker);
	if (r < 0)
		return r == -ENOMEM ? r : 0; /* a description that no tracker takes */
	strcpy(numbered->stream, source->name);
	numbered->stream[stream_length(source->name)] = '\0';
	numbered->has_one_source = sequence.source == IBVCAP_SOURCE_NONE && !sequence.source_bytes;
	numbers->n_streams++;
	return 0;
}

/* False: no memory. */
static bool note_span(struct inspect_numbered *numbered, const struct ibvcap_tracked *tracked, uint64_t time_ns)
{
	struct inspect_span *span;

	if (tracked->kind == IBVCAP_TRACKED_UNREAD || tracked->kind == IBVCAP_TRACKED_UNTRACKED)
		return true;
	while (tracked->source >= numbered->n_spans) { /* sources come in the order of their numbers: once */
		span = inspect_grow(numbered->spans, numbered->n_spans, sizeof(*span));
		if (!span)
			return false;
		numbered->spans = span;
		numbered->spans[numbered->n_spans++] = (struct inspect_span){time_ns, time_ns};
	}
	span = &numbered->spans[tracked->source];
	span->first_ns = u64_min(span->first_ns, time_ns);
	if (tracked->kind == IBVCAP_TRACKED_IN_ORDER || tracked->kind == IBVCAP_TRACKED_AFTER_LOSS)
		span->last_ns = time_ns;
	return true;
}

/*
 * As sequence_packet_of_row() finds it in the packet's row: a first fragment and a packet of which the file has only a
 * part have the number of their datagram. The frame's end, where no number can be read: the payload is not known.
 * Bytes between the end of UDP and that of IP are in no row, nor in the file.
 */
static uint32_t find_recorded_payload(const struct pcapng_packet *packet)
{
	uint32_t captured = packet->frame_bytes[0], payload_at;
	struct datagram datagram = {.payload = NULL};

	datagram_find(DATAGRAM_LINK_ETHERNET, packet->frame[0], captured, UINT32_MAX, &datagram);
	if (!datagram.payload)
		return captured;
	payload_at = (uint32_t)(datagram.payload - packet->frame[0]);
	/* Of a malformed packet: its frame ends before its headers say. */
	return payload_at + datagram.whole_bytes > u64_max(packet->wire_bytes, captured) ? captured : payload_at;
}

int inspect_numbers_add(struct inspect_numbers *numbers, const struct inspect_sum *sum,
                        const struct pcapng_block *block)
{
	struct inspect_numbered *numbered;
	uint32_t source;

	if (block->type == PCAPNG_BLOCK_INTERFACE)
		return add_stream(numbers, &sum->sources[sum->n_sources - 1], &block->interface);
	if (block->type != PCAPNG_BLOCK_PACKET || !numbers->n_streams)
		return 0;
	source = sum->first_source + block->packet.interface;
	numbered = source < sum->n_sources ? find_stream(numbers, sum->sources[source].name) : NULL;
	if (numbered) {
		struct ibvcap_packet found = {.headers = block->packet.frame[0],
		                              .header_bytes = block->packet.frame_bytes[0],
		                              .row = block->packet.frame[0] + block->packet.frame_bytes[0],
		                              .has_headers = true,
		                              .timestamp_ns = block->packet.time_ns};
		struct ibvcap_tracked tracked;

		if (!numbered->has_frames)
			found.payload_at = find_recorded_payload(&block->packet);
		if (ibvcap_tracker_add(numbered->tracker, &found, &tracked) == 0 &&
		    !note_span(numbered, &tracked, block->packet.time_ns))
			return -ENOMEM;
	}
	return 0;
}

void inspect_numbers_end(struct inspect_numbers *numbers, const struct inspect_sum *sum)
{
	for (uint32_t i = 0; i < sum->n_sources; i++) {
		const struct inspect_source *source = &sum->sources[i];
		struct inspect_numbered *numbered = find_stream(numbers, source->name);

		if (numbered &&
		    (source->n_restarts_before_packets ||
		     source->account.rx.unknown & ~(uint32_t)(IBVCAP_UNKNOWN_NO_PACKETS | IBVCAP_UNKNOWN_INTERFACE)))
			numbered->has_absence = true;
		if (numbered && source->account.rx.unknown & IBVCAP_UNKNOWN_INTERFACE)
			numbered->has_drops = true;
		if (numbered)
			numbered->n_malformed += source->account.sum.malformed;
		if (numbered) /* the queues of a stream have the same */
			numbered->n_interface_lost =
				u64_max(numbered->n_interface_lost, source->account.rx.interface_lost);
		/* The statistics have what was lost behind the last packet, too; a recording that was cut has none. */
		if (numbered)
			numbered->n_named += source->n_dropped > source->n_lost ? source->n_dropped : source->n_lost;
	}
}

void inspect_numbers_free(struct inspect_numbers *numbers)
{
	for (uint32_t i = 0; i < numbers->n_streams; i++) {
		ibvcap_tracker_free(numbers->streams[i].tracker);
		free(numbers->streams[i].spans);
	}
	*numbers = (struct inspect_numbers){0};
}

struct ibvcap_tracker_counts inspect_numbers_counts(const struct inspect_numbered *numbered)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	ibvcap_tracker_counts(numbered->tracker, &counts);
	return counts;
}

static uint64_t lost_unnamed(const struct inspect_numbered *numbered)
{
	uint64_t lost = inspect_numbers_counts(numbered).numbers.lost;

	return lost > numbered->n_named ? lost - numbered->n_named : 0;
}

uint64_t inspect_lost_before_card(const struct inspect_numbered *numbered)
{
	return numbered->has_absence ? 0 : lost_unnamed(numbered);
}

uint64_t inspect_lost_in_absence(const struct inspect_numbered *numbered)
{
	return numbered->has_absence ? lost_unnamed(numbered) : 0;
}

uint64_t inspect_lost_unexplained(const struct inspect_numbered *numbered)
{
	uint64_t lost = inspect_lost_before_card(numbered);

	return lost - u64_min(lost, numbered->n_interface_lost);
}
