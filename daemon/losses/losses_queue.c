// SPDX-License-Identifier: Apache-2.0
/*
 * A worker's side: when is a reading of the flow counters settled in its queue, and what was lost before which row. The
 * worker publishes each note as one piece, so that the control thread never sees parts of two.
 */
#include "daemon/losses/losses.h"

#include "lib/base/min.h"

#include <string.h>

/* A completion may reach memory a little later than the flow counter counts its packet: wait this long. */
#define SETTLE_NS UINT64_C(100000)

/* Each store is ordered behind the odd version, without a fence. Partner: losses_load_note(). */
static void losses_publish_note(struct losses_queue *queue)
{
	uint64_t version = atomic_load_explicit(&queue->version, memory_order_relaxed);
	uint64_t words[sizeof(struct losses_note) / sizeof(uint64_t)];

	memcpy(words, &queue->note, sizeof(words));
	atomic_store_explicit(&queue->version, version + 1, memory_order_relaxed);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		atomic_store_explicit(&queue->shared[i], words[i], memory_order_release);
	atomic_store_explicit(&queue->version, version + 2, memory_order_release);
}

static struct ledger_losses losses_now(const struct losses_queue *queue, const struct losses_counts *counts)
{
	return (struct ledger_losses){
		.marks = counts->marks,
		.no_buffer = atomic_load_explicit(queue->no_buffer, memory_order_relaxed),
		.outages = counts->outages,
	};
}

/* The flow counters have a packet that the backend splits once, and it becomes several rows. */
static void losses_queue_note(struct losses_queue *queue, enum losses_level level, const struct losses_counts *counts)
{
	queue->note.level = level;
	queue->note.accounted = counts->accounted + counts->held - counts->split;
	queue->note.dropped = counts->dropped;
	queue->note.split = counts->split;
	losses_publish_note(queue);
	queue->noted.at_ns = counts->now_ns;
	queue->noted.n = counts->accounted > counts->split ? counts->accounted - counts->split : 0;
	queue->noted.utc_ns = queue->note.reading.utc_ns;
	queue->noted.losses = losses_now(queue, counts);
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
		queue->before = queue->noted.losses;
		/* The control thread has added up the last notes since. It knows no loss that is later than now. */
		queue->before.no_buffer = losses_now(queue, counts).no_buffer;
		queue->before_utc_ns = queue->noted.utc_ns;
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

	note->until_ns = u64_min(until_ns, counts->decided_ns);
	note->matched = note->reading.matched;
	note->read_utc_ns = queue->before_utc_ns;
	note->until_utc_ns = note->reading.utc_ns;
	note->head = counts->head;
	note->before = queue->before;
	note->after = losses_now(queue, counts);
	note->after.marks += queue->counts_drops ? 0 : counts->n_maybe;
	note->dropped = counts->dropped;
	queue->record = counts->decided_ns == UINT64_MAX ? LOSSES_RECORD_MADE : LOSSES_RECORD_PARTIAL;
	/* The fragments that are held may be lost, though no packet matches: no reading makes the record newer. */
	if (queue->record == LOSSES_RECORD_PARTIAL)
		note->matched = UINT64_MAX;
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
	queue->before = queue->noted.losses;
	queue->before_utc_ns = queue->noted.utc_ns;
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
