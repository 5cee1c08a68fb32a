// SPDX-License-Identifier: Apache-2.0
/* The transmit worker against the scripted backend: what becomes of every kind of packet, and the sums. */
#include "lib/ibvcap/ring_tx.h"
#include "tests/unit/worker/tx_worker_bench.h"

#include <errno.h>
#include <string.h>

#define FRAME (BENCH_HEADERS + BENCH_BYTES + 4) /* on the wire, as a rate counts it */

static struct bench bench; /* large; criterion runs each test in a process of its own */

static uint64_t number_of(const uint8_t *frame)
{
	uint64_t number;

	memcpy(&number, frame + BENCH_HEADERS, sizeof(number));
	return number;
}

static uint32_t take_frame(uint32_t channel, uint8_t frame[2048])
{
	return scripted_take_frame(bench.queues[channel]->queue, frame);
}

static uint64_t completed(uint32_t sender)
{
	return sender_load_completed(bench.senders[sender].sender.state);
}

/* ---- what is sent -------------------------------------------------------------------------------- */

Test(transmit, payloads_of_any_length_leave_in_order_behind_their_headers)
{
	uint8_t frame[2048];

	bench_set_up(&bench, &(struct bench_setting){0});
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t length = 8 + i * 7 % (BENCH_BYTES - 7);

		bench_submit(&bench, 0, 1, (uint16_t)length);
		if (i % 50 != 49)
			continue;
		bench_work(&bench);
		for (uint64_t sequence = i - 49; sequence <= i; sequence++) {
			uint32_t bytes = take_frame(0, frame);

			cr_assert(eq(u32, bytes, BENCH_HEADERS + 8 + (uint32_t)sequence * 7 % (BENCH_BYTES - 7)));
			cr_assert(eq(u64, number_of(frame), sequence));
			cr_assert(eq(u32, (uint32_t)frame[38] << 8 | frame[39], bytes - BENCH_HEADERS + 8), "UDP's");
		}
		bench_work(&bench);
	}
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 5000));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(transmit, a_payload_of_no_bytes_is_a_packet)
{
	uint8_t frame[2048];

	bench_set_up(&bench, &(struct bench_setting){0});
	bench_submit(&bench, 0, 1, 0);
	bench_work(&bench);
	cr_expect(eq(u32, take_frame(0, frame), BENCH_HEADERS));
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_WIRE_BYTES), 64), "padded, with FCS");
	bench_tear_down(&bench);
}

Test(transmit, a_row_is_the_senders_again_only_once_the_device_has_sent_it)
{
	bench_set_up(&bench, &(struct bench_setting){0});
	bench_submit(&bench, 0, 10, 100);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 0));
	scripted_send(bench.queues[0]->queue, 4);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 4));
	scripted_send(bench.queues[0]->queue, 6);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 10));
	bench_tear_down(&bench);
}

Test(transmit, no_more_is_taken_than_the_queue_holds_and_the_rest_follows)
{
	struct scripted_send_counts device;

	bench_set_up(&bench, &(struct bench_setting){.queue_slots = 100});
	bench_submit(&bench, 0, 250, 100);
	for (uint32_t sent = 0; sent < 250; sent += 10) {
		bench_work(&bench);
		scripted_send_counts(bench.queues[0]->queue, &device);
		cr_assert(eq(u32, device.under_way, sent <= 150 ? 100 : 250 - sent));
		cr_assert(eq(u32, scripted_send(bench.queues[0]->queue, 10), 10));
	}
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 250));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(transmit, what_the_device_does_not_take_at_once_is_posted_later_in_order)
{
	uint8_t frame[2048];

	bench_set_up(&bench, &(struct bench_setting){0});
	bench_submit(&bench, 0, 100, 100);
	for (uint32_t i = 0; i < 30; i++) {
		scripted_limit_post(bench.queues[0]->queue, i % 5);
		bench_round(&bench);
	}
	bench_work(&bench);
	for (uint64_t i = 0; i < 100; i++) {
		cr_assert(ne(u32, take_frame(0, frame), 0));
		cr_assert(eq(u64, number_of(frame), i));
	}
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 100));
	bench_tear_down(&bench);
}

Test(transmit, with_software_checksums_a_payload_that_changes_after_it_was_taken_does_not_change_the_packet)
{
	uint8_t frame[2048];

	bench_set_up(&bench, &(struct bench_setting){.checksums = PACKET_CHECKSUMS_SOFTWARE});
	bench_submit(&bench, 0, 1, 100);
	bench_work(&bench);
	memset(bench.senders[0].sender.arena.address, 0xff, 100);
	cr_assert(ne(u32, take_frame(0, frame), 0));
	cr_expect(eq(u64, number_of(frame), 0));
	bench_tear_down(&bench);
}

/* ---- what is not sent ---------------------------------------------------------------------------- */

Test(transmit, a_packet_that_cannot_be_sent_ends_in_its_turn_and_no_other_with_it)
{
	static const struct ibvcap_tx_descriptor bad[] = {
		{.length = BENCH_BYTES + 1}, {.destination = 1}, {.destination = 65535, .length = 65535}, {.flags = 2}};
	static const int32_t statuses[] = {-EMSGSIZE, -EINVAL, -EMSGSIZE, -EINVAL};
	struct test_sender *sender = &bench.senders[0];

	bench_set_up(&bench, &(struct bench_setting){0});
	for (uint32_t i = 0; i < 4; i++) {
		test_sender_write(sender, (struct ibvcap_tx_descriptor){.length = 10});
		/* No test writes a payload that long. */
		sender->submitted++;
		((struct ibvcap_tx_descriptor *)(void *)(sender->sender.page + 1))[2 * i + 1] = bad[i];
	}
	test_sender_submit(sender);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 0), "not before those ahead of it");
	scripted_send(bench.queues[0]->queue, 1);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 2));
	scripted_send(bench.queues[0]->queue, 3);
	bench_work(&bench);
	for (uint32_t i = 0; i < 4; i++) {
		cr_expect(eq(i32, bench_status(&bench, 0, 2 * i), 0));
		cr_expect(eq(i32, bench_status(&bench, 0, 2 * i + 1), statuses[i]));
	}
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_ERRORED), 4));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 4));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(transmit, until_there_are_headers_for_a_destination_its_packets_end_as_unreachable)
{
	const struct tx_queue_destination lost = {.error = -EHOSTUNREACH};

	bench_set_up(&bench, &(struct bench_setting){.unresolved = true, .at_once = true});
	bench_submit(&bench, 0, 10, 100);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 10));
	cr_expect(eq(i32, bench_status(&bench, 0, 9), -EHOSTUNREACH));
	bench_mail(&bench, &(struct mail){.type = MAIL_DESTINATION,
	                                  .tx_queue = bench.queues[0],
	                                  .destination = test_destination(0, PACKET_CHECKSUMS_DEVICE)});
	bench_submit(&bench, 0, 10, 100);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 19), 0));
	bench_mail(&bench, &(struct mail){.type = MAIL_DESTINATION, .tx_queue = bench.queues[0], .destination = lost});
	bench_submit(&bench, 0, 10, 100);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 29), -EHOSTUNREACH));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_ERRORED), 20));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(transmit, headers_with_checksums_that_the_queue_was_not_made_for_are_not_used)
{
	static const enum packet_checksums device = PACKET_CHECKSUMS_DEVICE, zero = PACKET_CHECKSUMS_ZERO,
					   software = PACKET_CHECKSUMS_SOFTWARE;
	static const struct {
		enum packet_checksums channel, headers;
		int32_t status;
	} cases[] = {{device, device, 0},         {device, zero, -EINVAL}, {device, software, -EINVAL},
	             {zero, device, -EINVAL},     {zero, zero, 0},         {zero, software, -EINVAL},
	             {software, device, -EINVAL}, {software, zero, 0},     {software, software, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bench_set_up(&bench, &(struct bench_setting){.checksums = cases[i].channel, .at_once = true});
		bench_mail(&bench, &(struct mail){.type = MAIL_DESTINATION,
		                                  .tx_queue = bench.queues[0],
		                                  .destination = test_destination(0, cases[i].headers)});
		bench_submit(&bench, 0, 1, 100);
		bench_work(&bench);
		cr_expect(eq(i32, bench_status(&bench, 0, 0), cases[i].status));
		bench_tear_down(&bench);
	}
}

Test(transmit, an_error_of_the_channel_is_of_all_its_packets_until_it_is_taken_back)
{
	bench_set_up(&bench, &(struct bench_setting){.at_once = true});
	bench_mail(&bench,
	           &(struct mail){.type = MAIL_TX_QUEUE_ERROR, .tx_queue = bench.queues[0], .error = -ENETDOWN});
	bench_submit(&bench, 0, 1, 100);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 0), -ENETDOWN));
	bench_mail(&bench, &(struct mail){.type = MAIL_TX_QUEUE_ERROR, .tx_queue = bench.queues[0], .error = 0});
	bench_submit(&bench, 0, 1, 100);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 1), 0));
	bench_tear_down(&bench);
}

/* ---- fairness ------------------------------------------------------------------------------------ */

static void keep_full(uint32_t sender, uint16_t length)
{
	while (test_sender_has_room(&bench.senders[sender]))
		test_sender_write(&bench.senders[sender], (struct ibvcap_tx_descriptor){.length = length});
	test_sender_submit(&bench.senders[sender]);
}

static void expect_near(uint64_t a, uint64_t b, double within)
{
	cr_expect(le(dbl, (double)(a > b ? a - b : b - a), (double)(a > b ? a : b) * within), "%llu and %llu",
	          (unsigned long long)a, (unsigned long long)b);
}

Test(transmit, senders_of_a_channel_get_the_same_bytes_whatever_their_packets)
{
	static const uint16_t lengths[] = {18, 100, 700, BENCH_BYTES};

	bench_set_up(&bench, &(struct bench_setting){.n_senders = 4});
	for (uint32_t round = 0; round < 3000; round++) {
		for (uint32_t i = 0; i < 4; i++)
			keep_full(i, lengths[i]);
		bench_round(&bench);
		scripted_send(bench.queues[0]->queue, 40);
	}
	for (uint32_t i = 1; i < 4; i++)
		expect_near(test_sender_count(&bench.senders[0], IBVCAP_TX_COUNTER_WIRE_BYTES),
		            test_sender_count(&bench.senders[i], IBVCAP_TX_COUNTER_WIRE_BYTES), 0.05);
	bench_tear_down(&bench);
}

Test(transmit, senders_that_share_a_rate_get_the_same_of_it)
{
	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .rate_bps = 1000000000, .at_once = true});
	for (uint32_t round = 0; round < 100000; round++) {
		keep_full(0, 100);
		keep_full(1, BENCH_BYTES);
		bench_round(&bench);
		bench_pass(&bench, 3000);
	}
	expect_near(test_sender_count(&bench.senders[0], IBVCAP_TX_COUNTER_WIRE_BYTES),
	            test_sender_count(&bench.senders[1], IBVCAP_TX_COUNTER_WIRE_BYTES), 0.01);
	bench_tear_down(&bench);
}

Test(transmit, a_sender_that_floods_with_what_cannot_be_sent_takes_no_others_share)
{
	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .at_once = true});
	struct test_sender *flood = &bench.senders[0];

	for (uint32_t round = 0; round < 3000; round++) {
		while (test_sender_has_room(flood))
			test_sender_write(flood, (struct ibvcap_tx_descriptor){.length = 10, .destination = 7});
		test_sender_submit(flood);
		keep_full(1, BENCH_BYTES);
		bench_round(&bench);
	}
	cr_expect(eq(u64, test_sender_count(flood, IBVCAP_TX_COUNTER_COMPLETED), 0));
	expect_near(test_sender_count(flood, IBVCAP_TX_COUNTER_ERRORED),
	            test_sender_count(&bench.senders[1], IBVCAP_TX_COUNTER_COMPLETED), 0.05);
	bench_tear_down(&bench);
}

Test(transmit, channels_of_a_worker_get_the_same_bytes_and_a_full_one_holds_up_no_other)
{
	bench_set_up(&bench,
	             &(struct bench_setting){.n_queues = 3, .n_senders = 3, .queue_slots = 512, .at_once = true});
	scripted_send_at_once(bench.queues[2]->queue, false);
	for (uint32_t round = 0; round < 3000; round++) {
		keep_full(0, 400); /* as many as its arena has room for in two rounds */
		keep_full(1, BENCH_BYTES);
		keep_full(2, BENCH_BYTES);
		bench_round(&bench);
	}
	expect_near(bench_count(&bench, 0, IBVCAP_TX_COUNTER_WIRE_BYTES),
	            bench_count(&bench, 1, IBVCAP_TX_COUNTER_WIRE_BYTES), 0.05);
	cr_expect(eq(u64, bench_count(&bench, 2, IBVCAP_TX_COUNTER_COMPLETED), 0));
	bench_tear_down(&bench);
}

/* ---- time ---------------------------------------------------------------------------------------- */

static uint32_t seed = 1;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)seed * n >> 32);
}

Test(transmit, a_rate_holds_over_a_million_packets_however_late_the_worker_comes)
{
	const uint64_t rate_bps = 10000000000;

	bench_set_up(&bench, &(struct bench_setting){
				     .n_senders = 2, .rate_bps = rate_bps, .burst_bytes = 64 * FRAME, .at_once = true});
	uint64_t start_ns = bench.now.monotonic_ns;

	while (bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED) < 1000000) {
		keep_full(0, BENCH_BYTES);
		keep_full(1, BENCH_BYTES);
		bench_work(&bench);
		bench_pass(&bench, 100 + random_below(60000)); /* a burst lasts 77.7 µs */
	}
	double seconds = (double)(bench.now.monotonic_ns - start_ns) * 1e-9;
	double achieved_bps = (double)bench_count(&bench, 0, IBVCAP_TX_COUNTER_WIRE_BYTES) * 8 / seconds;

	cr_expect(gt(dbl, achieved_bps, (double)rate_bps * 0.999), "%.0f", achieved_bps);
	cr_expect(lt(dbl, achieved_bps, (double)rate_bps * 1.001), "%.0f", achieved_bps);
	bench_expect_sums(&bench, bench.senders[0].submitted + bench.senders[1].submitted -
	                                  bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED));
	bench_tear_down(&bench);
}

Test(transmit, a_packet_that_waited_for_the_rate_says_how_late_it_left)
{
	/* A packet each 12.144 µs. */
	bench_set_up(&bench, &(struct bench_setting){.rate_bps = 1000000000, .burst_bytes = FRAME, .at_once = true});
	bench_submit(&bench, 0, 4, BENCH_BYTES);
	bench_work(&bench);
	uint64_t at_once = completed(0);

	cr_expect(eq(u64, at_once, 2), "the burst, and the one that is due");
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_PACED), 0));
	cr_expect(eq(u64, tx_queue_idle_ns(bench.queues[0], &bench.now), 12144));
	bench_pass(&bench, 12144 + 500);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 3));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_PACED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_PACED_LATENESS_NS), 500));
	bench_pass(&bench, 12144);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_PACED_LATENESS_NS), 1000));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_PACED_LATENESS_MAX_NS), 500));
	bench_pass(&bench, 1000000);
	bench_work(&bench);
	bench_submit(&bench, 0, 1, BENCH_BYTES);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_PACED), 2), "that one did not wait");
	bench_tear_down(&bench);
}

static void submit_timed(uint32_t sender, uint64_t not_before_ns, uint32_t flags)
{
	test_sender_write(&bench.senders[sender],
	                  (struct ibvcap_tx_descriptor){.length = 100, .flags = flags, .not_before_ns = not_before_ns});
	test_sender_submit(&bench.senders[sender]);
}

/* Each look at the clocks finds them so much later. */
static void work_takes_300_ns(struct tx_clock_sample *now)
{
	now->monotonic_ns += 300;
	now->utc_ns += 300;
}

Test(transmit, how_late_a_packet_leaves_is_known_when_it_is_posted)
{
	bench_set_up(&bench, &(struct bench_setting){.at_once = true, .late_after_ns = 500});
	bench.now.look = work_takes_300_ns;
	submit_timed(0, BENCH_UTC_NS, IBVCAP_TX_FLAG_DROP_LATE); /* in time when it is taken */
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 0), 0));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED_LATENESS_NS), 600));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_LATE), 1));
	scripted_limit_post(bench.queues[0]->queue, 1);
	submit_timed(0, BENCH_UTC_NS, 0);
	bench_submit(&bench, 0, 1, 100);
	submit_timed(0, BENCH_UTC_NS, 0);
	bench_round(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED), 2), "the device took one of three");
	bench_pass(&bench, 10000);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED), 3));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS), 10300));
	cr_expect(eq(u64, completed(0), 4));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(transmit, a_packet_is_judged_by_the_time_of_its_own_channels_turn)
{
	bench_set_up(&bench, &(struct bench_setting){.at_once = true, .late_after_ns = 200});
	bench.now.look = work_takes_300_ns;
	submit_timed(0, BENCH_UTC_NS, IBVCAP_TX_FLAG_DROP_LATE);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 0), -ETIME));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_LATE), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED), 0));
	bench_tear_down(&bench);
}

Test(transmit, a_packet_waits_for_its_time_and_holds_up_its_own_sender_only)
{
	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .at_once = true});
	submit_timed(0, BENCH_UTC_NS + 5000, 0);
	bench_submit(&bench, 0, 1, 100);
	bench_submit(&bench, 1, 1, 100);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 0));
	cr_expect(eq(u64, completed(1), 1));
	cr_expect(eq(u64, tx_queue_idle_ns(bench.queues[0], &bench.now), 5000));
	bench_pass(&bench, 4999);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 0));
	bench_pass(&bench, 8);
	bench_work(&bench);
	cr_expect(eq(u64, completed(0), 2));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED_LATENESS_NS), 7));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS), 7));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_LATE), 0));
	bench_tear_down(&bench);
}

Test(transmit, a_device_that_keeps_times_gets_packets_ahead_of_them_and_reports_those_it_dropped)
{
	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2});
	bench.queues[0]->queue->send_ahead_ns = 3000;
	submit_timed(0, BENCH_UTC_NS + 5000, IBVCAP_TX_FLAG_DROP_LATE);
	bench_work(&bench);
	cr_expect(eq(u32, bench.queues[0]->n_posted, 0));
	cr_expect(eq(u64, tx_queue_idle_ns(bench.queues[0], &bench.now), 2000 + TX_QUEUE_SPIN_NS), "without spinning");
	bench_pass(&bench, 2000);
	bench_submit(&bench, 1, 1, 100);
	bench_work(&bench);
	cr_expect(eq(u32, bench.queues[0]->n_posted, 2));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED), 0), "nobody knows yet when it leaves");
	scripted_next_status(bench.queues[0]->queue, BACKEND_LATE);
	scripted_send(bench.queues[0]->queue, 2);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 0), -ETIME));
	cr_expect(eq(i32, bench_status(&bench, 1, 0), 0));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_LATE_DROPPED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_LATE), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_QUEUE_RESETS), 0));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(transmit, a_time_of_another_age_is_late_and_no_measure)
{
	bench_set_up(&bench, &(struct bench_setting){.at_once = true, .late_after_ns = 500});
	submit_timed(0, 1, 0);
	submit_timed(0, BENCH_UTC_NS - 300, 0);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_LATE), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED_LATENESS_NS), 300));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS), 300));
	cr_expect(eq(u64, completed(0), 2));
	bench_tear_down(&bench);
}

Test(transmit, a_late_packet_is_counted_and_sent_or_dropped_as_it_says)
{
	bench_set_up(&bench, &(struct bench_setting){.at_once = true, .late_after_ns = 10000});
	submit_timed(0, BENCH_UTC_NS - 10000, IBVCAP_TX_FLAG_DROP_LATE);
	submit_timed(0, BENCH_UTC_NS - 10001, IBVCAP_TX_FLAG_DROP_LATE);
	submit_timed(0, BENCH_UTC_NS - 10001, 0);
	submit_timed(0, 0, IBVCAP_TX_FLAG_DROP_LATE);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 0), 0), "not later than it may be");
	cr_expect(eq(i32, bench_status(&bench, 0, 1), -ETIME));
	cr_expect(eq(i32, bench_status(&bench, 0, 2), 0));
	cr_expect(eq(i32, bench_status(&bench, 0, 3), 0), "it has no time");
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_LATE), 2));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_LATE_DROPPED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 3));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}
