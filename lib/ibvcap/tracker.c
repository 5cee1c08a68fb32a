// SPDX-License-Identifier: Apache-2.0
/* Finds the source of each packet in a table of fixed size, and hands its number to the account of that source. */
#include "lib/ibvcap/tracker.h"

#include "lib/ibvcap/error.h"
#include "lib/ibvcap/min.h"
#include "lib/ibvcap/sequence.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SOURCES_DEFAULT 256
#define SOURCES_MAX     65536
#define WORD_BITS       64

/* ---- the table ----------------------------------------------------------------------------------- */

static inline uint64_t key_word(const struct sequence_key *key, uint32_t i)
{
	uint64_t word;

	memcpy(&word, (const uint8_t *)key + i * sizeof(word), sizeof(word));
	return word;
}

static inline bool is_same_key(const struct ibvcap_tracker *tracker, const struct sequence_key *a,
                               const struct sequence_key *b)
{
	uint64_t differs = 0;

	for (uint32_t i = 0; i < tracker->reader.n_key_words; i++)
		differs |= key_word(a, i) ^ key_word(b, i);
	return differs == 0;
}

static uint32_t hash_key(const struct ibvcap_tracker *tracker, const struct sequence_key *key)
{
	uint64_t hash = tracker->secret[0];

	/* Both halves of the product: addresses differ in the high bits of a word, which reach no low bit of it. */
	for (uint32_t i = 0; i < tracker->reader.n_key_words; i++) {
		unsigned __int128 product = (unsigned __int128)(hash ^ key_word(key, i)) * tracker->secret[1];

		hash = (uint64_t)product ^ (uint64_t)(product >> 64);
	}
	return (uint32_t)hash & tracker->slots_mask;
}

/* The source of the key, which is added if there is room; NULL: there is none. */
static struct tracker_source *find_source(struct ibvcap_tracker *tracker, const struct sequence_key *key)
{
	uint32_t slot = hash_key(tracker, key);
	struct tracker_source *source;

	for (; tracker->slots[slot]; slot = (slot + 1) & tracker->slots_mask) {
		source = &tracker->sources[tracker->slots[slot] - 1];
		if (is_same_key(tracker, &source->key, key))
			return source;
	}
	if (tracker->n_sources == tracker->max_sources)
		return NULL;
	source = &tracker->sources[tracker->n_sources];
	source->key = *key;
	source->totals = tracker->totals;
	source->seen = tracker->seen + tracker->n_sources * (tracker->rules.window_bits / WORD_BITS);
	tracker->slots[slot] = ++tracker->n_sources;
	tracker->totals[IBVCAP_TRACKED_COUNTER_SOURCES] = tracker->n_sources;
	return source;
}

/* ---- packets ------------------------------------------------------------------------------------- */

void tracker_add_unread(struct ibvcap_tracker *tracker, struct ibvcap_tracked *tracked)
{
	tracker->packets++;
	tracker->totals[IBVCAP_TRACKED_COUNTER_UNREAD]++;
	*tracked = (struct ibvcap_tracked){.kind = IBVCAP_TRACKED_UNREAD};
}

void tracker_add(struct ibvcap_tracker *tracker, const struct ibvcap_packet *packet, struct ibvcap_tracked *tracked)
{
	struct tracker_source *source = &tracker->sources[tracker->last];
	struct sequence_reading reading;

	if (!sequence_read(&tracker->reader, packet, &reading)) {
		tracker_add_unread(tracker, tracked);
		return;
	}
	tracker->packets++;
	if (tracker->n_sources == 0 || !is_same_key(tracker, &source->key, &reading.key))
		source = find_source(tracker, &reading.key);
	if (!source) {
		tracker->totals[IBVCAP_TRACKED_COUNTER_UNTRACKED]++;
		*tracked = (struct ibvcap_tracked){.kind = IBVCAP_TRACKED_UNTRACKED};
		return;
	}
	tracker->last = (uint32_t)(source - tracker->sources);
	tracked->source = tracker->last;
	tracker_source_add(source, &tracker->rules, reading.number, reading.n, tracker->slack - source->slack, tracked);
	source->slack = tracker->slack;
}

int ibvcap_tracker_add(struct ibvcap_tracker *tracker, const struct ibvcap_packet *packet,
                       struct ibvcap_tracked *tracked)
{
	struct ibvcap_tracked ours;

	if (tracker->reader.sequence.source != IBVCAP_SOURCE_NONE && !packet->has_headers)
		return error_set(-EINVAL, "the packet has no headers, and by its sequence's source it needs them");
	tracker_add(tracker, packet, tracked ? tracked : &ours);
	return 0;
}

/* ---- set-up -------------------------------------------------------------------------------------- */

static void set_rules(struct ibvcap_tracker *tracker)
{
	const struct ibvcap_sequence *sequence = &tracker->reader.sequence;
	uint64_t cycle = tracker->reader.cycle;

	/* With half of the cycle behind, and half ahead, each number has one meaning. */
	tracker->rules = (struct tracker_rules){
		.cycle = cycle,
		.window = cycle ? u64_min(sequence->window, cycle / 2) : sequence->window,
		.jump = cycle ? u64_min(sequence->jump, cycle / 2) : sequence->jump,
		.window_bits = sequence->window,
	};
}

static int allocate(struct ibvcap_tracker *tracker, uint32_t max_sources)
{
	uint32_t n_slots = 2;

	while (n_slots < 2 * max_sources)
		n_slots *= 2;
	tracker->max_sources = max_sources;
	tracker->slots_mask = n_slots - 1;
	tracker->slots = calloc(n_slots, sizeof(*tracker->slots));
	tracker->sources = calloc(max_sources, sizeof(*tracker->sources));
	tracker->seen = calloc(max_sources, tracker->rules.window_bits / 8);
	return tracker->slots && tracker->sources && tracker->seen ? 0 : -ENOMEM;
}

static int check_arguments(const struct ibvcap_sequence *sequence, const struct ibvcap_tracker_options *options)
{
	struct sequence_fault fault;

	if (!sequence->bytes)
		return error_set(-EINVAL, "a tracker needs to know where the packets have their number: the stream's "
		                          "configuration has no 'sequence'");
	if (!sequence_check(sequence, &fault))
		return error_set(-EINVAL, "the description of the packets' number: %s", fault.text);
	if (options->max_sources > SOURCES_MAX)
		return error_set(-EINVAL, "a tracker of %u sources: accepted are %d at most", options->max_sources,
		                 SOURCES_MAX);
	return 0;
}

int ibvcap_tracker_new(const struct ibvcap_sequence *sequence, const struct ibvcap_tracker_options *options,
                       struct ibvcap_tracker **tracker)
{
	struct ibvcap_tracker_options known = IBVCAP_INIT(struct ibvcap_tracker_options);
	struct ibvcap_tracker *new;
	int r = options ? sized_struct_read(&known, sizeof(known), options, "ibvcap_tracker_options") : 0;

	if (r == 0)
		r = check_arguments(sequence, &known);
	if (r < 0)
		return r;
	new = calloc(1, sizeof(*new));
	if (!new)
		return error_set(-ENOMEM, "a tracker: out of memory");
	if (getrandom(new->secret, sizeof(new->secret), 0) < 0) {
		r = error_set(-errno, "a tracker: no random number: %s", strerror(errno));
		free(new);
		return r;
	}
	new->secret[1] |= 1; /* never 0 */
	new->losses.size = sizeof(new->losses);
	sequence_reader_init(&new->reader, sequence);
	set_rules(new);
	if (allocate(new, known.max_sources ? known.max_sources : SOURCES_DEFAULT) < 0) {
		ibvcap_tracker_free(new);
		return error_set(-ENOMEM, "a tracker: out of memory");
	}
	*tracker = new;
	return 0;
}

void ibvcap_tracker_free(struct ibvcap_tracker *tracker)
{
	if (!tracker)
		return;
	free(tracker->sources);
	free(tracker->seen);
	free(tracker->slots);
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
	const struct sequence_losses losses =
		sequence_place_losses(lost, totals[IBVCAP_TRACKED_COUNTER_SKIPPED],
	                              totals[IBVCAP_TRACKED_COUNTER_NO_BUFFER], totals[IBVCAP_TRACKED_COUNTER_UNREAD]);
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
		.n_sources = tracker->n_sources,
	};

	return sized_struct_write(counts, &ours, sizeof(ours), "ibvcap_tracker_counts");
}

int ibvcap_tracker_source(const struct ibvcap_tracker *tracker, uint32_t index, struct ibvcap_tracker_source *source)
{
	struct ibvcap_tracker_source ours = IBVCAP_INIT(struct ibvcap_tracker_source);
	const struct tracker_source *from = &tracker->sources[index];
	int r;

	if (index >= tracker->n_sources)
		return 0;
	ours.numbers = numbers_of(from->counts);
	ours.packets = from->packets;
	ours.port = from->key.port;
	ours.destination_port = from->key.destination_port;
	ours.field_bytes = tracker->reader.sequence.source_bytes;
	memcpy(ours.field, from->key.field, sizeof(ours.field));
	memcpy(ours.address, from->key.address, sizeof(ours.address));
	memcpy(ours.destination, from->key.destination, sizeof(ours.destination));
	r = sized_struct_write(source, &ours, sizeof(ours), "ibvcap_tracker_source");
	return r < 0 ? r : 1;
}
