// SPDX-License-Identifier: Apache-2.0
/*
 * Judges a file. The recorder's accounts name the missing packets and the reasons for doubt. The packets' own numbers
 * add losses before the card. A claim that the rest of the file does not prove is taken back.
 */
#include "tools/inspect/inspect_verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

void inspect_say(struct inspect_finding *finding, enum inspect_verdict verdict, const char *format, ...)
{
	size_t used = strlen(finding->text);
	va_list arguments;

	if (verdict > finding->verdict)
		finding->verdict = verdict;
	if (verdict == INSPECT_INCOMPLETE)
		finding->is_incomplete = true;
	if (used)
		used += (size_t)snprintf(finding->text + used, sizeof(finding->text) - used, "; ");
	if (used >= sizeof(finding->text))
		return;
	va_start(arguments, format);
	vsnprintf(finding->text + used, sizeof(finding->text) - used, format, arguments);
	va_end(arguments);
}

const char *inspect_verdict_word(const struct inspect_finding *finding)
{
	if (finding->is_incomplete)
		return ibvcap_verdict_word(IBVCAP_VERDICT_INCOMPLETE);
	return ibvcap_verdict_word(finding->verdict == INSPECT_COMPLETE ? IBVCAP_VERDICT_COMPLETE
	                                                                : IBVCAP_VERDICT_NOT_PROVEN);
}

void inspect_print_finding(char *text, size_t bytes, const struct inspect_finding *finding)
{
	bool is_damaged = finding->verdict == INSPECT_DAMAGED; /* which its first sentence says */

	snprintf(text, bytes, "%s%s%s", is_damaged ? "" : inspect_verdict_word(finding), is_damaged ? "" : ": ",
	         finding->text);
}

int inspect_exit_code(enum inspect_verdict verdict)
{
	static const int codes[] = {[INSPECT_COMPLETE] = EX_OK,
	                            [INSPECT_NOT_PROVEN] = 2,
	                            [INSPECT_INCOMPLETE] = 1,
	                            [INSPECT_DAMAGED] = EX_DATAERR};

	return codes[verdict];
}

/* ---- damage -------------------------------------------------------------------------------------- */

/* Accounts are compared with each other only if the file has all. */
static void find_contradictions(struct inspect_finding *finding, const struct inspect_sum *sum)
{
	bool is_closed = inspect_is_closed(sum);

	for (uint32_t i = 0; i < sum->n_sources; i++) {
		const struct inspect_source *source = &sum->sources[i];
		const char *wrong = inspect_contradiction(source);

		if (!wrong && is_closed)
			wrong = inspect_contradiction_of_others(sum, i);
		if (wrong) {
			inspect_say(finding, INSPECT_DAMAGED, "does not agree with itself: %s: %s", source->name,
			            wrong);
			return;
		}
	}
}

/* Damage to the file as a whole. */
static void find_damage(struct inspect_finding *finding, const struct inspect_sum *sum, int end, const char *error)
{
	bool is_record = inspect_is_ours(sum) && !inspect_is_extract(sum);

	if (end == INSPECT_END_PCAP)
		inspect_say(finding, INSPECT_NOT_PROVEN,
		            "a pcap file, not written by ibvcap record, so nothing proves that no packet is missing");
	else if (end == INSPECT_END_RAW)
		inspect_say(finding, INSPECT_NOT_PROVEN,
		            "rows of ibvcap record --raw: the description beside it, .json, names its losses, and has "
		            "the sum if it was closed");
	else if (end == -ENODATA && !sum->n_sections)
		inspect_say(finding, INSPECT_NOT_PROVEN, "cut off before its first block: nothing says what it was");
	else if (end == -ENODATA)
		inspect_say(finding, INSPECT_DAMAGED, "cut off: the packets before are whole: %s", error);
	else if (end)
		inspect_say(finding, INSPECT_DAMAGED, "damaged: %s", error);
	else if (is_record)
		find_contradictions(finding, sum);
	if (!end && is_record && finding->verdict < INSPECT_DAMAGED && !inspect_is_closed(sum))
		inspect_say(finding, INSPECT_DAMAGED,
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

static void find_lost_numbers(struct inspect_finding *finding, const struct inspect_numbers *numbers)
{
	uint64_t lost = 0, before_card = 0;

	for (uint32_t i = 0; i < numbers->n_streams; i++) {
		lost += inspect_numbers_counts(&numbers->streams[i]).numbers.lost;
		before_card += inspect_lost_before_card(&numbers->streams[i]);
	}
	if (before_card)
		inspect_say(finding, INSPECT_INCOMPLETE,
		            "%" PRIu64 " were lost before the network card, by the sender or the network", before_card);
	else if (lost)
		inspect_say(finding, INSPECT_INCOMPLETE, "%" PRIu64 " are absent by their own numbers", lost);
}

/* ---- what is not proven -------------------------------------------------------------------------- */

/* Packets that the tracker could not follow. Each of them may hide a loss. */
static void find_unfollowed(struct inspect_finding *finding, const struct inspect_numbered *numbered)
{
	const struct ibvcap_tracker_counts counts = inspect_numbers_counts(numbered);
	const struct {
		const char *word;
		uint64_t n;
	} terms[] = {{"untracked", counts.untracked},
	             {"unread", counts.unread},
	             {"stray", counts.numbers.stray},
	             {"late", counts.numbers.late},
	             {"restarted", counts.numbers.restarted}};
	char text[160] = "";
	size_t used = 0;

	for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
		if (terms[i].n)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %" PRIu64, used ? ", " : "",
			                         terms[i].word, terms[i].n);
	if (used)
		inspect_say(finding, INSPECT_NOT_PROVEN,
		            "the own numbers of the packets of %s do not prove that none is missing: %s",
		            numbered->stream, text);
}

/* The losses of the card are counted in the account of the stream's first queue. */
static uint32_t unknown_of_card(const struct recording_account *account)
{
	return account->queue == 0 && account->no_buffer_most > account->no_buffer_least ? IBVCAP_UNKNOWN_EDGE : 0;
}

static uint32_t unknown_of(const struct inspect_sum *sum)
{
	uint32_t unknown = 0;

	for (uint32_t i = 0; i < sum->n_sources; i++) {
		const struct inspect_source *source = &sum->sources[i];

		if (source->account_state == INSPECT_ACCOUNT_READ)
			unknown |= source->account.unknown | unknown_of_card(&source->account);
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
		counted += sum->sources[i].account.sum.no_buffer;
	}
	*all -= *all < counted ? *all : counted;
	*late -= *late < counted ? *late : counted;
}

static void find_unproven(struct inspect_finding *finding, const struct inspect_sum *sum)
{
	bool has_none = false, has_unreadable = false;
	uint64_t more_of_card, late;

	for (uint32_t i = 0; i < sum->n_sources; i++) {
		has_none = has_none || sum->sources[i].account_state == INSPECT_ACCOUNT_NONE;
		has_unreadable = has_unreadable || sum->sources[i].account_state == INSPECT_ACCOUNT_UNREADABLE;
	}
	if (has_unreadable)
		inspect_say(finding, INSPECT_NOT_PROVEN,
		            "its account cannot be read: it is damaged, or of a later version of ibvcap");
	else if (has_none)
		inspect_say(finding, INSPECT_NOT_PROVEN,
		            "it has no account, so nothing proves that no packet is missing");
	count_more_of_card(sum, &more_of_card, &late);
	if (!has_none && !has_unreadable && late)
		inspect_say(finding, INSPECT_NOT_PROVEN,
		            "packets name %" PRIu64 " losses of the card that its account does not have", late);
}

static void find_origin(struct inspect_finding *finding, const struct inspect_sum *sum)
{
	if (!sum->n_sections)
		inspect_say(finding, INSPECT_NOT_PROVEN, "there is nothing in the file");
	else if (!inspect_is_ours(sum))
		inspect_say(finding, INSPECT_NOT_PROVEN,
		            "not written by ibvcap record, so nothing proves that no packet is missing");
	else if (inspect_is_extract(sum))
		inspect_say(finding, INSPECT_NOT_PROVEN,
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

/* Files of several recordings that are one behind the other have several filters. */
static void say_complete(struct inspect_finding *finding, const struct inspect_sum *sum,
                         const struct inspect_numbers *numbers)
{
	const char *filter = NULL;
	bool is_mixed = false;
	uint64_t n = 0;

	for (uint32_t i = 0; i < sum->n_sources; i++) {
		is_mixed = is_mixed || strcmp(sum->sources[0].filter, sum->sources[i].filter) != 0;
		filter = sum->sources[i].is_filtered ? sum->sources[i].filter : filter;
		n += sum->sources[i].account.sum.filtered;
	}
	if (filter && !is_mixed)
		inspect_say(finding, INSPECT_COMPLETE, "every packet that matches '%s', %" PRIu64 " others left out",
		            filter, n);
	else if (filter)
		inspect_say(finding, INSPECT_COMPLETE,
		            "no packet is missing, but for %" PRIu64 " that the filters left out", n);
	else
		inspect_say(finding, INSPECT_COMPLETE, "no packet is missing%s",
		            is_proven_by_numbers(sum, numbers) ? ", by the packets' own numbers, too" : "");
}

void inspect_judge(struct inspect_finding *finding, const struct inspect_sum *sum,
                   const struct inspect_numbers *numbers, int end, const char *error)
{
	uint32_t unknown = unknown_of(sum);
	uint64_t missing = 0, n_cut = 0, more_of_card, late;

	*finding = (struct inspect_finding){0};
	find_damage(finding, sum, end, error);
	if (!end)
		find_origin(finding, sum);
	for (uint32_t i = 0; i < sum->n_sources; i++)
		missing += missing_of(&sum->sources[i]);
	for (uint32_t i = 0; i < sum->n_sources; i++)
		n_cut += sum->sources[i].n_cut;
	if (missing)
		inspect_say(finding, INSPECT_INCOMPLETE, "%" PRIu64 " packets are missing", missing);
	find_lost_numbers(finding, numbers);
	for (uint32_t i = 0; i < numbers->n_streams; i++)
		find_unfollowed(finding, &numbers->streams[i]);
	for (uint32_t bit = 1; bit; bit <<= 1)
		if (unknown & bit)
			inspect_say(finding, INSPECT_NOT_PROVEN, "%s", ibvcap_unknown_text(bit));
	if (finding->verdict < INSPECT_DAMAGED && inspect_is_ours(sum) && !inspect_is_extract(sum))
		find_unproven(finding, sum);
	if (finding->verdict > INSPECT_COMPLETE)
		return;
	say_complete(finding, sum, numbers);
	if (n_cut)
		inspect_say(finding, INSPECT_COMPLETE, "%" PRIu64 " are cut: the file has only their beginning", n_cut);
	count_more_of_card(sum, &more_of_card, &late);
	if (more_of_card)
		inspect_say(finding, INSPECT_COMPLETE,
		            "%" PRIu64 " that packets name were lost by the card before the file began", more_of_card);
}
