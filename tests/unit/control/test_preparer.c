// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/preparer.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdbool.h>
#include <unistd.h>

static _Atomic bool is_held, has_begun;

static void work(struct job *job)
{
	(void)job;
	has_begun = true;
	while (is_held)
		usleep(100);
}

static void done(struct job *job)
{
	(void)job;
}

static void await_alive(struct preparer *preparer)
{
	while (!preparer_is_alive(preparer))
		usleep(1000);
}

Test(preparer, it_is_alive_at_rest_and_between_two_pieces_of_work, .timeout = 60)
{
	struct job first = {.work = work, .done = done}, second = {.work = work, .done = done};
	struct preparer *preparer;
	sd_event *event;

	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, preparer_new(&preparer, event), 0));
	await_alive(preparer);
	await_alive(preparer);
	is_held = true;
	preparer_add(preparer, &first);
	preparer_add(preparer, &second);
	while (!has_begun)
		usleep(100);
	preparer_is_alive(preparer); /* asks, if it was not asked before */
	usleep(10000);
	cr_expect(not(preparer_is_alive(preparer)));
	is_held = false;
	await_alive(preparer);
	preparer_drain(preparer);
	preparer_free(preparer);
	sd_event_unref(event);
}

static uid_t order[4];
static _Atomic unsigned n_worked;

static void work_in_order(struct job *job)
{
	work(job);
	order[n_worked++] = job->user;
}

Test(preparer, a_user_waits_for_one_piece_of_anothers_at_most, .timeout = 60)
{
	struct job jobs[4] = {{.user = 1000}, {.user = 1000}, {.user = 1000}, {.user = 1001}};
	struct preparer *preparer;
	sd_event *event;

	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, preparer_new(&preparer, event), 0));
	is_held = true;
	for (int i = 0; i < 4; i++) {
		jobs[i].work = work_in_order;
		jobs[i].done = done;
		preparer_add(preparer, &jobs[i]);
		while (!has_begun)
			usleep(100);
	}
	is_held = false;
	preparer_drain(preparer);
	cr_expect(eq(u32, n_worked, 4));
	cr_expect(order[0] == 1000 && order[1] == 1001 && order[2] == 1000 && order[3] == 1000);
	preparer_free(preparer);
	sd_event_unref(event);
}

/* The largest arena that a channel may have takes a slow machine longer than a watchdog waits. */
Test(preparer, it_is_alive_for_as_long_as_its_memory_may_take, .timeout = 60)
{
	struct job large = {.work = work, .done = done, .bytes = UINT64_C(1) << 36}; /* 655 s */
	struct preparer *preparer;
	sd_event *event;

	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, preparer_new(&preparer, event), 0));
	is_held = true;
	preparer_add(preparer, &large);
	while (!has_begun)
		usleep(100);
	for (int i = 0; i < 3; i++)
		cr_expect(preparer_is_alive(preparer));
	is_held = false;
	preparer_drain(preparer);
	await_alive(preparer);
	preparer_free(preparer);
	sd_event_unref(event);
}
