// SPDX-License-Identifier: Apache-2.0
/* Labels of the shared counters: one table an enum, also the JSON keys. */
#ifndef IBVCAP_COUNTERS_H
#define IBVCAP_COUNTERS_H

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

/** Labels of enum ibvcap_ring_counter, in its order; IBVCAP_CTR_N entries. */
extern const char *const ring_counter_labels[IBVCAP_CTR_N];

/** Labels of enum ibvcap_tx_counter, in its order; IBVCAP_TX_CTR_N entries. */
extern const char *const tx_counter_labels[IBVCAP_TX_CTR_N];

/* What control sends about a consumer. Units: packets unless said. */
enum consumer_counter {
	CONSUMER_CTR_PUBLISHED, /* rows since it attached; = delivered + skipped + lag */
	CONSUMER_CTR_DELIVERED,
	CONSUMER_CTR_SKIPPED,
	CONSUMER_CTR_LAG,
	CONSUMER_CTR_LEASED_BLOCKS,
	CONSUMER_CTR_N
};
extern const char *const consumer_counter_labels[CONSUMER_CTR_N];

/* What control adds to a ring's own counters in a status answer. */
enum stream_counter {
	STREAM_CTR_IN_FLIGHT, /* matched - published - no_buffer - errored */
	STREAM_CTR_HEAD,      /* rows: published + errored */
	STREAM_CTR_N
};
extern const char *const stream_counter_labels[STREAM_CTR_N];

/* What control adds to a channel's own counters in a status answer. */
enum channel_counter {
	CHANNEL_CTR_PENDING, /* submitted - completed - errored - flushed - late_dropped */
	CHANNEL_CTR_SENDERS, /* that have it open, those on their way out included */
	CHANNEL_CTR_N
};
extern const char *const channel_counter_labels[CHANNEL_CTR_N];

/* What control sends about a sender: enum ibvcap_tx_counter as far as senders have it, then this. */
enum sender_counter { SENDER_CTR_PENDING = IBVCAP_TX_CTR_BATCHES, SENDER_CTR_N };

/* Per interface. */
enum interface_counter {
	INTERFACE_CTR_OUT_OF_BUFFER, /* the device's own count of drops for want of a posted slot, since start */
	INTERFACE_CTR_PORT_DISCARDS, /* dropped by the port before steering, since start */
	INTERFACE_CTR_N
};
extern const char *const interface_counter_labels[INTERFACE_CTR_N];

#endif
