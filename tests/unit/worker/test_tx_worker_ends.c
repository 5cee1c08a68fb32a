// SPDX-License-Identifier: Apache-2.0
/* Senders that die or lie, queues that fail, channels and workers that end: nothing is freed early, sums are exact. */
#include "lib/ibvcap/ring_tx.h"
#include "tests/unit/worker/tx_worker_bench.h"

#include <errno.h>

static struct bench bench;

static void remove_sender(uint32_t i)
{
	bench_mail(&bench, &(struct mail){.type = MAIL_REMOVE_SENDER,
	                                  .tx_queue = bench.queues[i % bench.setting.n_queues],
	                                  .sender = &bench.senders[i].sender});
}

static uint64_t completed(uint32_t sender)
{
	return sender_load_completed(bench.senders[sender].sender.state);
}

/* ---- senders that leave -------------------------------------------------------------------------- */

Test(tx_worker_ends, a_senders_memory_is_kept_until_its_last_packet_is_sent)
{
	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .queue_slots = 64});
	bench_submit(&bench, 0, 100, 100);
	bench_work(&bench);
	bench_submit(&bench, 0, 20, 100); /* and killed */
	remove_sender(0);
	bench_work(&bench);
	bench_expect_no_mail(&bench);
	scripted_send(bench.queues[0]->queue, 63);
	bench_work(&bench);
	bench_expect_no_mail(&bench);
	scripted_send(bench.queues[0]->queue, 1);
	struct mail mail = bench_expect_mail(&bench, MAIL_SENDER_REMOVED);

	cr_expect(eq(ptr, mail.sender, &bench.senders[0].sender));
	cr_expect(eq(ptr, mail.tx_queue, bench.queues[0]));
	cr_expect(eq(u64, test_sender_count(&bench.senders[0], IBVCAP_TX_COUNTER_SUBMITTED), 120));
	cr_expect(eq(u64, test_sender_count(&bench.senders[0], IBVCAP_TX_COUNTER_COMPLETED), 64));
	cr_expect(eq(u64, test_sender_count(&bench.senders[0], IBVCAP_TX_COUNTER_FLUSHED), 56));
	bench_expect_sums(&bench, 0);
	/* Gone for good: the scripted backend aborts if it is still asked to read from it. */
	test_sender_deinit(&bench.senders[0]);
	cr_assert(
		eq(int, test_sender_init(&bench.senders[0], bench.backend, bench.worker, BENCH_SLOTS, BENCH_BYTES), 0));
	bench_submit(&bench, 1, 10, 100);
	bench_work(&bench);
	scripted_send(bench.queues[0]->queue, 10);
	bench_work(&bench);
	cr_expect(eq(u64, completed(1), 10));
	bench_tear_down(&bench);
}

Test(tx_worker_ends, nothing_is_taken_from_a_sender_that_leaves)
{
	bench_set_up(&bench, &(struct bench_setting){0});
	bench_submit(&bench, 0, 10, 100);
	bench_work(&bench);
	remove_sender(0);
	bench_submit(&bench, 0, 5, 100);
	bench_work(&bench);
	cr_expect(eq(u64, bench.senders[0].sender.taken, 10));
	scripted_send(bench.queues[0]->queue, 10);
	bench_expect_mail(&bench, MAIL_SENDER_REMOVED);
	cr_expect(eq(u64, test_sender_count(&bench.senders[0], IBVCAP_TX_COUNTER_COMPLETED), 10));
	bench_tear_down(&bench);
}

Test(tx_worker_ends, a_large_arena_is_flushed_in_many_rounds)
{
	enum { SLOTS = 65536, ROUNDS = SLOTS / 4096 };
	struct test_sender *sender = &bench.senders[1];

	bench_set_up(&bench, &(struct bench_setting){.unresolved = true});
	cr_assert(eq(int, test_sender_init(sender, bench.backend, bench.worker, SLOTS, 8), 0));
	sender->submitted = SLOTS;
	test_sender_submit(sender);
	struct mail mail = {.type = MAIL_ADD_SENDER, .tx_queue = bench.queues[0], .sender = &sender->sender};

	mailbox_send(bench.worker->inbox, &mail);
	mail.type = MAIL_REMOVE_SENDER;
	mailbox_send(bench.worker->inbox, &mail);
	for (int i = 0; i < ROUNDS; i++)
		bench_round(&bench);
	cr_expect(lt(u64, test_sender_count(sender, IBVCAP_TX_COUNTER_FLUSHED), SLOTS));
	bench_expect_mail(&bench, MAIL_SENDER_ADDED);
	bench_round(&bench);
	bench_expect_mail(&bench, MAIL_SENDER_REMOVED);
	cr_expect(eq(u64, test_sender_count(sender, IBVCAP_TX_COUNTER_FLUSHED), SLOTS));
	test_sender_deinit(sender);
	bench_tear_down(&bench);
}

Test(tx_worker_ends, others_go_on_while_one_leaves)
{
	bench_set_up(&bench, &(struct bench_setting){.n_senders = 3});
	for (uint32_t i = 0; i < 3; i++)
		bench_submit(&bench, i, 10, 100);
	bench_work(&bench);
	remove_sender(1);
	bench_submit(&bench, 0, 10, 100);
	bench_submit(&bench, 2, 10, 100);
	bench_work(&bench);
	scripted_send(bench.queues[0]->queue, 100);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 20));
	cr_expect(eq(u64, completed(1), 10));
	cr_expect(eq(u64, completed(2), 20));
	bench_expect_mail(&bench, MAIL_SENDER_REMOVED);
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(tx_worker_ends, the_removal_of_one_that_is_not_there_is_answered)
{
	struct sender nobody = {.socket = -1};

	bench_set_up(&bench, &(struct bench_setting){0});
	bench_mail(&bench, &(struct mail){.type = MAIL_REMOVE_SENDER, .tx_queue = bench.queues[0], .sender = &nobody});
	bench_expect_mail(&bench, MAIL_SENDER_REMOVED);
	bench_mail(&bench, &(struct mail){.type = MAIL_REMOVE_SENDER, .tx_queue = NULL, .sender = &nobody});
	bench_expect_mail(&bench, MAIL_SENDER_REMOVED);
	bench_mail(&bench, &(struct mail){.type = MAIL_ADD_SENDER, .tx_queue = NULL, .sender = &nobody});
	cr_expect(eq(int, bench_expect_mail(&bench, MAIL_SENDER_ADDED).error, -ENODEV));
	bench_tear_down(&bench);
}

Test(tx_worker_ends, one_sender_too_many_is_refused)
{
	static struct sender others[TX_QUEUE_SENDERS_MAX];
	struct mail mail;

	bench_set_up(&bench, &(struct bench_setting){0});
	for (uint32_t i = 0; i < TX_QUEUE_SENDERS_MAX; i++) {
		others[i] = bench.senders[0].sender;
		others[i].socket = -1;
		bench_mail(&bench,
		           &(struct mail){.type = MAIL_ADD_SENDER, .tx_queue = bench.queues[0], .sender = &others[i]});
		mail = bench_expect_mail(&bench, MAIL_SENDER_ADDED);
		cr_expect(eq(int, mail.error, i < TX_QUEUE_SENDERS_MAX - 1 ? 0 : -EAGAIN));
	}
	bench_tear_down(&bench);
}

/* ---- senders that lie ----------------------------------------------------------------------------- */

Test(tx_worker_ends, a_sender_whose_cursor_lies_is_put_out_and_what_was_taken_completes)
{
	static const uint64_t lies[] = {0, 9, 10 + BENCH_SLOTS + 1, UINT64_MAX, UINT64_C(1) << 63};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		bench_set_up(&bench, &(struct bench_setting){.n_senders = 2});
		bench_submit(&bench, 0, 10, 100);
		bench_submit(&bench, 1, 10, 100);
		bench_work(&bench);
		sender_store_submitted(bench.senders[0].sender.page, lies[i]);
		bench_work(&bench);
		bench_expect_no_mail(&bench);
		scripted_send(bench.queues[0]->queue, 20);
		struct mail mail = bench_expect_mail(&bench, MAIL_SENDER_BAD);

		cr_expect(eq(ptr, mail.sender, &bench.senders[0].sender));
		cr_expect(eq(u32, mail.reason, IBVCAP_DISCONNECT_BAD_CURSOR));
		bench_expect_no_mail(&bench);
		cr_expect(eq(u64, completed(0), 10));
		cr_expect(eq(u64, completed(1), 10));
		bench_submit(&bench, 1, 10, 100);
		bench_work(&bench);
		scripted_send(bench.queues[0]->queue, 10);
		bench_work(&bench);
		cr_expect(eq(u64, completed(1), 20));
		cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_BAD_SENDERS), 1));
		bench_expect_sums(&bench, 0);
		bench_tear_down(&bench);
	}
}

Test(tx_worker_ends, who_lies_while_its_removal_is_asked_for_is_removed_and_not_reported)
{
	bench_set_up(&bench, &(struct bench_setting){0});
	bench_submit(&bench, 0, 10, 100);
	bench_work(&bench);
	sender_store_submitted(bench.senders[0].sender.page, 1);
	bench_work(&bench);
	remove_sender(0);
	scripted_send(bench.queues[0]->queue, 10);
	bench_expect_mail(&bench, MAIL_SENDER_REMOVED);
	bench_expect_no_mail(&bench);
	bench_tear_down(&bench);
}

/* ---- queues that fail ----------------------------------------------------------------------------- */

Test(tx_worker_ends, an_error_of_the_device_ends_what_it_had_and_the_rest_is_sent)
{
	bench_set_up(&bench, &(struct bench_setting){.queue_slots = 32});
	bench_submit(&bench, 0, 100, 100);
	bench_work(&bench);
	scripted_send(bench.queues[0]->queue, 5);
	scripted_next_status(bench.queues[0]->queue, BACKEND_SLOT_ERROR);
	scripted_send(bench.queues[0]->queue, 5);
	scripted_send_at_once(bench.queues[0]->queue, true);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 100));
	cr_expect(eq(i32, bench_status(&bench, 0, 4), 0));
	cr_expect(eq(i32, bench_status(&bench, 0, 5), -EIO));
	cr_expect(eq(i32, bench_status(&bench, 0, 6), -ECANCELED));
	cr_expect(eq(i32, bench_status(&bench, 0, 31), -ECANCELED));
	cr_expect(eq(i32, bench_status(&bench, 0, 99), 0));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_QUEUE_RESETS), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_ERRORED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FLUSHED), 26));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 73));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

static void lose_queue(uint32_t channel)
{
	scripted_fail_queue(bench.queues[channel]->queue);
	scripted_fail_reset(bench.queues[channel]->queue, -ENODEV);
}

Test(tx_worker_ends, a_channel_whose_queue_is_lost_ends_with_its_senders_and_no_other_does)
{
	bench_set_up(&bench, &(struct bench_setting){.n_queues = 2, .n_senders = 3});
	for (uint32_t i = 0; i < 3; i++)
		bench_submit(&bench, i, 200, 100);
	bench_work(&bench);
	lose_queue(0);
	struct mail mail = bench_expect_mail(&bench, MAIL_TX_QUEUE_FAILED);

	cr_expect(eq(ptr, mail.tx_queue, bench.queues[0]));
	cr_expect(eq(int, mail.error, -ENODEV));
	cr_expect(eq(u64, test_sender_count(&bench.senders[0], IBVCAP_TX_COUNTER_FLUSHED), 200));
	cr_expect(eq(u64, test_sender_count(&bench.senders[2], IBVCAP_TX_COUNTER_FLUSHED), 200));
	/* Mail that was on its way is answered. */
	remove_sender(0);
	bench_expect_mail(&bench, MAIL_SENDER_REMOVED);
	bench_mail(&bench, &(struct mail){.type = MAIL_REMOVE_TX_QUEUE, .tx_queue = bench.queues[0]});
	bench_expect_mail(&bench, MAIL_TX_QUEUE_REMOVED);
	scripted_send_at_once(bench.queues[1]->queue, true);
	scripted_send(bench.queues[1]->queue, 200);
	bench_work(&bench);
	cr_expect(eq(u64, test_sender_count(&bench.senders[1], IBVCAP_TX_COUNTER_COMPLETED), 200));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(tx_worker_ends, who_asked_hears_that_a_lost_queue_may_still_read)
{
	struct test_sender *large = &bench.senders[1];
	struct mail mail = {.type = MAIL_ADD_SENDER, .sender = &large->sender};

	for (int asks_before = 0; asks_before < 2; asks_before++) {
		bench_set_up(&bench, &(struct bench_setting){0});
		cr_assert(eq(int, test_sender_init(large, bench.backend, bench.worker, 4 * 4096, 8), 0));
		bench_submit(&bench, 0, 10, 100);
		bench_work(&bench);
		mail.type = MAIL_ADD_SENDER;
		mail.tx_queue = bench.queues[0];
		bench_mail(&bench, &mail);
		bench_expect_mail(&bench, MAIL_SENDER_ADDED);
		large->submitted = 4 * 4096; /* flushed in several rounds */
		test_sender_submit(large);
		if (asks_before)
			remove_sender(0);
		lose_queue(0);
		bench_round(&bench);
		if (!asks_before) {
			remove_sender(0);
			bench_round(&bench);
		}
		cr_assert(mailbox_receive(bench.worker->outbox, &mail));
		cr_expect(eq(int, mail.type, MAIL_SENDER_REMOVED));
		cr_expect(eq(int, mail.error, -ENODEV));
		bench_expect_mail(&bench, MAIL_TX_QUEUE_FAILED);
		test_sender_deinit(large);
		bench_tear_down(&bench);
	}
}

Test(tx_worker_ends, a_queue_that_fails_again_and_again_is_given_up)
{
	struct mail mail = {0};

	bench_set_up(&bench, &(struct bench_setting){0});
	bench_submit(&bench, 0, 200, 100);
	for (uint32_t i = 0; i < 1000 && mail.type != MAIL_TX_QUEUE_FAILED; i++) {
		scripted_fail_queue(bench.queues[0]->queue);
		bench_round(&bench);
		mailbox_receive(bench.worker->outbox, &mail);
		bench_submit(&bench, 0, test_sender_has_room(&bench.senders[0]), 100);
	}
	cr_expect(eq(int, mail.type, MAIL_TX_QUEUE_FAILED));
	cr_expect(eq(int, mail.error, -EIO));
	bench_tear_down(&bench);
}

/* ---- ends ----------------------------------------------------------------------------------------- */

Test(tx_worker_ends, a_removed_channel_completes_what_it_took_and_flushes_the_rest)
{
	bench_set_up(&bench, &(struct bench_setting){.n_queues = 2, .n_senders = 2, .queue_slots = 64});
	bench_submit(&bench, 0, 100, 100);
	bench_work(&bench);
	bench_mail(&bench, &(struct mail){.type = MAIL_REMOVE_TX_QUEUE, .tx_queue = bench.queues[0]});
	bench_work(&bench);
	bench_expect_no_mail(&bench);
	scripted_send(bench.queues[0]->queue, 64);
	bench_expect_mail(&bench, MAIL_TX_QUEUE_REMOVED);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 64));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FLUSHED), 36));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

/* A reload that exchanges them all: the old ones are still there when the new ones come. */
Test(tx_worker_ends, more_channels_than_a_configuration_has_find_room)
{
	enum { MANY = 100 };

	bench_set_up(&bench, &(struct bench_setting){.n_queues = MANY, .at_once = true});
	bench_submit(&bench, 0, 1, 100);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 1));
	bench_mail(&bench, &(struct mail){.type = MAIL_STOP});
	bench_expect_mail(&bench, MAIL_STOPPED);
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(tx_worker_ends, a_stop_drains_all_channels)
{
	bench_set_up(&bench, &(struct bench_setting){.n_queues = 3, .n_senders = 3, .queue_slots = 64});
	for (uint32_t i = 0; i < 3; i++)
		bench_submit(&bench, i, 100, 100);
	bench_work(&bench);
	bench_mail(&bench, &(struct mail){.type = MAIL_STOP});
	for (uint32_t i = 0; i < 3; i++) {
		bench_expect_no_mail(&bench);
		scripted_send(bench.queues[i]->queue, 64);
	}
	bench_expect_mail(&bench, MAIL_STOPPED);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(eq(u64, bench_count(&bench, i, IBVCAP_TX_COUNTER_COMPLETED), 64));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(tx_worker_ends, a_device_that_keeps_what_it_has_is_made_to_let_go_after_a_while)
{
	bench_set_up(&bench, &(struct bench_setting){0});
	bench_submit(&bench, 0, 100, 100);
	bench_work(&bench);
	bench_mail(&bench, &(struct mail){.type = MAIL_STOP});
	bench_pass(&bench, 900000000);
	bench_work(&bench);
	bench_expect_no_mail(&bench);
	bench_pass(&bench, 200000000);
	bench_expect_mail(&bench, MAIL_STOPPED);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FLUSHED), 100));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(tx_worker_ends, what_was_put_out_is_told_also_when_the_outbox_was_full)
{
	struct sender nobody = {.socket = -1};
	struct mail mail;
	uint32_t answers = 0, removed = 0;

	bench_set_up(&bench, &(struct bench_setting){.at_once = true});
	while (!mailbox_full(bench.worker->outbox))
		bench_mail(&bench, &(struct mail){.type = MAIL_REMOVE_SENDER, .sender = &nobody});
	cr_assert(eq(int,
	             mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_REMOVE_SENDER,
	                                                              .tx_queue = bench.queues[0],
	                                                              .sender = &bench.senders[0].sender}),
	             0));
	bench_work(&bench);
	for (uint32_t i = 0; i < 1000; i++) {
		if (mailbox_receive(bench.worker->outbox, &mail)) {
			answers++;
			removed += mail.sender == &bench.senders[0].sender;
		}
		bench_round(&bench);
	}
	cr_expect(gt(u32, answers, 100));
	cr_expect(eq(u32, removed, 1));
	bench_tear_down(&bench);
}
