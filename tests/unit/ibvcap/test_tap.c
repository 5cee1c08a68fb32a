// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static struct attached a;

/* A ring with a consumer that never reads, as the tap has none of its own. */
static void init(void)
{
	const struct ibvcap_rx_options options = {
		.size = sizeof(options), .policy = IBVCAP_POLICY_TAP, .reattach_ms = IBVCAP_NO_REATTACH};
	int fds[PROTOCOL_FD_N], socket;

	attached_prepare(&a, fds, &socket);
	for (unsigned i = PROTOCOL_FD_TAP_N; i < PROTOCOL_FD_N; i++) {
		close(fds[i]);
		fds[i] = -1;
	}
	cr_assert_eq(attached_open(&a.rx, socket, fds, EPOCH, NULL, &options), 0, "%s", ibvcap_error_text());
}

static void deinit(void)
{
	attached_deinit(&a);
}

TestSuite(tap, .init = init, .fini = deinit, .timeout = 60);

/* The number that the row has in its first bytes; -errno, -1: none came. */
static int64_t receive(int timeout_ms)
{
	uint64_t number;
	size_t length = 0;
	int r = ibvcap_rx_recv(a.rx, &number, sizeof(number), &length, NULL, timeout_ms);

	if (r <= 0)
		return r ? r : -1;
	cr_assert_eq(length, SLOT_BYTES);
	return (int64_t)number;
}

static void expect_counts(uint64_t published, uint64_t delivered, uint64_t skipped, uint64_t lag)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	ibvcap_rx_counts(a.rx, &counts);
	cr_expect_eq(counts.published, published);
	cr_expect_eq(counts.delivered, delivered);
	cr_expect_eq(counts.skipped, skipped);
	cr_expect_eq(counts.lag, lag);
}

Test(tap, packets_are_copied_and_what_was_recycled_is_counted)
{
	int64_t number;

	attached_publish(&a, 10);
	for (int64_t i = 0; i < 5; i++)
		cr_assert_eq(receive(0), i);
	attached_publish(&a, 1000 * N);
	number = receive(0);
	cr_assert_gt(number, 900 * (int64_t)N);
	cr_assert_eq(receive(0), number + 1);
	expect_counts(10 + 1000 * N, 7, (uint64_t)number - 5, 8 + 1000 * N - (uint64_t)number);
}

static uint16_t flags_of_next(void)
{
	struct ibvcap_meta meta;
	uint64_t number;
	size_t length;

	cr_assert_eq(ibvcap_rx_recv(a.rx, &number, sizeof(number), &length, &meta, 0), 1);
	return meta.flags;
}

Test(tap, the_packet_after_a_gap_says_so)
{
	attached_publish(&a, 2);
	cr_expect_eq(flags_of_next(), 0);
	attached_publish(&a, 1000 * N);
	cr_expect_eq(flags_of_next(), IBVCAP_PACKET_FLAG_GAP);
	cr_expect_eq(flags_of_next(), 0);
	a.rx->parts[0]->reattach.next_flags = IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN;
	cr_expect_eq(flags_of_next(), IBVCAP_PACKET_FLAG_GAP_UNKNOWN);
	cr_expect_eq(flags_of_next(), 0);
}

Test(tap, it_is_nothing_to_the_ring)
{
	attached_publish(&a, 2 * N);
	for (int64_t i = 0; i < N + 3; i++)
		cr_assert_eq(receive(0), i);
	attached_publish(&a, 100 * N);
	cr_expect_eq(counter_get(&a.ring.ring->counters[IBVCAP_RX_COUNTER_SPARES_USED]), 0);
}

Test(tap, it_holds_nothing_and_has_no_descriptor)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	attached_publish(&a, 1);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 1, 1, 0), -EOPNOTSUPP);
	cr_expect_eq(ibvcap_rx_fd(a.rx), -EOPNOTSUPP);
	ibvcap_rx_info(a.rx, &info);
	cr_expect_eq(info.policy, IBVCAP_POLICY_TAP);
	cr_expect_eq(info.lease_blocks, 0);
}

Test(tap, it_begins_where_it_was_told_and_says_how_far_back_that_is)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	attached_publish(&a, 1000 * N);
	rx_map_begin_tap(a.rx->parts[0], &(struct rx_start_position){IBVCAP_START_PACKETS_BACK, 10});
	cr_expect_eq(receive(0), 1000 * N - 10);
	rx_map_begin_tap(a.rx->parts[0], &(struct rx_start_position){IBVCAP_START_PACKETS_BACK, UINT64_MAX});
	cr_expect_eq(receive(0), (int64_t)consumer_load_floor(a.ring.ring) * N);
	ibvcap_rx_info(a.rx, &info);
	cr_expect_eq(info.attach_sequence, consumer_load_floor(a.ring.ring) * N);
	cr_expect_eq(info.attach_back, 1000 * N - info.attach_sequence);
	for (uint64_t block = 0; block < a.ring.ring->table_entries; block++)
		daemon_store_table(a.ring.ring, block, UINT32_MAX);
	rx_map_begin_tap(a.rx->parts[0], &(struct rx_start_position){IBVCAP_START_NS_BACK, 5});
	cr_expect_eq(a.rx->parts[0]->next, 1000 * N, "a table that lies is no crash");
}

/* ---- recycled in the middle of the copy ---------------------------------------------------------- */

static void *buffer;

static void recycle_and_go_on(int number)
{
	(void)number;
	attached_publish(&a, 100 * N);
	mprotect(buffer, 4096, PROT_READ | PROT_WRITE);
}

Test(tap, a_row_that_is_recycled_while_it_is_copied_is_not_delivered)
{
	const struct sigaction action = {.sa_handler = recycle_and_go_on};
	struct ibvcap_meta meta;
	uint64_t number;
	size_t length;

	buffer = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
	attached_publish(&a, 10);
	a.rx->parts[0]->reattach.next_flags = IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN;
	cr_assert_eq(ibvcap_rx_recv(a.rx, buffer, 4096, &length, &meta, 0), 1);
	memcpy(&number, buffer, sizeof(number));
	cr_expect_eq(meta.flags, IBVCAP_PACKET_FLAG_GAP | IBVCAP_PACKET_FLAG_GAP_UNKNOWN, "what its flags said too");
	cr_expect_eq(number, consumer_load_floor(a.ring.ring) * N, "the oldest that is there, whole");
	expect_counts(10 + 100 * N, 1, number, 10 + 100 * N - number - 1);
	munmap(buffer, 4096);
}

/* ---- waiting ------------------------------------------------------------------------------------- */

static void *publish_later(void *argument)
{
	usleep(20000);
	attached_publish(&a, 1);
	return argument;
}

Test(tap, it_waits_without_asking)
{
	pthread_t thread;

	cr_expect_eq(receive(0), -1);
	cr_expect_eq(receive(5), -1);
	cr_assert_eq(pthread_create(&thread, NULL, publish_later, NULL), 0);
	cr_expect_eq(receive(30000), 0);
	pthread_join(thread, NULL);
}

Test(tap, the_end_of_the_epoch_is_told_after_the_last_packet)
{
	attached_publish(&a, 1);
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_expect_eq(receive(-1), 0);
	cr_expect_eq(receive(-1), -ESHUTDOWN);
}
