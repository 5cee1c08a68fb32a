// SPDX-License-Identifier: Apache-2.0
/* What a recording says of packets that the card had no row for, when several queues show the same counter. */
#include "tests/unit/ibvcap/attached.h"
#include "tools/record/losses.h"

#include <criterion/criterion.h>

static struct attached attached;
static struct ibvcap_rx_losses card = IBVCAP_INIT(struct ibvcap_rx_losses);
static struct losses queues[2];

/* The handle of these tests is one queue and the other: the device had dropped so many when its next block began. */
static void record_block(struct losses *queue, uint64_t no_buffer)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

	queue->card = &card;
	rx_ring_note_losses(&attached.ring, no_buffer, 1000);
	attached_publish(&attached, N);
	cr_assert_eq(ibvcap_rx_acquire(attached.rx, &batch, N, 1, 0), N);
	losses_of_batch(queue, attached.rx, &batch, 0);
	cr_assert_eq(ibvcap_rx_release(attached.rx, &batch), 0);
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
