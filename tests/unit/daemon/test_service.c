// SPDX-License-Identifier: Apache-2.0
/* Services take their steps side by side, and only those that are there are found and counted. */
#include "daemon/state/service.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct service_list list;
static char steps[128];
static const char *fails;

static int take(struct service *service, const char *step)
{
	size_t used = strlen(steps);

	snprintf(steps + used, sizeof(steps) - used, "%s%s ", step, service->name);
	return fails && strcmp(service->name, fails) == 0 ? -EIO : 0;
}

static int start(struct daemon *daemon, struct service *service, struct failure *failure)
{
	(void)daemon;
	(void)failure;
	return take(service, "start:");
}

static int serve(struct daemon *daemon, struct service *service, struct failure *failure)
{
	(void)daemon;
	(void)failure;
	return take(service, "serve:");
}

static void memory(const struct service *service, struct service_memory *sum)
{
	(void)service;
	sum->ring_bytes += 10;
}

static const struct service_ops stream_ops = {
	.kind = SERVICE_STREAM,
	.steps = {[SERVICE_START] = start, [SERVICE_SERVE] = serve},
	.memory = memory,
};
static const struct service_ops channel_ops = {
	.kind = SERVICE_CHANNEL,
	.steps = {[SERVICE_SERVE] = serve},
	.memory = memory,
};

static struct service a = {.ops = &stream_ops, .name = "a"}, b = {.ops = &stream_ops, .name = "b"},
		      c = {.ops = &channel_ops, .name = "a"};

static void set_up(void)
{
	TAILQ_INIT(&list);
	TAILQ_INSERT_TAIL(&list, &a, link);
	TAILQ_INSERT_TAIL(&list, &b, link);
	TAILQ_INSERT_TAIL(&list, &c, link);
}

TestSuite(service, .init = set_up);

Test(service, all_take_one_step_before_the_next)
{
	cr_assert(eq(int, service_walk(NULL, &list, SERVICE_START, SERVICE_CAPTURE, NULL), 0));
	cr_expect_str_eq(steps, "start:a start:b serve:a serve:b serve:a ");
}

Test(service, the_first_failure_ends_the_walk)
{
	fails = "b";
	cr_assert(eq(int, service_walk(NULL, &list, SERVICE_START, SERVICE_CAPTURE, NULL), -EIO));
	cr_expect_str_eq(steps, "start:a start:b ");
}

Test(service, a_removed_one_is_not_found_and_still_has_its_memory)
{
	cr_expect(eq(ptr, service_find(&list, SERVICE_STREAM, "a"), &a));
	cr_expect(eq(ptr, service_find(&list, SERVICE_CHANNEL, "a"), &c));
	cr_expect(zero(ptr, service_find(&list, SERVICE_CHANNEL, "b")));
	a.removed = true;
	cr_expect(zero(ptr, service_find(&list, SERVICE_STREAM, "a")));
	cr_expect(eq(u64, service_memory_of(&list, true).ring_bytes, 30));
}
