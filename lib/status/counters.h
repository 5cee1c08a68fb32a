// SPDX-License-Identifier: Apache-2.0
/*
 * Counters of a status beside those of the shared memory, and the rows of all. The index of a counter is its place in
 * messages: numbers are only appended, so that daemon and library may know different ones.
 */
#ifndef STATUS_COUNTERS_H
#define STATUS_COUNTERS_H

#include "lib/status/drop.h"
#include "lib/status/status.h"

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

#define COUNTER_ABSENT UINT64_MAX /* the device does not have this counter */

/* Behind enum ibvcap_rx_counter and ibvcap_tx_counter, with room for these to grow. */
#define COUNTERS_ADDED 32

/* Counters that a status has beside those of a ring. */
enum stream_counter {
	STREAM_COUNTER_IN_FLIGHT = COUNTERS_ADDED, /* matched without what is in another term of the sum */
	STREAM_COUNTER_HEAD,                       /* rows: published + errored */
	STREAM_COUNTER_DROPS, /* of no_buffer, at the last reading of matched: one for each enum backend_drop */
	STREAM_COUNTER_N = STREAM_COUNTER_DROPS + BACKEND_N_DROPS
};

/* Counters that a status has beside those of a channel; pending also beside those of a sender. */
enum channel_counter {
	CHANNEL_COUNTER_PENDING = COUNTERS_ADDED, /* submitted - completed - errored - flushed - late_dropped */
	CHANNEL_COUNTER_SENDERS,
	CHANNEL_COUNTER_N
};

/* Counters of a consumer in a status; a tap has none, because the daemon does not follow it. */
enum consumer_counter {
	CONSUMER_COUNTER_PUBLISHED, /* rows since it attached; = delivered + skipped + lag */
	CONSUMER_COUNTER_DELIVERED,
	CONSUMER_COUNTER_SKIPPED,
	CONSUMER_COUNTER_LAG,
	CONSUMER_COUNTER_LEASED_BLOCKS,
	CONSUMER_COUNTER_GONE,
	/* Counts of its tracker, by the packets' own numbers; absent without a tracker. ibvcap.h defines the words. */
	CONSUMER_COUNTER_SOURCES,
	CONSUMER_COUNTER_ARRIVED, /* = once + repeated */
	CONSUMER_COUNTER_ONCE,
	CONSUMER_COUNTER_REPEATED,
	CONSUMER_COUNTER_SENT, /* = once + lost */
	CONSUMER_COUNTER_LOST,
	/* Parts of lost, as is LOST_IN_ABSENCE; absent if a packet takes several numbers. */
	CONSUMER_COUNTER_LOST_BEFORE_CARD,
	CONSUMER_COUNTER_LOST_IN_CARD,
	CONSUMER_COUNTER_LOST_AFTER_CARD,
	CONSUMER_COUNTER_LOST_UNREAD,
	CONSUMER_COUNTER_REORDERED,
	CONSUMER_COUNTER_LATE,
	CONSUMER_COUNTER_STRAY,
	CONSUMER_COUNTER_RESTARTED,
	CONSUMER_COUNTER_UNREAD,
	CONSUMER_COUNTER_UNTRACKED,
	CONSUMER_COUNTER_LOST_IN_ABSENCE,
	CONSUMER_COUNTER_N
};

/* Counters of an interface in a status. */
enum interface_counter {
	INTERFACE_COUNTER_OUT_OF_BUFFER,
	/* Lost before the flow rules saw them: of no stream. All but the port's are of the kernel's path. */
	INTERFACE_COUNTER_PORT_DISCARDS,
	INTERFACE_COUNTER_CARD_DROPPED,
	INTERFACE_COUNTER_DAMAGED,
	INTERFACE_COUNTER_BACKLOG_DROPPED,
	INTERFACE_COUNTER_KERNEL_DROPPED,
	INTERFACE_COUNTER_PEER_DROPPED,
	INTERFACE_COUNTER_DOWN_DROPPED,
	INTERFACE_COUNTER_N
};

/* Why packets are missing in a recording. struct recording_losses has the number of each, in this order. */
enum recording_cause {
	RECORDING_CAUSE_SKIPPED,
	RECORDING_CAUSE_DISK_WAIT,
	RECORDING_CAUSE_ERRORED,
	RECORDING_CAUSE_NO_BUFFER,
	RECORDING_CAUSE_RESTARTS,
	RECORDING_CAUSE_UNJOINED, /* of no_buffer */
	RECORDING_CAUSE_N
};

extern const struct status_field stream_counters[STREAM_COUNTER_N];
extern const struct status_field channel_counters[CHANNEL_COUNTER_N];
extern const struct status_field consumer_counters[CONSUMER_COUNTER_N];
extern const struct status_field interface_counters[INTERFACE_COUNTER_N];
extern const struct status_field recording_causes[RECORDING_CAUSE_N];

#endif
