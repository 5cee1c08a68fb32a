// SPDX-License-Identifier: Apache-2.0
/* Jobs of the background runner: their order, their end, and a runner that is freed or abandoned. */
#include "daemon/base/background.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdbool.h>
#include <unistd.h>

static _Atomic bool is_held, has_begun;

static void work(void *context)
{
	(void)context;
	has_begun = true;
	while (is_held)
		usleep(100);
}

static void done(void *context)
{
	(void)context;
}

static struct heartbeats list;

static struct background *watched_runner(sd_event **event)
{
	struct background *background;

	cr_assert(ge(int, sd_event_new(event), 0));
	cr_assert(eq(int, background_new(&background, *event, "test", 0), 0));
	LIST_INIT(&list);
	heartbeat_watch(&list, background_heartbeat(background), "test");
	return background;
}

static bool is_alive(void)
{
	return !heartbeat_find_stopped(&list);
}

static void await_alive(void)
{
	while (!is_alive())
		usleep(1000);
}

Test(background, it_is_alive_at_rest_and_between_two_pieces_of_work, .timeout = 60)
{
	struct background_job first = {.work = work, .done = done}, second = {.work = work, .done = done};
	sd_event *event;
	struct background *background = watched_runner(&event);

	await_alive();
	await_alive();
	is_held = true;
	background_add(background, &first);
	background_add(background, &second);
	while (!has_begun)
		usleep(100);
	is_alive(); /* asks, if it was not asked before */
	usleep(10000);
	cr_expect(not(is_alive()));
	is_held = false;
	await_alive();
	background_drain(background, BACKGROUND_FOR_EVER);
	background_free(background);
	sd_event_unref(event);
}

static const struct background_job *order[3];
static _Atomic unsigned n_worked;

static void work_in_order(void *context)
{
	work(context);
	order[n_worked++] = context;
}

Test(background, jobs_are_worked_in_the_order_in_which_they_came, .timeout = 60)
{
	struct background_job jobs[3] = {0};
	struct background *background;
	sd_event *event;

	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, background_new(&background, event, "test", 0), 0));
	is_held = true;
	for (int i = 0; i < 3; i++) {
		jobs[i].work = work_in_order;
		jobs[i].done = done;
		jobs[i].context = &jobs[i];
		background_add(background, &jobs[i]);
	}
	is_held = false;
	cr_expect(background_drain(background, BACKGROUND_FOR_EVER));
	cr_expect(eq(u32, n_worked, 3));
	for (int i = 0; i < 3; i++)
		cr_expect(order[i] == &jobs[i]);
	background_free(background);
	sd_event_unref(event);
}

/* A client that makes the daemon hang in a system call must not keep it from ending. */
Test(background, draining_gives_a_job_up_that_takes_longer_than_its_allowance, .timeout = 60)
{
	struct background_job first = {.work = work, .done = done, .allowance_us = 1000},
			      second = {.work = work_in_order, .done = done};
	struct background *background;
	sd_event *event;

	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, background_new(&background, event, "test", 0), 0));
	is_held = true;
	background_add(background, &first);
	background_add(background, &second);
	while (!has_begun) /* the allowance begins with the job, and the thread may get a CPU late */
		usleep(100);
	cr_expect(not(background_drain(background, 20000)));
	cr_expect(not(background_drain(background, 0)), "it hangs still");
	cr_expect(gt(u64, background_overdue_us(background), 10000));
	cr_expect(eq(u32, n_worked, 0));
	is_held = false;
	cr_expect(background_drain(background, BACKGROUND_FOR_EVER));
	cr_expect(eq(u32, n_worked, 1));
	cr_expect(eq(u64, background_overdue_us(background), 0));
	background_free(background);
	sd_event_unref(event);
}

/* The largest arena that a channel may have takes a slow machine longer than a watchdog waits. */
Test(background, it_is_alive_for_as_long_as_its_memory_may_take, .timeout = 60)
{
	struct background_job large = {.work = work, .done = done, .allowance_us = 600000000};
	sd_event *event;
	struct background *background = watched_runner(&event);

	is_held = true;
	background_add(background, &large);
	while (!has_begun)
		usleep(100);
	for (int i = 0; i < 3; i++)
		cr_expect(is_alive());
	is_held = false;
	background_drain(background, BACKGROUND_FOR_EVER);
	await_alive();
	background_free(background);
	sd_event_unref(event);
}

/* A configuration reader that hangs in a directory service must not keep the daemon from ending. */
Test(background, it_is_abandoned_while_a_job_is_at_work, .timeout = 60)
{
	static struct background_job hangs = {.work = work, .done = done},
				     waits = {.work = work_in_order, .done = done};
	static struct background *background; /* the thread uses it until the process ends */
	sd_event *event;

	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, background_new(&background, event, "test", 0), 0));
	cr_expect(background_abandon(background), "nothing is at work");
	cr_assert(eq(int, background_new(&background, event, "test", 0), 0));
	is_held = true;
	background_add(background, &hangs);
	while (!has_begun)
		usleep(100);
	background_add(background, &waits);
	cr_expect(not(background_abandon(background)));
	is_held = false;
	usleep(10000);
	cr_expect(eq(u32, n_worked, 0), "no job begins after that");
	sd_event_unref(event);
}
