// SPDX-License-Identifier: Apache-2.0
/* Helpers around sd-event. */
#include "daemon/base/loop.h"

#include "lib/base/size.h"

#define TIMER_SLACK_US UINT64_C(100)

uint64_t loop_now_us(sd_event *event)
{
	uint64_t now_us = 0;

	sd_event_now(event, CLOCK_MONOTONIC, &now_us);
	return now_us;
}

int loop_add_timer(sd_event *event, sd_event_source **timer, sd_event_time_handler_t handler, void *context)
{
	int r = sd_event_add_time(event, timer, CLOCK_MONOTONIC, 0, TIMER_SLACK_US, handler, context);

	return r < 0 ? r : sd_event_source_set_enabled(*timer, SD_EVENT_OFF);
}

void loop_arm(sd_event_source *timer, uint64_t after_us)
{
	sd_event_source_set_time_relative(timer, after_us);
	sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

bool loop_should_log(uint64_t n_events)
{
	return is_power_of_two(n_events);
}
