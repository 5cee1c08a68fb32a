// SPDX-License-Identifier: Apache-2.0
/*
 * Clock, one-shot timers and the limit on repeated log lines, for the control thread's event loop. Control thread only.
 */
#ifndef DAEMON_BASE_LOOP_H
#define DAEMON_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

/** CLOCK_MONOTONIC at the start of the loop's present iteration, in microseconds. */
uint64_t loop_now_us(sd_event *event);

/** A one-shot timer, which loop_arm() starts. 0 or -errno. */
int loop_add_timer(sd_event *event, sd_event_source **timer, sd_event_time_handler_t handler, void *context);
void loop_arm(sd_event_source *timer, uint64_t after_us);

/**
 * Clients can cause some events as often as they like. True for the first such event and then whenever their number has
 * doubled, so that the log stays short. n_events: how many there were, this one included.
 */
bool loop_should_log(uint64_t n_events);

#endif
