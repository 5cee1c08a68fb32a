// SPDX-License-Identifier: Apache-2.0
/* The kernel's events of interfaces, in a network namespace of the test's own. */
#include "daemon/net/link_watch.h"
#include "tests/unit/net/namespace.h"

#include <criterion/new/assert.h>
#include <net/if.h>

struct seen {
	unsigned index; /* of interest */
	bool came, went;
};

static void note(void *context, const struct link_change *change)
{
	struct seen *seen = context;

	seen->came |= change->index == seen->index && !change->is_gone;
	seen->went |= change->index == seen->index && change->is_gone;
}

static void run_events(sd_event *event)
{
	while (sd_event_run(event, 200000) > 0)
		;
}

Test(link_watch, an_interface_that_goes_and_comes_back_is_told_with_its_indexes, .init = enter_namespace)
{
	struct seen seen = {.index = if_nametoindex("test0")};
	struct link_watch *watch = NULL;
	sd_event *event = NULL;

	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, link_watch_new(&watch, event, note, &seen), 0));
	cr_assert(eq(int, system("ip link delete test0"), 0));
	run_events(event);
	cr_expect(seen.went);
	cr_assert(eq(int, system("ip link add test0 type veth peer name test1"), 0));
	seen = (struct seen){.index = if_nametoindex("test0")};
	run_events(event);
	cr_expect(seen.came && !seen.went);
	link_watch_free(watch);
	sd_event_unref(event);
}

Test(link_watch, a_flood_of_events_does_not_end_the_watch, .init = enter_namespace, .timeout = 60)
{
	struct seen seen = {.index = 0};
	struct link_watch *watch = NULL;
	sd_event *event = NULL;
	unsigned index = if_nametoindex("test0");

	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, link_watch_new(&watch, event, note, &seen), 0));
	cr_assert(eq(int,
	             system("for i in $(seq 400); do echo link set test0 down; echo link set test0 up; done | "
	                    "ip -batch -"),
	             0));
	run_events(event);
	cr_expect(seen.came, "dropped events are reported as a change of index 0");
	seen = (struct seen){.index = index};
	cr_assert(eq(int, system("ip link delete test0"), 0));
	run_events(event);
	cr_expect(seen.went);
	link_watch_free(watch);
	sd_event_unref(event);
}
