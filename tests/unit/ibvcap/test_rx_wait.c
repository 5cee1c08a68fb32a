// SPDX-License-Identifier: Apache-2.0
#include "lib/base/time.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

ATTACHED_TEST_SUITE(rx_wait, .timeout = 60);

/* What another thread does once the consumer sleeps. */
static void in_thread(pthread_t *thread, void *(*body)(void *))
{
	cr_assert_eq(pthread_create(thread, NULL, body, NULL), 0);
}

/* Until it asked to be woken, and a moment more: asleep, or about to. */
static void wait_for_request(void)
{
	while (daemon_load_wake_request(&a.consumer.page->wake) == 0)
		usleep(100);
	usleep(1000);
}

static bool is_readable(int fd)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	return poll(&poller, 1, 0) > 0;
}

/* As the notifier does. */
static void notify(void)
{
	if (send(a.daemon_wake, "", 1, MSG_DONTWAIT) < 0)
		cr_assert_eq(errno, EAGAIN);
}

/* As worker and notifier do. */
static void wake(void)
{
	if (rx_ring_wake(&a.ring))
		client_wake(&a.consumer.state->link, &a.consumer.page->wake, -1);
}

static void *publish_later(void *argument)
{
	wait_for_request();
	attached_publish(&a, 5);
	wake();
	return argument;
}

Test(rx_wait, a_sleeper_is_woken_by_the_packet)
{
	pthread_t thread;
	uint64_t start = time_monotonic_ns();

	in_thread(&thread, publish_later);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 30000), 5);
	cr_expect_lt(time_monotonic_ns() - start, UINT64_C(10000000000));
	pthread_join(thread, NULL);
	cr_expect_eq(daemon_load_wake_request(&a.consumer.page->wake), 0);
}

static void *publish_in_parts(void *argument)
{
	wait_for_request();
	for (int i = 0; i < 10; i++) {
		attached_publish(&a, 2);
		wake();
		usleep(500);
	}
	return argument;
}

Test(rx_wait, min_packets_are_waited_for)
{
	pthread_t thread;

	in_thread(&thread, publish_in_parts);
	cr_expect_geq(ibvcap_rx_acquire(a.rx, &batch, N, 15, 30000), 15);
	pthread_join(thread, NULL);
}

Test(rx_wait, a_time_out_is_kept_and_no_earlier)
{
	uint64_t start = time_monotonic_ns(), waited;

	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 250), 0);
	waited = time_monotonic_ns() - start;
	cr_expect_geq(waited, 250000000);
	cr_expect_lt(waited, UINT64_C(5000000000));
}

static void *close_later(void *argument)
{
	wait_for_request();
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	client_wake(&a.consumer.state->link, &a.consumer.page->wake, -1);
	return argument;
}

Test(rx_wait, the_end_of_the_epoch_wakes_a_sleeper)
{
	pthread_t thread;

	in_thread(&thread, close_later);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, -1), -ESHUTDOWN);
	pthread_join(thread, NULL);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), -ESHUTDOWN);
}

Test(rx_wait, everything_published_is_delivered_before_the_end_is_told)
{
	attached_publish(&a, 3);
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	close(a.daemon_socket);
	a.daemon_socket = -1;
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 2, 2, -1), 2);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 2, 2, -1), 1, "fewer than asked for, but the last");
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 2, 2, -1), -ESHUTDOWN);
}

static void *die_later(void *argument)
{
	wait_for_request();
	attached_publish(&a, 1);
	close(a.daemon_socket);
	a.daemon_socket = -1;
	return argument;
}

Test(rx_wait, a_daemon_that_was_killed_is_noticed)
{
	pthread_t thread;

	in_thread(&thread, die_later);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 2, -1), 1, "what it published comes first");
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, -1), -ESHUTDOWN);
	pthread_join(thread, NULL);
}

Test(rx_wait, who_only_looks_notices_too)
{
	int r = 0;

	close(a.daemon_socket);
	a.daemon_socket = -1;
	for (int i = 0; i < 1000 && r == 0; i++) {
		r = ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0);
		usleep(1000);
	}
	cr_expect_eq(r, -ESHUTDOWN);
}

Test(rx_wait, a_disconnected_consumer_gets_nothing_more)
{
	attached_publish(&a, 3);
	daemon_disconnect(&a.consumer.state->link, IBVCAP_DISCONNECT_BAD_CURSOR);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), -ECONNABORTED);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, -1), -ECONNABORTED);
}

static void *disconnect_later(void *argument)
{
	wait_for_request();
	daemon_disconnect(&a.consumer.state->link, IBVCAP_DISCONNECT_BAD_CURSOR);
	close(a.daemon_socket);
	a.daemon_socket = -1;
	return argument;
}

Test(rx_wait, a_sleeper_learns_that_it_was_disconnected)
{
	pthread_t thread;

	in_thread(&thread, disconnect_later);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, -1), -ECONNABORTED);
	pthread_join(thread, NULL);
}

static void on_signal(int number)
{
	(void)number;
}

static pthread_t sleeper;

static void *interrupt_later(void *argument)
{
	wait_for_request();
	pthread_kill(sleeper, SIGUSR1);
	return argument;
}

Test(rx_wait, a_signal_interrupts)
{
	const struct sigaction action = {.sa_handler = on_signal};
	pthread_t thread;

	sigaction(SIGUSR1, &action, NULL);
	sleeper = pthread_self();
	/* Between two slices a signal goes by unseen; then there is another. */
	do {
		in_thread(&thread, interrupt_later);
		errno = 0;
		int r = ibvcap_rx_acquire(a.rx, &batch, 10, 1, 300);

		pthread_join(thread, NULL);
		if (r == -EINTR)
			return;
		cr_assert_eq(r, 0);
	} while (true);
}

/* ---- the descriptor ------------------------------------------------------------------------------ */

Test(rx_wait, the_descriptor_asks_for_the_next_packet_by_a_byte)
{
	int fd = ibvcap_rx_fd(a.rx);

	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 0);
	cr_expect_eq(daemon_load_wake_request(&a.consumer.page->wake), 1);
	cr_expect(daemon_load_wake_socket(&a.consumer.page->wake));
	cr_expect_not(is_readable(fd));
	attached_publish(&a, 1);
	cr_expect_eq(rx_ring_wake(&a.ring), 1);
	notify();
	cr_expect(is_readable(fd));
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 1);
	cr_expect_not(is_readable(fd), "emptied by the acquire");
	cr_expect_eq(daemon_load_wake_request(&a.consumer.page->wake), 0);
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 0);
	cr_expect_eq(daemon_load_wake_request(&a.consumer.page->wake), 2);
}

Test(rx_wait, who_never_asked_for_the_descriptor_wakes_nobody)
{
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 0);
	cr_expect_eq(daemon_load_wake_request(&a.consumer.page->wake), 0);
}

Test(rx_wait, a_full_socket_is_emptied)
{
	ibvcap_rx_fd(a.rx);
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 0);
	for (int i = 0; i < 1000; i++)
		notify();
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 0);
	cr_expect_not(is_readable(ibvcap_rx_fd(a.rx)));
}

Test(rx_wait, the_descriptor_tells_of_the_daemons_death)
{
	int fd = ibvcap_rx_fd(a.rx);

	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 0);
	attached_publish(&a, 1);
	close(a.daemon_wake);
	a.daemon_wake = -1;
	cr_expect(is_readable(fd));
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 1);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), -ESHUTDOWN);
}

/* A second of rows in error, one every 10 ms. */
static void *publish_errors(void *argument)
{
	for (int i = 0; i < 100; i++) {
		struct rx_span span;

		rx_ring_post_span(&a.ring, 1, &span);
		span.meta[0] = (struct ibvcap_meta){.flags = IBVCAP_PACKET_FLAG_ERROR};
		rx_ring_publish(&a.ring, 1);
		wake();
		usleep(10000);
	}
	return argument;
}

Test(rx_wait, errors_that_recv_passes_over_do_not_prolong_its_time_out)
{
	uint8_t byte;
	size_t length;
	pthread_t thread;
	uint64_t start;

	in_thread(&thread, publish_errors);
	start = time_monotonic_ns();
	cr_expect_eq(ibvcap_rx_recv(a.rx, &byte, 1, &length, NULL, 50), 0);
	cr_expect_lt(time_monotonic_ns() - start, UINT64_C(500000000));
	pthread_join(thread, NULL);
}

/* ---- everything at once -------------------------------------------------------------------------- */

#define STORM_PACKETS 400000u

static void *publish_storm(void *argument)
{
	unsigned seed = 1;

	for (uint64_t left = STORM_PACKETS; left > 0;) {
		uint64_t n = 1 + (uint64_t)rand_r(&seed) % 40;

		n = n < left ? n : left;
		attached_publish(&a, n);
		left -= n;
		wake();
		if (rand_r(&seed) % 64 == 0)
			sched_yield();
	}
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	return argument;
}

static void expect_intact(const struct ibvcap_rx_batch *held)
{
	for (uint32_t i = 0; i < held->n; i++)
		cr_assert_eq(attached_number(held, i), held->sequence + i);
}

/* The consumer holds batches for a while, gives them back in any order, falls behind and catches up. */
Test(rx_wait, no_row_under_lease_is_torn_and_no_packet_is_uncounted)
{
	struct ibvcap_rx_batch held[QUOTA];
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint64_t delivered = 0, gaps = 0;
	unsigned seed = 2, n_held = 0;
	pthread_t thread;
	int r;

	in_thread(&thread, publish_storm);
	do {
		r = ibvcap_rx_acquire(a.rx, &batch, 1 + (uint32_t)rand_r(&seed) % 80, 1 + (uint32_t)rand_r(&seed) % 4,
		                      rand_r(&seed) % 3);
		if (r > 0) {
			cr_assert_eq(batch.sequence, delivered + gaps + batch.gap);
			delivered += batch.n;
			gaps += batch.gap;
			held[n_held++] = batch;
		}
		if (n_held == QUOTA || r == -ENOBUFS || rand_r(&seed) % 3 == 0) {
			while (n_held > 0) {
				unsigned which = (unsigned)rand_r(&seed) % n_held;

				expect_intact(&held[which]);
				cr_assert_eq(ibvcap_rx_release(a.rx, &held[which]), 0);
				held[which] = held[--n_held];
			}
		}
	} while (r >= 0 || r == -ENOBUFS);
	pthread_join(thread, NULL);
	cr_assert_eq(r, -ESHUTDOWN);
	cr_assert_eq(ibvcap_rx_counts(a.rx, &counts), 0);
	cr_expect_eq(counts.published, STORM_PACKETS);
	cr_expect_eq(counts.delivered, delivered);
	cr_expect_eq(counts.skipped, gaps);
	cr_expect_eq(counts.lag, 0);
	cr_expect_eq(delivered + gaps, STORM_PACKETS);
	cr_expect_gt(delivered, 0);
	for (unsigned i = 0; i < n_held; i++)
		expect_intact(&held[i]);
}

/* A program that waits before it looks for the first time. */
Test(rx_wait, the_descriptor_is_armed_from_the_start)
{
	int fd;

	attached_publish(&a, 1);
	fd = ibvcap_rx_fd(a.rx);
	cr_assert_geq(fd, 0, "%s", ibvcap_error_text());
	cr_expect(is_readable(fd), "a packet is there");
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 1, 1, 0), 1);
	cr_expect_eq(ibvcap_rx_release(a.rx, &batch), 0);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 1, 1, 0), 0);
	cr_expect_not(is_readable(fd));
	cr_expect_eq(daemon_load_wake_request(&a.consumer.page->wake), 2);
	notify();
	cr_expect(is_readable(fd));
}
