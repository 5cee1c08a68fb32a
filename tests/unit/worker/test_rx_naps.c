// SPDX-License-Identifier: Apache-2.0
/*
 * When a worker naps in place of waiting for the next packet. Its device is the scripted one, at which a timer makes
 * packets arrive: the worker's own thread takes them in, and the timer is the descriptor on which it sleeps.
 */
#include "daemon/worker/rx_loop.h"
#include "daemon/worker/rx_worker.h"

#include "daemon/worker/rx_sum.h"
#include "tests/support/frames.h"
#include "tests/support/scripted_backend.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define S       100u
#define SLOTS   128u
#define TEST_US 60000u

static struct backend_ops device;
static struct backend *backend;
static struct backend_queue *queue;
static struct backend_flow *flow;
static struct rx_ring ring;
static struct rx_sum sum;
static struct worker *worker;
static int timer;
static uint8_t frame[FRAME_BYTES_MAX];
static uint32_t frame_bytes;
/* Of the worker's thread until it has ended. */
static uint64_t n_packets, n_polls, n_empty, n_arms;

static int device_poll(struct backend_queue *base, struct backend_event *events, uint32_t max)
{
	uint64_t n;
	int r;

	n_polls++;
	if (read(timer, &n, sizeof(n)) == (ssize_t)sizeof(n))
		for (n_packets += n; n > 0; n--)
			scripted_arrive(base, frame, frame_bytes);
	r = scripted_backend_ops.poll(base, events, max);
	n_empty += r == 0;
	return r;
}

static int device_arm(struct backend_queue *base)
{
	(void)base;
	n_arms++;
	return 0;
}

static int device_fd(const struct backend_queue *base)
{
	(void)base;
	return timer;
}

static void device_clear(struct backend_queue *base)
{
	(void)base;
}

static void set_up(void)
{
	device = scripted_backend_ops;
	device.poll = device_poll;
	device.arm = device_arm;
	device.fd = device_fd;
	device.clear = device_clear;
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	cr_assert(ge(int, timer, 0));
	frame_bytes = frame_build(&(struct frame_options){.payload_bytes = S}, 0, frame);
}

TestSuite(rx_naps, .init = set_up, .timeout = 60);

static void start(bool naps)
{
	const struct backend_ops *ops = &scripted_backend_ops;
	const struct rx_ring_options ring_options = {
		.stream = "test",
		.epoch = 1,
		.slot_bytes = S,
		.slots_per_block = 64,
		.header_bytes = 42,
		.history_blocks = 4,
		.posted_slots = SLOTS,
		.spare_blocks = 4,
		.lease_blocks_max = 4,
		.page_bytes = 4096,
		.n_queues = 1,
	};
	const struct backend_queue_options queue_options = {.slots = SLOTS,
	                                                    .header_bytes = 42,
	                                                    .header_stride = 64,
	                                                    .slot_bytes = S,
	                                                    .row_stride = S,
	                                                    .completion_events = true};
	struct rx_worker_options options = {.worker = {.name = "test", .cpu = -1},
	                                    .ring = &ring,
	                                    .receive_queue_slots = SLOTS,
	                                    .naps = naps,
	                                    .sum = &sum};

	cr_assert(eq(int, ops->open(NULL, &backend, NULL), 0));
	cr_assert(eq(int, ops->create_queue(backend, &queue_options, &queue, NULL), 0));
	cr_assert(eq(int, rx_ring_init(&ring, &ring_options, NULL), 0));
	rx_sum_init(&sum, 1, false);
	options.queue = queue;
	cr_assert(eq(int, rx_worker_new(&worker, &options), 0));
	cr_assert(eq(int, rx_worker_prime(worker), 0));
	cr_assert(eq(int, ops->start(queue), 0));
	cr_assert(eq(int, ops->add_flow(queue, &(struct flow_rule){0}, &flow, NULL), 0));
	queue->ops = &device;
	n_packets = n_polls = n_empty = n_arms = 0;
	cr_assert(eq(int, rx_loop_start(worker), 0));
}

static void stop(void)
{
	struct mail mail = {0};

	mailbox_send(worker->inbox, &(struct mail){.type = MAIL_STOP});
	for (int i = 0; i < 5000 && !mailbox_receive(worker->outbox, &mail); i++)
		usleep(1000);
	cr_assert(eq(int, mail.type, MAIL_STOPPED));
	worker_join(worker);
	scripted_backend_ops.remove_flow(flow);
	rx_worker_free(worker);
	rx_ring_deinit(&ring);
	scripted_backend_ops.destroy_queue(queue);
	scripted_backend_ops.close(backend);
}

/* Packets of so many ns apart. */
static void run(bool naps, long period_ns)
{
	const struct itimerspec period = {{0, period_ns}, {0, period_ns}}, never = {0};

	start(naps);
	cr_assert(eq(int, timerfd_settime(timer, 0, &period, NULL), 0));
	usleep(TEST_US);
	cr_assert(eq(int, timerfd_settime(timer, 0, &never, NULL), 0));
	stop();
	cr_assert(gt(u64, n_packets, 100));
}

/* An empty poll before each arm, and often one behind it. Late wake-ups bring some packets closer together. */
static void expect_arms(void)
{
	cr_expect(ge(u64, n_arms * 4, n_empty));
}

/* 10 us apart, a quarter of the queue takes 320 us. */
Test(rx_naps, packets_that_come_fast_are_waited_for_without_an_event)
{
	run(true, 10000);
	cr_expect(lt(u64, n_arms * 20, n_packets));
	cr_expect(lt(u64, n_polls * 5, n_packets), "it sleeps while some come");
}

Test(rx_naps, at_a_low_rate_each_sleep_ends_with_the_next_packet)
{
	run(true, 100000);
	expect_arms();
}

Test(rx_naps, a_worker_that_does_not_nap_asks_for_an_event_at_any_rate)
{
	run(false, 10000);
	expect_arms();
}
