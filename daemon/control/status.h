// SPDX-License-Identifier: Apache-2.0
/*
 * The status that a client asks for. It is fresh: control asks for new readings of the flow counters first, and gives
 * the workers time to account for them. If no packets arrive meanwhile, the status shows none in flight. If a device
 * does not answer in time, the status has its last readings and their age. Clients that ask at the same time share one
 * such refresh. Control thread only.
 */
#ifndef DAEMON_CONTROL_STATUS_H
#define DAEMON_CONTROL_STATUS_H

#include "lib/ibvcap/counters.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct tx_endpoint;
struct control;
struct reply;
struct session;

struct status_refresh {
	bool active; /* readings are taken, or the refresh rests after them */
	bool resting;
	uint64_t asked_ns; /* for the readings; CLOCK_MONOTONIC */
	uint64_t deadline_us;
	sd_event_source *timer;
};

/** 0 or -errno. */
int status_init(struct control *control);
void status_deinit(struct control *control);

/** In status_channel.c, for status.c: a channel, followed by its senders. 0 or -ENOMEM. */
int status_append_channel(struct reply *reply, const struct tx_endpoint *endpoint);

/** A client asks; it is answered when the refresh is through. 0, or -errno: disconnect. */
int status_request(struct session *session);

/**
 * Makes published = delivered + skipped + lag hold, whatever the consumer wrote into its page: limits delivered to
 * published, and skipped to the rest. For an honest consumer, only lag ever shrinks. Pure.
 */
void status_count_consumer(uint64_t published, uint64_t delivered, uint64_t skipped,
                           uint64_t counters[CONSUMER_COUNTER_N]);

#endif
