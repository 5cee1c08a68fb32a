// SPDX-License-Identifier: Apache-2.0
/* Compares two moments of a receiver: the account of the packets between them, and the verdict of an account alone. */
#include "lib/ibvcap/rx.h"

#include "lib/base/min.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>

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
 * The newest record before a moment may be older than the moment, and the oldest one after it newer. So the losses
 * between the two inner records are certainly in the interval, and those between the two outer ones may be. The count
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

static uint32_t unknown_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until)
{
	uint32_t state = from->state | until->state, unknown = 0;

	unknown |= from->epochs != until->epochs ? IBVCAP_UNKNOWN_RESTART : 0;
	unknown |= state & RX_MOMENT_AWAY ? IBVCAP_UNKNOWN_AWAY : 0;
	unknown |= state & RX_MOMENT_REMOVED ? IBVCAP_UNKNOWN_REMOVED : 0;
	unknown |= state & RX_MOMENT_FAILED || from->failures != until->failures ? IBVCAP_UNKNOWN_FAILED : 0;
	unknown |= outages_between(from, until) ? IBVCAP_UNKNOWN_OUTAGE : 0;
	unknown |= from->abandoned != until->abandoned ? IBVCAP_UNKNOWN_ABANDONED : 0;
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
	bound_card_losses(&known, from, until);
	known.no_buffer = difference(until->past.least + until->after.least, from->past.least + from->after.least);
	known.no_buffer = u64_max(u64_min(known.no_buffer, known.no_buffer_most), known.no_buffer_least);
	if (!is_known(until))
		known.unknown |= IBVCAP_UNKNOWN_UNSETTLED;
	else if (from->epochs == until->epochs && known.no_buffer_most > known.no_buffer_least)
		known.unknown |= IBVCAP_UNKNOWN_EDGE;
	known.missing = known.skipped + known.no_buffer_least;
	return sized_struct_write(account, &known, sizeof(known), "ibvcap_rx_account");
}

enum ibvcap_verdict ibvcap_account_verdict(const struct ibvcap_rx_account *account)
{
	return account->missing   ? IBVCAP_VERDICT_INCOMPLETE
	       : account->unknown ? IBVCAP_VERDICT_NOT_PROVEN
	                          : IBVCAP_VERDICT_COMPLETE;
}

/* ---- several queues ------------------------------------------------------------------------------ */

void rx_moment_add_queue(struct ibvcap_rx_moment *stream, const struct ibvcap_rx_moment *queue)
{
	if (stream->queues == 0) {
		*stream = *queue;
		stream->sequence = 0;
		stream->state |= RX_MOMENT_ALL_QUEUES;
		return;
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
	stream->past.least = u64_max(stream->past.least, queue->past.least);
	stream->past.outages = u64_max(stream->past.outages, queue->past.outages);
	/* The losses before all boundaries are those that the oldest of the records counts. */
	stream->before.marks += queue->before.marks;
	stream->before.least = u64_min(stream->before.least, queue->before.least);
	stream->before.outages = u64_min(stream->before.outages, queue->before.outages);
	/* Each queue's bounds are those of the stream, and each holds at the moment. */
	stream->after.marks += queue->after.marks;
	stream->after.least = u64_max(stream->after.least, queue->after.least);
	stream->after.most = u64_min(stream->after.most, queue->after.most);
	stream->after.outages = u64_max(stream->after.outages, queue->after.outages);
}

int ibvcap_moment_add_queue(struct ibvcap_rx_moment *stream, const struct ibvcap_rx_moment *queue)
{
	int r = sized_struct_check(stream, sizeof(*stream), "ibvcap_rx_moment");

	if (r == 0)
		r = sized_struct_check(queue, sizeof(*queue), "ibvcap_rx_moment");
	if (r == 0)
		rx_moment_add_queue(stream, queue);
	return r;
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
	{IBVCAP_UNKNOWN_RESTART, "restart", "ibvcapd was restarted: packets between its two runs are not counted"},
	{IBVCAP_UNKNOWN_AWAY, "away", "ibvcapd was away: packets of that time are not counted"},
	{IBVCAP_UNKNOWN_FAILED, "failed", "a queue of the network card had failed: its packets are lost"},
	{IBVCAP_UNKNOWN_OUTAGE, "outage",
         "the network interface was down, renamed or gone: packets of that time are not counted"},
	{IBVCAP_UNKNOWN_UNSETTLED, "unsettled", "ibvcapd did not settle its count of losses in time"},
	{IBVCAP_UNKNOWN_EDGE, "edge",
         "the network card lost packets at about the time of the beginning or the end; whether before or after it, "
         "is not known"},
	{IBVCAP_UNKNOWN_QUEUES, "queues", "the stream had other queues than those that were read"},
	{IBVCAP_UNKNOWN_REMOVED, "removed", "the stream was removed from the configuration"},
	{IBVCAP_UNKNOWN_ABANDONED, "abandoned", "a member of the group left with packets that it had acquired"},
};

static const struct unknown_text *find_text(uint32_t bit)
{
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].bit == bit)
			return &texts[i];
	return NULL;
}

const char *ibvcap_unknown_word(uint32_t bit)
{
	const struct unknown_text *found = find_text(bit);

	return found ? found->word : NULL;
}

const char *ibvcap_unknown_text(uint32_t bit)
{
	const struct unknown_text *found = find_text(bit);

	return found ? found->text : NULL;
}
