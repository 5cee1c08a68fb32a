// SPDX-License-Identifier: Apache-2.0
/* Packets that are longer than the MTU: the transmit worker cuts them, against the scripted backend. */
#include "tests/unit/worker/tx_worker_bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MTU        1500u
#define EACH       1480u /* bytes of the datagram in a fragment */
#define LONG_BYTES 12608u
#define LONG_N     9u /* fragments of it */
#define FRAME_MAX  2048u
#define IP_AT      14u

static struct bench bench; /* large; criterion runs each test in a process of its own */
static uint8_t joined[65536];

static uint32_t be16(const uint8_t *at)
{
	return (uint32_t)(at[0] << 8 | at[1]);
}

static void fill_arena(uint32_t sender, unsigned seed)
{
	uint8_t *arena = bench.senders[sender].sender.arena.address;

	srand(seed);
	for (size_t i = 0; i < (size_t)BENCH_SLOTS * bench.setting.slot_bytes; i++)
		arena[i] = (uint8_t)rand();
}

static const uint8_t *row(uint32_t sender, uint64_t number)
{
	return (const uint8_t *)bench.senders[sender].sender.arena.address +
	       number % BENCH_SLOTS * bench.setting.slot_bytes;
}

/* The next datagram on the wire, put together. Returns its payload's bytes; 0: there is none. */
static uint32_t take_datagram(uint32_t channel, uint32_t *n_frames, uint32_t *identification)
{
	uint8_t frame[FRAME_MAX];
	uint32_t at = 0, bytes;
	bool more = true;

	for (*n_frames = 0; more; ++*n_frames) {
		bytes = scripted_take_frame(bench.queues[channel]->queue, frame);
		if (!bytes)
			return 0;
		cr_assert(le(u32, bytes, IP_AT + MTU));
		cr_assert(eq(u32, (be16(frame + IP_AT + 6) & 0x1fff) * 8, at));
		cr_assert(at == 0 || be16(frame + IP_AT + 4) == *identification);
		*identification = be16(frame + IP_AT + 4);
		more = frame[IP_AT + 6] & 0x20;
		cr_assert(eq(u32, be16(frame + IP_AT + 2), bytes - IP_AT));
		memcpy(joined + at, frame + IP_AT + 20, bytes - IP_AT - 20);
		at += bytes - IP_AT - 20;
	}
	cr_assert(eq(u32, be16(joined + 4), at));
	return at - 8;
}

static void set_up(uint32_t queue_slots, bool at_once)
{
	bench_set_up(&bench, &(struct bench_setting){
				     .slot_bytes = 65507, .mtu = MTU, .queue_slots = queue_slots, .at_once = at_once});
}

/* ---- what leaves --------------------------------------------------------------------------------- */

Test(cut, a_packet_that_is_longer_than_the_mtu_leaves_as_fragments_and_ends_once)
{
	uint32_t n, id;

	set_up(0, false);
	fill_arena(0, 1);
	bench_submit(&bench, 0, 1, LONG_BYTES);
	bench_work(&bench);
	cr_assert(eq(u32, take_datagram(0, &n, &id), LONG_BYTES));
	cr_expect(eq(u32, n, LONG_N));
	cr_expect(memcmp(joined + 8, row(0, 0), LONG_BYTES) == 0);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_SUBMITTED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTS), LONG_N));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED_BYTES), LONG_BYTES));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_WIRE_BYTES),
	             LONG_BYTES + 8 + LONG_N * (IP_AT + 20 + 4)));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(cut, long_and_short_packets_leave_in_order_and_only_fragments_have_their_checksums)
{
	struct scripted_send_counts device;
	uint32_t n, id, n_fragments = 0, n_packets = 0;
	uint16_t lengths[256];

	set_up(128, false);
	fill_arena(0, 2);
	for (int turn = 0; turn < 40; turn++) {
		uint32_t n_sent = 1 + (uint32_t)rand() % 20;

		for (uint32_t i = 0; i < n_sent; i++) {
			lengths[i] =
				(uint16_t)(rand() % 3 ? 8 + rand() % 1400 : 1473 + rand() % (rand() % 2 ? 200 : 64034));
			bench_submit(&bench, 0, 1, lengths[i]);
		}
		for (uint32_t i = 0; i < n_sent; i++) {
			scripted_limit_post(bench.queues[0]->queue, rand() % 4 ? UINT32_MAX : (uint32_t)rand() % 9);
			bench_work(&bench);
			cr_assert(eq(u32, take_datagram(0, &n, &id), lengths[i]), "turn %d, packet %u", turn, i);
			cr_assert(eq(u32, n, (8u + lengths[i] + EACH - 1) / EACH));
			cr_assert(memcmp(joined + 8, row(0, n_packets), lengths[i]) == 0);
			n_fragments += n > 1 ? n : 0;
			n_packets++;
		}
		bench_work(&bench);
	}
	scripted_send_counts(bench.queues[0]->queue, &device);
	cr_expect(eq(u64, device.summed, n_fragments));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTS), n_fragments));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), n_packets));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(cut, a_payload_that_changes_after_it_was_taken_does_not_change_the_packet)
{
	uint32_t n, id;

	set_up(0, false);
	fill_arena(0, 3);
	bench_submit(&bench, 0, 1, LONG_BYTES);
	uint8_t *before = malloc(LONG_BYTES);

	memcpy(before, row(0, 0), LONG_BYTES);
	bench_work(&bench);
	memset(bench.senders[0].sender.arena.address, 0xff, LONG_BYTES);
	take_datagram(0, &n, &id);
	cr_expect(memcmp(joined + 8, before, LONG_BYTES) == 0);
	free(before);
	bench_work(&bench);
	bench_tear_down(&bench);
}

Test(cut, all_queues_with_the_same_addresses_take_from_one_sequence_of_identifications)
{
	uint32_t n, id, first;

	bench_set_up(&bench,
	             &(struct bench_setting){.slot_bytes = LONG_BYTES, .mtu = MTU, .n_queues = 2, .n_senders = 2});
	bench.identification = 0xfffe;
	first = bench.identification;
	for (uint32_t i = 0; i < 6; i++) {
		bench_submit(&bench, i % 2, 1, LONG_BYTES);
		bench_work(&bench);
		take_datagram(i % 2, &n, &id);
		cr_expect(eq(u32, id, (first + i) & 0xffff));
	}
	bench_work(&bench);
	bench_tear_down(&bench);
}

/* ---- the MTU ------------------------------------------------------------------------------------- */

Test(cut, packets_are_cut_by_the_mtu_that_the_interface_has_now)
{
	static const uint32_t mtus[] = {1500, 600, 1280, 1499, 1500};
	uint32_t n, id;

	set_up(0, false);
	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		bench_resolve(&bench, 0, mtus[i]);
		bench_submit(&bench, 0, 1, LONG_BYTES);
		bench_work(&bench);
		cr_assert(eq(u32, take_datagram(0, &n, &id), LONG_BYTES));
		cr_expect(eq(u32, n, (LONG_BYTES + 8 + (mtus[i] - 20) / 8 * 8 - 1) / ((mtus[i] - 20) / 8 * 8)));
		bench_work(&bench);
	}
	bench_tear_down(&bench);
}

Test(cut, a_packet_that_fits_the_mtu_now_leaves_whole)
{
	bench_set_up(&bench, &(struct bench_setting){.slot_bytes = 12000, .mtu = MTU, .at_once = true});
	bench_resolve(&bench, 0, 9000);
	bench_submit(&bench, 0, 1, 8972);
	bench_submit(&bench, 0, 1, 8973);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 2));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTS), 2));
	/* There is no memory for copies of longer frames. */
	bench_resolve(&bench, 0, 65535);
	bench_submit(&bench, 0, 1, 12000);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 3));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTS), 4));
	bench_tear_down(&bench);
}

Test(cut, a_packet_of_too_many_fragments_ends_alone_as_too_long)
{
	static const uint16_t most = 64 * 552 - 8; /* at MTU 576 */

	set_up(128, true);
	bench_resolve(&bench, 0, 576);
	bench_submit(&bench, 0, 1, most);
	bench_submit(&bench, 0, 1, most + 1);
	bench_submit(&bench, 0, 1, 100);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 0), 0));
	cr_expect(eq(i32, bench_status(&bench, 0, 1), -EMSGSIZE));
	cr_expect(eq(i32, bench_status(&bench, 0, 2), 0));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTS), 64));
	bench_resolve(&bench, 0, 27); /* no room for 8 bytes */
	bench_submit(&bench, 0, 1, 100);
	bench_work(&bench);
	cr_expect(eq(i32, bench_status(&bench, 0, 3), -EMSGSIZE));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_ERRORED), 2));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

/* ---- what is lost -------------------------------------------------------------------------------- */

Test(cut, a_packet_of_which_one_fragment_was_not_sent_is_an_error_as_a_whole)
{
	for (uint32_t lost = 0; lost < LONG_N; lost++) {
		set_up(0, false);
		bench_submit(&bench, 0, 3, LONG_BYTES);
		bench_round(&bench);
		cr_assert(eq(u32, scripted_send(bench.queues[0]->queue, LONG_N + lost), LONG_N + lost));
		scripted_next_status(bench.queues[0]->queue, BACKEND_SLOT_ERROR);
		scripted_send(bench.queues[0]->queue, 1);
		bench_work(&bench);
		bench_submit(&bench, 0, 1, LONG_BYTES);
		bench_work(&bench);
		scripted_send(bench.queues[0]->queue, 1000);
		bench_work(&bench);
		cr_expect(eq(i32, bench_status(&bench, 0, 0), 0));
		cr_expect(eq(i32, bench_status(&bench, 0, 1), -EIO));
		cr_expect(eq(i32, bench_status(&bench, 0, 2), -ECANCELED), "flushed with the queue");
		cr_expect(eq(i32, bench_status(&bench, 0, 3), 0));
		cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_ERRORED), 1));
		cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FLUSHED), 1));
		cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTS), 2 * LONG_N));
		bench_expect_sums(&bench, 0);
		bench_tear_down(&bench);
	}
}

Test(cut, a_packet_that_the_device_had_in_part_when_its_queue_failed_is_flushed_as_a_whole)
{
	for (uint32_t had = 1; had < LONG_N; had++) {
		set_up(0, false);
		bench_submit(&bench, 0, 1, LONG_BYTES);
		scripted_limit_post(bench.queues[0]->queue, had);
		bench_round(&bench);
		scripted_fail_queue(bench.queues[0]->queue);
		bench_work(&bench);
		scripted_send(bench.queues[0]->queue, 1000);
		bench_work(&bench);
		cr_expect(eq(i32, bench_status(&bench, 0, 0), -ECANCELED));
		cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FLUSHED), 1));
		cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_FRAGMENTED), 0));
		bench_submit(&bench, 0, 1, 100);
		bench_work(&bench);
		scripted_send(bench.queues[0]->queue, 1);
		bench_work(&bench);
		cr_expect(eq(i32, bench_status(&bench, 0, 1), 0), "and the next one is sent");
		bench_expect_sums(&bench, 0);
		bench_tear_down(&bench);
	}
}

/* ---- room, turns and rates ----------------------------------------------------------------------- */

Test(cut, a_packet_waits_until_the_queue_has_room_for_all_of_it)
{
	struct scripted_send_counts device;

	set_up(70, false);
	bench_submit(&bench, 0, 1, 65507); /* 45 fragments */
	bench_submit(&bench, 0, 1, 65507);
	bench_submit(&bench, 0, 1, 100);
	for (uint32_t sent = 0; sent < 20; sent++) {
		bench_work(&bench);
		scripted_send_counts(bench.queues[0]->queue, &device);
		cr_assert(eq(u64, device.posted, 45));
		scripted_send(bench.queues[0]->queue, 1);
	}
	bench_work(&bench);
	scripted_send_counts(bench.queues[0]->queue, &device);
	cr_assert(eq(u64, device.posted, 90));
	while (scripted_send(bench.queues[0]->queue, 7))
		bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 3));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

Test(cut, a_rate_counts_all_frames_of_a_packet_and_lets_it_leave_as_one)
{
	const uint64_t wire = LONG_BYTES + 8 + LONG_N * (IP_AT + 20 + 4);
	struct scripted_send_counts device;

	/* One packet a ms. */
	bench_set_up(&bench, &(struct bench_setting){.slot_bytes = LONG_BYTES,
	                                             .mtu = MTU,
	                                             .rate_bps = wire * 8 * 1000,
	                                             .burst_bytes = 1,
	                                             .at_once = true});
	bench_submit(&bench, 0, 100, LONG_BYTES);
	for (uint32_t ms = 0; ms < 50; ms++) {
		for (uint32_t part = 0; part < 10; part++) {
			bench_work(&bench);
			scripted_send_counts(bench.queues[0]->queue, &device);
			cr_assert(eq(u64, device.posted % LONG_N, 0));
			cr_assert(le(u64, device.posted / LONG_N, ms + 2));
			cr_assert(ge(u64, device.posted / LONG_N, ms));
			bench_pass(&bench, 100000);
		}
	}
	cr_expect(ge(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_PACED), 48));
	cr_expect(le(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_PACED), 51), "one a packet");
	bench_tear_down(&bench);
}

Test(cut, a_packet_with_a_time_leaves_then_and_is_timed_once)
{
	const struct ibvcap_tx_descriptor timed = {.length = LONG_BYTES, .not_before_ns = BENCH_UTC_NS + 1000000};

	set_up(0, true);
	test_sender_write(&bench.senders[0], timed);
	test_sender_submit(&bench.senders[0]);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 0));
	bench_pass(&bench, 1000500);
	bench_work(&bench);
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_COMPLETED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED), 1));
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED_LATENESS_NS), 500));
	bench_tear_down(&bench);
}

Test(cut, a_sender_of_long_packets_gets_as_many_bytes_as_one_of_whole_packets)
{
	uint64_t wire[2];

	bench_set_up(&bench,
	             &(struct bench_setting){
			     .slot_bytes = 65507, .mtu = MTU, .n_senders = 2, .queue_slots = 256, .at_once = true});
	for (int i = 0; i < 2000; i++) {
		for (uint32_t k = 0; k < 2; k++)
			while (test_sender_has_room(&bench.senders[k]))
				bench_submit(&bench, k, 1, k ? 1472 : 65507);
		bench_round(&bench);
	}
	for (uint32_t k = 0; k < 2; k++)
		wire[k] = test_sender_count(&bench.senders[k], IBVCAP_TX_COUNTER_WIRE_BYTES);
	cr_expect(lt(dbl, (double)wire[0], 1.02 * (double)wire[1]), "%lu %lu", wire[0], wire[1]);
	cr_expect(lt(dbl, (double)wire[1], 1.02 * (double)wire[0]), "%lu %lu", wire[0], wire[1]);
	bench_tear_down(&bench);
}
