// SPDX-License-Identifier: Apache-2.0
/* A tracker on the batches of a handle: what it reads, what it says of each row, and what the daemon sees of it. */
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/track/tracker.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

/* attached_publish() writes the packet number in host order, and no headers. */
static const struct ibvcap_sequence in_payload = {.bytes = 4,
                                                  .little_endian = 1,
                                                  .source = IBVCAP_SOURCE_NONE,
                                                  .step = 1,
                                                  .upper_step = 1,
                                                  .window = 64,
                                                  .jump = 50};

static struct attached attached;
static struct ibvcap_tracker *tracker;
static struct ibvcap_tracked tracked[N];

static void setup(void)
{
	attached_init(&attached);
	attached.rx->parts[0]->sequence = in_payload;
	cr_assert(eq(int, ibvcap_tracker_new(&in_payload, NULL, &tracker), 0), "%s", ibvcap_error_text());
}

static void teardown(void)
{
	ibvcap_tracker_free(tracker);
	attached_deinit(&attached);
}

TestSuite(rx_track, .init = setup, .fini = teardown);

static struct ibvcap_rx_batch track(uint32_t max)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

	cr_assert(gt(int, ibvcap_rx_acquire(attached.rx, &batch, max, 1, 0), 0));
	cr_assert(eq(int, ibvcap_rx_track(attached.rx, &batch, tracker, tracked), 0), "%s", ibvcap_error_text());
	cr_assert(eq(int, ibvcap_rx_release(attached.rx, &batch), 0));
	return batch;
}

static struct ibvcap_tracker_counts counts_now(void)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	cr_assert(eq(int, ibvcap_tracker_counts(tracker, &counts), 0));
	return counts;
}

static uint64_t page_says(enum ibvcap_tracked_counter counter)
{
	return daemon_load_tracked(attached.consumer.page, counter);
}

Test(rx_track, all_in_order_is_complete_and_in_the_page)
{
	attached_publish(&attached, 100);
	for (uint64_t next = 0; next < 100;) {
		struct ibvcap_rx_batch batch = track(30);

		for (uint32_t i = 0; i < batch.n; i++, next++) {
			cr_expect(eq(u64, tracked[i].number, next));
			cr_expect(eq(u32, tracked[i].kind, IBVCAP_TRACKED_IN_ORDER));
			cr_expect(eq(u32, tracked[i].source, 0));
		}
	}
	cr_expect(eq(u64, counts_now().numbers.arrived, 100));
	cr_expect(eq(u64, counts_now().numbers.lost, 0));
	cr_expect(eq(u64, page_says(IBVCAP_TRACKED_COUNTER_SOURCES), 1));
	cr_expect(eq(u64, page_says(IBVCAP_TRACKED_COUNTER_ONCE), 100));
}

/* More than a jump, which is no restart since the consumer knows that it skipped them. */
Test(rx_track, what_the_consumer_skipped_is_lost_after_the_card)
{
	attached_publish(&attached, 10);
	track(10);
	attached_publish(&attached, 20 * N);
	uint64_t gap = track(N).gap;

	cr_assert(gt(u64, gap, in_payload.jump));
	cr_expect(eq(u32, tracked[0].kind, IBVCAP_TRACKED_AFTER_LOSS));
	cr_expect(eq(u64, counts_now().numbers.lost, gap));
	cr_expect(eq(u64, counts_now().lost_after_card, gap));
	cr_expect(eq(u64, counts_now().lost_before_card, 0));
	cr_expect(eq(u64, counts_now().numbers.restarted, 0));
	cr_expect(eq(u64, page_says(IBVCAP_TRACKED_COUNTER_SKIPPED), gap));
	cr_expect(eq(u64, page_says(IBVCAP_TRACKED_COUNTER_LOST), gap));
}

Test(rx_track, rows_in_error_are_unread_and_explain_their_numbers)
{
	struct rx_span span;

	attached_publish(&attached, 3);
	rx_ring_post_span(&attached.ring, 1, &span);
	*span.meta = (struct ibvcap_meta){.flags = IBVCAP_PACKET_FLAG_ERROR};
	rx_ring_publish(&attached.ring, 1);
	attached_publish(&attached, 3);
	track(N);
	cr_expect(eq(u32, tracked[3].kind, IBVCAP_TRACKED_UNREAD));
	cr_expect(eq(u64, counts_now().unread, 1));
	cr_expect(eq(u64, counts_now().numbers.lost, 1));
	cr_expect(eq(u64, counts_now().lost_unread, 1));
	cr_expect(eq(u64, counts_now().packets, 7));
}

Test(rx_track, a_batch_that_is_not_held_and_another_description_are_refused)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

	attached_publish(&attached, 3);
	cr_assert(eq(int, ibvcap_rx_acquire(attached.rx, &batch, 3, 1, 0), 3));
	attached.rx->parts[0]->sequence.offset = 1;
	cr_expect(eq(int, ibvcap_rx_track(attached.rx, &batch, tracker, NULL), -ESTALE));
	attached.rx->parts[0]->sequence.offset = 0;
	cr_assert(eq(int, ibvcap_rx_release(attached.rx, &batch), 0));
	cr_expect(eq(int, ibvcap_rx_track(attached.rx, &batch, tracker, NULL), -EINVAL));
	cr_expect(eq(u64, counts_now().packets, 0));
}

Test(rx_track, a_stream_without_a_description_says_so)
{
	struct ibvcap_sequence sequence;

	cr_expect(eq(int, ibvcap_rx_sequence(attached.rx, &sequence), 1));
	cr_expect(eq(u32, sequence.window, 64));
	attached.rx->parts[0]->sequence = (struct ibvcap_sequence){0};
	cr_expect(eq(int, ibvcap_rx_sequence(attached.rx, &sequence), 0));
	cr_expect(eq(int, ibvcap_tracker_new(&sequence, NULL, &tracker), -EINVAL));
}

/* ---- sources ------------------------------------------------------------------------------------- */

/* An Ethernet frame with a VLAN tag, IPv4 and UDP, split behind the headers, or elsewhere. */
static void add_frame(struct ibvcap_tracker *to, uint8_t host, uint16_t port, uint8_t number, uint32_t split)
{
	uint8_t frame[64] = {[12] = 0x81, [16] = 0x08, [18] = 0x45, [27] = IPPROTO_UDP};
	struct ibvcap_packet packet = {.headers = frame,
	                               .row = frame + split,
	                               .header_bytes = split,
	                               .row_bytes = sizeof(frame) - split,
	                               .payload_at = 46,
	                               .has_headers = true};

	frame[30] = 10;
	frame[33] = host;
	frame[38] = (uint8_t)(port >> 8);
	frame[39] = (uint8_t)port;
	frame[46 + 3] = number;
	cr_assert(eq(int, ibvcap_tracker_add(to, &packet, NULL), 0));
}

static uint32_t count_sources(uint8_t source, uint32_t max_sources, struct ibvcap_tracker_counts *counts)
{
	const struct ibvcap_tracker_options options = {.size = sizeof(options), .max_sources = max_sources};
	struct ibvcap_sequence sequence = in_payload;
	struct ibvcap_tracker *by;

	sequence.source = source;
	sequence.little_endian = 0;
	cr_assert(eq(int, ibvcap_tracker_new(&sequence, &options, &by), 0));
	for (uint8_t i = 0; i < 50; i++)
		for (uint8_t host = 1; host <= 4; host++)
			for (uint16_t port = 1000; port < 1003; port++)
				add_frame(by, host, port, i, 40u + i % 12);
	*counts = (struct ibvcap_tracker_counts)IBVCAP_INIT(struct ibvcap_tracker_counts);
	cr_assert(eq(int, ibvcap_tracker_counts(by, counts), 0));
	ibvcap_tracker_free(by);
	return counts->n_sources;
}

Test(rx_track, sources_are_told_apart_as_described_wherever_the_row_is_split)
{
	struct ibvcap_tracker_counts counts;

	cr_expect(eq(u32, count_sources(IBVCAP_SOURCE_FLOW, 0, &counts), 12));
	cr_expect(eq(u64, counts.numbers.once, 600));
	cr_expect(eq(u64, counts.numbers.repeated + counts.numbers.lost + counts.unread, 0));
	cr_expect(eq(u32, count_sources(IBVCAP_SOURCE_PORT, 0, &counts), 12));
	cr_expect(eq(u32, count_sources(IBVCAP_SOURCE_ADDRESS, 0, &counts), 4));
	cr_expect(eq(u64, counts.numbers.once, 200));
	cr_expect(eq(u64, counts.numbers.repeated, 400));
	cr_expect(eq(u32, count_sources(IBVCAP_SOURCE_NONE, 0, &counts), 1));
	cr_expect(eq(u64, counts.numbers.once, 50));
}

static uint32_t longest_run(const struct ibvcap_tracker *of)
{
	uint32_t run = 0, longest = 0;

	for (uint32_t i = 0; i <= of->table.slots_mask; i++) {
		run = of->table.slots[i] ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

Test(rx_track, neighbours_and_sources_that_a_sender_chooses_do_not_share_a_place)
{
	struct ibvcap_sequence sequence = in_payload;
	struct ibvcap_tracker *one, *other;

	sequence.source = IBVCAP_SOURCE_ADDRESS;
	cr_assert(eq(int, ibvcap_tracker_new(&sequence, NULL, &one), 0));
	cr_assert(eq(int, ibvcap_tracker_new(&sequence, NULL, &other), 0));
	for (uint8_t host = 1; host < 200; host++) {
		add_frame(one, host, 1000, 0, 40);
		add_frame(other, host, 1000, 0, 40);
	}
	cr_assert(eq(u32, one->table.slots_mask, 511));
	/* Without a hash all 199 would be neighbours. The hash's secret is random: 117 was seen once in 260 runs. */
	cr_expect(lt(u32, longest_run(one), 160));
	cr_expect(ne(int, memcmp(one->table.slots, other->table.slots, 512 * sizeof(*one->table.slots)), 0),
	          "the hash has no secret");
	ibvcap_tracker_free(one);
	ibvcap_tracker_free(other);
}

Test(rx_track, sources_without_room_are_untracked)
{
	struct ibvcap_tracker_counts counts;

	cr_expect(eq(u32, count_sources(IBVCAP_SOURCE_FLOW, 5, &counts), 5));
	cr_expect(eq(u64, counts.numbers.once, 250));
	cr_expect(eq(u64, counts.untracked, 350));
	cr_expect(eq(u64, counts.packets, 600));
}

Test(rx_track, a_packet_without_headers_is_refused_where_they_tell_sources_apart)
{
	const uint8_t payload[4] = {7};
	const struct ibvcap_packet packet = {.row = payload, .row_bytes = sizeof(payload)};
	const struct ibvcap_packet cut = {.row = payload, .row_bytes = 3};
	struct ibvcap_sequence sequence = in_payload;
	struct ibvcap_tracker *by;

	cr_expect(eq(int, ibvcap_tracker_add(tracker, &packet, tracked), 0));
	cr_expect(eq(u64, tracked[0].number, 7));
	cr_expect(eq(int, ibvcap_tracker_add(tracker, &cut, tracked), 0));
	cr_expect(eq(u32, tracked[0].kind, IBVCAP_TRACKED_UNREAD));
	sequence.source = IBVCAP_SOURCE_ADDRESS;
	cr_assert(eq(int, ibvcap_tracker_new(&sequence, NULL, &by), 0));
	cr_expect(eq(int, ibvcap_tracker_add(by, &packet, tracked), -EINVAL));
	ibvcap_tracker_free(by);
}

/* ---- what the card had no row for ---------------------------------------------------------------- */

Test(rx_track, losses_of_the_card_are_those_between_its_blocks)
{
	attached_settle(&attached, 7, 1000, 1000); /* before the tracker's first packet */
	attached_publish(&attached, N);
	track(N);
	cr_expect(eq(u64, counts_now().lost_in_card, 0));
	/* The card drops 20, and the network 5: the numbers go on behind them. */
	attached_settle(&attached, 27, 2000, 2000);
	attached.numbers_ahead = 25;
	attached_publish(&attached, 10);
	track(N);
	cr_expect(eq(u64, counts_now().numbers.lost, 25));
	cr_expect(eq(u64, counts_now().lost_in_card, 20));
	cr_expect(eq(u64, counts_now().lost_before_card, 5));
	cr_expect(eq(u64, page_says(IBVCAP_TRACKED_COUNTER_NO_BUFFER), 20));
}

/* The rings of all queues have the counter of the stream; the handle of these tests is one queue and the other. */
Test(rx_track, losses_of_the_card_count_once_however_many_queues_say_them)
{
	for (uint32_t queue = 0; queue < 2; queue++) {
		attached.rx->parts[0]->info.queue = queue;
		attached_settle(&attached, 7, 1000, 1000);
		attached_publish(&attached, N);
		track(N);
	}
	for (uint32_t queue = 0; queue < 2; queue++) {
		attached.rx->parts[0]->info.queue = queue;
		attached_settle(&attached, 27, 2000, 2000);
		attached_publish(&attached, N);
		track(N);
	}
	cr_expect(eq(u64, page_says(IBVCAP_TRACKED_COUNTER_NO_BUFFER), 20));
}

Test(rx_track, a_queue_that_is_behind_in_the_old_epoch_does_not_begin_another)
{
	static const uint64_t epochs[] = {EPOCH, EPOCH + 1, EPOCH, EPOCH + 1};

	for (uint32_t i = 0; i < 4; i++) {
		attached.rx->parts[0]->info.epoch = epochs[i];
		attached_settle(&attached, 7, 1000, 1000);
		attached_publish(&attached, N);
		track(N);
	}
	cr_expect(eq(u64, page_says(IBVCAP_TRACKED_COUNTER_NO_BUFFER), 7), "of the second epoch");
}
