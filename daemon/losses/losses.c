// SPDX-License-Identifier: Apache-2.0
/*
 * A worker notes when a reading of the flow counters is settled in its queue, and what was lost before which row. The
 * control thread adds the notes of a stream's workers up, finds how many packets are lost, and says what the ledger has
 * to tell of them. A worker publishes each note as one piece, so that the control thread never sees parts of two.
 */
#include "daemon/losses/losses.h"

#include "lib/base/min.h"

#include <string.h>

/* A completion may reach memory a little later than the flow counter counts its packet: wait this long. */
#define SETTLE_NS UINT64_C(100000)

/* The notes of all queues, added up. */
struct losses_terms {
	struct losses_reading oldest; /* of the readings that the workers have noted last */
	uint64_t newest_matched;
	uint64_t accounted, before, may_yet_come, dropped, split, stalled_utc_ns;
	bool all_noted, all_ended;
	bool is_before_known;
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

/* ---- a worker ------------------------------------------------------------------------------------ */

static void losses_publish_note(struct losses_queue *queue)
{
	ledger_store_words(&queue->version, queue->shared, &queue->note, sizeof(queue->note));
}

static struct ledger_losses losses_now(const struct losses_queue *queue, const struct losses_counts *counts)
{
	return (struct ledger_losses){
		.marks = counts->marks,
		.no_buffer = atomic_load_explicit(queue->no_buffer, memory_order_relaxed),
		.outages = counts->outages,
		.ambiguous = counts->ambiguous,
		.unjoined = counts->unjoined,
	};
}

/* The flow counters have a packet that the backend splits once, and it becomes several rows or drops. */
static void losses_queue_note(struct losses_queue *queue, enum losses_level level, const struct losses_counts *counts)
{
	queue->note.level = level;
	queue->note.accounted = counts->accounted + counts->held - counts->split;
	queue->note.dropped = counts->dropped;
	queue->note.split = counts->split;
	queue->note.unjoined = counts->unjoined;
	losses_publish_note(queue);
	queue->noted = (struct losses_noted){
		.at_ns = counts->now_ns,
		.n = counts->accounted - counts->split,
		.utc_ns = queue->note.reading.utc_ns,
		.losses = losses_now(queue, counts),
	};
}

/*
 * The record of the last reading is made when every packet that the device holds now has a row. So all that was lost
 * before now was lost before the row at the head that the ring will have then.
 */
static void losses_queue_owe_record(struct losses_queue *queue, const struct losses_counts *counts)
{
	queue->due_ns = counts->now_ns;
	queue->due_taken = counts->posted;
	queue->record = LOSSES_RECORD_DUE;
}

void losses_queue_read(struct losses_queue *queue, const struct losses_reading *reading,
                       const struct losses_counts *counts)
{
	struct losses_note *note = &queue->note;

	note->reading = *reading;
	queue->is_open = true;
	losses_queue_owe_record(queue, counts);
	/* The packets and losses of a note that is older than the reading are in the reading's counters. */
	if (queue->noted.at_ns < reading->at_ns) {
		queue->before = queue->noted;
		/* The control thread has added up the last notes since. It knows no loss that is later than now. */
		queue->before.losses.no_buffer = losses_now(queue, counts).no_buffer;
		queue->before.losses.unjoined = note->unjoined;
		note->n_before = queue->noted.n;
		note->has_before = 1;
	}
	/* Under overload no poll may ever be empty, but at most a whole receive queue of packets can still come. */
	losses_queue_note(queue, LOSSES_OPEN, counts);
}

/* until_ns: of the reading, or LEDGER_ENDED. */
static void losses_queue_record(struct losses_queue *queue, uint64_t until_ns, const struct losses_counts *counts)
{
	struct losses_note *note = &queue->note;

	queue->record = counts->decided_ns == UINT64_MAX ? LOSSES_RECORD_MADE : LOSSES_RECORD_PARTIAL;
	note->dropped = counts->dropped;
	note->unjoined = counts->unjoined;
	note->settled = (struct ledger_entry){
		.until_ns = u64_min(until_ns, counts->decided_ns),
		.read_utc_ns = queue->before.utc_ns,
		.until_utc_ns = note->reading.utc_ns,
		/* Fragments that are held may be lost, though no packet matches: no reading makes the record newer. */
		.matched = queue->record == LOSSES_RECORD_PARTIAL ? UINT64_MAX : note->reading.matched,
		.head = counts->head,
		.before = queue->before.losses,
		.after = losses_now(queue, counts),
	};
	note->settled.after.marks += queue->counts_drops ? 0 : counts->n_maybe;
	losses_publish_note(queue);
}

/* At an empty poll, long enough after the reading: every packet that it counted has come or is lost. */
static void losses_queue_settle(struct losses_queue *queue, const struct losses_counts *counts)
{
	uint64_t settle_ns = counts->is_ending ? queue->drain_ns : SETTLE_NS;

	if (!queue->is_open || !counts->is_empty || counts->now_ns - queue->due_ns < settle_ns)
		return;
	losses_queue_note(queue, LOSSES_SETTLED, counts);
	queue->is_open = false;
}

/*
 * The record was made while fragments were held. When all have a row, or are lost, it is made again. The device may
 * have lost packets since the poll, and hold others that came before those.
 */
static void losses_queue_owe_again(struct losses_queue *queue, const struct losses_counts *counts)
{
	if (queue->is_open || counts->held)
		return;
	losses_queue_note(queue, LOSSES_SETTLED, counts);
	queue->before = queue->noted;
	losses_queue_owe_record(queue, counts);
}

/*
 * The reading is settled (1) drain_ns after it, at a poll that took all that the device held, or (2) when a card has
 * used all slots that were posted at that time.
 */
static bool losses_queue_has_drained(const struct losses_queue *queue, const struct losses_counts *counts)
{
	if (!queue->counts_drops && counts->taken >= queue->due_taken)
		return true;
	return counts->took_all && counts->now_ns - queue->due_ns >= queue->drain_ns;
}

void losses_queue_look(struct losses_queue *queue, const struct losses_counts *counts)
{
	losses_queue_settle(queue, counts);
	if (queue->record == LOSSES_RECORD_PARTIAL)
		losses_queue_owe_again(queue, counts);
	else if (queue->record == LOSSES_RECORD_DUE && !counts->is_resetting && losses_queue_has_drained(queue, counts))
		losses_queue_record(queue, queue->note.reading.at_ns, counts);
}

void losses_queue_end(struct losses_queue *queue, const struct losses_counts *counts)
{
	losses_queue_note(queue, LOSSES_ENDED, counts);
	losses_queue_record(queue, LEDGER_ENDED, counts);
	queue->is_open = false;
}

/* ---- the control thread: the packets that are lost ---------------------------------------------- */

/*
 * A worker that has ended holds nobody up: its reading counts only if all have ended. Rows that came after the oldest
 * reading hide as many losses until the next reading, which makes the sum smaller, never larger.
 */
static struct losses_terms losses_terms_of(const struct losses *losses, const struct losses_note *notes)
{
	struct losses_terms terms = {
		.oldest = {.matched = UINT64_MAX, .at_ns = UINT64_MAX},
		.all_noted = true,
		.all_ended = true,
		.is_before_known = true,
	};

	for (uint32_t i = 0; i < losses->n_queues; i++) {
		const struct losses_note *note = &notes[i];
		uint64_t stalled = atomic_load_explicit(&losses->queues[i].stalled_utc_ns, memory_order_relaxed);

		terms.newest_matched = u64_max(terms.newest_matched, note->reading.matched);
		terms.accounted += note->accounted;
		terms.before += note->n_before;
		terms.is_before_known &= note->has_before != 0;
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

static void losses_add_up(struct losses *losses, const struct losses_terms *terms)
{
	uint64_t before = atomic_load_explicit(&losses->no_buffer, memory_order_relaxed);
	uint64_t now = u64_max(before, losses_found(losses, terms));

	atomic_store_explicit(&losses->no_buffer, now, memory_order_relaxed);
	if (now > before)
		losses_note_last(&losses->last, &terms->oldest, now - before);
	if (terms->stalled_utc_ns && terms->stalled_utc_ns >= terms->oldest.before_utc_ns)
		losses->no_buffer_lossless += now - before;
	else if (losses->standstill_utc_ns > terms->oldest.before_utc_ns &&
	         losses->standstill_utc_ns <= terms->oldest.utc_ns)
		losses->no_buffer_standstill += now - before;
	losses->read = u64_max(losses->read, terms->newest_matched);
	losses->matched = u64_max(losses->matched, terms->newest_matched + terms->split);
}

bool losses_are_settled(const struct losses *losses, uint64_t matched, uint64_t accounted)
{
	uint64_t no_buffer = atomic_load_explicit(&losses->no_buffer, memory_order_relaxed);

	return losses->read >= matched && (int64_t)(accounted + no_buffer - matched) >= 0;
}

/* ---- the control thread: the ledger -------------------------------------------------------------- */

/*
 * A matched packet with a row from before the reading is not lost. A row that came later may belong to a packet that
 * was matched later. The device's own count, if there is one, is another bound. It lacks the fragments that are
 * held and lost later, and a worker knows only of its own queue that it holds none from before the reading.
 */
static uint64_t losses_most(const struct losses *losses, const struct losses_terms *terms, uint64_t least)
{
	uint64_t most = UINT64_MAX;

	if (terms->is_before_known && (int64_t)(terms->newest_matched - terms->before) >= 0)
		most = terms->newest_matched - terms->before;
	if (losses->counts_drops && terms->dropped < most && !(losses->joins && losses->n_queues > 1))
		most = terms->dropped;
	return most < least || terms->all_ended ? least : most;
}

void losses_note_interface(struct losses *losses, const struct losses_interface_reading *reading)
{
	struct losses_interface *interface = &losses->interface;

	if (reading->at_ns <= interface->newest.at_ns)
		return;
	interface->newest = *reading;
	if (reading->at_ns - interface->middle.at_ns < LOSSES_INTERFACE_NS)
		return;
	interface->old = interface->middle;
	interface->middle = interface->newest;
}

static void losses_set_interface(const struct losses *losses, struct ledger_entry *made)
{
	const struct ledger_entry *newest = &losses->entry.of_stream;
	bool is_old = made->until_ns >= losses->interface.old.at_ns + LOSSES_INTERFACE_NS;

	made->interface_before = is_old ? losses->interface.old.lost : newest->interface_before;
	made->interface_uncounted = is_old ? losses->interface.old.uncounted : newest->interface_uncounted;
}

/* The queues' records, put together: each says of its own rows and marks, and all of the same stream's losses. */
static bool losses_make_entry(const struct losses *losses, const struct losses_note *notes,
                              const struct losses_terms *terms, struct losses_entry *entry)
{
	uint64_t least = atomic_load_explicit(&losses->no_buffer, memory_order_relaxed);
	struct ledger_entry *all = &entry->of_stream;

	*entry = (struct losses_entry){.of_stream = notes[0].settled};
	all->before.unjoined = all->after.unjoined = 0;
	for (uint32_t i = 0; i < losses->n_queues; i++) {
		const struct ledger_entry *settled = &notes[i].settled;

		if (!settled->until_ns)
			return false;
		all->until_ns = u64_min(all->until_ns, settled->until_ns);
		all->read_utc_ns = u64_min(all->read_utc_ns, settled->read_utc_ns);
		all->until_utc_ns = u64_min(all->until_utc_ns, settled->until_utc_ns);
		all->matched = settled->matched == all->matched ? settled->matched : UINT64_MAX;
		all->before.no_buffer = u64_min(all->before.no_buffer, settled->before.no_buffer);
		all->before.outages = u64_min(all->before.outages, settled->before.outages);
		all->after.outages = u64_max(all->after.outages, settled->after.outages);
		all->before.unjoined += settled->before.unjoined;
		all->after.unjoined += notes[i].unjoined;
		entry->queues[i].head = settled->head;
		entry->queues[i].marks_before = settled->before.marks;
		entry->queues[i].marks_after = settled->after.marks;
		entry->queues[i].ambiguous_before = settled->before.ambiguous;
		entry->queues[i].ambiguous_after = settled->after.ambiguous;
	}
	all->after.no_buffer = least;
	all->no_buffer_most = losses_most(losses, terms, least);
	losses_set_interface(losses, all);
	return true;
}

/* Was nothing lost from the heads of one entry until the end of the other? */
static bool losses_are_same(const struct losses *losses, const struct losses_entry *from,
                            const struct losses_entry *until)
{
	for (uint32_t i = 0; i < losses->n_queues; i++)
		if (from->queues[i].marks_before != until->queues[i].marks_after)
			return false;
	return from->of_stream.interface_before == until->of_stream.interface_before &&
	       from->of_stream.interface_uncounted == until->of_stream.interface_uncounted &&
	       from->of_stream.before.no_buffer == until->of_stream.after.no_buffer &&
	       from->of_stream.before.outages == until->of_stream.after.outages;
}

/* A record of the same time can say more: a reading without new packets has renewed the entry, and is settled now. */
static bool losses_says_more(const struct losses *losses, const struct losses_entry *entry)
{
	const struct ledger_entry *newest = &losses->entry.of_stream, *made = &entry->of_stream;

	for (uint32_t i = 0; i < losses->n_queues; i++)
		if (entry->queues[i].marks_before > losses->entry.queues[i].marks_before)
			return true;
	return made->matched != newest->matched || made->no_buffer_most < newest->no_buffer_most ||
	       made->before.no_buffer > newest->before.no_buffer || made->before.outages > newest->before.outages ||
	       made->interface_before > newest->interface_before ||
	       made->interface_uncounted > newest->interface_uncounted;
}

static bool losses_is_news(const struct losses *losses, const struct losses_entry *entry)
{
	const struct ledger_entry *newest = &losses->entry.of_stream, *made = &entry->of_stream;

	if (!losses->has_entry)
		return true;
	for (uint32_t i = 0; i < losses->n_queues; i++)
		if (entry->queues[i].head < losses->entry.queues[i].head)
			return false;
	return made->until_ns > newest->until_ns ||
	       (made->until_ns == newest->until_ns && losses_says_more(losses, entry));
}

static enum losses_change losses_renew(struct losses *losses, const struct ledger_entry *by)
{
	struct ledger_entry *newest = &losses->entry.of_stream;

	newest->until_ns = by->until_ns;
	newest->until_utc_ns = by->until_utc_ns;
	newest->matched = by->matched;
	newest->no_buffer_most = by->no_buffer_most;
	return LOSSES_RENEWED;
}

enum losses_change losses_update(struct losses *losses)
{
	struct losses_note notes[LOSSES_QUEUES_MAX];
	struct losses_terms terms;
	struct losses_entry made;

	for (uint32_t i = 0; i < losses->n_queues; i++)
		if (!ledger_load_words(&losses->queues[i].version, losses->queues[i].shared, &notes[i],
		                       sizeof(notes[i])))
			return LOSSES_SAME;
	terms = losses_terms_of(losses, notes);
	losses_add_up(losses, &terms);
	if (!losses_make_entry(losses, notes, &terms, &made) || !losses_is_news(losses, &made))
		return LOSSES_SAME;
	if (losses->has_entry && losses_are_same(losses, &losses->entry, &made))
		return losses_renew(losses, &made.of_stream);
	losses->has_entry = true;
	losses->entry = made;
	return LOSSES_APPENDED;
}

enum losses_change losses_renew_by(struct losses *losses, const struct losses_reading *reading)
{
	const struct ledger_entry *newest = &losses->entry.of_stream;

	if (!losses->has_entry || newest->matched != reading->matched || newest->until_ns >= reading->at_ns)
		return LOSSES_SAME;
	return losses_renew(losses, &(struct ledger_entry){.until_ns = reading->at_ns,
	                                                   .until_utc_ns = reading->utc_ns,
	                                                   .matched = reading->matched,
	                                                   .no_buffer_most = newest->no_buffer_most});
}

bool losses_are_at_rest(const struct losses *losses, uint64_t matched, uint64_t accounted, uint64_t outages)
{
	const struct ledger_entry *newest = &losses->entry.of_stream;
	uint64_t no_buffer = atomic_load_explicit(&losses->no_buffer, memory_order_relaxed);

	return losses->has_entry && newest->matched == matched && losses->read == matched &&
	       accounted + no_buffer == matched && newest->no_buffer_most == no_buffer &&
	       losses_are_same(losses, &losses->entry, &losses->entry) && newest->before.no_buffer == no_buffer &&
	       newest->before.outages == outages && newest->interface_before == losses->interface.old.lost &&
	       newest->interface_uncounted == losses->interface.old.uncounted;
}
