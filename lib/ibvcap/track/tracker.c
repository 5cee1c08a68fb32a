// SPDX-License-Identifier: Apache-2.0
/* Finds the source of each packet in a table, and hands its number to the account of that source. */
#include "lib/ibvcap/track/tracker.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/sequence.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOURCES_DEFAULT 256
#define WORD_BITS       64

/* ---- packets ------------------------------------------------------------------------------------- */

void tracker_add_unread(struct ibvcap_tracker *tracker, struct ibvcap_tracked *tracked)
{
	tracker->packets++;
	tracker->totals[IBVCAP_TRACKED_COUNTER_UNREAD]++;
	*tracked = (struct ibvcap_tracked){.kind = IBVCAP_TRACKED_UNREAD};
}

/* n_lost: how many numbers more are lost now, below 0 modulo 2^64: come after all. n: numbers of the packet. */
static void list_missing(struct ibvcap_tracker *tracker, const struct ibvcap_tracked *tracked, uint64_t n_lost,
                         uint32_t n, uint64_t time_ns)
{
	const uint32_t run = (uint32_t)tracker->sources[tracked->source].counts[IBVCAP_TRACKED_COUNTER_RESTARTED];

	if ((int64_t)n_lost < 0)
		missing_remove(&tracker->missing, tracked->source, run, tracked->number, n);
	else if (tracked->kind == IBVCAP_TRACKED_IN_ORDER || tracked->kind == IBVCAP_TRACKED_AFTER_LOSS ||
	         tracked->kind == IBVCAP_TRACKED_RESTARTED)
		missing_add(&tracker->missing, tracked->source, run, tracked->number - n_lost, n_lost, time_ns);
}

void tracker_add(struct ibvcap_tracker *tracker, const struct ibvcap_packet *packet, struct ibvcap_tracked *tracked)
{
	struct sequence_reading reading;
	struct tracker_source *source;
	uint64_t lost;
	uint32_t index;

	if (!sequence_read(&tracker->reader, packet, &reading)) {
		tracker_add_unread(tracker, tracked);
		return;
	}
	tracker->packets++;
	index = source_table_find(&tracker->table, &reading.key);
	if (index == SOURCE_TABLE_FULL) {
		tracker->totals[IBVCAP_TRACKED_COUNTER_UNTRACKED]++;
		*tracked = (struct ibvcap_tracked){.kind = IBVCAP_TRACKED_UNTRACKED};
		return;
	}
	source = &tracker->sources[index];
	tracked->source = index;
	lost = source->counts[IBVCAP_TRACKED_COUNTER_LOST];
	tracker_source_add(source, &tracker->rules, reading.number, reading.n, tracker->slack - source->slack, tracked);
	source->slack = tracker->slack;
	if (tracker->missing.max)
		list_missing(tracker, tracked, source->counts[IBVCAP_TRACKED_COUNTER_LOST] - lost, reading.n,
		             packet->timestamp_ns);
	if (source->absences == tracker->absences)
		return;
	source->absences = tracker->absences;
	if (source->counts[IBVCAP_TRACKED_COUNTER_LOST] > lost)
		tracker->totals[IBVCAP_TRACKED_COUNTER_ABSENCE] += source->counts[IBVCAP_TRACKED_COUNTER_LOST] - lost;
}

int ibvcap_tracker_add(struct ibvcap_tracker *tracker, const struct ibvcap_packet *packet,
                       struct ibvcap_tracked *tracked)
{
	int r = source_table_check(&tracker->reader, packet);
	struct ibvcap_tracked ours;

	if (r == 0)
		tracker_add(tracker, packet, tracked ? tracked : &ours);
	return r;
}

/* ---- set-up -------------------------------------------------------------------------------------- */

static int set_up_tracker(struct ibvcap_tracker *tracker, uint32_t max_sources, uint32_t max_missing)
{
	const struct ibvcap_sequence *sequence = &tracker->reader.sequence;
	uint64_t cycle = tracker->reader.cycle;
	int r;

	/* With half of the cycle behind, and half ahead, each number has one meaning. */
	tracker->rules = (struct tracker_rules){
		.cycle = cycle,
		.window = cycle ? u64_min(sequence->window, cycle / 2) : sequence->window,
		.jump = cycle ? u64_min(sequence->jump, cycle / 2) : sequence->jump,
		.window_bits = sequence->window,
	};
	r = source_table_init(&tracker->table, tracker->reader.n_key_words, max_sources);
	if (r < 0)
		return r;
	tracker->sources = calloc(max_sources, sizeof(*tracker->sources));
	tracker->seen = calloc(max_sources, tracker->rules.window_bits / 8);
	if (!tracker->sources || !tracker->seen || missing_init(&tracker->missing, max_missing, max_sources) < 0)
		return error_set(-ENOMEM, "a tracker: out of memory");
	for (uint32_t i = 0; i < max_sources; i++) {
		tracker->sources[i].totals = tracker->totals;
		tracker->sources[i].seen = tracker->seen + i * (tracker->rules.window_bits / WORD_BITS);
	}
	return 0;
}

static int check_sequence_options(const struct ibvcap_tracker_options *options)
{
	if (options->max_sources > SOURCE_TABLE_MAX)
		return error_set(-EINVAL, "a tracker of %u sources: accepted are %d at most", options->max_sources,
		                 SOURCE_TABLE_MAX);
	if (options->own > 1)
		return error_set(-EINVAL, "own = %u of a tracker: accepted is 0 or 1", options->own);
	return 0;
}

int ibvcap_tracker_new(const struct ibvcap_sequence *sequence, const struct ibvcap_tracker_options *options,
                       struct ibvcap_tracker **tracker)
{
	struct ibvcap_tracker_options known = IBVCAP_INIT(struct ibvcap_tracker_options);
	struct ibvcap_tracker *new;
	int r = options ? sized_struct_read(&known, sizeof(known), options, "ibvcap_tracker_options") : 0;

	if (r == 0)
		r = check_sequence_options(&known);
	if (r < 0)
		return r;
	new = calloc(1, sizeof(*new));
	if (!new)
		return error_set(-ENOMEM, "a tracker: out of memory");
	new->losses.size = sizeof(new->losses);
	new->has_own = known.own;
	r = sequence_reader_init(&new->reader, sequence, "a tracker");
	if (r == 0)
		r = set_up_tracker(new,
		                   sequence_sources(sequence, known.max_sources ? known.max_sources : SOURCES_DEFAULT),
		                   known.max_missing);
	if (r < 0) {
		ibvcap_tracker_free(new);
		return r;
	}
	*tracker = new;
	return 0;
}

void ibvcap_tracker_free(struct ibvcap_tracker *tracker)
{
	if (!tracker)
		return;
	source_table_deinit(&tracker->table);
	free(tracker->sources);
	free(tracker->seen);
	missing_deinit(&tracker->missing);
	free(tracker);
}

/* ---- counts -------------------------------------------------------------------------------------- */

/* The counts of a source, or of all. */
static struct ibvcap_tracker_numbers numbers_of(const uint64_t *counts)
{
	const uint64_t once = counts[IBVCAP_TRACKED_COUNTER_ONCE], lost = counts[IBVCAP_TRACKED_COUNTER_LOST];
	const uint64_t repeated = counts[IBVCAP_TRACKED_COUNTER_REPEATED];

	return (struct ibvcap_tracker_numbers){
		.arrived = once + repeated,
		.once = once,
		.repeated = repeated,
		.sent = once + lost,
		.lost = lost,
		.reordered = counts[IBVCAP_TRACKED_COUNTER_REORDERED],
		.late = counts[IBVCAP_TRACKED_COUNTER_LATE],
		.stray = counts[IBVCAP_TRACKED_COUNTER_STRAY],
		.restarted = counts[IBVCAP_TRACKED_COUNTER_RESTARTED],
	};
}

int ibvcap_tracker_counts(const struct ibvcap_tracker *tracker, struct ibvcap_tracker_counts *counts)
{
	const uint64_t *totals = tracker->totals;
	const uint64_t lost = tracker->reader.sequence.count_bytes ? 0 : totals[IBVCAP_TRACKED_COUNTER_LOST];
	const struct sequence_losses losses = sequence_place_losses(
		lost, totals[IBVCAP_TRACKED_COUNTER_SKIPPED], totals[IBVCAP_TRACKED_COUNTER_NO_BUFFER],
		totals[IBVCAP_TRACKED_COUNTER_UNREAD], totals[IBVCAP_TRACKED_COUNTER_ABSENCE]);
	const struct ibvcap_tracker_counts ours = {
		.size = sizeof(ours),
		.numbers = numbers_of(totals),
		.packets = tracker->packets,
		.unread = totals[IBVCAP_TRACKED_COUNTER_UNREAD],
		.untracked = totals[IBVCAP_TRACKED_COUNTER_UNTRACKED],
		.lost_after_card = losses.after_card,
		.lost_in_card = losses.in_card,
		.lost_unread = losses.unread,
		.lost_before_card = losses.before_card,
		.lost_in_absence = losses.in_absence,
		.n_sources = tracker->table.n,
	};

	return sized_struct_write(counts, &ours, sizeof(ours), "ibvcap_tracker_counts");
}

uint32_t ibvcap_tracker_missing(const struct ibvcap_tracker *tracker, uint32_t first, struct ibvcap_missing *missing,
                                uint32_t max)
{
	const struct missing *list = &tracker->missing;
	const uint32_t n = first < list->n ? list->n - first : 0;

	if (n && max)
		memcpy(missing, &list->ranges[first], (n < max ? n : max) * sizeof(*missing));
	return n;
}

int ibvcap_tracker_source(const struct ibvcap_tracker *tracker, uint32_t index, struct ibvcap_tracker_source *source)
{
	struct ibvcap_tracker_source ours = IBVCAP_INIT(struct ibvcap_tracker_source);
	const struct tracker_source *from;
	const struct sequence_key *key;
	int r;

	if (index >= tracker->table.n)
		return 0;
	from = &tracker->sources[index];
	key = &tracker->table.keys[index];
	ours.numbers = numbers_of(from->counts);
	ours.packets = from->packets;
	ours.port = key->port;
	ours.destination_port = key->destination_port;
	ours.field_bytes = tracker->reader.sequence.source_bytes;
	memcpy(ours.field, key->field, sizeof(ours.field));
	memcpy(ours.address, key->address, sizeof(ours.address));
	memcpy(ours.destination, key->destination, sizeof(ours.destination));
	r = sized_struct_write(source, &ours, sizeof(ours), "ibvcap_tracker_source");
	return r < 0 ? r : 1;
}
