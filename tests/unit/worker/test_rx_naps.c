// SPDX-License-Identifier: Apache-2.0
/*
 * When a worker naps in place of waiting for the next packet. Its device is the scripted one, and its time is that of
 * the test (the linker's --wrap): a poll takes POLL_NS, a sleep takes as long as it was asked for, or until the next
 * packet.
 */
#include "daemon/worker/rx_loop.h"
#include "daemon/worker/rx_worker.h"

#include "tests/support/frames.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/small_ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#define S       100u
#define SLOTS   128u
#define POLL_NS 1000u
#define TEST_NS 60000000u

static struct backend_ops device;
static struct backend *backend;
static struct backend_queue *queue;
static struct backend_flow *flow;
static struct rx_ring ring;
static struct losses losses;
static struct worker *worker;
static uint8_t frame[FRAME_BYTES_MAX];
static uint32_t frame_bytes;
/* Of the worker's thread until it has ended. */
static uint64_t now_ns, next_ns, period_ns;
static bool is_over;
static _Thread_local bool is_worker; /* the other thread waits for its end */
static uint64_t n_packets, n_polls, n_arms;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);
int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){.tv_nsec = (long)now_ns};
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (!is_worker)
		return __real_nanosleep(time, left);
	now_ns += (uint64_t)time->tv_nsec;
	return 0;
}

/* Mail wakes the worker at once; else the next packet does, or the end of the time. */
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	int r = __real_ppoll(fds, n, &(struct timespec){0}, mask);

	if (r != 0)
		return r;
	if (timeout != NULL && (is_over || now_ns + (uint64_t)timeout->tv_nsec < next_ns)) {
		now_ns += (uint64_t)timeout->tv_nsec;
		return 0;
	}
	now_ns = next_ns > now_ns ? next_ns : now_ns;
	fds[0].revents = POLLIN;
	return 1;
}

static int device_poll(struct backend_queue *base, struct backend_event *events, uint32_t max)
{
	is_worker = true;
	n_polls++;
	now_ns += POLL_NS;
	for (; next_ns <= now_ns && !is_over; next_ns += period_ns) {
		scripted_arrive(base, frame, frame_bytes);
		n_packets++;
		is_over = next_ns >= TEST_NS;
		if (is_over)
			mailbox_send(worker->inbox, &(struct mail){.type = MAIL_STOP});
	}
	return scripted_backend_ops.poll(base, events, max);
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
	return -1;
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
	frame_bytes = frame_build(&(struct frame_options){.payload_bytes = S}, 0, frame);
}

TestSuite(rx_naps, .init = set_up, .timeout = 60);

static void start(bool naps)
{
	const struct backend_ops *ops = &scripted_backend_ops;
	struct rx_ring_options ring_options = small_ring();
	struct backend_queue_options queue_options;
	struct rx_worker_options options = {
		.worker = {.name = "test", .cpu = -1}, .ring = &ring, .naps = naps, .losses = &losses.queues[0]};

	ring_options.slot_bytes = S;
	ring_options.posted_slots = SLOTS;
	queue_options = queue_for_ring(&ring_options);
	queue_options.completion_events = true;
	cr_assert(eq(int, ops->open(NULL, &backend, NULL), 0));
	cr_assert(eq(int, ops->create_queue(backend, &queue_options, &queue, NULL), 0));
	cr_assert(eq(int, rx_ring_init(&ring, &ring_options, NULL), 0));
	losses_init(&losses, 1, SLOTS, false, false, LOSSES_DRAIN_NS_MIN);
	options.queue = queue;
	cr_assert(eq(int, rx_worker_new(&worker, &options), 0));
	cr_assert(eq(int, rx_worker_prime(worker), 0));
	cr_assert(eq(int, ops->start(queue), 0));
	cr_assert(eq(int, ops->add_flow(queue, &(struct flow_rule){0}, &flow, NULL), 0));
	queue->ops = &device;
	next_ns = now_ns + period_ns;
	cr_assert(eq(int, rx_loop_start(worker), 0));
}

static void stop(void)
{
	struct mail mail = {0};

	cr_assert(eq(int, poll(&(struct pollfd){.fd = mailbox_fd(worker->outbox), .events = POLLIN}, 1, -1), 1));
	cr_assert(mailbox_receive(worker->outbox, &mail));
	cr_assert(eq(int, mail.type, MAIL_STOPPED));
	worker_join(worker);
	scripted_backend_ops.remove_flow(flow);
	rx_worker_free(worker);
	rx_ring_deinit(&ring);
	scripted_backend_ops.destroy_queue(queue);
	scripted_backend_ops.close(backend);
}

/* A packet comes every `ns` nanoseconds until TEST_NS. Then the worker gets MAIL_STOP. */
static void run(bool naps, uint64_t ns)
{
	period_ns = ns;
	start(naps);
	stop();
	cr_assert(ge(u64, n_packets, TEST_NS / period_ns));
}

/* A packet takes a poll, an empty poll, an arm and an empty poll. The end takes some more. */
static void expect_arms(void)
{
	cr_expect(ge(u64, n_arms, n_packets));
	cr_expect(le(u64, n_polls, 3 * n_packets + 10));
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
