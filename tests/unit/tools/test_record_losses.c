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

	queue->card = &card;
	rx_ring_note_losses(&attached.ring, no_buffer, 1000);
	attached_publish(&attached, N);
	cr_assert_eq(ibvcap_rx_acquire(attached.rx, &batch, N, 1, 0), N);
	batch.gap = gap;
	losses_of_batch(queue, attached.rx, &batch, 0);
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
	cr_expect_eq(queues[0].sum.no_buffer + queues[1].sum.no_buffer, 0, "it was before the recording");
	record_block(&queues[0], 27);
	record_block(&queues[1], 27);
	cr_expect_eq(queues[0].sum.no_buffer, 20);
	cr_expect_eq(queues[1].sum.no_buffer, 0);
	record_block(&queues[1], 30);
	record_block(&queues[0], 30);
	cr_expect_eq(queues[0].sum.no_buffer + queues[1].sum.no_buffer, 23);
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
	uint64_t no_buffer = 0;

	attached_init(&attached);
	record_block(queue, 0);
	losses_written(queue);
	for (uint64_t n = 1; n <= 20; n++) {
		no_buffer += n;
		record_block_behind(queue, no_buffer, 1000);
		losses_of_error(queue);
		cr_expect_eq(sum_ahead_of(" packets lost (skipped)", queue->text), 1000 * n, "%s", queue->text);
		cr_expect_eq(sum_ahead_of(" packets lost (no_buffer)", queue->text), no_buffer, "%s", queue->text);
		cr_expect(strstr(queue->text, "(errored)"), "%s", queue->text);
	}
	cr_expect_eq(queue->pending, no_buffer + 20 * 1000 + 20);
	attached_deinit(&attached);
}

Test(record_losses, what_an_epoch_lost_is_told_in_the_file_in_which_it_ends)
{
	struct losses *queue = &queues[0];

	attached_init(&attached);
	record_block(queue, 0);
	losses_written(queue);
	record_block_behind(queue, 0, 300);
	losses_of_error(queue);
	cr_expect_eq(losses_untold(queue), 301);
	losses_in_epoch(queue, queue->epoch);
	cr_expect_eq(losses_untold(queue), 301, "the next row that is written tells of it");
	losses_in_epoch(queue, queue->epoch + 1);
	cr_expect_eq(losses_untold(queue), 0, "they are no numbers of the new epoch");
	cr_expect_eq(queue->told.skipped + queue->told.errored, 301);
	cr_expect_eq(queue->pending, 301, "the next packet tells of it, too");
	queue->epoch = 1;
	record_block_behind(queue, 0, 5);
	cr_expect_eq(losses_untold(queue), 5, "a batch of another epoch does the same");
	attached_deinit(&attached);
}
