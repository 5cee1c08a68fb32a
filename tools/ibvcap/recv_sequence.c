// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap recv --sequence` and `ibvcap check` say about the packets' own numbers. */
#include "tools/ibvcap/recv.h"
#include "tools/ibvcap/tracker_print.h"

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
	json_object_set_new(object, "complete", json_boolean(recv_is_complete(summary)));
	return object;
}

bool recv_is_complete(const struct recv_summary *summary)
{
	return tracker_is_complete(summary->tracker) && !summary->counts.failures;
}
