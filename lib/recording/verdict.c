// SPDX-License-Identifier: Apache-2.0
/* Makes a verdict of findings, and puts it into words. */
#include "lib/recording/verdict.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define FILTER_BYTES 500 /* of a filter, in a reason */
#define REPEATS_MAX  4   /* of each number, on average: a feed has up to five copies */

/* ---- findings ------------------------------------------------------------------------------------ */

void verdict_take(struct verdict *verdict, enum finding finding)
{
	if (finding > verdict->worst)
		verdict->worst = finding;
	if (finding == FINDING_LOSS)
		verdict->has_loss = true;
}

void verdict_take_all(struct verdict *verdict, const struct verdict *other)
{
	verdict_take(verdict, other->worst);
	verdict->has_loss = verdict->has_loss || other->has_loss;
	verdict->is_from_rules = verdict->is_from_rules || other->is_from_rules;
	verdict->is_of_sources = verdict->is_of_sources || other->is_of_sources;
}

void verdict_find(struct verdict *verdict, enum finding finding, const char *format, ...)
{
	size_t used = strlen(verdict->reasons);
	va_list arguments;

	verdict_take(verdict, finding);
	if (used)
		used += (size_t)snprintf(verdict->reasons + used, sizeof(verdict->reasons) - used, "\n");
	if (used >= sizeof(verdict->reasons))
		return;
	va_start(arguments, format);
	vsnprintf(verdict->reasons + used, sizeof(verdict->reasons) - used, format, arguments);
	va_end(arguments);
}

void verdict_find_unknown(struct verdict *verdict, uint32_t unknown)
{
	for (uint32_t bit = 1; bit; bit <<= 1)
		if (unknown & bit)
			verdict_find(verdict, FINDING_DOUBT, "%s", ibvcap_unknown_text(bit));
}

void verdict_find_pieces(struct verdict *verdict, uint64_t n)
{
	if (n)
		verdict_find(verdict, FINDING_LOSS,
		             "%" PRIu64
		             " are only pieces of datagrams (IP fragments): set payload_size of the stream to the "
		             "size of the whole datagrams, so that the daemon joins them, or set reassemble",
		             n);
}

void verdict_find_unjoined(struct verdict *verdict, uint64_t n, uint64_t n_missing)
{
	if (n && n == n_missing)
		verdict_find(verdict, FINDING_LOSS,
		             "an IP fragment of each did not come, or does not fit to the others");
	else if (n)
		verdict_find(verdict, FINDING_LOSS,
		             "%" PRIu64
		             " of these are datagrams of which an IP fragment did not come, or does not fit to "
		             "the others",
		             n);
}

void verdict_find_malformed(struct verdict *verdict, uint64_t n)
{
	if (n)
		verdict_find(verdict, FINDING_NOTE,
		             "%" PRIu64
		             " are malformed: the lengths in their headers contradict each other, or are longer "
		             "than the frame, and a socket gets nothing of them",
		             n);
}

bool verdict_find_absent(struct verdict *verdict, uint64_t n_absent, uint64_t n_malformed)
{
	if (!n_absent || !n_malformed)
		return false;
	if (n_absent > n_malformed) {
		verdict_find(verdict, FINDING_NOTE,
		             "of the numbers that are absent up to %" PRIu64 " may be those of the malformed packets",
		             n_malformed);
		return false;
	}
	verdict_find(verdict, FINDING_DOUBT,
	             "%" PRIu64 " numbers are absent: they may be those of the malformed packets, or of lost ones",
	             n_absent);
	return true;
}

void interface_drops_add(struct interface_drops *drops, const struct recording_account *account)
{
	uint64_t lost = account->rx.interface_lost;

	if (account->queue == 0)
		drops->lost_by_stream = 0;
	if (lost > drops->lost_by_stream) {
		drops->lost += lost - drops->lost_by_stream;
		drops->lost_by_stream = lost;
	}
	drops->counts_all = drops->counts_all && account->rx.interface_counts_all;
	drops->uncounted |= account->rx.interface_uncounted;
}

/* The accounts of older files do not say which. */
static const char *uncounted_text(uint64_t uncounted)
{
	static const char *const texts[] = {
		[0] = "the interface does not count all of it, or the flow rules changed",
		[IBVCAP_UNCOUNTED_INTERFACE] = "the interface does not count all of it",
		[IBVCAP_UNCOUNTED_FLOW_RULES] = "the flow rules changed",
		[IBVCAP_UNCOUNTED_INTERFACE | IBVCAP_UNCOUNTED_FLOW_RULES] =
			"the interface does not count all of it, and the flow rules changed",
	};

	return texts[uncounted < sizeof(texts) / sizeof(texts[0]) ? uncounted : 0];
}

void verdict_find_interface(struct verdict *verdict, const struct interface_drops *drops)
{
	if (drops->lost && drops->counts_all)
		verdict_find(verdict, FINDING_NOTE,
		             "these were up to %" PRIu64
		             " packets, of all streams and programs, some perhaps shortly before the beginning: see "
		             "'ibvcap why'",
		             drops->lost);
	else if (drops->lost)
		verdict_find(
			verdict, FINDING_NOTE,
			"%" PRIu64
			" of them were counted, of all streams and programs; the interface does not count all: see "
			"'ibvcap why'",
			drops->lost);
	else if (!drops->counts_all && verdict->worst == FINDING_NOTE) {
		verdict->is_from_rules = true;
		verdict_find(verdict, FINDING_NOTE, "what did not come to the flow rules is not known: %s",
		             uncounted_text(drops->uncounted));
	}
}

void verdict_find_accounts(struct verdict *verdict, const struct recording_account *accounts, unsigned n,
                           const char *filter)
{
	uint32_t unknown = recording_accounts_unknown(accounts, n);
	uint64_t certain = 0, missing = 0, unjoined = 0, pieces = 0, malformed = 0, filtered = 0;
	struct interface_drops drops = INTERFACE_DROPS_INIT;

	/* A loss near the beginning may belong to the file before. One of the two files counts it: the sum is exact. */
	for (unsigned i = 0; i < n; i++) {
		uint64_t of_account = recording_account_missing(&accounts[i]) - accounts[i].sum.pieces;

		certain += of_account;
		missing += of_account - accounts[i].rx.no_buffer_least + accounts[i].rx.no_buffer;
		unjoined += accounts[i].rx.unjoined;
		pieces += accounts[i].sum.pieces;
		malformed += accounts[i].sum.malformed;
		filtered += accounts[i].sum.filtered;
		interface_drops_add(&drops, &accounts[i]);
	}
	verdict_find_pieces(verdict, pieces);
	if (certain)
		verdict_find(verdict, FINDING_LOSS, "%" PRIu64 " %s are missing%s%s", missing,
		             unjoined == missing ? "datagrams" : "packets", unknown ? ", and maybe more" : "",
		             filter ? "; maybe some of them match the filter" : "");
	else if (pieces)
		;
	else if (unknown & ~(uint32_t)IBVCAP_UNKNOWN_NO_PACKETS)
		verdict_find(verdict, FINDING_DOUBT, "no packet is known to be missing, but maybe some are");
	else if (unknown)
		verdict_take(verdict, FINDING_DOUBT);
	else if (filter)
		verdict_find(verdict, FINDING_NOTE, "every packet that matches '%.*s', %" PRIu64 " others left out",
		             FILTER_BYTES, filter, filtered);
	else
		verdict_find(verdict, FINDING_NOTE, "no packet is missing");
	if (certain)
		verdict_find_unjoined(verdict, unjoined, missing);
	verdict_find_unknown(verdict, unknown);
	verdict_find_interface(verdict, &drops);
	verdict_find_malformed(verdict, malformed);
}

/* ---- the result ---------------------------------------------------------------------------------- */

enum ibvcap_verdict verdict_result(const struct verdict *verdict)
{
	if (verdict->has_loss)
		return IBVCAP_VERDICT_INCOMPLETE;
	return verdict->worst == FINDING_NOTE ? IBVCAP_VERDICT_COMPLETE : IBVCAP_VERDICT_NOT_PROVEN;
}

const char *verdict_word(const struct verdict *verdict)
{
	return ibvcap_verdict_word(verdict_result(verdict));
}

bool verdict_is_from_rules(const struct verdict *verdict)
{
	return verdict->is_from_rules && verdict_result(verdict) == IBVCAP_VERDICT_COMPLETE;
}

const char *verdict_title(const struct verdict *verdict)
{
	return verdict_is_from_rules(verdict) ? "complete from the flow rules on" : verdict_word(verdict);
}

int verdict_exit_status(const struct verdict *verdict)
{
	static const int codes[] = {
		[FINDING_NOTE] = EX_OK, [FINDING_DOUBT] = 2, [FINDING_LOSS] = 1, [FINDING_DAMAGE] = EX_DATAERR};

	return codes[verdict->worst];
}

/* ---- words --------------------------------------------------------------------------------------- */

static void print_reasons(char *text, size_t bytes, const struct verdict *verdict, const char *between, bool begins)
{
	size_t used = 0;

	for (const char *reason = verdict->reasons; *reason && used < bytes;) {
		size_t n = strcspn(reason, "\n");

		used += (size_t)snprintf(text + used, bytes - used, "%c%.*s%s",
		                         used && begins ? toupper((unsigned char)*reason) : *reason, (int)n - 1,
		                         reason + 1, reason[n] ? between : "");
		reason += n + (reason[n] != '\0');
	}
	if (!used && bytes)
		*text = '\0';
}

void verdict_print_reasons(char *text, size_t bytes, const struct verdict *verdict, const char *between)
{
	print_reasons(text, bytes, verdict, between, false);
}

void verdict_print(char *text, size_t bytes, const struct verdict *verdict)
{
	if (verdict->worst == FINDING_DAMAGE)
		verdict_print_reasons(text, bytes, verdict, "; ");
	else {
		int used = snprintf(text, bytes, "%s: ", verdict_title(verdict));

		verdict_print_reasons(text + used, bytes - (size_t)used, verdict, "; ");
	}
}

void verdict_print_sentences(char *text, size_t bytes, const struct verdict *verdict)
{
	size_t used = (size_t)snprintf(text, bytes, "%s: ", verdict_title(verdict));

	print_reasons(text + used, bytes - used, verdict, ". ", true);
	*text = (char)toupper((unsigned char)*text);
	used = strlen(text);
	snprintf(text + used, bytes - used, ".");
}

void verdict_print_unfollowed(const struct ibvcap_tracker_counts *counts, uint64_t n_malformed,
                              char text[VERDICT_UNFOLLOWED_BYTES])
{
	const struct {
		const char *word;
		uint64_t n;
	} terms[] = {{"untracked", counts->untracked},
	             {"unread", counts->unread > n_malformed ? counts->unread - n_malformed : 0},
	             {"stray", counts->numbers.stray},
	             {"late", counts->numbers.late},
	             {"restarted", counts->numbers.restarted}};
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
		if (terms[i].n)
			used += (size_t)snprintf(text + used, VERDICT_UNFOLLOWED_BYTES - used, "%s%s %" PRIu64,
			                         used ? ", " : "", terms[i].word, terms[i].n);
	if (counts->n_sources > 1 && counts->numbers.once == counts->n_sources)
		snprintf(text + used, VERDICT_UNFOLLOWED_BYTES - used,
		         "%ssources with one number each %" PRIu32 ": does 'sequence' fit the packets?",
		         used ? ", " : "", counts->n_sources);
	else if (counts->numbers.repeated > REPEATS_MAX * counts->numbers.once)
		snprintf(text + used, VERDICT_UNFOLLOWED_BYTES - used,
		         "%srepeated %" PRIu64 " of %" PRIu64 " numbers: does 'sequence' fit the packets?",
		         used ? ", " : "", counts->numbers.repeated, counts->numbers.arrived);
}
