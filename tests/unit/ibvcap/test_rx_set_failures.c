// SPDX-License-Identifier: Apache-2.0
/*
 * Every allocation and system call fails once, by countdown, when a handle of several queues is opened, when a group is
 * joined, and on the way into the next epoch: the handle goes on or says why, and nothing stays open or allocated.
 */
#include "tests/unit/ibvcap/failing.h"
#include "tests/unit/ibvcap/several_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NEXT      (EPOCH + 1)
#define CALLS_MAX 500

TestSuite(rx_set_failures, .init = set_up_queues, .fini = tear_down_queues, .timeout = 120);

static struct ibvcap_rx_options options;
static int64_t n_before_failure;

/* What the thread of the client found. */
static int result;
static bool has_fired;
static int64_t n_leaked;
static char error_text[1024];
static atomic_bool is_done;
static int member = -1; /* the daemon's end of a connection that has joined */

/* The countdown is of this thread alone, so the daemon's calls succeed. */
static void *open_and_close(void *unused)
{
	struct ibvcap_rx *opened = NULL;

	failing_count_memory();
	failing_after(n_before_failure);
	result = ibvcap_rx_open(queues_path(), "test", &options, &opened);
	has_fired = failing_has_fired();
	failing_after(-1);
	ibvcap_rx_close(opened);
	n_leaked = failing_stop_counting();
	error_text[0] = 0;
	strncpy(error_text, ibvcap_error_text(), sizeof(error_text) - 1);
	is_done = true;
	return unused;
}

static void serve_one(void)
{
	union protocol_message request;
	int fd = try_accept_request(&request);

	if (fd < 0)
		return;
	if (request.attach.group[0]) {
		answer_joined(fd, EPOCH, 2);
		member = fd;
		return;
	}
	queues[request.attach.queue] = (struct attached){.queue = request.attach.queue, .n_queues = 2};
	answer(fd, &queues[request.attach.queue]);
}

static void open_with_failure_after(int64_t n)
{
	pthread_t client;

	n_before_failure = n;
	is_done = false;
	cr_assert(eq(int, pthread_create(&client, NULL, open_and_close, NULL), 0));
	while (!is_done)
		if (is_asked(1))
			serve_one();
	pthread_join(client, NULL);
	while (is_asked(0)) /* a client that failed after its request */
		serve_one();
	if (member >= 0)
		close(member);
	member = -1;
	for (uint32_t i = 0; i < QUEUES_MAX; i++)
		end_queue(&queues[i]);
}

static void expect_failures_are_told(int n_told_at_least)
{
	unsigned before = count_fds();
	int n_told = 0;

	for (int64_t n = 0;; n++) {
		open_with_failure_after(n);
		cr_assert(eq(uint, count_fds(), before), "call %ld", (long)n);
		cr_assert(eq(i64, n_leaked, 0), "call %ld", (long)n);
		if (!has_fired)
			break;
		if (result < 0) /* some calls may fail: without MADV_HUGEPAGE it works */
			cr_expect(gt(sz, strlen(error_text), 0), "call %ld: %d, and no word", (long)n, result);
		n_told += result < 0;
		cr_assert(lt(i64, n, CALLS_MAX));
	}
	cr_expect(eq(int, result, 0));
	cr_expect(ge(int, n_told, n_told_at_least));
}

Test(rx_set_failures, opening_all_queues)
{
	options = (struct ibvcap_rx_options){.size = sizeof(options), .queue = IBVCAP_QUEUE_ALL};
	expect_failures_are_told(30);
}

Test(rx_set_failures, joining_a_group)
{
	options = (struct ibvcap_rx_options){.size = sizeof(options), .group = "work"};
	expect_failures_are_told(8);
}

/* ---- later ------------------------------------------------------------------------------------------- */

/* Calls of the library that may fail, until there is no packet; then the handle is closed. */
static bool take_with_failure(void (*begin)(int64_t), int64_t n)
{
	bool fired;
	int r;

	begin(n);
	while ((r = take(N)) > 0)
		ibvcap_rx_release(rx, &batch);
	fired = failing_has_fired();
	failing_after(-1);
	if (r < 0)
		cr_expect(gt(sz, strlen(ibvcap_error_text()), 0), "call %ld: %d, and no word", (long)n, r);
	ibvcap_rx_close(rx);
	rx = NULL;
	for (uint32_t i = 0; i < QUEUES_MAX; i++) {
		end_queue(&queues[i]);
		end_queue(&next_queues[i]);
	}
	while (is_asked(0)) {
		union protocol_message request;

		close(try_accept_request(&request));
	}
	if (!fired)
		cr_expect(ge(int, r, 0));
	return fired;
}

static void get_queue_with_failure(void (*begin)(int64_t))
{
	unsigned before = count_fds();
	bool fired = true;

	for (int64_t n = 0; fired; n++) {
		union protocol_message request;
		int fd;

		options = (struct ibvcap_rx_options){.size = sizeof(options), .group = "work"};
		begin_open(&options);
		fd = accept_request(&request);
		answer_joined(fd, EPOCH, 2);
		cr_assert(eq(int, end_open(NULL), 0));
		queues[0] = (struct attached){.n_queues = 2, .n_earlier = 3};
		answer(fd, &queues[0]);
		fired = take_with_failure(begin, n);
		cr_assert(eq(uint, count_fds(), before), "call %ld", (long)n);
		cr_assert(lt(i64, n, CALLS_MAX));
	}
}

Test(rx_set_failures, getting_a_queue_of_a_group)
{
	get_queue_with_failure(failing_after);
}

/* A member that cannot look for its next queue returns to the caller, and does not try for ever. */
Test(rx_set_failures, getting_a_queue_of_a_group_while_every_call_fails)
{
	get_queue_with_failure(failing_from);
}

/* ---- calls that cost time ---------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A member that looks for its next queue makes a system call for it. */
Test(rx_set_failures, while_packets_come_a_member_looks_for_its_next_queue_every_20_ms)
{
	int64_t begin, passed;

	join(2);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	failing_after(-1);
	for (begin = now_ms(); (passed = now_ms() - begin) < 300;) {
		attached_publish(&queues[0], 1);
		cr_assert(eq(int, take(1), 1));
		cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
	}
	cr_expect(le(i64, failing_count_calls(), passed / 20 + 2), "in %ld ms", (long)passed);
	cr_expect(ge(i64, failing_count_calls(), 1));
}

Test(rx_set_failures, finding_more_queues_in_the_next_epoch)
{
	unsigned before = count_fds();
	bool fired = true;

	for (int64_t n = 0; fired; n++) {
		open_all_queues(queues, 2, NULL);
		for (uint32_t i = 0; i < 2; i++)
			rx_ring_close(&queues[i].ring, IBVCAP_RING_END_STOPPED);
		cr_assert(eq(int, take(N), 0));
		answer_requests(next_queues, 4, NEXT, 2);
		fired = take_with_failure(failing_after, n);
		cr_assert(eq(uint, count_fds(), before), "call %ld", (long)n);
		cr_assert(lt(i64, n, CALLS_MAX));
	}
}
