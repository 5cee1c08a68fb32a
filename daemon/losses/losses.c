// SPDX-License-Identifier: Apache-2.0
/*
 * The control thread's side: adds up the notes of a stream's workers, finds how many packets are lost, and says what
 * the ledger has to tell of them.
 */
#include "daemon/losses/losses.h"

#include "lib/base/min.h"

#include <string.h>

#define LOADS_MAX 100 /* a worker writes a note in some 20 ns, unless it is put off the CPU */

/* The notes of all queues, added up. */
struct losses_terms {
	struct losses_reading oldest; /* of the readings that the workers have noted last */
	uint64_t newest_matched;
	uint64_t accounted, may_yet_come, dropped, split, stalled_utc_ns;
	bool all_noted, all_ended;
};

void losses_init(struct losses *losses, uint32_t n_queues, uint32_t slots, bool counts_drops, bool joins,
                 uint64_t drain_ns)
{
	memset(losses, 0, sizeof(*losses));
	losses->n_queues = n_queues;
	losses->counts_drops = counts_drops;
	losses->joins = joins;
	for (uint32_t i = 0; i < n_queues; i++) {
		struct losses_queue *queue = &losses->queues[i];

		queue->slots = slots;
		queue->counts_drops = counts_drops;
		queue->may_wait = counts_drops || joins;
		queue->drain_ns = drain_ns;
		queue->no_buffer = &losses->no_buffer;
	}
}

/* False: the worker is writing it. Partner: losses_publish_note(). */
static bool losses_load_note(const struct losses_queue *queue, struct losses_note *note)
{
	uint64_t words[sizeof(*note) / sizeof(uint64_t)];

	for (unsigned n = 0; n < LOADS_MAX; n++) {
		uint64_t version = atomic_load_explicit(&queue->version, memory_order_acquire);

		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			words[i] = atomic_load_explicit(&queue->shared[i], memory_order_acquire);
		if (version % 2 || atomic_load_explicit(&queue->version, memory_order_relaxed) != version)
			continue;
		memcpy(note, words, sizeof(words));
		return true;
	}
	return false;
}

static bool losses_load_notes(const struct losses *losses, struct losses_note *notes)
{
	bool is_whole = true;

	for (uint32_t i = 0; i < losses->n_queues; i++)
		is_whole &= losses_load_note(&losses->queues[i], &notes[i]);
	return is_whole;
}

/* ---- the packets that are lost ------------------------------------------------------------------- */

/*
 * A worker that has ended holds nobody up: its reading counts only if all have ended. Rows that came after the oldest
 * reading hide as many losses until the next reading, which makes the sum smaller, never larger.
 */
static struct losses_terms losses_terms_of(const struct losses *losses, const struct losses_note *notes)
{
	struct losses_terms terms = {
		.oldest = {.matched = UINT64_MAX, .at_ns = UINT64_MAX}, .all_noted = true, .all_ended = true};

	for (uint32_t i = 0; i < losses->n_queues; i++) {
		const struct losses_note *note = &notes[i];
		uint64_t stalled = atomic_load_explicit(&losses->queues[i].stalled_utc_ns, memory_order_relaxed);

		terms.newest_matched = u64_max(terms.newest_matched, note->reading.matched);
		terms.accounted += note->accounted;
		terms.dropped += note->dropped;
		terms.split += note->split;
		terms.stalled_utc_ns = u64_max(terms.stalled_utc_ns, stalled);
		if (note->level == LOSSES_ENDED)
			continue;
		terms.all_ended = false;
		terms.all_noted &= note->level != LOSSES_NONE;
		terms.may_yet_come += note->level == LOSSES_SETTLED ? 0 : losses->queues[i].slots;
		if (note->reading.at_ns < terms.oldest.at_ns)
			terms.oldest = note->reading;
	}
	if (terms.all_ended)
		terms.oldest.matched = terms.newest_matched;
	return terms;
}

/*
 * The packets that are certainly lost: those that steering matched, less the rows so far and all that may come yet. A
 * device that counts what it drops says it itself, until the last packets are drained: what is still in its buffer then
 * is lost, too.
 */
static uint64_t losses_found(const struct losses *losses, const struct losses_terms *terms)
{
	bool is_counted = losses->counts_drops && !terms->all_ended;
	int64_t missing = (int64_t)(terms->oldest.matched - terms->accounted - (is_counted ? 0 : terms->may_yet_come));

	if (!terms->all_noted || missing <= 0)
		return 0;
	return is_counted ? u64_min(terms->dropped, (uint64_t)missing) : (uint64_t)missing;
}

/* One reading can show a loss in parts: while a queue of packets may yet come, and after that. */
static void losses_note_last(struct losses_last *last, const struct losses_reading *reading, uint64_t packets)
{
	bool is_more = last->packets && last->to_utc_ns == reading->utc_ns;

	last->packets = packets + (is_more ? last->packets : 0);
	last->from_utc_ns = reading->before_utc_ns;
	last->to_utc_ns = reading->utc_ns;
}

uint64_t losses_add_up(struct losses *losses)
{
	struct losses_note notes[LOSSES_QUEUES_MAX];
	struct losses_terms terms;
	uint64_t before, now;

	if (!losses_load_notes(losses, notes))
		return 0;
	terms = losses_terms_of(losses, notes);
	before = atomic_load_explicit(&losses->no_buffer, memory_order_relaxed);
	now = u64_max(before, losses_found(losses, &terms));
	atomic_store_explicit(&losses->no_buffer, now, memory_order_relaxed);
	if (now > before)
		losses_note_last(&losses->last, &terms.oldest, now - before);
	if (terms.stalled_utc_ns && terms.stalled_utc_ns >= terms.oldest.before_utc_ns)
		losses->no_buffer_lossless += now - before;
	losses->read = u64_max(losses->read, terms.newest_matched);
	losses->matched = u64_max(losses->matched, terms.newest_matched + terms.split);
	return now - before;
}

bool losses_are_settled(const struct losses *losses, uint64_t matched, uint64_t accounted)
{
	return losses->read >= matched &&
	       accounted + atomic_load_explicit(&losses->no_buffer, memory_order_relaxed) >= matched;
}

/* ---- the ledger ---------------------------------------------------------------------------------- */

/*
 * Of the matched packets, those with a row from before the reading are not lost. Rows that came later may be of packets
 * that were matched later. The device's own count, if there is one, is another bound. It lacks the fragments that are
 * held and lost later, and a worker knows only of its own queue that it holds none from before the reading.
 */
static uint64_t losses_most(const struct losses *losses, const struct losses_note *notes, uint64_t least)
{
	uint64_t matched = 0, before = 0, dropped = 0, most;
	bool is_known = true, all_ended = true;

	for (uint32_t i = 0; i < losses->n_queues; i++) {
		matched = u64_max(matched, notes[i].reading.matched);
		before += notes[i].n_before;
		dropped += notes[i].dropped;
		is_known &= notes[i].has_before != 0;
		all_ended &= notes[i].level == LOSSES_ENDED;
	}
	most = is_known && matched >= before ? matched - before : UINT64_MAX;
	if (losses->counts_drops && dropped < most && !(losses->joins && losses->n_queues > 1))
		most = dropped;
	return most < least || all_ended ? least : most;
}

/* The queues' records, put together: each says of its own rows and marks, and all of the same stream's losses. */
static bool losses_make_entry(const struct losses *losses, const struct losses_note *notes, struct losses_entry *entry)
{
	uint64_t least = atomic_load_explicit(&losses->no_buffer, memory_order_relaxed);
	uint64_t before = UINT64_MAX, outages_before = UINT64_MAX, outages_after = 0;

	*entry = (struct losses_entry){.until_ns = UINT64_MAX,
	                               .read_utc_ns = UINT64_MAX,
	                               .until_utc_ns = UINT64_MAX,
	                               .matched = notes[0].matched,
	                               .no_buffer_most = losses_most(losses, notes, least)};
	for (uint32_t i = 0; i < losses->n_queues; i++) {
		const struct losses_note *note = &notes[i];

		if (!note->until_ns)
			return false;
		entry->until_ns = u64_min(entry->until_ns, note->until_ns);
		entry->read_utc_ns = u64_min(entry->read_utc_ns, note->read_utc_ns);
		entry->until_utc_ns = u64_min(entry->until_utc_ns, note->until_utc_ns);
		entry->matched = note->matched == entry->matched ? note->matched : UINT64_MAX;
		before = u64_min(before, note->before.no_buffer);
		outages_before = u64_min(outages_before, note->before.outages);
		outages_after = u64_max(outages_after, note->after.outages);
		entry->queues[i].head = note->head;
		entry->queues[i].before.marks = note->before.marks;
		entry->queues[i].after.marks = note->after.marks;
	}
	for (uint32_t i = 0; i < losses->n_queues; i++) {
		entry->queues[i].before.no_buffer = before;
		entry->queues[i].before.outages = outages_before;
		entry->queues[i].after.no_buffer = least;
		entry->queues[i].after.outages = outages_after;
	}
	return true;
}

/* Was nothing lost from the heads of one entry until the end of the other? */
static bool losses_are_same(const struct losses *losses, const struct losses_entry *from,
                            const struct losses_entry *until)
{
	for (uint32_t i = 0; i < losses->n_queues; i++) {
		const struct ledger_losses *before = &from->queues[i].before, *after = &until->queues[i].after;

		if (before->marks != after->marks || before->no_buffer != after->no_buffer ||
		    before->outages != after->outages)
			return false;
	}
	return true;
}

/* A record of the same time can say more: a reading without new packets has renewed the entry, and is settled now. */
static bool losses_says_more(const struct losses *losses, const struct losses_entry *entry)
{
	const struct losses_entry *newest = &losses->entry;

	for (uint32_t i = 0; i < losses->n_queues; i++)
		if (entry->queues[i].before.marks > newest->queues[i].before.marks)
			return true;
	return entry->matched != newest->matched || entry->no_buffer_most < newest->no_buffer_most ||
	       entry->queues[0].before.no_buffer > newest->queues[0].before.no_buffer ||
	       entry->queues[0].before.outages > newest->queues[0].before.outages;
}

static bool losses_is_news(const struct losses *losses, const struct losses_entry *entry)
{
	if (!losses->has_entry)
		return true;
	for (uint32_t i = 0; i < losses->n_queues; i++)
		if (entry->queues[i].head < losses->entry.queues[i].head)
			return false;
	return entry->until_ns > losses->entry.until_ns ||
	       (entry->until_ns == losses->entry.until_ns && losses_says_more(losses, entry));
}

static void losses_renew(struct losses *losses, const struct losses_entry *by, struct losses_entry *entry)
{
	struct losses_entry *newest = &losses->entry;

	newest->is_renewal = true;
	newest->until_ns = by->until_ns;
	newest->until_utc_ns = by->until_utc_ns;
	newest->matched = by->matched;
	newest->no_buffer_most = by->no_buffer_most;
	*entry = *newest;
}

bool losses_next_entry(struct losses *losses, struct losses_entry *entry)
{
	struct losses_note notes[LOSSES_QUEUES_MAX];
	struct losses_entry made;

	if (!losses_load_notes(losses, notes) || !losses_make_entry(losses, notes, &made) ||
	    !losses_is_news(losses, &made))
		return false;
	if (losses->has_entry && losses_are_same(losses, &losses->entry, &made)) {
		losses_renew(losses, &made, entry);
	} else {
		losses->has_entry = true;
		losses->entry = *entry = made;
	}
	return true;
}

bool losses_renew_by(struct losses *losses, const struct losses_reading *reading, struct losses_entry *entry)
{
	const struct losses_entry *newest = &losses->entry;

	if (!losses->has_entry || newest->matched != reading->matched || newest->until_ns >= reading->at_ns)
		return false;
	losses_renew(losses,
	             &(struct losses_entry){.until_ns = reading->at_ns,
	                                    .until_utc_ns = reading->utc_ns,
	                                    .matched = reading->matched,
	                                    .no_buffer_most = newest->no_buffer_most},
	             entry);
	return true;
}

bool losses_are_at_rest(const struct losses *losses, uint64_t matched, uint64_t accounted, uint64_t outages)
{
	const struct losses_entry *newest = &losses->entry;
	uint64_t no_buffer = atomic_load_explicit(&losses->no_buffer, memory_order_relaxed);

	return losses->has_entry && newest->matched == matched && losses->read == matched &&
	       accounted + no_buffer == matched && newest->no_buffer_most == no_buffer &&
	       losses_are_same(losses, newest, newest) && newest->queues[0].before.no_buffer == no_buffer &&
	       newest->queues[0].before.outages == outages;
}
