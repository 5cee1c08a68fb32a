// SPDX-License-Identifier: Apache-2.0
/* Counters beside those of the shared memory, and the labels of all: one table for each enum. */
#ifndef IBVCAP_COUNTERS_H
#define IBVCAP_COUNTERS_H

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

/** Labels of enum ibvcap_rx_counter, in its order; IBVCAP_RX_COUNTER_N entries. */
extern const char *const rx_counter_labels[IBVCAP_RX_COUNTER_N];

/** Labels of enum ibvcap_tx_counter, in its order; IBVCAP_TX_COUNTER_N entries. */
extern const char *const tx_counter_labels[IBVCAP_TX_COUNTER_N];

/* What a status says about a consumer; nothing about a tap, which the daemon does not follow. Units: packets. */
enum consumer_counter {
	CONSUMER_COUNTER_PUBLISHED, /* rows since it attached; = delivered + skipped + lag */
	CONSUMER_COUNTER_DELIVERED,
	CONSUMER_COUNTER_SKIPPED,
	CONSUMER_COUNTER_LAG,
	CONSUMER_COUNTER_LEASED_BLOCKS, /* blocks */
	CONSUMER_COUNTER_GONE,          /* of lag: recycled already, so the consumer will skip them when it goes on */
	/* What its tracker says of the packets' own numbers; absent without one. ibvcap.h defines the words. */
	CONSUMER_COUNTER_SOURCES,
	CONSUMER_COUNTER_ARRIVED, /* = once + repeated */
	CONSUMER_COUNTER_ONCE,
	CONSUMER_COUNTER_REPEATED,
	CONSUMER_COUNTER_SENT, /* = once + lost */
	CONSUMER_COUNTER_LOST,
	/* The four parts of lost; absent if a packet takes several numbers. */
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
	CONSUMER_COUNTER_N
};
extern const char *const consumer_counter_labels[CONSUMER_COUNTER_N];

#define COUNTER_ABSENT UINT64_MAX /* the device does not have this counter */

/* What a status adds to the counters of a ring. */
enum stream_counter {
	STREAM_COUNTER_IN_FLIGHT, /* matched - published - no_buffer - errored */
	STREAM_COUNTER_HEAD,      /* rows: published + errored */
	/* The causes of no_buffer, in the order of enum backend_drop; of the last reading of matched. */
	STREAM_COUNTER_NO_FRAME,
	STREAM_COUNTER_RING_FULL,
	STREAM_COUNTER_NO_SOCKET,
	STREAM_COUNTER_UNBOUND,
	STREAM_COUNTER_N
};
#define STREAM_DROPS_N (STREAM_COUNTER_N - STREAM_COUNTER_NO_FRAME)
extern const char *const stream_counter_labels[STREAM_COUNTER_N];

/* What a status adds to the counters of a channel. */
enum channel_counter {
	CHANNEL_COUNTER_PENDING, /* submitted - completed - errored - flushed - late_dropped */
	CHANNEL_COUNTER_SENDERS, /* handles that have it open, including those that are being closed */
	CHANNEL_COUNTER_N
};
extern const char *const channel_counter_labels[CHANNEL_COUNTER_N];

/* What a status says about a sender: the counters of enum ibvcap_tx_counter before BATCHES, then this. */
enum sender_counter { SENDER_COUNTER_PENDING = IBVCAP_TX_COUNTER_BATCHES, SENDER_COUNTER_N };

/* What a status says about an interface. */
enum interface_counter {
	INTERFACE_COUNTER_OUT_OF_BUFFER, /* the device's own count of drops for want of a posted slot, since start */
	INTERFACE_COUNTER_PORT_DISCARDS, /* dropped by the port before steering, since start */
	INTERFACE_COUNTER_N
};
extern const char *const interface_counter_labels[INTERFACE_COUNTER_N];

#endif
