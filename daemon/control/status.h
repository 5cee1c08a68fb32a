// SPDX-License-Identifier: Apache-2.0
/*
 * The status that a client asks for. It is fresh: control asks for new readings of the flow counters first, and gives
 * the workers time to account for them. If no packets arrive meanwhile, the status shows none in flight. If a device
 * does not answer in time, the status has its last readings and their age. Clients that ask at the same time share one
 * such refresh. Control thread only. Declares status_consumer.c, status_stream.c.
 */
#ifndef DAEMON_CONTROL_STATUS_H
#define DAEMON_CONTROL_STATUS_H

#include "daemon/base/reading.h"
#include "lib/status/counters.h"

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct config_channel;
struct config_stream;
struct rx_endpoint;
struct rx_session;
struct rx_stream;
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

/** In status_stream.c, for status.c: each queue of a stream with its consumers, then the flows. 0 or -ENOMEM. */
int status_append_stream(struct reply *reply, const struct rx_stream *stream);

/** In status_stream.c, for status.c: one of the configuration that is closed now, and why (below). 0 or -ENOMEM. */
int status_append_closed_stream(struct reply *reply, const struct config_stream *config, const char *why);
int status_append_closed_channel(struct reply *reply, const struct config_channel *config, const char *why);

/** In status.c: the answer of closed_why in struct control_options. */
const char *status_closed_why(const struct control *control, const char *interface, bool is_lent);

/** The age of a reading as a status has it. */
uint32_t status_age_ms(const struct reading *reading);

/** In status_consumer.c, for status_stream.c: the consumers of a queue, then its taps. 0 or -ENOMEM. */
int status_append_consumers(struct reply *reply, const struct rx_endpoint *endpoint);

/** In status_stream.c, for status.c: a channel, followed by its senders. 0 or -ENOMEM. */
int status_append_channel(struct reply *reply, const struct tx_endpoint *endpoint);

/** A client asks; it is answered when the refresh is through. 0, or -errno: disconnect. */
int status_request(struct session *session);

/** Read the counters of a consumer of a queue. */
void status_read_consumer(const struct rx_endpoint *endpoint, const struct rx_session *rx,
                          uint64_t counters[CONSUMER_COUNTER_N]);

/* Input of status_count_consumer(), which says in which order to read the members. */
struct status_consumer_view {
	uint64_t floor; /* of the ring: the oldest block number that can still be leased */
	uint32_t slots_per_block;
	uint64_t leases[IBVCAP_LEASE_SLOTS_MAX]; /* block number + 1, 0 = free */
	uint32_t lease_blocks;                   /* entries of leases */
	uint64_t attach_sequence;
	uint64_t delivered;
	uint64_t skipped;
	uint64_t head;
	uint64_t tracked[IBVCAP_TRACKED_COUNTER_N];
	bool numbers_are_packets; /* each packet takes one number of its own */
};

/**
 * Makes published = delivered + skipped + lag hold, whatever the consumer wrote into its page: limits delivered to
 * published, and skipped to the rest. For an honest consumer, only lag ever shrinks.
 *
 * What the consumer's tracker counts is limited, and the sums are made of it here, so that they hold, too. Without a
 * tracker, these counters are absent.
 *
 * gone is the part of lag that is recycled already. It is never too large if the view is read from its first field to
 * its last: a block below floor was leased before floor was read, or never will be, so without a lease on it, the
 * consumer cannot acquire more of it than the counts, which are read last, say. Pure.
 */
void status_count_consumer(const struct status_consumer_view *view, uint64_t counters[CONSUMER_COUNTER_N]);

#endif
