// SPDX-License-Identifier: Apache-2.0
/*
 * What the daemon says about itself. An answer is fresh: the flow counters are read for it, and the
 * workers given time to strike their sums, before it is put together; at rest nothing is in flight then.
 * Clients who ask at the same time share one refresh. Control thread only.
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
	bool active; /* readings are taken, or it rests after them */
	bool resting;
	uint64_t deadline_us;
	sd_event_source *timer;
};

/** 0 or -errno. */
int status_init(struct control *control);
void status_deinit(struct control *control);

/** Inside of the room: status_channel.c. A channel, followed by its senders. -ENOMEM. */
int status_append_channel(struct reply *reply, const struct tx_endpoint *endpoint);

/** A client asks; it is answered when the refresh is through. 0, or -errno: hang up. */
int status_request(struct session *session);

/**
 * published = delivered + skipped + lag, exactly, whatever the page said: delivered <= published and then
 * skipped <= published - delivered are forced. Of an honest consumer none but lag ever shrinks. Pure.
 */
void status_count_consumer(uint64_t published, uint64_t delivered, uint64_t skipped,
                           uint64_t counters[CONSUMER_COUNTER_N]);

#endif
