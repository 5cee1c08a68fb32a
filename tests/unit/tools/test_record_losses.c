// SPDX-License-Identifier: Apache-2.0
/* What a recording says of packets that the card had no row for, when several queues show the same counter. */
#include "tests/unit/ibvcap/attached.h"
#include "tools/record/losses.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static struct attached attached;
static struct ibvcap_rx_losses card = IBVCAP_INIT(struct ibvcap_rx_losses);
static struct losses queues[2];

/* The handle of these tests is one queue and the other: the device had dropped so many when its next block began. */
static void record_block_behind(struct losses *queue, uint64_t no_buffer, uint64_t gap)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

	attached_settle(&attached, no_buffer, 1000, 1000);
	attached_publish(&attached, N);
	cr_assert_eq(ibvcap_rx_acquire(attached.rx, &batch, N, 1, 0), N);
	batch.gap = gap;
	losses_of_batch(queue, attached.rx, &batch, &card, 0);
	cr_assert_eq(ibvcap_rx_release(attached.rx, &batch), 0);
}

static void record_block(struct losses *queue, uint64_t no_buffer)
{
	record_block_behind(queue, no_buffer, 0);
}

Test(record_losses, what_the_card_lost_is_named_once_for_all_queues)
{
	attached_init(&attached);
	record_block(&queues[0], 7);
	record_block(&queues[1], 7);
	cr_expect_eq(queues[0].no_buffer + queues[1].no_buffer, 0, "it was before the recording");
	record_block(&queues[0], 27);
	record_block(&queues[1], 27);
	cr_expect_eq(queues[0].no_buffer, 20);
	cr_expect_eq(queues[1].no_buffer, 0);
	record_block(&queues[1], 30);
	record_block(&queues[0], 30);
	cr_expect_eq(queues[0].no_buffer + queues[1].no_buffer, 23);
	attached_deinit(&attached);
}

/* The sum of all numbers ahead of the words. */
static uint64_t sum_ahead_of(const char *words, const char *text)
{
	uint64_t sum = 0;

	for (const char *found = text; (found = strstr(found, words)); found++) {
		const char *digits = found;

		while (digits > text && isdigit((unsigned char)digits[-1]))
			digits--;
		sum += strtoull(digits, NULL, 10);
	}
	return sum;
}

Test(record_losses, many_gaps_before_one_row_leave_no_cause_out)
{
	struct losses *queue = &queues[0];
	char comment[LOSSES_COMMENT_BYTES];
	uint64_t no_buffer = 0;

	attached_init(&attached);
	record_block(queue, 0);
	losses_named(&queue->before);
	for (uint64_t n = 1; n <= 20; n++) {
		no_buffer += n;
		record_block_behind(queue, no_buffer, 1000);
		losses_of_error(queue);
		cr_expect_eq(sum_ahead_of(" packets lost (skipped)", queue->before.text), 1000 * n, "%s",
		             queue->before.text);
		cr_expect_eq(sum_ahead_of(" packets lost (no_buffer)", queue->before.text), no_buffer, "%s",
		             queue->before.text);
		cr_expect(strstr(queue->before.text, "(errored)"), "%s", queue->before.text);
	}
	cr_expect_eq(queue->before.n, no_buffer + 20 * 1000 + 20);
	cr_expect(queue->before.named.n[RECORDING_CAUSE_SKIPPED] == 20000 &&
	          queue->before.named.n[RECORDING_CAUSE_NO_BUFFER] == no_buffer &&
	          queue->before.named.n[RECORDING_CAUSE_ERRORED] == 20);
	losses_print_comment(&queue->before, comment);
	cr_expect_eq(strncmp(comment, queue->before.text, strlen(queue->before.text)), 0);
	cr_expect_str_eq(comment + strlen(queue->before.text),
	                 "\nlosses {\"skipped\":20000,\"errored\":20,\"no_buffer\":210,\"no_buffer_since_ns\":1000}");
	losses_named(&queue->before);
	cr_expect(!queue->before.named.n[RECORDING_CAUSE_SKIPPED] &&
	          !queue->before.named.n[RECORDING_CAUSE_NO_BUFFER] && !queue->before.named.n[RECORDING_CAUSE_ERRORED]);
	attached_deinit(&attached);
}

Test(record_losses, each_file_names_what_is_missing_behind_its_last_row)
{
	struct unnamed_losses flows[2] = {0};
	struct losses *queue = &queues[0];

	attached_init(&attached);
	SLIST_INSERT_HEAD(&queue->outputs, &flows[0], entry);
	record_block(queue, 0);
	record_block_behind(queue, 0, 300);
	cr_expect_eq(flows[0].n, 300);
	losses_named(&flows[0]);
	flows[1] = queue->before;
	SLIST_INSERT_HEAD(&queue->outputs, &flows[1], entry);
	losses_of_error(queue);
	losses_of_error(queue);
	cr_expect_str_eq(flows[0].text, "packets lost (errored): their rows are in error: the device could not write "
	                                "them, or they are longer than payload_size");
	cr_expect(flows[0].n == 2 && flows[0].named.n[RECORDING_CAUSE_SKIPPED] == 0);
	cr_expect(flows[1].n == 302 && flows[1].named.n[RECORDING_CAUSE_SKIPPED] == 300);
	cr_expect(queue->sum.skipped == 300 && queue->sum.errored == 2);
	attached_deinit(&attached);
}

Test(record_losses, a_restart_and_a_demotion_are_told_with_the_packets_around_them)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct losses *queue = &queues[0];

	attached_init(&attached);
	queue->last_row_ns = UINT64_C(1795334400000000001);
	attached_publish(&attached, N);
	for (uint32_t i = 0; i < attached.ring.n_blocks * N; i++)
		attached.ring.meta[i].timestamp_ns = UINT64_C(1795334405000000002);
	cr_assert_eq(ibvcap_rx_acquire(attached.rx, &batch, N, 1, 0), N);
	batch.flags |= IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN | IBVCAP_RX_BATCH_FLAG_DEMOTED;
	losses_of_batch(queue, attached.rx, &batch, &card, 0);
	cr_expect_eq(queue->before.named.n[RECORDING_CAUSE_RESTARTS], 1);
	cr_expect_eq(queue->before.n, 0, "how many were lost is not known");
	cr_expect(strstr(queue->before.text,
	                 "ibvcapd was restarted: how many packets were lost is not known (last packet "
	                 "2026-11-22T08:00:00.000000001"),
	          "%s", queue->before.text);
	cr_expect(strstr(queue->before.text, ", next packet 2026-11-22T08:00:05.000000002"), "%s", queue->before.text);
	cr_expect(strstr(queue->before.text, "; not lossless any more: the recorder kept the card's queue waiting"),
	          "%s", queue->before.text);
	cr_expect_eq(queue->last_row_ns, UINT64_C(1795334405000000002), "of the batch's last row");
	cr_assert_eq(ibvcap_rx_release(attached.rx, &batch), 0);
	attached_deinit(&attached);
}

/* The disk is the cause if it was waited for in a tenth of the time in which the ring filled. */
Test(record_losses, the_cause_is_what_took_the_time)
{
	struct source_end end = {.skipped = 5};
	struct losses losses = {.behind_since_ns = 1000};

	losses_waited(&losses, 100000000);
	losses_skipped_at_end(&losses, &end, 1000 + 1000000000);
	cr_expect_str_eq(losses.before.text,
	                 "5 packets lost (disk_wait): the disk did not take the data, and the ring was full "
	                 "(100 of 1000 ms)");
	cr_expect(losses.sum.disk_wait == 5 && losses.sum.skipped == 0 && losses.before.n == 5);
	cr_expect(losses.waited_ns == 0 && losses.behind_since_ns == 1000001000);
	losses_named(&losses.before);
	cr_expect(!losses.before.n && !losses.before.text[0]);
	losses_waited(&losses, 99000000);
	end.skipped = 12;
	losses_skipped_at_end(&losses, &end, 1000001000 + 1000000000);
	cr_expect_str_eq(losses.before.text,
	                 "7 packets lost (skipped): the recorder was too slow, and the ring was full; the disk was "
	                 "ready (1000 ms)");
	cr_expect(losses.sum.disk_wait == 5 && losses.sum.skipped == 7 && losses.before.n == 7);
}
