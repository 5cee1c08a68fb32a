// SPDX-License-Identifier: Apache-2.0
/*
 * A thread that makes no round between two looks is found; one that sleeps is woken, one with a long job has its
 * time.
 */
#include "daemon/base/heartbeat.h"

#include "lib/base/time.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct heartbeats list;
static struct heartbeat one, other;

static void set_up(void)
{
	LIST_INIT(&list);
	one = other = (struct heartbeat){0};
	one.wake_fd = eventfd(0, EFD_NONBLOCK);
	other.wake_fd = eventfd(0, EFD_NONBLOCK);
	heartbeat_watch(&list, &one, "stream '%s': its worker", "a");
	heartbeat_watch(&list, &other, "stream '%s': its worker", "b");
}

static void tear_down(void)
{
	close(one.wake_fd);
	close(other.wake_fd);
}

TestSuite(heartbeat, .init = set_up, .fini = tear_down);

static bool was_woken(const struct heartbeat *heartbeat)
{
	eventfd_t count;

	return eventfd_read(heartbeat->wake_fd, &count) == 0;
}

Test(heartbeat, each_thread_that_makes_a_round_between_two_looks_is_well)
{
	cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), NULL), "not asked before");
	for (int i = 0; i < 3; i++) {
		cr_expect(was_woken(&one) && was_woken(&other), "a thread that sleeps must hear that it is asked");
		heartbeat_beat(&one);
		heartbeat_beat(&other);
		cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), NULL));
	}
}

Test(heartbeat, a_thread_that_makes_no_round_is_found_until_it_makes_one)
{
	heartbeat_find_stopped(&list);
	for (int i = 0; i < 3; i++) {
		heartbeat_beat(&other);
		cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), (void *)&one));
	}
	cr_expect(eq(str, one.name, (char *)"stream 'a': its worker"));
	heartbeat_beat(&one);
	heartbeat_beat(&other);
	cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), NULL));
}

Test(heartbeat, a_long_job_has_its_time_and_no_more)
{
	heartbeat_unwatch(&other);
	heartbeat_allow_until(&one, time_monotonic_ns() + UINT64_C(1000000000000));
	for (int i = 0; i < 3; i++)
		cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), NULL));
	heartbeat_allow_until(&one, time_monotonic_ns());
	cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), (void *)&one));
}

Test(heartbeat, a_thread_that_is_not_watched_is_not_missed)
{
	heartbeat_find_stopped(&list);
	heartbeat_unwatch(&one);
	heartbeat_unwatch(&one);
	heartbeat_beat(&other);
	cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), NULL));
	heartbeat_watch(&list, &one, "again");
	heartbeat_beat(&other);
	cr_expect(eq(ptr, (void *)heartbeat_find_stopped(&list), NULL), "not asked since");
	heartbeat_watch(NULL, &other, "nobody looks");
}
