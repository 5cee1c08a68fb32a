// SPDX-License-Identifier: Apache-2.0
/*
 * Moments of a handle, and accounts of the packets between two moments. A moment gets its losses from the ledger in the
 * ring of each queue: the newest entry of which all rows lie before the moment counts a part of the losses before it,
 * and the first entry that reaches until the moment counts all.
 */
#include "lib/ibvcap/rx/rx.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>

/* ---- take a moment --------------------------------------------------------------------------------- */

static struct ibvcap_settled_losses settled_losses(const struct ledger_losses *losses, uint64_t most)
{
	return (struct ibvcap_settled_losses){
		.marks = losses->marks,
		.least = losses->no_buffer,
		.most = most,
		.outages = losses->outages,
		.ambiguous = losses->ambiguous,
		.unjoined = losses->unjoined,
	};
}

/* The losses of the last epoch, of a queue that is away. */
static struct ibvcap_settled_losses last_losses(const struct rx_queue *queue)
{
	return settled_losses(&queue->reattach.last.after, queue->reattach.last.no_buffer_most);
}

/*
 * A caller may place a moment before a row of the batch that it holds. So the entry has to lie before that batch, not
 * only before the next one.
 */
static void moment_load_before(struct ibvcap_rx_moment *moment, const struct rx_queue *queue)
{
	uint64_t row = rx_queue_has_batches(queue) ? queue->batch_sequence : queue->next;
	struct ledger_entry entry;

	if (!ledger_before_row(&queue->ring->ledger, row, &entry))
		entry = (struct ledger_entry){0};
	moment->before = settled_losses(&entry.before, UINT64_MAX);
	moment->interface_before = entry.interface_before;
	moment->interface_uncounted_before = entry.interface_uncounted;
}

static void moment_load_outages(struct ibvcap_rx_moment *moment, const struct rx_queue *queue)
{
	moment->after.outages = ring_load_outages(queue->ring, &moment->outage_from_ns, &moment->outage_until_ns);
}

/* False: the daemon has not read the interface since the moment. */
static bool moment_load_interface(struct ibvcap_rx_moment *moment, const struct rx_queue *queue)
{
	const struct ring_interface interface = ring_load_interface(queue->ring);

	moment->interface_after = interface.lost;
	moment->interface_from_ns = interface.from_ns;
	moment->interface_until_ns = interface.until_ns;
	moment->interface_uncounted_after = interface.uncounted;
	return interface.read_ns >= moment->monotonic_ns;
}

/* All queues of a stream show the same losses of the interface. In another time namespace nothing is noted. */
static void moment_note_quiet(struct ibvcap_rx_moment *moment, const struct rx_queue *queue)
{
	uint64_t now_ns = time_monotonic_ns();
	struct ring_interface interface;

	if (queue->reattach.away || queue->info.epoch != moment->epoch)
		return;
	interface = ring_load_interface(queue->ring);
	if (interface.lost == moment->interface_before && interface.read_ns <= now_ns)
		moment->interface_quiet_ns = time_utc_ns() - (now_ns - interface.read_ns);
}

static uint32_t moment_state(const struct rx_queue *queue)
{
	struct ibvcap_rx_info info;

	rx_queue_describe(queue, &info);
	return (queue->reattach.away || info.disconnected ? RX_MOMENT_AWAY : 0) |
	       (info.failed_queues ? RX_MOMENT_FAILED : 0) |
	       (!queue->reattach.away && rx_queue_is_removed(queue) ? RX_MOMENT_REMOVED : 0);
}

/* All but the counts, which are the handle's. */
static void moment_take_queue(struct ibvcap_rx_moment *moment, const struct rx_queue *queue)
{
	bool is_away = queue->reattach.away;

	*moment = (struct ibvcap_rx_moment){
		.size = sizeof(*moment),
		.utc_ns = time_utc_ns(),
		.monotonic_ns = time_monotonic_ns(),
		.epoch = is_away ? 0 : queue->info.epoch,
		.sequence = is_away ? 0 : queue->next,
		.n_queues = queue->info.n_queues,
		.state = moment_state(queue),
		.queues = queue->info.queue < IBVCAP_QUEUES_MAX ? UINT32_C(1) << queue->info.queue : 0,
		.past = queue->reattach.past,
		.is_settled = is_away,
	};
	if (is_away) {
		moment->before = moment->after = last_losses(queue);
		return;
	}
	moment_load_before(moment, queue);
	moment->after = moment->before;
	moment_load_outages(moment, queue);
	moment_load_interface(moment, queue);
}

int ibvcap_moment_add_queue(struct ibvcap_rx_moment *stream, const struct ibvcap_rx_moment *queue)
{
	int r = sized_struct_check(stream, sizeof(*stream), "ibvcap_rx_moment");

	if (r == 0)
		r = sized_struct_check(queue, sizeof(*queue), "ibvcap_rx_moment");
	if (r < 0)
		return r;
	if (stream->queues == 0) {
		*stream = *queue;
		stream->sequence = 0;
		stream->state |= RX_MOMENT_ALL_QUEUES;
		return 0;
	}
	stream->n_queues = queue->n_queues > stream->n_queues ? queue->n_queues : stream->n_queues;
	stream->is_settled &= queue->is_settled;
	stream->state |= queue->state;
	if (queue->epoch != stream->epoch) /* counts of two epochs do not compare */
		stream->state |= RX_MOMENT_UNSETTLED;
	stream->queues |= queue->queues;
	stream->epochs = u64_max(stream->epochs, queue->epochs);
	stream->delivered += queue->delivered;
	stream->skipped += queue->skipped;
	stream->abandoned += queue->abandoned;
	stream->failures += queue->failures;
	stream->interface_before = u64_min(stream->interface_before, queue->interface_before);
	stream->interface_after = u64_max(stream->interface_after, queue->interface_after);
	stream->interface_from_ns = u64_max(stream->interface_from_ns, queue->interface_from_ns);
	stream->interface_until_ns = u64_max(stream->interface_until_ns, queue->interface_until_ns);
	stream->interface_uncounted_before =
		u64_min(stream->interface_uncounted_before, queue->interface_uncounted_before);
	stream->interface_uncounted_after =
		u64_max(stream->interface_uncounted_after, queue->interface_uncounted_after);
	stream->interface_quiet_ns = u64_min(stream->interface_quiet_ns, queue->interface_quiet_ns);
	stream->past.least = u64_max(stream->past.least, queue->past.least);
	stream->past.unjoined = u64_max(stream->past.unjoined, queue->past.unjoined);
	stream->past.outages = u64_max(stream->past.outages, queue->past.outages);
	/* The losses before all boundaries are those that the oldest of the entries counts. */
	stream->before.marks += queue->before.marks;
	stream->before.ambiguous += queue->before.ambiguous;
	stream->before.least = u64_min(stream->before.least, queue->before.least);
	stream->before.unjoined = u64_min(stream->before.unjoined, queue->before.unjoined);
	stream->before.outages = u64_min(stream->before.outages, queue->before.outages);
	/* Each queue's bounds are those of the stream, and each holds at the moment. */
	stream->after.marks += queue->after.marks;
	stream->after.ambiguous += queue->after.ambiguous;
	stream->after.least = u64_max(stream->after.least, queue->after.least);
	stream->after.unjoined = u64_max(stream->after.unjoined, queue->after.unjoined);
	stream->after.most = u64_min(stream->after.most, queue->after.most);
	stream->after.outages = u64_max(stream->after.outages, queue->after.outages);
	return 0;
}

static void moment_take_all(struct ibvcap_rx_moment *moment, const struct ibvcap_rx *rx)
{
	struct ibvcap_rx_moment one;

	for (uint32_t i = 0; i < rx->n_parts; i++) {
		if (!rx->parts[i])
			continue;
		moment_take_queue(&one, rx->parts[i]);
		ibvcap_moment_add_queue(moment, &one);
	}
	moment->n_queues = rx->n_queues;
	moment->state |= rx->failed ? RX_MOMENT_FAILED : 0;
	if (rx->is_group) /* other members have the other queues */
		moment->state &= ~(uint32_t)RX_MOMENT_ALL_QUEUES;
}

int ibvcap_rx_take_moment(struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	struct ibvcap_rx_moment now = IBVCAP_INIT(struct ibvcap_rx_moment);

	if (rx->is_single)
		moment_take_queue(&now, rx->parts[0]);
	else
		moment_take_all(&now, rx);
	ibvcap_rx_counts(rx, &counts);
	now.epochs = counts.epochs;
	now.delivered = counts.delivered;
	now.skipped = counts.skipped;
	now.abandoned = counts.abandoned;
	now.failures = counts.failures;
	return sized_struct_write(moment, &now, sizeof(now), "ibvcap_rx_moment");
}

/* ---- settle a moment ------------------------------------------------------------------------------- */

/*
 * In another time namespace than the daemon's, this process has another CLOCK_MONOTONIC, and its moments do not compare
 * with entries. If the newest entry lies in the future, only the entry of the end settles a moment.
 */
static bool is_comparable(uint64_t newest_until_ns)
{
	return newest_until_ns <= time_monotonic_ns();
}

/* The handle has left the epoch of the moment, so no entry can follow the last one of that epoch. */
static void moment_settle_by_last(struct ibvcap_rx_moment *moment, const struct rx_queue *queue)
{
	const struct rx_reattach *reattach = &queue->reattach;
	uint64_t until_ns = reattach->last.until_ns;

	if (reattach->away && reattach->last_epoch == moment->epoch && until_ns >= moment->monotonic_ns &&
	    (until_ns == LEDGER_ENDED || is_comparable(until_ns)) &&
	    reattach->last_interface.read_ns >= moment->monotonic_ns) {
		moment->after = last_losses(queue);
		moment->interface_after = reattach->last_interface.lost;
		moment->interface_uncounted_after = reattach->last_interface.uncounted;
	} else {
		moment->state |= RX_MOMENT_UNSETTLED;
	}
	moment->is_settled = 1;
}

/* The entry that counts all losses before the moment. False: there is none yet. */
static bool find_after(const struct ibvcap_ledger *ledger, uint64_t monotonic_ns, struct ledger_entry *entry)
{
	if (!ledger_newest(ledger, entry))
		return false;
	if (entry->until_ns == LEDGER_ENDED)
		return true;
	return is_comparable(entry->until_ns) && ledger_until(ledger, monotonic_ns, entry);
}

static bool moment_settle_queue(struct ibvcap_rx_moment *moment, const struct rx_queue *queue)
{
	struct ledger_entry entry;
	uint32_t state;

	if (queue->reattach.away || queue->info.epoch != moment->epoch) {
		moment_settle_by_last(moment, queue);
		return true;
	}
	/* Before the ledger: the daemon writes the last entry, and then ends. */
	state = moment_state(queue);
	if (moment_load_interface(moment, queue) && find_after(&queue->ring->ledger, moment->monotonic_ns, &entry)) {
		moment->after = settled_losses(&entry.after, entry.no_buffer_most);
		moment->is_settled = 1;
	}
	moment_load_outages(moment, queue); /* the ring's count is newer than the entry's */
	if (!moment->is_settled && state & RX_MOMENT_AWAY) {
		moment->state |= state | RX_MOMENT_UNSETTLED;
		moment->is_settled = 1;
	}
	return moment->is_settled;
}

static bool moment_settle_all(struct ibvcap_rx_moment *moment, const struct ibvcap_rx *rx)
{
	struct ibvcap_rx_moment sum = IBVCAP_INIT(struct ibvcap_rx_moment), one;

	for (uint32_t i = 0; i < rx->n_parts; i++) {
		if (!rx->parts[i])
			continue;
		one = *moment;
		one.queues = UINT32_C(1) << rx->parts[i]->info.queue % IBVCAP_QUEUES_MAX;
		if (!moment_settle_queue(&one, rx->parts[i]))
			return false;
		ibvcap_moment_add_queue(&sum, &one);
	}
	moment->state |= (sum.state & ~(uint32_t)RX_MOMENT_ALL_QUEUES) |
	                 (sum.queues != moment->queues ? RX_MOMENT_UNSETTLED : 0);
	moment->after = sum.after;
	moment->interface_after = sum.interface_after;
	moment->interface_from_ns = sum.interface_from_ns;
	moment->interface_until_ns = sum.interface_until_ns;
	moment->interface_uncounted_after = sum.interface_uncounted_after;
	moment->outage_from_ns = sum.outage_from_ns;
	moment->outage_until_ns = sum.outage_until_ns;
	moment->is_settled = 1;
	return true;
}

int ibvcap_rx_settle_moment(const struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment)
{
	int r = sized_struct_check(moment, sizeof(*moment), "ibvcap_rx_moment");

	if (r < 0)
		return r;
	if (rx_first(rx))
		moment_note_quiet(moment, rx_first(rx));
	if (moment->is_settled)
		return 1;
	return rx->is_single ? moment_settle_queue(moment, rx->parts[0]) : moment_settle_all(moment, rx);
}

/* ---- the account between two moments ---------------------------------------------------------------- */

static uint64_t difference(uint64_t more, uint64_t less)
{
	return more > less ? more - less : 0;
}

/* An odd count is an outage that lasts: it is in both of the intervals that meet there. */
static uint64_t outages_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until)
{
	return difference((until->past.outages + until->after.outages + 1) / 2,
	                  (from->past.outages + from->before.outages) / 2);
}

/* The count begins anew in each epoch. */
static uint64_t interface_lost_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until)
{
	return from->epochs == until->epochs ? difference(until->interface_after, from->interface_before) : 0;
}

static bool counts_all_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until)
{
	return from->epochs == until->epochs && until->interface_uncounted_after % 2 == 0 &&
	       from->interface_uncounted_before == until->interface_uncounted_after;
}

/* enum ibvcap_uncounted. After a restart the counts cannot be compared. */
static uint64_t uncounted_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until)
{
	uint64_t before = from->interface_uncounted_before, after = until->interface_uncounted_after;
	uint64_t uncounted = 0;

	if (from->epochs != until->epochs)
		return 0;
	if (after % 2 || (uint32_t)before != (uint32_t)after)
		uncounted |= IBVCAP_UNCOUNTED_INTERFACE;
	if (before / IBVCAP_FLOW_RULES_CHANGED != after / IBVCAP_FLOW_RULES_CHANGED)
		uncounted |= IBVCAP_UNCOUNTED_FLOW_RULES;
	return uncounted;
}

static bool has_all_queues(const struct ibvcap_rx_moment *moment)
{
	return (uint32_t)__builtin_popcount(moment->queues) == moment->n_queues;
}

static bool lacks_queues(const struct ibvcap_rx_moment *moment)
{
	return moment->state & RX_MOMENT_ALL_QUEUES && !has_all_queues(moment);
}

static bool is_known(const struct ibvcap_rx_moment *moment)
{
	return moment->is_settled && !(moment->state & RX_MOMENT_UNSETTLED);
}

/*
 * The newest entry before a moment may be older than the moment, and the oldest one after it newer. So the losses
 * between the two inner entries are certainly in the interval, and those between the two outer ones may be. The count
 * is the stream's: for one of several queues, all of it may be of the others.
 */
static void bound_card_losses(struct ibvcap_rx_account *account, const struct ibvcap_rx_moment *from,
                              const struct ibvcap_rx_moment *until)
{
	bool is_one_epoch = from->epochs == until->epochs;

	account->no_buffer_most = UINT64_MAX;
	if (is_one_epoch && is_known(until) && until->after.most != UINT64_MAX)
		account->no_buffer_most = difference(until->after.most, from->before.least);
	if (is_one_epoch && is_known(until) && until->after.marks == from->before.marks)
		account->no_buffer_most = 0;
	if (!has_all_queues(from) || !has_all_queues(until))
		return;
	if (!is_one_epoch)
		account->no_buffer_least = until->before.least;
	else if (is_known(from) && from->after.most != UINT64_MAX)
		account->no_buffer_least =
			u64_min(difference(until->before.least, from->after.most), account->no_buffer_most);
}

/* In earlier epochs there may have been some, too, of which the restart is a reason for doubt already. */
static bool has_ambiguous_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until)
{
	return until->after.ambiguous > (from->epochs == until->epochs ? from->before.ambiguous : 0);
}

static uint32_t unknown_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until)
{
	uint32_t state = from->state | until->state, unknown = 0;

	unknown |= from->epochs != until->epochs ? IBVCAP_UNKNOWN_RESTART : 0;
	unknown |= state & RX_MOMENT_AWAY ? IBVCAP_UNKNOWN_AWAY : 0;
	unknown |= state & RX_MOMENT_REMOVED ? IBVCAP_UNKNOWN_REMOVED : 0;
	unknown |= state & RX_MOMENT_FAILED || from->failures != until->failures ? IBVCAP_UNKNOWN_FAILED : 0;
	unknown |= outages_between(from, until) ? IBVCAP_UNKNOWN_OUTAGE : 0;
	unknown |= interface_lost_between(from, until) ? IBVCAP_UNKNOWN_INTERFACE : 0;
	unknown |= from->abandoned != until->abandoned ? IBVCAP_UNKNOWN_ABANDONED : 0;
	unknown |= has_ambiguous_between(from, until) ? IBVCAP_UNKNOWN_FRAGMENTS : 0;
	unknown |=
		from->queues != until->queues || lacks_queues(from) || lacks_queues(until) ? IBVCAP_UNKNOWN_QUEUES : 0;
	return unknown;
}

int ibvcap_rx_account_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until,
                              struct ibvcap_rx_account *account)
{
	struct ibvcap_rx_account known = {
		.size = sizeof(known),
		.from_ns = from->utc_ns,
		.until_ns = until->utc_ns,
		.delivered = difference(until->delivered, from->delivered),
		.skipped = difference(until->skipped, from->skipped),
		.abandoned = difference(until->abandoned, from->abandoned),
		.restarts = difference(until->epochs, from->epochs),
		.failures = difference(until->failures, from->failures),
		.outages = outages_between(from, until),
		.unknown = unknown_between(from, until),
		.interface_counts_all = counts_all_between(from, until),
		.interface_uncounted = uncounted_between(from, until),
		.interface_lost = interface_lost_between(from, until),
	};
	int r = sized_struct_check(from, sizeof(*from), "ibvcap_rx_moment");

	if (r == 0)
		r = sized_struct_check(until, sizeof(*until), "ibvcap_rx_moment");
	if (r == 0 && until->monotonic_ns < from->monotonic_ns)
		r = error_set(-EINVAL, "the second moment is before the first one");
	if (r < 0)
		return r;
	if (known.outages) {
		known.outage_from_ns = until->outage_from_ns;
		known.outage_until_ns = until->outage_until_ns;
	}
	if (known.interface_lost) {
		known.interface_from_ns = until->interface_from_ns;
		known.interface_until_ns = until->interface_until_ns;
		known.interface_quiet_ns = from->interface_quiet_ns;
	}
	bound_card_losses(&known, from, until);
	known.no_buffer = difference(until->past.least + until->after.least, from->past.least + from->after.least);
	known.no_buffer = u64_max(u64_min(known.no_buffer, known.no_buffer_most), known.no_buffer_least);
	known.unjoined =
		difference(until->past.unjoined + until->after.unjoined, from->past.unjoined + from->after.unjoined);
	known.unjoined = u64_min(known.unjoined, known.no_buffer);
	if (!is_known(until))
		known.unknown |= IBVCAP_UNKNOWN_UNSETTLED;
	/* While the daemon is away the bounds are open because nobody counts, not because the card lost packets. */
	else if (!(known.unknown & (IBVCAP_UNKNOWN_RESTART | IBVCAP_UNKNOWN_AWAY)) &&
	         known.no_buffer_most > known.no_buffer_least)
		known.unknown |= IBVCAP_UNKNOWN_EDGE;
	known.missing = known.skipped + known.no_buffer_least;
	if (!until->delivered && !known.missing)
		known.unknown |= IBVCAP_UNKNOWN_NO_PACKETS;
	return sized_struct_write(account, &known, sizeof(known), "ibvcap_rx_account");
}

enum ibvcap_verdict ibvcap_account_verdict(const struct ibvcap_rx_account *account)
{
	return account->missing   ? IBVCAP_VERDICT_INCOMPLETE
	       : account->unknown ? IBVCAP_VERDICT_NOT_PROVEN
	                          : IBVCAP_VERDICT_COMPLETE;
}

/* ---- words --------------------------------------------------------------------------------------- */

const char *ibvcap_verdict_word(enum ibvcap_verdict verdict)
{
	static const char *const words[] = {
		[IBVCAP_VERDICT_COMPLETE] = "complete",
		[IBVCAP_VERDICT_INCOMPLETE] = "incomplete",
		[IBVCAP_VERDICT_NOT_PROVEN] = "not proven",
	};

	return (size_t)verdict < sizeof(words) / sizeof(words[0]) ? words[verdict] : NULL;
}

static const struct unknown_text {
	uint32_t bit;
	const char *word;
	const char *text;
} texts[] = {
	{IBVCAP_UNKNOWN_RESTART, "restart",
         "the daemon (ibvcapd) was restarted, or its interface was made anew: packets meanwhile are not counted"},
	{IBVCAP_UNKNOWN_AWAY, "away", "the daemon (ibvcapd) was away: packets of that time are not counted"},
	{IBVCAP_UNKNOWN_FAILED, "failed", "a queue of the network card had failed: its packets are lost"},
	{IBVCAP_UNKNOWN_OUTAGE, "outage",
         "the network interface was down, renamed or gone: packets of that time are not counted"},
	{IBVCAP_UNKNOWN_UNSETTLED, "unsettled", "the daemon (ibvcapd) did not settle its count of losses in time"},
	{IBVCAP_UNKNOWN_EDGE, "edge",
         "packets came and got no row at about the time of the beginning or the end; whether before or after it, "
         "is not known"},
	{IBVCAP_UNKNOWN_QUEUES, "queues",
         "the queues that were read were not all of the stream, or not the same all the time (a member of a group gets "
         "them after its begin), or packets of a queue came too late"},
	{IBVCAP_UNKNOWN_REMOVED, "removed", "the stream was removed from the configuration"},
	{IBVCAP_UNKNOWN_ABANDONED, "abandoned", "a member of the group left with packets that it had acquired"},
	{IBVCAP_UNKNOWN_INTERFACE, "interface",
         "the network card or the kernel dropped packets before ibvcapd could see whose they were"},
	{IBVCAP_UNKNOWN_NO_PACKETS, "no_packets",
         "no packet came, so nothing shows that the stream gets what is sent: see 'ibvcap why' with its name"},
	{IBVCAP_UNKNOWN_FRAGMENTS, "fragments",
         "IP fragments came again, came without the first one, or do not fit together: whether a datagram "
         "of the stream is lost, is not known"},
	{0, NULL, NULL},
};

static const struct unknown_text *find_text(uint32_t bit)
{
	const struct unknown_text *text = texts;

	while (text->word && text->bit != bit)
		text++;
	return text;
}

const char *ibvcap_unknown_word(uint32_t bit)
{
	return find_text(bit)->word;
}

const char *ibvcap_unknown_text(uint32_t bit)
{
	return find_text(bit)->text;
}
