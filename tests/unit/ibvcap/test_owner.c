// SPDX-License-Identifier: Apache-2.0
/*
 * A receive handle in a child of fork(): it fails or does no harm, and the parent's session goes on. And a handle of a
 * thread that was cancelled.
 */
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

ATTACHED_TEST_SUITE(owner, .timeout = 60);

/* The child returns 0 if all is as it should be; else the number of the first check that fails. */
static void in_child(pid_t (*make_child)(void), int (*body)(void))
{
	pid_t child = make_child();
	int status;

	if (child == 0)
		_exit(body());
	cr_assert_gt(child, 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "check %d failed in the child (status %#x)",
	          WEXITSTATUS(status), (unsigned)status);
}

/* A copy of the process that runs no handler of pthread_atfork(). */
static pid_t clone_raw(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static int use_all_calls(void)
{
	struct ibvcap_rx_batch other = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	struct ibvcap_rx_losses losses = IBVCAP_INIT(struct ibvcap_rx_losses);
	char byte;
	size_t length;

	if (ibvcap_rx_release(a.rx, &batch) != -ECHILD)
		return 1;
	if (!strstr(ibvcap_error_text(), "'test'"))
		return 2;
	if (ibvcap_rx_acquire(a.rx, &other, 1, 1, -1) != -ECHILD)
		return 3;
	if (ibvcap_rx_recv(a.rx, &byte, 1, &length, NULL, -1) != -ECHILD)
		return 4;
	if (ibvcap_rx_fd(a.rx) != -ECHILD)
		return 5;
	if (ibvcap_rx_info(a.rx, &info) != 0 || ibvcap_rx_counts(a.rx, &counts) != 0 ||
	    ibvcap_rx_add_losses(a.rx, &batch, &losses) < 0)
		return 6;
	if (attached_number(&batch, 0) != 0)
		return 7;
	ibvcap_rx_close(a.rx);
	return 0;
}

static void expect_lease_stays_the_parents(pid_t (*make_child)(void))
{
	attached_publish(&a, 10);
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 4, 1, 0), 4);
	in_child(make_child, use_all_calls);
	cr_expect_eq(daemon_load_lease(a.consumer.page, batch.lease), 1);
	cr_expect_eq(daemon_load_delivered(a.consumer.page), 4);
	cr_expect_eq(ibvcap_rx_release(a.rx, &batch), 0);
	cr_expect_eq(daemon_load_lease(a.consumer.page, batch.lease), 0);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 100, 1, 0), 6);
}

Test(owner, a_childs_calls_fail_and_the_parents_lease_stays)
{
	expect_lease_stays_the_parents(fork);
}

Test(owner, so_they_do_if_the_child_was_made_without_libc)
{
	expect_lease_stays_the_parents(clone_raw);
}

static int close_it(void)
{
	ibvcap_rx_close(a.rx);
	return 0;
}

static bool is_readable(int fd)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	return poll(&poller, 1, 0) == 1;
}

Test(owner, a_childs_close_leaves_the_parents_descriptor_and_connection)
{
	int fd = ibvcap_rx_fd(a.rx);

	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 0);
	in_child(fork, close_it);
	cr_expect_not(is_readable(a.daemon_socket));
	cr_expect_eq(daemon_load_wake_request(&a.consumer.page->wake), 1, "the parent's request");
	attached_publish(&a, 1);
	cr_assert_eq(write(a.daemon_wake, "", 1), 1);
	cr_expect(is_readable(fd));
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 1);
}

/* The grandchild: two generations share the pages. */
static int fork_again(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(use_all_calls());
	return waitpid(child, &status, 0) == child && status == 0 ? use_all_calls() : 100;
}

Test(owner, a_grandchild_is_no_owner_either)
{
	attached_publish(&a, 10);
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 4, 1, 0), 4);
	in_child(fork, fork_again);
	cr_expect_eq(ibvcap_rx_release(a.rx, &batch), 0);
}

Test(owner, the_parents_close_ends_the_connection_also_while_a_child_lives)
{
	int ready[2];
	pid_t child;

	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		close(ready[1]);
		_exit(read(ready[0], ready, 1) < 0); /* until the parent has closed its end */
	}
	cr_expect_not(is_readable(a.daemon_socket));
	ibvcap_rx_close(a.rx);
	a.rx = NULL;
	cr_expect(is_readable(a.daemon_socket));
	close(ready[1]);
	waitpid(child, NULL, 0);
	close(ready[0]);
}

struct reading {
	pthread_mutex_t in_call;
	_Atomic uint64_t received;
};

/*
 * Children that only end, or close their copy: none of them was forked in the midst of a call of this thread. At least
 * 100, and so many that the reader has read beside them.
 */
static void *fork_often(void *argument)
{
	struct reading *reading = argument;

	for (int i = 0; i < 100 || reading->received <= 100; i++) {
		pid_t child;

		pthread_mutex_lock(&reading->in_call);
		child = fork();
		pthread_mutex_unlock(&reading->in_call);
		if (child == 0)
			_exit(i % 2 ? close_it() : 0);
		waitpid(child, NULL, 0);
	}
	return argument;
}

Test(owner, a_reader_goes_on_while_another_thread_forks)
{
	struct reading reading = {.in_call = PTHREAD_MUTEX_INITIALIZER};
	uint64_t published = 0;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, fork_often, &reading), 0);
	while (pthread_tryjoin_np(thread, NULL) != 0) {
		attached_publish(&a, 10);
		published += 10;
		while (reading.received < published) {
			pthread_mutex_lock(&reading.in_call);
			cr_assert_gt(ibvcap_rx_acquire(a.rx, &batch, 10, 1, 0), 0);
			cr_assert_eq(batch.sequence, reading.received);
			cr_assert_eq(attached_number(&batch, 0), reading.received);
			reading.received += batch.n;
			cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
			pthread_mutex_unlock(&reading.in_call);
			sched_yield();
		}
	}
}

/* ---- a thread that is cancelled --------------------------------------------------------------------- */

static void *wait_for_ever(void *argument)
{
	/* Since glibc 2.41 the signal of pthread_cancel() interrupts any call; poll() is where the thread ends. */
	while (ibvcap_rx_acquire(a.rx, &batch, 1, 1, -1) == -EINTR)
		continue;
	return argument;
}

Test(owner, another_thread_goes_on_with_the_handle_of_one_that_was_cancelled)
{
	struct ibvcap_rx_batch next = IBVCAP_INIT(struct ibvcap_rx_batch);
	pthread_t thread;
	void *result;

	cr_assert_eq(pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
	usleep(20000);
	pthread_cancel(thread);
	cr_assert_eq(pthread_join(thread, &result), 0);
	cr_expect_eq(result, PTHREAD_CANCELED);
	attached_publish(&a, 3);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &next, 10, 1, 0), 3);
	cr_expect_eq(ibvcap_rx_release(a.rx, &next), 0);
}

Test(owner, a_mark_is_freed)
{
	const uint32_t *mark = NULL;

	cr_expect(owner_is_here(NULL));
	cr_assert_eq(owner_mark_new(&mark), 0);
	cr_expect_eq(owner_check(mark, "x"), 0);
	owner_mark_free(mark);
	owner_mark_free(NULL);
}
