// SPDX-License-Identifier: Apache-2.0
/* The worker against the scripted backend: what it makes of every kind of completion, and the sums. */
#include "daemon/worker/rx_loop.h"
#include "daemon/worker/rx_worker.h"

#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"
#include "daemon/control/rx_losses.h"
#include "tests/support/consumers.h"
#include "tests/support/frames.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/small_ring.h"

#include <ibvcap/ibvcap.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define N     64u
#define S     100u
#define SLOTS 128u

struct bench {
	struct backend *backend;
	struct backend_queue *queue;
	struct backend_flow *flow;
	struct rx_ring ring;
	struct worker *worker;
	struct rx_losses ledger;
};

struct setting {
	uint32_t header_bytes;
	bool no_sink;
	bool software_clock;
	bool kernel_times;
	bool no_flow;
	uint64_t spin_ns;
};

static void set_up(struct bench *bench, const struct setting *setting)
{
	struct rx_ring_options ring_options = small_ring();
	struct backend_queue_options queue_options;
	const struct backend_ops *ops = &scripted_backend_ops;

	ring_options.slot_bytes = S;
	ring_options.slots_per_block = N;
	ring_options.header_bytes = setting->header_bytes ? setting->header_bytes : 42;
	ring_options.posted_slots = SLOTS;
	queue_options = queue_for_ring(&ring_options);
	queue_options.oversize_sink = !setting->no_sink;
	queue_options.timestamps = queue_options.completion_events = true;
	cr_assert(eq(int, ops->open(NULL, &bench->backend, NULL), 0));
	cr_assert(eq(int, ops->create_queue(bench->backend, &queue_options, &bench->queue, NULL), 0));
	cr_assert(eq(int, rx_ring_init(&bench->ring, &ring_options, NULL), 0));
	const struct rx_worker_options rx_worker_options = {
		.worker.name = "test",
		.queue = bench->queue,
		.ring = &bench->ring,
		.worker.spin_ns = setting->spin_ns,
		.worker.cpu = -1,
		.device_timestamps = !setting->software_clock,
		.kernel_times = setting->kernel_times,
		.losses = &bench->ledger.sum.queues[0],
	};

	losses_init(&bench->ledger.sum, 1, SLOTS, false, false, LOSSES_DRAIN_NS_MIN);
	rx_losses_add_queue(&bench->ledger, 0, bench->ring.ring, &bench->queue->n_split);
	cr_assert(eq(int, rx_worker_new(&bench->worker, &rx_worker_options), 0));
	cr_assert(eq(int, rx_worker_prime(bench->worker), 0));
	cr_assert(eq(int, ops->start(bench->queue), 0));
	bench->flow = NULL;
	if (!setting->no_flow)
		cr_assert(eq(int, ops->add_flow(bench->queue, &(struct flow_rule){0}, &bench->flow, NULL), 0));
}

static void tear_down(struct bench *bench)
{
	if (bench->flow)
		scripted_backend_ops.remove_flow(bench->flow);
	rx_worker_free(bench->worker);
	rx_ring_deinit(&bench->ring);
	scripted_backend_ops.destroy_queue(bench->queue);
	scripted_backend_ops.close(bench->backend);
}

static uint64_t counter(struct bench *bench, enum ibvcap_rx_counter which)
{
	rx_losses_update(&bench->ledger);
	return counter_get(&bench->ring.ring->counters[which]);
}

static bool arrive(struct bench *bench, const struct frame_options *options, uint8_t seed)
{
	uint8_t frame[FRAME_BYTES_MAX];

	return scripted_arrive(bench->queue, frame, frame_build(options, seed, frame));
}

static void work(struct bench *bench)
{
	int n;

	while ((n = rx_worker_do_work(bench->worker)) > 0)
		;
	cr_assert(eq(int, n, 0));
}

/* Row of packet number sequence, by the shared tables only, as a consumer finds it. */
static const struct ibvcap_meta *row(const struct bench *bench, uint64_t sequence, const uint8_t **payload)
{
	const struct ibvcap_ring *ring = bench->ring.ring;
	uint32_t physical = consumer_load_table_at(ring_table(ring), bench->ring.table_mask, sequence / N);
	uint32_t index = (uint32_t)(sequence % N);

	*payload = (const uint8_t *)bench->ring.payload.address + physical * ring->block_bytes + (size_t)index * S;
	return &ring_meta(ring)[physical * N + index];
}

/* A reading of the flow counter, and long enough to settle the sum. */
static void settle(struct bench *bench)
{
	struct mail mail = {.type = MAIL_MATCHED, .at_ns = time_utc_ns()};

	bench->queue->ops->read_matched(bench->queue, &mail.matched);
	cr_assert(eq(int, mailbox_send(bench->worker->inbox, &mail), 0));
	work(bench);
	usleep(200);
	work(bench);
}

static void expect_sum(struct bench *bench)
{
	struct scripted_counts device;

	scripted_counts(bench->queue, &device);
	cr_expect(eq(u64, counter(bench, IBVCAP_RX_COUNTER_MATCHED), device.matched));
	cr_expect(eq(u64, counter(bench, IBVCAP_RX_COUNTER_NO_BUFFER), device.out_of_buffer));
	cr_expect(eq(u64, counter(bench, IBVCAP_RX_COUNTER_MATCHED),
	             counter(bench, IBVCAP_RX_COUNTER_PUBLISHED) + counter(bench, IBVCAP_RX_COUNTER_NO_BUFFER) +
	                     counter(bench, IBVCAP_RX_COUNTER_ERRORED)));
	cr_expect(eq(u64, consumer_load_head(bench->ring.ring),
	             counter(bench, IBVCAP_RX_COUNTER_PUBLISHED) + counter(bench, IBVCAP_RX_COUNTER_ERRORED)));
}

Test(worker, payloads_and_lengths_arrive_in_order)
{
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	for (uint32_t i = 0; i < 5000; i++) {
		cr_assert(arrive(&bench, &(struct frame_options){.payload_bytes = i % (S + 1)}, (uint8_t)i));
		if (i % 50 == 49)
			work(&bench);
		if (i % 50 != 49)
			continue;
		for (uint64_t sequence = i - 49; sequence <= i; sequence++) {
			const uint8_t *payload;
			const struct ibvcap_meta *meta = row(&bench, sequence, &payload);
			uint32_t length = (uint32_t)(sequence % (S + 1));

			cr_assert(eq(u32, meta->length, length));
			cr_assert(eq(u32, meta->wire_length, length));
			cr_assert(eq(u32, meta->flags, length < S ? IBVCAP_PACKET_FLAG_SHORT : 0));
			for (uint32_t b = 0; b < length; b++)
				cr_assert(eq(u8, payload[b], (uint8_t)(b + sequence)));
		}
	}
	settle(&bench);
	expect_sum(&bench);
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_PUBLISHED), 5000));
	tear_down(&bench);
}

Test(worker, a_starved_queue_drops_and_the_sum_says_how_many)
{
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < SLOTS + 100; i++)
			arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
		work(&bench);
	}
	settle(&bench);
	expect_sum(&bench);
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER), 2000));
	tear_down(&bench);
}

Test(worker, a_loss_is_in_the_ledger_with_the_time_of_the_reading)
{
	struct bench bench;
	struct mail mail = {.type = MAIL_MATCHED};
	struct ledger_entry entry;

	set_up(&bench, &(struct setting){0});
	for (uint32_t i = 0; i < SLOTS + 10; i++)
		arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
	for (uint64_t i = 1; i <= 2; i++) {
		work(&bench);
		mail.at_ns = i * 5000;
		mail.read_ns = time_monotonic_ns();
		bench.queue->ops->read_matched(bench.queue, &mail.matched);
		mailbox_send(bench.worker->inbox, &mail);
		for (unsigned n = 0; n < 4; n++) {
			work(&bench);
			usleep(1000);
		}
		rx_losses_update(&bench.ledger);
	}
	cr_assert(ledger_newest(&bench.ring.ring->ledger, &entry));
	cr_expect(eq(u64, entry.before.no_buffer, 10));
	cr_expect(eq(u64, entry.head, SLOTS));
	cr_expect(eq(u64, entry.read_utc_ns, 5000));
	cr_expect(eq(u64, entry.until_utc_ns, 10000));
	cr_expect(eq(u64, bench.ledger.sum.last.packets, 10));
	cr_expect(eq(u64, bench.ledger.sum.last.to_utc_ns, 5000));
	tear_down(&bench);
}

Test(worker, under_lasting_overload_the_sum_is_settled_up_to_one_queue)
{
	struct bench bench;
	struct mail mail = {.type = MAIL_MATCHED};

	set_up(&bench, &(struct setting){0});
	for (uint32_t round = 0; round < 1000; round++) {
		for (uint32_t i = 0; i < SLOTS + 100; i++)
			arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
		cr_assert(gt(int, rx_worker_do_work(bench.worker), 0));
	}
	bench.queue->ops->read_matched(bench.queue, &mail.matched);
	mailbox_send(bench.worker->inbox, &mail);
	rx_worker_do_work(bench.worker);
	struct scripted_counts device;

	scripted_counts(bench.queue, &device);
	cr_expect(ge(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER) + SLOTS, device.out_of_buffer));
	cr_expect(le(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER), device.out_of_buffer));
	work(&bench);
	settle(&bench);
	expect_sum(&bench);
	tear_down(&bench);
}

Test(worker, packets_still_in_the_device_are_in_flight_and_not_lost)
{
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	for (uint32_t i = 0; i < 100; i++)
		arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
	scripted_limit_visible(bench.queue, 40);
	struct mail mail = {.type = MAIL_MATCHED, .matched = 100};

	mailbox_send(bench.worker->inbox, &mail);
	rx_worker_do_work(bench.worker);
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_MATCHED), 100));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_PUBLISHED), 40));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER), 0));
	scripted_limit_visible(bench.queue, UINT32_MAX);
	work(&bench);
	settle(&bench);
	expect_sum(&bench);
	tear_down(&bench);
}

Test(worker, a_longer_packet_is_truncated_with_a_sink_and_an_error_without)
{
	struct bench bench;
	const uint8_t *payload;

	set_up(&bench, &(struct setting){0});
	arrive(&bench, &(struct frame_options){.payload_bytes = S + 1}, 0);
	work(&bench);
	const struct ibvcap_meta *meta = row(&bench, 0, &payload);

	cr_expect(eq(u32, meta->flags, IBVCAP_PACKET_FLAG_TRUNCATED));
	cr_expect(eq(u32, meta->length, S));
	cr_expect(eq(u32, meta->wire_length, S + 1));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_TRUNCATED), 1));
	settle(&bench);
	expect_sum(&bench);
	tear_down(&bench);

	set_up(&bench, &(struct setting){.no_sink = true});
	arrive(&bench, &(struct frame_options){.payload_bytes = S + 1}, 0);
	arrive(&bench, &(struct frame_options){.payload_bytes = S}, 7);
	work(&bench);
	meta = row(&bench, 0, &payload);
	cr_expect(eq(u32, meta->flags, IBVCAP_PACKET_FLAG_ERROR));
	cr_expect(eq(u32, meta->length, 0));
	meta = row(&bench, 1, &payload);
	cr_expect(eq(u32, meta->flags, 0));
	cr_expect(eq(u8, payload[0], 7));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_ERRORED), 1));
	settle(&bench);
	expect_sum(&bench);
	tear_down(&bench);
}

Test(worker, a_row_in_error_has_the_time_of_the_row_before)
{
	struct bench bench;
	struct mail mail = {.type = MAIL_CLOCK,
	                    .clock = {.base_raw = 0, .base_utc_ns = 1000, .mult = 1, .mask = UINT64_MAX}};
	const uint8_t *payload;
	uint64_t before = 0;

	set_up(&bench, &(struct setting){.no_sink = true});
	mailbox_send(bench.worker->inbox, &mail);
	work(&bench);
	for (uint64_t i = 0; i < 3 * N; i++) {
		/* In error: the very first row, the first of each block, the last of a poll, some in a row. */
		bool in_error = i % N == 0 || i % 10 > 6;

		scripted_set_clock(bench.queue, in_error ? (i % 2 ? UINT64_MAX / 2 : 0) : 10 * i, 0);
		arrive(&bench, &(struct frame_options){.payload_bytes = in_error ? S + 1 : S}, 0);
		if (i % 10 == 9)
			work(&bench);
	}
	work(&bench);
	for (uint64_t i = 0; i < 3 * N; i++) {
		const struct ibvcap_meta *meta = row(&bench, i, &payload);

		cr_expect(eq(u64, meta->timestamp_ns, meta->flags & IBVCAP_PACKET_FLAG_ERROR ? before : 1000 + 10 * i));
		before = meta->timestamp_ns;
	}
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_ERRORED), 59));
	tear_down(&bench);
}

static struct ibvcap_meta meta_of(struct bench *bench, const struct frame_options *options, const uint8_t **payload)
{
	uint64_t sequence = consumer_load_head(bench->ring.ring);

	cr_assert(arrive(bench, options, 3));
	work(bench);
	return *row(bench, sequence, payload);
}

Test(worker, irregular_headers_are_marked_and_the_payload_is_found_or_given_up)
{
	struct bench bench;
	const uint8_t *payload;

	set_up(&bench, &(struct setting){0});
	struct ibvcap_meta meta =
		meta_of(&bench, &(struct frame_options){.n_vlan_tags = 1, .payload_bytes = 50}, &payload);

	cr_expect(eq(u32, meta.flags, IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_SHORT));
	cr_expect(eq(u32, meta.header_length, 42 + 4));
	cr_expect(eq(u32, meta.length, 50));
	cr_expect(eq(u8, payload[4], 3));
	meta = meta_of(&bench, &(struct frame_options){.ip_option_bytes = 40, .payload_bytes = S - 40}, &payload);
	cr_expect(eq(u32, meta.flags, IBVCAP_PACKET_FLAG_IRREGULAR), "exactly fills its row");
	cr_expect(eq(u32, meta.header_length, 42 + 40));
	cr_expect(eq(u8, payload[40], 3));
	meta = meta_of(&bench, &(struct frame_options){.ip_option_bytes = 40, .payload_bytes = S}, &payload);
	cr_expect(eq(u32, meta.flags, IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_TRUNCATED));
	cr_expect(eq(u32, meta.length, S - 40));
	meta = meta_of(&bench, &(struct frame_options){.fragment = 0x2000, .payload_bytes = 64, .udp_length = 900},
	               &payload);
	cr_expect(eq(u32, meta.flags,
	             IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_FRAGMENT | IBVCAP_PACKET_FLAG_SHORT));
	cr_expect(eq(u32, meta.length, 64));
	cr_expect(eq(u32, meta.wire_length, 892), "of the whole datagram");
	cr_expect(eq(u32, meta.header_length, 42));
	meta = meta_of(&bench, &(struct frame_options){.fragment = 0x0004, .payload_bytes = 64}, &payload);
	cr_expect(eq(u32, meta.flags,
	             IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_FRAGMENT | IBVCAP_PACKET_FLAG_UNUSABLE));
	cr_expect(eq(u32, meta.length, 0));
	meta = meta_of(&bench, &(struct frame_options){.protocol = 6, .payload_bytes = 64}, &payload);
	cr_expect(eq(u32, meta.flags, IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_UNUSABLE));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_IRREGULAR), 6));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_FRAGMENTS), 2));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_FRAGMENT_LOST_BYTES), 892 - 64 + 64));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_TRUNCATED), 1), "a longer row would not help");
	settle(&bench);
	expect_sum(&bench);
	tear_down(&bench);
}

Test(worker, every_header_layout_has_its_plain_form)
{
	const struct {
		struct setting setting;
		struct frame_options frame;
	} layouts[] = {
		{{.header_bytes = 42}, {.payload_bytes = S}},
		{{.header_bytes = 46}, {.payload_bytes = S, .n_vlan_tags = 1}},
		{{.header_bytes = 62}, {.payload_bytes = S, .ipv6 = true}},
		{{.header_bytes = 66}, {.payload_bytes = S, .ipv6 = true, .n_vlan_tags = 1}},
	};

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		struct bench bench;
		const uint8_t *payload;

		set_up(&bench, &layouts[i].setting);
		struct ibvcap_meta meta = meta_of(&bench, &layouts[i].frame, &payload);

		cr_expect(eq(u32, meta.flags, 0), "layout %zu", i);
		cr_expect(eq(u32, meta.header_length, layouts[i].setting.header_bytes));
		cr_expect(eq(u8, payload[S - 1], (uint8_t)(S - 1 + 3)));
		tear_down(&bench);
	}
}

Test(worker, a_bad_checksum_is_marked_and_counted)
{
	struct bench bench;
	const uint8_t *payload;

	set_up(&bench, &(struct setting){0});
	scripted_set_flags(bench.queue, BACKEND_EVENT_CHECKSUM_BAD);
	struct ibvcap_meta meta = meta_of(&bench, &(struct frame_options){.payload_bytes = S}, &payload);

	cr_expect(eq(u32, meta.flags, IBVCAP_PACKET_FLAG_BAD_CHECKSUM));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_BAD_CHECKSUM), 1));
	tear_down(&bench);
}

Test(worker, a_failed_queue_is_reset_and_flushed_slots_are_not_rows)
{
	struct bench bench;
	const uint8_t *payload;

	set_up(&bench, &(struct setting){0});
	for (uint32_t i = 0; i < 10; i++)
		arrive(&bench, &(struct frame_options){.payload_bytes = S}, (uint8_t)i);
	scripted_fail_queue(bench.queue);
	work(&bench);
	cr_expect(eq(u64, consumer_load_head(bench.ring.ring), 10));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_QUEUE_RESETS), 1));
	for (uint32_t i = 10; i < 100; i++)
		cr_assert(arrive(&bench, &(struct frame_options){.payload_bytes = S}, (uint8_t)i));
	work(&bench);
	for (uint64_t sequence = 0; sequence < 100; sequence++) {
		row(&bench, sequence, &payload);
		cr_assert(eq(u8, payload[0], (uint8_t)sequence));
	}
	settle(&bench);
	expect_sum(&bench);
	tear_down(&bench);
}

Test(worker, packets_that_come_while_the_queue_has_failed_are_counted_as_lost)
{
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	scripted_fail_queue(bench.queue);
	for (uint32_t i = 0; i < 7; i++)
		cr_assert(not(arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0)));
	work(&bench);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert(arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0));
	work(&bench);
	settle(&bench);
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_MATCHED), 10));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_PUBLISHED), 3));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER), 7));
	tear_down(&bench);
}

/* Work until the queue was reset so often. */
static void work_until_reset(struct bench *bench, uint64_t n_resets)
{
	while (counter(bench, IBVCAP_RX_COUNTER_QUEUE_RESETS) < n_resets)
		cr_assert(ge(int, rx_worker_do_work(bench->worker), 0));
}

Test(worker, a_queue_that_fails_now_and_then_is_kept, .timeout = 60)
{
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	for (uint32_t i = 0; i < 8; i++) {
		cr_assert(arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0));
		scripted_fail_queue(bench.queue);
		work_until_reset(&bench, i + 1);
	}
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_PUBLISHED), 8));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_QUEUE_RESETS), 8));
	tear_down(&bench);
}

Test(worker, a_queue_that_cannot_be_reset_ends_the_worker)
{
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	scripted_fail_queue(bench.queue);
	scripted_fail_reset(bench.queue, -ENODEV);
	cr_expect(eq(int, rx_worker_do_work(bench.worker), -ENODEV));
	tear_down(&bench);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

Test(worker, a_queue_that_fails_at_each_packet_is_reset_ever_more_rarely_and_the_sum_is_exact, .timeout = 60)
{
	struct bench bench;
	uint64_t end_ns, arrived = 0;

	set_up(&bench, &(struct setting){0});
	end_ns = now_ns() + 300000000;
	while (now_ns() < end_ns) {
		scripted_next_status(bench.queue, BACKEND_SLOT_ERROR);
		if (arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0))
			scripted_fail_queue(bench.queue);
		arrived++;
		cr_assert(ge(int, rx_worker_do_work(bench.worker), 0));
	}
	/* At once, and after 1, 2, 4, ... 128 ms. */
	cr_expect(ge(u64, counter(&bench, IBVCAP_RX_COUNTER_QUEUE_RESETS), 2));
	cr_expect(le(u64, counter(&bench, IBVCAP_RX_COUNTER_QUEUE_RESETS), 9));
	settle(&bench);
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_MATCHED), arrived));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_PUBLISHED), 0));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_ERRORED) + counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER),
	             arrived));
	tear_down(&bench);
}

Test(worker, a_paused_worker_takes_mail_and_stops, .timeout = 60)
{
	const struct mail stop = {.type = MAIL_STOP};
	struct bench bench;
	struct mail mail = {0};

	set_up(&bench, &(struct setting){0});
	for (uint32_t i = 0; i < 6; i++) {
		scripted_fail_queue(bench.queue);
		work_until_reset(&bench, i + 1);
	}
	scripted_fail_queue(bench.queue);
	work(&bench);
	cr_assert(eq(int, mailbox_send(bench.worker->inbox, &stop), 0));
	work(&bench);
	usleep(3000);
	work(&bench);
	cr_expect(mailbox_receive(bench.worker->outbox, &mail));
	cr_expect(eq(int, (int)mail.type, MAIL_STOPPED));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_QUEUE_RESETS), 6));
	tear_down(&bench);
}

Test(worker, a_slot_out_of_order_is_refused)
{
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	for (uint32_t i = 0; i < 4; i++)
		arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
	scripted_swap_next(bench.queue);
	cr_expect(eq(int, rx_worker_do_work(bench.worker), -EPROTO));
	cr_expect(eq(u64, consumer_load_head(bench.ring.ring), 0));
	tear_down(&bench);
}

Test(worker, a_device_that_takes_part_of_a_chain_gets_the_rest_later)
{
	struct bench bench;
	const uint8_t *payload;

	set_up(&bench, &(struct setting){0});
	for (uint32_t round = 0; round < 50; round++) {
		scripted_limit_post(bench.queue, round % N);
		for (uint32_t i = 0; i < 40; i++)
			arrive(&bench, &(struct frame_options){.payload_bytes = S}, (uint8_t)(round * 40 + i));
		work(&bench);
	}
	uint64_t head = consumer_load_head(bench.ring.ring);

	for (uint64_t sequence = head - N; sequence < head; sequence++) {
		row(&bench, sequence, &payload);
		cr_assert(eq(u8, payload[1], (uint8_t)(payload[0] + 1)));
	}
	settle(&bench);
	expect_sum(&bench);
	tear_down(&bench);
}

Test(worker, device_time_becomes_utc_and_software_time_is_now)
{
	struct bench bench;
	const uint8_t *payload;

	set_up(&bench, &(struct setting){0});
	struct ibvcap_meta meta = meta_of(&bench, &(struct frame_options){.payload_bytes = S}, &payload);

	cr_expect(eq(u64, meta.timestamp_ns, 0), "no clock line yet");
	struct mail mail = {
		.type = MAIL_CLOCK,
		.clock = {.base_raw = 1000, .base_utc_ns = 5000000, .mult = 2, .shift = 0, .mask = UINT64_MAX}};

	mailbox_send(bench.worker->inbox, &mail);
	work(&bench);
	scripted_set_clock(bench.queue, 900, 1);
	meta = meta_of(&bench, &(struct frame_options){.payload_bytes = S}, &payload);
	cr_expect(eq(u64, meta.timestamp_ns, 4999800), "before the line's base");
	scripted_set_clock(bench.queue, 1100, 1);
	meta = meta_of(&bench, &(struct frame_options){.payload_bytes = S}, &payload);
	cr_expect(eq(u64, meta.timestamp_ns, 5000200));
	tear_down(&bench);

	set_up(&bench, &(struct setting){.software_clock = true});
	uint64_t before = time_utc_ns();

	meta = meta_of(&bench, &(struct frame_options){.payload_bytes = S}, &payload);
	cr_expect(ge(u64, meta.timestamp_ns, before));
	cr_expect(le(u64, meta.timestamp_ns, time_utc_ns()));
	tear_down(&bench);
}

static uint64_t time_of_next(struct bench *bench, const struct clock_line *line, uint64_t raw)
{
	const struct mail mail = {.type = MAIL_CLOCK, .clock = *line};
	const uint8_t *payload;

	mailbox_send(bench->worker->inbox, &mail);
	work(bench);
	scripted_set_clock(bench->queue, raw, 1);
	return meta_of(bench, &(struct frame_options){.payload_bytes = S}, &payload).timestamp_ns;
}

Test(worker, no_row_is_before_the_row_before_it_unless_utc_was_set_back)
{
	uint64_t now = time_utc_ns() / 1000000000 * 1000000000;
	struct clock_line line = {.base_utc_ns = now, .mult = 1, .mask = UINT64_MAX, .error_ns = 400};
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	cr_expect(eq(u64, time_of_next(&bench, &line, 1000), now + 1000));
	line.base_utc_ns -= 300; /* a renewal corrects the line */
	cr_expect(eq(u64, time_of_next(&bench, &line, 1100), now + 1000));
	cr_expect(eq(u64, time_of_next(&bench, &line, 1200), now + 1000));
	cr_expect(eq(u64, time_of_next(&bench, &line, 1400), now + 1100));
	cr_expect(eq(u64, time_of_next(&bench, &line, 1350), now + 1100), "nor in the middle of a line");
	line.base_utc_ns += UINT64_C(3600000000000); /* UTC was wrong by an hour, and is set back */
	cr_expect(eq(u64, time_of_next(&bench, &line, 2000), line.base_utc_ns + 2000));
	line.base_utc_ns -= UINT64_C(3600000000000);
	now = time_of_next(&bench, &line, 2100);
	cr_expect(le(u64, now, time_utc_ns()));
	tear_down(&bench);
}

Test(worker, after_a_step_of_a_card_that_has_real_time_only_rows_get_the_time_of_the_poll)
{
	static const int64_t steps_s[] = {-10, 37};
	const uint64_t ns_per_s = 1000000000, now = UINT64_C(1700000000) * ns_per_s; /* years before the poll */
	struct clock_fit fit;
	struct mail mail = {.type = MAIL_CLOCK};
	const uint8_t *payload;
	struct bench bench;

	clock_fit_init(&fit, ns_per_s, UINT64_MAX);
	fit.can_step = true;
	clock_fit_add(&fit, &(struct clock_pair){now, now, now}, &mail.clock);
	for (size_t i = 0; i < 2; i++) {
		uint64_t before = time_utc_ns();

		set_up(&bench, &(struct setting){0});
		mailbox_send(bench.worker->inbox, &mail);
		work(&bench);
		scripted_set_clock(bench.queue, now + 1000, 1);
		struct ibvcap_meta meta = meta_of(&bench, &(struct frame_options){.payload_bytes = S}, &payload);

		cr_expect(le(u64, meta.timestamp_ns - (now + 999), 2));
		scripted_set_clock(bench.queue, now + (uint64_t)steps_s[i] * ns_per_s, 1);
		meta = meta_of(&bench, &(struct frame_options){.payload_bytes = S}, &payload);
		cr_expect(ge(u64, meta.timestamp_ns, before));
		cr_expect(le(u64, meta.timestamp_ns, time_utc_ns()));
		tear_down(&bench);
	}
}

/* The control thread has renewed the line when the worker goes on. */
Test(worker, packets_that_waited_for_a_worker_that_stood_still_have_their_own_times)
{
	const uint64_t hz = 156250000, pair_utc_ns = UINT64_C(1700000000) * 1000000000, pair_raw = UINT64_C(1) << 50;
	static const uint64_t steps[] = {0, 1, 156250000 / 2}; /* 0: the batch is before the base as a whole */
	struct mail mail = {.type = MAIL_CLOCK};
	struct clock_fit fit;

	clock_fit_init(&fit, hz, UINT64_MAX);
	clock_fit_add(&fit, &(struct clock_pair){pair_raw, pair_utc_ns, pair_utc_ns}, &mail.clock);
	for (size_t i = 0; i < 3; i++)
		for (uint64_t waited_s = 3; waited_s < 3000; waited_s *= 10) {
			uint64_t raw = pair_raw - waited_s * hz, ns = pair_utc_ns - waited_s * 1000000000;
			const uint8_t *payload;
			struct bench bench;

			set_up(&bench, &(struct setting){0});
			mailbox_send(bench.worker->inbox, &mail);
			work(&bench);
			scripted_set_clock(bench.queue, raw, steps[i]);
			for (int n = 0; n < 10; n++)
				cr_assert(arrive(&bench, &(struct frame_options){.payload_bytes = S}, 3));
			work(&bench);
			for (uint64_t n = 0; n < 10; n++) {
				uint64_t due_ns = ns + n * steps[i] * 1000000000 / hz;
				struct ibvcap_meta meta = *row(&bench, n, &payload);

				cr_expect(le(u64, meta.timestamp_ns - due_ns + 1000, 2000),
				          "row %llu after %llu s: %lld ns", (unsigned long long)n,
				          (unsigned long long)waited_s, (long long)(meta.timestamp_ns - due_ns));
			}
			tear_down(&bench);
		}
}

Test(worker, a_packet_without_the_devices_time_has_the_kernels_and_says_so)
{
	const uint64_t now = UINT64_C(1700000000) * 1000000000;
	const struct mail mail = {.type = MAIL_CLOCK,
	                          .clock = {.base_raw = 1000,
	                                    .base_utc_ns = now,
	                                    .mult = 1,
	                                    .mask = UINT64_MAX,
	                                    .reach = 1000000,
	                                    .can_step = true}};
	const struct frame_options options = {.payload_bytes = S};
	const uint8_t *payload;
	struct bench bench;
	struct ibvcap_meta meta;
	uint64_t before;

	set_up(&bench, &(struct setting){.kernel_times = true});
	mailbox_send(bench.worker->inbox, &mail);
	work(&bench);
	scripted_set_clock(bench.queue, 3000, 1);
	meta = meta_of(&bench, &options, &payload);
	cr_expect(eq(u64, meta.timestamp_ns, now + 2000));
	cr_expect(eq(u32, meta.flags, 0));
	scripted_set_clock(bench.queue, now + 5000, 1);
	scripted_set_flags(bench.queue, BACKEND_EVENT_KERNEL_TIME);
	meta = meta_of(&bench, &options, &payload);
	cr_expect(eq(u64, meta.timestamp_ns, now + 5000));
	cr_expect(eq(u32, meta.flags, IBVCAP_PACKET_FLAG_KERNEL_TIME));
	/* The card's clock was stepped, or has gone. */
	scripted_set_clock(bench.queue, now, 1);
	scripted_set_flags(bench.queue, 0);
	before = time_utc_ns();
	meta = meta_of(&bench, &options, &payload);
	cr_expect(ge(u64, meta.timestamp_ns, before));
	cr_expect(le(u64, meta.timestamp_ns, time_utc_ns()));
	cr_expect(eq(u32, meta.flags, IBVCAP_PACKET_FLAG_KERNEL_TIME));
	tear_down(&bench);
}

static struct mail expect_answer(struct bench *bench, enum mail_type type)
{
	struct mail mail = {0};

	work(bench);
	cr_assert(mailbox_receive(bench->worker->outbox, &mail));
	cr_assert(eq(int, mail.type, type));
	return mail;
}

Test(worker, consumers_come_and_go_by_mail)
{
	struct bench bench;
	struct ring_consumer consumer;

	set_up(&bench, &(struct setting){0});
	cr_assert(eq(int, test_consumer_init(&consumer, 2), 0));
	for (uint32_t i = 0; i < 10; i++)
		arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
	work(&bench);
	mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_ADD_CONSUMER, .consumer = &consumer});
	struct mail mail = expect_answer(&bench, MAIL_CONSUMER_ADDED);

	cr_expect(eq(ptr, mail.consumer, &consumer));
	cr_expect(eq(int, mail.error, 0));
	cr_expect(eq(u64, consumer.attach_sequence, 10));
	mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_REMOVE_CONSUMER, .consumer = &consumer});
	mail = expect_answer(&bench, MAIL_CONSUMER_REMOVED);
	cr_expect(eq(ptr, mail.consumer, &consumer));
	test_consumer_deinit(&consumer);
	tear_down(&bench);
}

Test(worker, a_lying_consumer_is_put_out_and_control_is_told)
{
	struct bench bench;
	struct ring_consumer consumer;
	struct mail mail = {0};

	set_up(&bench, &(struct setting){0});
	cr_assert(eq(int, test_consumer_init(&consumer, 2), 0));
	mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_ADD_CONSUMER, .consumer = &consumer});
	expect_answer(&bench, MAIL_CONSUMER_ADDED);
	atomic_store(&consumer.page->leases[0], UINT64_C(1) << 40);
	for (uint32_t i = 0; i < 20 * N; i++) {
		cr_assert(arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0));
		work(&bench);
	}
	cr_assert(mailbox_receive(bench.worker->outbox, &mail));
	cr_expect(eq(int, mail.type, MAIL_CONSUMER_BAD));
	cr_expect(eq(u32, mail.reason, IBVCAP_DISCONNECT_BAD_CURSOR));
	cr_expect(eq(ptr, mail.consumer, &consumer));
	cr_expect(not(mailbox_receive(bench.worker->outbox, &mail)));
	test_consumer_deinit(&consumer);
	tear_down(&bench);
}

static void add_lossless(struct bench *bench, struct ring_consumer *consumer, uint64_t deadline_ns)
{
	cr_assert(eq(int, test_consumer_init(consumer, 2), 0));
	consumer->policy = IBVCAP_POLICY_LOSSLESS;
	consumer->deadline_ns = deadline_ns;
	daemon_store_policy(consumer->state, IBVCAP_POLICY_LOSSLESS);
	mailbox_send(bench->worker->inbox, &(struct mail){.type = MAIL_ADD_CONSUMER, .consumer = consumer});
	expect_answer(bench, MAIL_CONSUMER_ADDED);
}

Test(worker, while_a_lossless_consumer_pins_all_packets_have_no_buffer_and_the_sum_says_so)
{
	struct bench bench;
	struct ring_consumer consumer;
	uint64_t rows;

	set_up(&bench, &(struct setting){0});
	add_lossless(&bench, &consumer, UINT64_MAX);
	for (uint32_t i = 0; i < 2000; i++) {
		arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
		work(&bench);
	}
	rows = counter(&bench, IBVCAP_RX_COUNTER_PUBLISHED);
	cr_expect(eq(u64, rows, (4 + SLOTS / N + 1) * N), "all there is room for");
	settle(&bench);
	expect_sum(&bench);
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER), 2000 - rows));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS), 2000 - rows));
	cr_expect(consumer.budget->stalls);
	cr_expect(consumer.has_stalled);
	consumer_store_delivered(consumer.page, rows);
	work(&bench);
	cr_expect(not(consumer.budget->stalls), "not charged any more");
	cr_assert(arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0));
	work(&bench);
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_PUBLISHED), rows + 1));
	settle(&bench);
	expect_sum(&bench);
	test_consumer_deinit(&consumer);
	tear_down(&bench);
}

/* The loss is known only with a reading that is taken later; the next loss is not the consumer's any more. */
Test(worker, what_a_lossless_consumer_cost_stays_counted_when_it_has_left)
{
	struct bench bench;
	struct ring_consumer consumer;

	set_up(&bench, &(struct setting){0});
	add_lossless(&bench, &consumer, UINT64_MAX);
	settle(&bench);
	for (uint32_t i = 0; i < 2000; i++) {
		arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
		work(&bench);
	}
	mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_REMOVE_CONSUMER, .consumer = &consumer});
	expect_answer(&bench, MAIL_CONSUMER_REMOVED);
	settle(&bench);
	uint64_t lost = counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER);

	cr_expect(gt(u64, lost, 1000));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS), lost));
	for (uint32_t i = 0; i < SLOTS + 100; i++)
		arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
	work(&bench);
	settle(&bench);
	expect_sum(&bench);
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER), lost + 100));
	cr_expect(eq(u64, counter(&bench, IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS), lost));
	test_consumer_deinit(&consumer);
	tear_down(&bench);
}

Test(worker, a_lossless_consumer_that_is_too_slow_is_demoted_and_control_is_told)
{
	struct bench bench;
	struct ring_consumer consumer;
	struct mail mail = {0};

	set_up(&bench, &(struct setting){0});
	add_lossless(&bench, &consumer, 20000000);
	while (arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0))
		work(&bench);
	while (!mailbox_receive(bench.worker->outbox, &mail)) {
		work(&bench);
		usleep(1000);
	}
	cr_expect(eq(int, mail.type, MAIL_CONSUMER_DEMOTED));
	cr_expect(eq(ptr, mail.consumer, &consumer));
	work(&bench);
	cr_expect(arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0), "posted again");
	test_consumer_deinit(&consumer);
	tear_down(&bench);
}

/* ---- as a thread --------------------------------------------------------------------------------- */

static void await_answer(struct bench *bench, enum mail_type type)
{
	struct mail mail = {0};

	for (int i = 0; i < 5000 && !mailbox_receive(bench->worker->outbox, &mail); i++)
		usleep(1000);
	cr_assert(eq(int, mail.type, type));
}

Test(worker, packets_that_came_before_the_thread_ran_have_the_devices_time, .timeout = 60)
{
	const struct mail clock = {.type = MAIL_CLOCK,
	                           .clock = {.base_utc_ns = 5000000, .mult = 1, .mask = UINT64_MAX}};
	struct bench bench;
	const uint8_t *payload;

	set_up(&bench, &(struct setting){0});
	mailbox_send(bench.worker->inbox, &clock);
	arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
	cr_assert(eq(int, rx_loop_start(bench.worker), 0));
	for (int i = 0; i < 5000 && consumer_load_head(bench.ring.ring) == 0; i++)
		usleep(1000);
	cr_assert(eq(u64, consumer_load_head(bench.ring.ring), 1));
	cr_expect(ge(u64, row(&bench, 0, &payload)->timestamp_ns, clock.clock.base_utc_ns));
	mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_STOP});
	await_answer(&bench, MAIL_STOPPED);
	worker_join(bench.worker);
	tear_down(&bench);
}

Test(worker, each_idle_policy_starts_answers_drains_and_stops, .timeout = 60)
{
	const uint64_t policies[] = {0, 50000, WORKER_SPIN_FOREVER};

	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		struct bench bench;
		struct ring_consumer consumer;

		set_up(&bench, &(struct setting){.spin_ns = policies[i]});
		cr_assert(eq(int, test_consumer_init(&consumer, 2), 0));
		for (uint32_t packet = 0; packet < 100; packet++)
			arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0);
		cr_assert(eq(int, rx_loop_start(bench.worker), 0));
		usleep(20000);
		mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_ADD_CONSUMER, .consumer = &consumer});
		await_answer(&bench, MAIL_CONSUMER_ADDED);
		mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_MATCHED, .matched = 100});
		mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_STOP});
		await_answer(&bench, MAIL_STOPPED);
		worker_join(bench.worker);
		cr_expect(bench.worker->stopped);
		cr_expect(eq(u64, consumer_load_head(bench.ring.ring), 100));
		expect_sum(&bench);
		test_consumer_deinit(&consumer);
		tear_down(&bench);
	}
}

Test(worker, it_makes_a_round_when_it_is_asked_and_is_not_missed_once_it_ends, .timeout = 60)
{
	const uint64_t policies[] = {0, WORKER_SPIN_FOREVER};

	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		struct heartbeats list = LIST_HEAD_INITIALIZER(list);
		struct bench bench;

		set_up(&bench, &(struct setting){.spin_ns = policies[i]});
		cr_assert(eq(int, rx_loop_start(bench.worker), 0));
		heartbeat_watch(&list, &bench.worker->heartbeat, "it");
		for (int look = 0; look < 5; look++) {
			usleep(20000); /* asleep */
			while (heartbeat_find_stopped(&list))
				usleep(100);
		}
		mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_STOP});
		await_answer(&bench, MAIL_STOPPED);
		usleep(20000);
		for (int look = 0; look < 3; look++)
			cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), NULL));
		worker_join(bench.worker);
		cr_expect(eq(ptr, LIST_FIRST(&list), NULL));
		tear_down(&bench);
	}
}

/* Nothing arrives and nobody sends mail: it has to look by itself. */
Test(worker, a_sleeping_worker_finds_what_a_lossless_consumer_acquired, .timeout = 60)
{
	struct bench bench;
	struct ring_consumer consumer;

	set_up(&bench, &(struct setting){.spin_ns = 0});
	add_lossless(&bench, &consumer, UINT64_MAX);
	while (arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0))
		work(&bench);
	cr_assert(eq(int, rx_loop_start(bench.worker), 0));
	usleep(20000);
	uint64_t posted = counter(&bench, IBVCAP_RX_COUNTER_POSTED);

	consumer_store_delivered(consumer.page, consumer_load_head(bench.ring.ring));
	while (counter(&bench, IBVCAP_RX_COUNTER_POSTED) == posted)
		usleep(100);
	mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_STOP});
	await_answer(&bench, MAIL_STOPPED);
	worker_join(bench.worker);
	test_consumer_deinit(&consumer);
	tear_down(&bench);
}

Test(worker, a_thread_whose_queue_is_lost_says_failed_and_ends, .timeout = 60)
{
	struct bench bench;

	set_up(&bench, &(struct setting){0});
	scripted_fail_queue(bench.queue);
	scripted_fail_reset(bench.queue, -ENODEV);
	cr_assert(eq(int, rx_loop_start(bench.worker), 0));
	await_answer(&bench, MAIL_FAILED);
	worker_join(bench.worker);
	cr_expect(bench.worker->stopped);
	tear_down(&bench);
}

/* Polls until the doorbell rings for who asked; one packet waits at each, if packets is set. */
static uint32_t polls_until_rung(bool packets)
{
	struct bench bench;
	struct ring_consumer consumer;
	struct pollfd poller = {.events = POLLIN};
	uint32_t n = 0;

	set_up(&bench, &(struct setting){0});
	poller.fd = bench.ring.doorbell;
	cr_assert(eq(int, test_consumer_init(&consumer, 1), 0));
	cr_assert(eq(int, rx_ring_add_consumer(&bench.ring, &consumer), 0));
	client_request_wake(&consumer.page->wake, 1, true);
	do {
		if (packets || n == 0)
			cr_assert(arrive(&bench, &(struct frame_options){.payload_bytes = S}, 0));
		cr_assert(ge(int, rx_worker_do_work(bench.worker), 0));
	} while (++n < 1000 && poll(&poller, 1, 0) == 0);
	test_consumer_deinit(&consumer);
	tear_down(&bench);
	return n;
}

Test(worker, who_sleeps_is_looked_for_when_nothing_waits_and_now_and_then)
{
	cr_expect(eq(u32, polls_until_rung(false), 2), "the first poll that finds nothing");
	cr_expect(eq(u32, polls_until_rung(true), 16));
}
