// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap recv` and `ibvcap check` say about losses: by the packets' own numbers, and by the daemon's account. */
#include "tools/receive/recv.h"
#include "tools/common/tracker_print.h"

#include <inttypes.h>

void recv_print_sequence(const struct ibvcap_tracker *tracker)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	tracker_print(tracker);
	ibvcap_tracker_counts(tracker, &counts);
	if (counts.lost_before_card + counts.lost_in_card + counts.lost_after_card + counts.lost_unread)
		printf("  lost before the card (sender, network) %" PRIu64 ", in it (no_buffer) %" PRIu64
		       ", after it (skipped) %" PRIu64 ", in rows without a number %" PRIu64 "\n",
		       counts.lost_before_card, counts.lost_in_card, counts.lost_after_card, counts.lost_unread);
}

json_t *recv_sequence_to_json(const struct recv_summary *summary)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	json_t *object = tracker_to_json(summary->tracker);

	ibvcap_tracker_counts(summary->tracker, &counts);
	json_object_set_new(object, "lost_before_card", json_integer((json_int_t)counts.lost_before_card));
	json_object_set_new(object, "lost_in_card", json_integer((json_int_t)counts.lost_in_card));
	json_object_set_new(object, "lost_after_card", json_integer((json_int_t)counts.lost_after_card));
	json_object_set_new(object, "lost_unread", json_integer((json_int_t)counts.lost_unread));
	json_object_set_new(object, "complete", json_boolean(recv_verdict(summary) == IBVCAP_VERDICT_COMPLETE));
	return object;
}

/* ---- the verdict --------------------------------------------------------------------------------- */

static bool has_account(const struct recv_summary *summary)
{
	return summary->account.until_ns != 0;
}

/* Incomplete before not proven before complete. */
enum ibvcap_verdict recv_verdict(const struct recv_summary *summary)
{
	enum ibvcap_verdict by_account =
		has_account(summary) ? ibvcap_account_verdict(&summary->account) : IBVCAP_VERDICT_NOT_PROVEN;
	enum ibvcap_verdict by_numbers = summary->tracker ? tracker_verdict(summary->tracker) : by_account;

	if (by_account == IBVCAP_VERDICT_INCOMPLETE || by_numbers == IBVCAP_VERDICT_INCOMPLETE)
		return IBVCAP_VERDICT_INCOMPLETE;
	return by_account == IBVCAP_VERDICT_COMPLETE ? by_numbers : by_account;
}

void recv_print_verdict(const struct recv_summary *summary)
{
	const struct ibvcap_rx_account *account = &summary->account;

	printf("%s\n", ibvcap_verdict_word(recv_verdict(summary)));
	if (!has_account(summary)) {
		puts("  a tap is not told what the network card lost");
		return;
	}
	if (account->no_buffer_least)
		printf("  the network card lost %" PRIu64 " packets (no_buffer)\n", account->no_buffer_least);
	for (uint32_t bit = 1; bit; bit <<= 1)
		if (account->unknown & bit)
			printf("  %s\n", ibvcap_unknown_text(bit));
	if (summary->tracker && tracker_verdict(summary->tracker) == IBVCAP_VERDICT_NOT_PROVEN)
		puts("  some packets could not be followed by their own numbers: see above");
}

json_t *recv_account_to_json(const struct recv_summary *summary)
{
	const struct ibvcap_rx_account *account = &summary->account;
	json_t *unknown = json_array();

	for (uint32_t bit = 1; bit; bit <<= 1)
		if (account->unknown & bit)
			json_array_append_new(unknown, json_string(ibvcap_unknown_word(bit)));
	return json_pack("{s:s, s:I, s:I, s:I, s:o}", "verdict", ibvcap_verdict_word(recv_verdict(summary)),
	                 "no_buffer", (json_int_t)account->no_buffer, "no_buffer_least",
	                 (json_int_t)account->no_buffer_least, "outages", (json_int_t)account->outages, "unknown",
	                 unknown);
}
