// SPDX-License-Identifier: Apache-2.0
/* Settles the sum of a stream by the notes of its workers. */
#include "daemon/worker/rx_sum.h"

#include "daemon/backend/backend.h"
#include "lib/ibvcap/ring.h"

#define NOTE_SETTLED UINT64_C(1) /* the lowest bit of a note; the others are the time of the reading */
#define NOTE_ENDED   UINT64_MAX

/* The parts of all queues, added up. */
struct rx_sum_terms {
	uint64_t accounted, may_yet_come, dropped, split, stalled_utc_ns;
	bool all_noted, all_ended;
};

void rx_sum_init(struct rx_sum *sum, uint32_t n_queues, bool counts_drops)
{
	*sum = (struct rx_sum){.n_queues = n_queues, .counts_drops = counts_drops};
}

static uint64_t rx_sum_split(const struct rx_sum_part *part)
{
	return atomic_load_explicit(&part->queue->n_split, memory_order_relaxed);
}

/*
 * The flow counters have a packet that the backend splits once, and it becomes several rows. Sequentially consistent:
 * of two workers that note at once, one at least sees both notes.
 */
void rx_sum_note(struct rx_sum *sum, uint32_t queue, const struct rx_reading *reading, enum rx_sum_note note,
                 uint64_t rows, uint64_t held)
{
	struct rx_sum_part *part = &sum->parts[queue];
	uint64_t word = reading->at_ns << 1 | (note == RX_SUM_SETTLED ? NOTE_SETTLED : 0);

	atomic_store_explicit(&part->accounted, rows + held - rx_sum_split(part), memory_order_relaxed);
	atomic_store_explicit(&part->noted, note == RX_SUM_ENDED ? NOTE_ENDED : word, memory_order_seq_cst);
}

static uint64_t rx_sum_dropped(const struct rx_sum_part *part)
{
	uint64_t sum = 0;

	for (int i = 0; i < BACKEND_N_DROPS; i++)
		sum += atomic_load_explicit(&part->queue->n_dropped[i], memory_order_relaxed);
	return sum;
}

uint64_t rx_sum_dropped_of(const struct rx_sum *sum, uint32_t queue)
{
	return rx_sum_dropped(&sum->parts[queue]);
}

/*
 * A worker stores its note last, and this reads it first: the other values may be newer than the note, which makes the
 * sum smaller, never larger.
 */
static struct rx_sum_terms rx_sum_add_up(const struct rx_sum *sum, uint64_t at_ns)
{
	struct rx_sum_terms terms = {.all_noted = true, .all_ended = true};

	for (uint32_t i = 0; i < sum->n_queues; i++) {
		const struct rx_sum_part *part = &sum->parts[i];
		uint64_t noted = atomic_load_explicit(&part->noted, memory_order_seq_cst);
		uint64_t stalled = atomic_load_explicit(&part->stalled_utc_ns, memory_order_relaxed);

		terms.all_noted &= noted >> 1 >= at_ns;
		terms.all_ended &= noted == NOTE_ENDED;
		terms.may_yet_come += noted & NOTE_SETTLED ? 0 : part->queue_slots;
		terms.accounted += atomic_load_explicit(&part->accounted, memory_order_relaxed);
		terms.dropped += rx_sum_dropped(part);
		terms.split += rx_sum_split(part);
		terms.stalled_utc_ns = stalled > terms.stalled_utc_ns ? stalled : terms.stalled_utc_ns;
	}
	return terms;
}

/*
 * The packets that are certainly lost: those that steering matched, less the rows so far and all that may come yet. A
 * device that counts what it drops says it itself, until the last packets are drained: what is still in its buffer then
 * is lost, too.
 */
static uint64_t rx_sum_lost(const struct rx_sum *sum, const struct rx_sum_terms *terms, uint64_t matched)
{
	bool is_counted = sum->counts_drops && !terms->all_ended;
	int64_t missing = (int64_t)(matched - terms->accounted - (is_counted ? 0 : terms->may_yet_come));

	if (missing <= 0)
		return 0;
	return is_counted && terms->dropped < (uint64_t)missing ? terms->dropped : (uint64_t)missing;
}

/* The word never shrinks. Returns by how much it grew. */
static uint64_t rx_sum_raise(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t before = atomic_load_explicit(word, memory_order_relaxed);

	while (value > before)
		if (atomic_compare_exchange_weak_explicit(word, &before, value, memory_order_release,
		                                          memory_order_relaxed))
			return value - before;
	return 0;
}

uint64_t rx_sum_settle(struct rx_sum *sum, const struct rx_reading *reading)
{
	const struct rx_sum_terms terms = rx_sum_add_up(sum, reading->at_ns);
	uint64_t lost;

	if (terms.all_noted) {
		lost = rx_sum_raise(&sum->no_buffer, rx_sum_lost(sum, &terms, reading->matched));
		if (terms.stalled_utc_ns && terms.stalled_utc_ns >= reading->before_utc_ns)
			atomic_fetch_add_explicit(&sum->no_buffer_lossless, lost, memory_order_relaxed);
	} else {
		lost = 0;
	}
	rx_sum_raise(&sum->matched, reading->matched + terms.split);
	rx_sum_raise(&sum->read, reading->matched);
	return lost;
}

void rx_sum_note_before(struct rx_sum *sum, uint32_t queue, const struct rx_reading *reading, uint64_t rows)
{
	struct rx_sum_part *part = &sum->parts[queue];
	uint64_t split = rx_sum_split(part);

	atomic_store_explicit(&part->before_at_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&part->before, rows > split ? rows - split : 0, memory_order_release);
	atomic_store_explicit(&part->before_at_ns, reading->at_ns, memory_order_release);
}

/* False: the part's rows are of a newer reading. Those of an older one are before this one, too. */
static bool rx_sum_add_before(const struct rx_sum_part *part, uint64_t at_ns, uint64_t *rows)
{
	uint64_t of_ns = atomic_load_explicit(&part->before_at_ns, memory_order_acquire);

	*rows += atomic_load_explicit(&part->before, memory_order_acquire);
	return of_ns && of_ns <= at_ns && atomic_load_explicit(&part->before_at_ns, memory_order_relaxed) == of_ns;
}

/*
 * Of the matched packets, those with a row from before the reading are not lost. Rows that came later may be of packets
 * that were matched later. The device's own count, if there is one, is another bound. It lacks the fragments that are
 * held and lost later, and a worker knows only of its own queue that it holds none from before the reading.
 */
void rx_sum_bound(const struct rx_sum *sum, const struct rx_reading *reading, uint64_t *least, uint64_t *most)
{
	uint64_t before = 0, dropped = 0;
	bool is_known = true, all_ended = true;

	*least = counter_get(&sum->no_buffer);
	for (uint32_t i = 0; i < sum->n_queues; i++) {
		is_known &= rx_sum_add_before(&sum->parts[i], reading->at_ns, &before);
		dropped += rx_sum_dropped(&sum->parts[i]);
		all_ended &= atomic_load_explicit(&sum->parts[i].noted, memory_order_relaxed) == NOTE_ENDED;
	}
	*most = is_known && reading->matched >= before ? reading->matched - before : UINT64_MAX;
	if (sum->counts_drops && dropped < *most && !(sum->joins && sum->n_queues > 1))
		*most = dropped;
	if (*most < *least || all_ended)
		*most = *least;
}

/*
 * Packets as the flow counters count them, with a row, with an error, or lost. A packet is split before its rows are
 * published, so there are less until then, never more.
 */
static uint64_t rx_sum_accounted(const struct rx_sum *sum)
{
	uint64_t n = counter_get(&sum->no_buffer), split = 0;

	for (uint32_t i = 0; i < sum->n_queues; i++)
		n += counter_get(&sum->parts[i].ring->counters[IBVCAP_RX_COUNTER_PUBLISHED]) +
		     counter_get(&sum->parts[i].ring->counters[IBVCAP_RX_COUNTER_ERRORED]) +
		     counter_get(&sum->parts[i].ring->counters[IBVCAP_RX_COUNTER_JOINED]);
	for (uint32_t i = 0; i < sum->n_queues; i++)
		split += rx_sum_split(&sum->parts[i]);
	return n > split ? n - split : 0;
}

bool rx_sum_is_settled(const struct rx_sum *sum, uint64_t matched)
{
	return counter_get(&sum->read) >= matched && rx_sum_accounted(sum) >= matched;
}

bool rx_sum_is_at_rest(const struct rx_sum *sum, uint64_t matched)
{
	return counter_get(&sum->read) == matched && rx_sum_accounted(sum) == matched;
}
