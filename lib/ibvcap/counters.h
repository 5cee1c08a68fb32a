// SPDX-License-Identifier: Apache-2.0
/* Labels of the shared counters: one table an enum, also the JSON keys. */
#ifndef IBVCAP_COUNTERS_H
#define IBVCAP_COUNTERS_H

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

/** Labels of enum ibvcap_rx_counter, in its order; IBVCAP_RX_COUNTER_N entries. */
extern const char *const rx_counter_labels[IBVCAP_RX_COUNTER_N];

/** Labels of enum ibvcap_tx_counter, in its order; IBVCAP_TX_COUNTER_N entries. */
extern const char *const tx_counter_labels[IBVCAP_TX_COUNTER_N];

/* What control sends about a consumer. Units: packets unless said. */
enum consumer_counter {
	CONSUMER_COUNTER_PUBLISHED, /* rows since it attached; = delivered + skipped + lag */
	CONSUMER_COUNTER_DELIVERED,
	CONSUMER_COUNTER_SKIPPED,
	CONSUMER_COUNTER_LAG,
	CONSUMER_COUNTER_LEASED_BLOCKS,
	CONSUMER_COUNTER_N
};
extern const char *const consumer_counter_labels[CONSUMER_COUNTER_N];

/* What control adds to a ring's own counters in a status answer. */
enum stream_counter {
	STREAM_COUNTER_IN_FLIGHT, /* matched - published - no_buffer - errored */
	STREAM_COUNTER_HEAD,      /* rows: published + errored */
	STREAM_COUNTER_N
};
extern const char *const stream_counter_labels[STREAM_COUNTER_N];

/* What control adds to a channel's own counters in a status answer. */
enum channel_counter {
	CHANNEL_COUNTER_PENDING, /* submitted - completed - errored - flushed - late_dropped */
	CHANNEL_COUNTER_SENDERS, /* that have it open, those on their way out included */
	CHANNEL_COUNTER_N
};
extern const char *const channel_counter_labels[CHANNEL_COUNTER_N];

/* What control sends about a sender: enum ibvcap_tx_counter as far as senders have it, then this. */
enum sender_counter { SENDER_COUNTER_PENDING = IBVCAP_TX_COUNTER_BATCHES, SENDER_COUNTER_N };

/* Per interface. */
enum interface_counter {
	INTERFACE_COUNTER_OUT_OF_BUFFER, /* the device's own count of drops for want of a posted slot, since start */
	INTERFACE_COUNTER_PORT_DISCARDS, /* dropped by the port before steering, since start */
	INTERFACE_COUNTER_N
};
extern const char *const interface_counter_labels[INTERFACE_COUNTER_N];

#endif
