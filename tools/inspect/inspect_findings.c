// SPDX-License-Identifier: Apache-2.0
/*
 * Finds what speaks against a file. The recorder's accounts name the missing packets and the reasons for doubt. The
 * packets' own numbers add losses before the card. Accounts and packets are compared: the daemon numbers all packets
 * that it publishes for a queue, so each number between both ends of an account is that of a packet in the file or of a
 * row that the account names as missing.
 */
#include "tools/inspect/inspect_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- an account and its packets ------------------------------------------------------------------ */

/* Rows that came to the queue, and are not in the file. */
static uint64_t rows_elsewhere(const struct recording_account *account)
{
	return account->sum.other_files + account->sum.filtered + account->sum.unwritten + account->sum.errored +
	       account->sum.skipped + account->sum.disk_wait;
}

/* The name that record gives to the interface: "lidar", or "lidar/1" if the stream has several queues. */
static bool is_account_of(const struct inspect_source *source)
{
	char name[IBVCAP_STREAM_NAME_MAX + 12];

	snprintf(name, sizeof(name), "%s/%u", source->account.stream, source->account.queue);
	return !strcmp(source->name, source->account.stream) || !strcmp(source->name, name);
}

static bool is_of_one_epoch(const struct recording_account *account)
{
	return account->from.epoch && account->from.epoch == account->until.epoch;
}

/* A file may begin behind a restart. Its first packet names the restart, and the account of the file before has it. */
static bool is_restart_before(const struct inspect_source *source)
{
	return source->begins_after_restart && source->account.rx.restarts < source->n_restarts_before_packets;
}

/* Restarts within the account that packets name. */
static uint64_t restarts_between(const struct inspect_source *source)
{
	return source->n_restarts_before_packets - is_restart_before(source);
}

/* Is the packets' last run of numbers the one in which the account ends? */
static bool ends_in_last_run(const struct inspect_source *source)
{
	const struct recording_account *account = &source->account;

	return account->until.epoch && account->rx.restarts == restarts_between(source) &&
	       (account->rx.restarts || is_of_one_epoch(account));
}

static bool is_within(const struct inspect_source *source)
{
	const struct recording_account *account = &source->account;
	bool begins_in_first_run = !source->begins_after_restart || is_restart_before(source);

	if (!source->has_numbers)
		return true;
	if (account->from.epoch && begins_in_first_run && source->first_id < account->from.sequence)
		return false;
	return !ends_in_last_run(source) || source->last_id < account->until.sequence;
}

/*
 * Rows that were in the ring when the recording ended are behind the account's end. Behind a restart, rows of the run
 * before may be among the losses.
 */
static bool adds_up(const struct inspect_source *source)
{
	const struct recording_account *account = &source->account;

	if (account->sum.pieces + account->sum.malformed > account->sum.written)
		return false;
	if (account->rx.restarts || source->begins_after_restart || !is_of_one_epoch(account))
		return true;
	return account->from.sequence <= account->until.sequence &&
	       account->until.sequence - account->from.sequence == account->sum.written + rows_elsewhere(account);
}

/* Does the account name an event that leaves losses unknown? */
static bool has_doubt(const struct recording_account *account)
{
	return account->rx.restarts || account->rx.failures || account->rx.outages || account->rx.abandoned ||
	       account->rx.interface_lost || !is_of_one_epoch(account);
}

static const char *contradiction_of_account(const struct inspect_source *source)
{
	const struct recording_account *account = &source->account;

	if (!is_account_of(source))
		return "its account is that of another queue";
	if (source->is_one_flow != (account->flow != RECORDING_ACCOUNT_NO_FLOW))
		return "its account is not that of its flow";
	if (account->sum.filtered && !source->is_filtered)
		return "its account is not that of its filter";
	if (account->sum.written != source->n_packets)
		return "its account names another number of packets than it has";
	if (!is_within(source))
		return "numbers of packets are outside the account";
	if (!adds_up(source) || account->rx.no_buffer > account->rx.no_buffer_most ||
	    account->rx.unjoined > account->rx.no_buffer)
		return "the terms of its account do not add up";
	if (source->n_named > rows_elsewhere(account) - account->sum.other_files - account->sum.filtered)
		return "gaps between its packets name more packets than its account";
	if (restarts_between(source) > account->rx.restarts && !account->rx.unknown)
		return "a packet comes after a restart of ibvcapd that its account does not name";
	if (recording_account_verdict(account) == IBVCAP_VERDICT_COMPLETE && has_doubt(account))
		return "its account says complete, and names what leaves losses unknown";
	return NULL;
}

static const char *contradiction_of_packets(const struct inspect_source *source)
{
	if (source->n_repeated)
		return "numbers of packets come twice or go back";
	if (!inspect_is_explained(source))
		return "numbers of packets are absent that no gap explains";
	if (source->has_statistics && source->n_delivered != source->n_packets)
		return "its statistics name another number of packets than it has";
	return source->account_state == INSPECT_ACCOUNT_READ ? contradiction_of_account(source) : NULL;
}

static bool is_in_stream_of(const struct inspect_source *source, const struct inspect_source *other)
{
	return source->section == other->section && !strcmp(source->account.stream, other->account.stream);
}

/* Queues of a stream follow each other. */
static bool has_queues_of_account(const struct inspect_sum *sum, uint32_t first)
{
	const struct inspect_source *source = &sum->sources[first];
	uint32_t i = first;

	while (i < sum->n_sources && is_in_stream_of(source, &sum->sources[i]))
		i++;
	return i - first >= source->account.n_queues;
}

static const char *contradiction_of_others(const struct inspect_sum *sum, uint32_t number)
{
	const struct inspect_source *source = &sum->sources[number];
	const struct inspect_source *before = &sum->sources[number ? number - 1 : 0];

	if (number && before->section == source->section) {
		if (before->account_state != source->account_state)
			return "it has an account, or none, unlike the interface before it";
		if (before->account.recording != source->account.recording ||
		    before->account.file != source->account.file || before->account.flow != source->account.flow)
			return "its account is of another file than that of the interface before it";
	}
	if (source->account_state == INSPECT_ACCOUNT_READ && !(source->account.rx.unknown & IBVCAP_UNKNOWN_QUEUES) &&
	    !(number && is_in_stream_of(source, before)) && !has_queues_of_account(sum, number))
		return "its account names more queues than the file has";
	return NULL;
}

/* ---- damage -------------------------------------------------------------------------------------- */

/* Accounts are compared with each other only if the file has all. */
static void find_contradictions(struct verdict *verdict, const struct inspect_sum *sum)
{
	bool is_closed = inspect_is_closed(sum);

	for (uint32_t i = 0; i < sum->n_sources; i++) {
		const struct inspect_source *source = &sum->sources[i];
		const char *wrong = contradiction_of_packets(source);

		if (!wrong && is_closed)
			wrong = contradiction_of_others(sum, i);
		if (wrong) {
			verdict_find(verdict, FINDING_DAMAGE, "does not agree with itself: %s: %s", source->name,
			             wrong);
			return;
		}
	}
}

/* Damage to the file as a whole. */
static void find_damage(struct verdict *verdict, const struct inspect_sum *sum, int end, const char *error)
{
	bool is_record = inspect_is_ours(sum) && !inspect_is_extract(sum);

	if (end == INSPECT_END_RAW)
		verdict_find(verdict, FINDING_DOUBT,
		             "rows of ibvcap record --raw: the description beside it, .json, names its losses, and has "
		             "the sum if it was closed");
	else if (end == -ENODATA && !sum->n_sections)
		verdict_find(verdict, FINDING_DOUBT, "cut off before its first block: nothing says what it was");
	else if (end == -ENODATA)
		verdict_find(verdict, FINDING_DAMAGE, "cut off: the packets before are whole: %s", error);
	else if (end)
		verdict_find(verdict, FINDING_DAMAGE, "%s%s", end == INSPECT_END_OTHER ? "" : "damaged: ", error);
	else if (is_record)
		find_contradictions(verdict, sum);
	if (!end && is_record && verdict->worst < FINDING_DAMAGE && !inspect_is_closed(sum))
		verdict_find(verdict, FINDING_DAMAGE,
		             "not closed: the recorder still writes it, or was killed; losses behind the last packet "
		             "are not known");
}

/* ---- losses -------------------------------------------------------------------------------------- */

/* Without an account: the losses in the statistics or those that the packets name, whichever are more. */
static uint64_t missing_of(const struct inspect_source *source)
{
	if (source->account_state == INSPECT_ACCOUNT_READ)
		return recording_account_missing(&source->account);
	return source->n_dropped > source->n_lost ? source->n_dropped : source->n_lost;
}

/* counts_all: drivers do, of the packets that they or their cards drop. */
static void find_lost_numbers(struct verdict *verdict, const struct inspect_numbers *numbers, bool counts_all)
{
	uint64_t lost = 0, before_card = 0, in_absence = 0, malformed = 0;
	bool has_drops = false;

	for (uint32_t i = 0; i < numbers->n_streams; i++) {
		lost += inspect_numbers_counts(&numbers->streams[i]).numbers.lost;
		before_card += inspect_lost_before_card(&numbers->streams[i]);
		in_absence += inspect_lost_in_absence(&numbers->streams[i]);
		has_drops = has_drops || numbers->streams[i].has_drops;
		malformed += numbers->streams[i].n_malformed;
	}
	if (verdict_find_absent(verdict, before_card + in_absence, malformed))
		return;
	if (in_absence)
		verdict_find(verdict, FINDING_LOSS,
		             "%" PRIu64
		             " are absent by their own numbers: lost by the sender or the network, or for a reason "
		             "that the recording names; which, cannot be told",
		             in_absence);
	if (before_card && has_drops)
		verdict_find(verdict, FINDING_LOSS,
		             "%" PRIu64
		             " are absent by their own numbers: lost by the sender or the network, or dropped "
		             "by the interface; which, cannot be told",
		             before_card);
	else if (before_card)
		verdict_find(verdict, FINDING_LOSS, "%" PRIu64 " were lost before the %s", before_card,
		             counts_all ? "network card, by the sender or the network"
		                        : "flow rules, by the sender, the network or the card");
	else if (lost && !in_absence)
		verdict_find(verdict, FINDING_LOSS, "%" PRIu64 " are absent by their own numbers", lost);
}

/* ---- what is not proven -------------------------------------------------------------------------- */

static void find_unfollowed(struct verdict *verdict, const struct inspect_numbered *numbered)
{
	const struct ibvcap_tracker_counts counts = inspect_numbers_counts(numbered);
	char text[VERDICT_UNFOLLOWED_BYTES];

	verdict_print_unfollowed(&counts, numbered->n_malformed, text);
	if (text[0])
		verdict_find(verdict, FINDING_DOUBT,
		             "the own numbers of the packets of %s do not prove that none is missing: %s",
		             numbered->stream, text);
}

/* A file may come from anywhere: bounds that differ are a doubt, even if the account gives no reason. */
static uint32_t unknown_of_account(const struct recording_account *account)
{
	const struct ibvcap_rx_account *rx = &account->rx;

	return rx->unknown || rx->no_buffer_most <= rx->no_buffer_least ? rx->unknown : IBVCAP_UNKNOWN_EDGE;
}

static uint32_t unknown_of(const struct inspect_sum *sum)
{
	uint32_t unknown = 0;

	for (uint32_t i = 0; i < sum->n_sources; i++) {
		const struct inspect_source *source = &sum->sources[i];

		if (source->account_state == INSPECT_ACCOUNT_READ)
			unknown |= unknown_of_account(&source->account);
		else if (source->n_restarts_before_packets)
			unknown |= IBVCAP_UNKNOWN_RESTART;
	}
	return unknown;
}

/*
 * Losses of the card that packets name and the accounts do not have. The daemon reads the card's counter some times a
 * second, so the first packets of a file name losses of the time before the file. A packet of one queue may name a loss
 * that the account of another queue has.
 */
static void count_more_of_card(const struct inspect_sum *sum, uint64_t *all, uint64_t *late)
{
	uint64_t counted = 0;

	*all = *late = 0;
	for (uint32_t i = 0; i < sum->n_sources; i++) {
		*all += sum->sources[i].n_card;
		*late += sum->sources[i].n_card_late;
		counted += sum->sources[i].account.rx.no_buffer;
	}
	*all -= *all < counted ? *all : counted;
	*late -= *late < counted ? *late : counted;
}

static void find_unproven(struct verdict *verdict, const struct inspect_sum *sum)
{
	bool has_none = false, has_unreadable = false;
	uint64_t more_of_card, late;

	for (uint32_t i = 0; i < sum->n_sources; i++) {
		has_none = has_none || sum->sources[i].account_state == INSPECT_ACCOUNT_NONE;
		has_unreadable = has_unreadable || sum->sources[i].account_state == INSPECT_ACCOUNT_UNREADABLE;
	}
	if (has_unreadable)
		verdict_find(verdict, FINDING_DOUBT,
		             "its account cannot be read: it is damaged, or of a later version of ibvcap");
	else if (has_none)
		verdict_find(verdict, FINDING_DOUBT, "it has no account, so nothing proves that no packet is missing");
	count_more_of_card(sum, &more_of_card, &late);
	if (!has_none && !has_unreadable && late)
		verdict_find(verdict, FINDING_DOUBT,
		             "packets name %" PRIu64 " losses of the card that its account does not have", late);
}

static void find_origin(struct verdict *verdict, const struct inspect_sum *sum)
{
	if (!sum->n_sections)
		verdict_find(verdict, FINDING_DOUBT, "there is nothing in the file");
	else if (!inspect_is_ours(sum))
		verdict_find(verdict, FINDING_DOUBT,
		             "not written by ibvcap record, so nothing proves that no packet is missing");
	else if (inspect_is_extract(sum))
		verdict_find(verdict, FINDING_DOUBT,
		             "an extract: it names the losses between its packets, and nothing proves what was left "
		             "out");
}

/* ---- all together -------------------------------------------------------------------------------- */

/*
 * Have all streams of the file packets with numbers of their own, each of which came once? The second packet with a
 * number may be of a source that is not told apart, or of a time after a long loss when the numbers had begun again: so
 * a missing packet may have a number that came.
 */
static bool is_proven_by_numbers(const struct inspect_sum *sum, const struct inspect_numbers *numbers)
{
	for (uint32_t i = 0; i < sum->n_sources; i++) {
		const struct inspect_numbered *numbered = inspect_numbers_find(numbers, sum->sources[i].name);

		if (!numbered || inspect_numbers_counts(numbered).numbers.repeated)
			return false;
	}
	return true;
}

/* Nothing but drops of the interface, of any stream or program, speaks against a file. What do the numbers say? */
enum numbers_decide {
	NUMBERS_DECIDE_NOTHING,
	NUMBERS_DECIDE_BETWEEN, /* no packet is missing between the first and the last one of each source */
	NUMBERS_DECIDE_ALL,     /* nor before the first or behind the last one */
};

/*
 * A packet that was dropped before the first one of a source, or behind the last one, has a number that nobody misses.
 * So each source must have packets from before all drops and from behind them. A packet may wait that long while later
 * ones are dropped, and a drop is counted that late.
 */
static bool has_packets_around_drops(const struct inspect_numbered *numbered, const struct ibvcap_rx_account *rx)
{
	for (uint32_t i = 0; i < numbered->n_spans; i++)
		if (numbered->spans[i].first_ns + INSPECT_CARD_NS >= rx->interface_quiet_ns ||
		    numbered->spans[i].last_ns <= rx->interface_until_ns + INSPECT_CARD_NS)
			return false;
	return rx->interface_until_ns;
}

static enum numbers_decide decide_by_numbers(const struct inspect_sum *sum, const struct inspect_numbers *numbers,
                                             uint32_t unknown)
{
	enum numbers_decide decision = NUMBERS_DECIDE_ALL;

	if (unknown != IBVCAP_UNKNOWN_INTERFACE || !is_proven_by_numbers(sum, numbers))
		return NUMBERS_DECIDE_NOTHING;
	for (uint32_t i = 0; i < sum->n_sources; i++)
		if (sum->sources[i].account.rx.unknown &&
		    !has_packets_around_drops(inspect_numbers_find(numbers, sum->sources[i].name),
		                              &sum->sources[i].account.rx))
			decision = NUMBERS_DECIDE_BETWEEN;
	return decision;
}

/* Can packets of a source that has none in the file be missing? */
static bool may_have_more_sources(const struct inspect_numbers *numbers)
{
	for (uint32_t i = 0; i < numbers->n_streams; i++)
		if (numbers->streams[i].has_drops && !numbers->streams[i].has_one_source)
			return true;
	return false;
}

static void say_decided(struct verdict *verdict, const struct inspect_numbers *numbers)
{
	verdict->is_of_sources = may_have_more_sources(numbers);
	verdict_find(verdict, FINDING_NOTE,
	             "no packet%s is missing, although the interface dropped some: by the packets' own numbers none is "
	             "absent, from before the first drop until after the last one%s",
	             verdict->is_of_sources ? " of the sources in the file" : "",
	             verdict->is_of_sources ? "; a source of which no packet is in the file is not known" : "");
}

/* Files of several recordings that are one behind the other have several filters. */
static void say_complete(struct verdict *verdict, const struct inspect_sum *sum, const struct inspect_numbers *numbers,
                         enum numbers_decide decision)
{
	const char *filter = NULL;
	bool is_mixed = false;
	uint64_t n = 0;

	for (uint32_t i = 0; i < sum->n_sources; i++) {
		is_mixed = is_mixed || strcmp(sum->sources[0].filter, sum->sources[i].filter) != 0;
		filter = sum->sources[i].is_filtered ? sum->sources[i].filter : filter;
		n += sum->sources[i].account.sum.filtered;
	}
	if (decision == NUMBERS_DECIDE_ALL)
		say_decided(verdict, numbers);
	else if (filter && !is_mixed)
		verdict_find(verdict, FINDING_NOTE, "every packet that matches '%s', %" PRIu64 " others left out",
		             filter, n);
	else if (filter)
		verdict_find(verdict, FINDING_NOTE,
		             "no packet is missing, but for %" PRIu64 " that the filters left out", n);
	else
		verdict_find(verdict, FINDING_NOTE, "no packet is missing%s",
		             is_proven_by_numbers(sum, numbers) ? ", by the packets' own numbers, too" : "");
}

void inspect_judge(struct verdict *verdict, const struct inspect_sum *sum, const struct inspect_numbers *numbers,
                   int end, const char *error)
{
	uint32_t unknown = unknown_of(sum);
	uint64_t missing = 0, pieces = 0, malformed = 0, n_cut = 0, more_of_card, late;
	struct interface_drops drops = INTERFACE_DROPS_INIT;
	enum numbers_decide decision;

	*verdict = (struct verdict){0};
	find_damage(verdict, sum, end, error);
	if (!end)
		find_origin(verdict, sum);
	for (uint32_t i = 0; i < sum->n_sources; i++) {
		const struct recording_account *account = &sum->sources[i].account;

		missing += missing_of(&sum->sources[i]);
		pieces += account->sum.pieces;
		malformed += account->sum.malformed;
		n_cut += sum->sources[i].n_cut;
		interface_drops_add(&drops, account);
	}
	if (missing > pieces)
		verdict_find(verdict, FINDING_LOSS, "%" PRIu64 " packets are missing", missing - pieces);
	verdict_find_pieces(verdict, pieces);
	find_lost_numbers(verdict, numbers, drops.counts_all);
	for (uint32_t i = 0; i < numbers->n_streams; i++)
		find_unfollowed(verdict, &numbers->streams[i]);
	decision = decide_by_numbers(sum, numbers, unknown);
	if (decision != NUMBERS_DECIDE_ALL)
		verdict_find_unknown(verdict, unknown);
	if (decision != NUMBERS_DECIDE_ALL && unknown & IBVCAP_UNKNOWN_INTERFACE)
		verdict_find_interface(verdict, &drops);
	if (decision == NUMBERS_DECIDE_BETWEEN && !verdict->has_loss)
		verdict_find(verdict, FINDING_NOTE,
		             "by the packets' own numbers none is absent between the first and the last one of each "
		             "source in the file; earlier and later ones, and those of other sources, are not known");
	if (verdict->worst < FINDING_DAMAGE && inspect_is_ours(sum) && !inspect_is_extract(sum))
		find_unproven(verdict, sum);
	if (verdict->worst > FINDING_NOTE) {
		verdict_find_malformed(verdict, malformed);
		return;
	}
	say_complete(verdict, sum, numbers, decision);
	if (n_cut)
		verdict_find(verdict, FINDING_NOTE, "%" PRIu64 " are cut: the file has only their beginning", n_cut);
	count_more_of_card(sum, &more_of_card, &late);
	if (more_of_card)
		verdict_find(verdict, FINDING_NOTE,
		             "%" PRIu64 " that packets name were lost by the card before the file began", more_of_card);
	drops.lost = 0; /* they were told, or decided */
	verdict_find_interface(verdict, &drops);
	verdict_find_malformed(verdict, malformed);
}
