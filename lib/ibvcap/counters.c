// SPDX-License-Identifier: Apache-2.0
/* Labels of the counters that daemon and library share. They are the words that ibvcap prints, and JSON keys. */
#include "lib/ibvcap/counters.h"

const char *const rx_counter_labels[IBVCAP_RX_COUNTER_N] = {
	[IBVCAP_RX_COUNTER_MATCHED] = "matched",
	[IBVCAP_RX_COUNTER_PUBLISHED] = "published",
	[IBVCAP_RX_COUNTER_NO_BUFFER] = "no_buffer",
	[IBVCAP_RX_COUNTER_ERRORED] = "errored",
	[IBVCAP_RX_COUNTER_PUBLISHED_BYTES] = "published_bytes",
	[IBVCAP_RX_COUNTER_TRUNCATED] = "truncated",
	[IBVCAP_RX_COUNTER_SHORT] = "short",
	[IBVCAP_RX_COUNTER_IRREGULAR] = "irregular",
	[IBVCAP_RX_COUNTER_BAD_CHECKSUM] = "bad_checksum",
	[IBVCAP_RX_COUNTER_BATCHES] = "batches",
	[IBVCAP_RX_COUNTER_EMPTY_POLLS] = "empty_polls",
	[IBVCAP_RX_COUNTER_SPARES_USED] = "spares_used",
	[IBVCAP_RX_COUNTER_POSTED] = "posted",
	[IBVCAP_RX_COUNTER_QUEUE_RESETS] = "queue_resets",
	[IBVCAP_RX_COUNTER_WAKES] = "wakes",
	[IBVCAP_RX_COUNTER_FILL_MAX] = "fill_max",
	[IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS] = "no_buffer_lossless",
	[IBVCAP_RX_COUNTER_FRAGMENTS] = "fragments",
	[IBVCAP_RX_COUNTER_FRAGMENT_LOST_BYTES] = "fragment_lost_bytes",
};
static_assert(IBVCAP_RX_COUNTER_N == 19, "a counter wants its label here");

const char *const tx_counter_labels[IBVCAP_TX_COUNTER_N] = {
	[IBVCAP_TX_COUNTER_SUBMITTED] = "submitted",
	[IBVCAP_TX_COUNTER_COMPLETED] = "completed",
	[IBVCAP_TX_COUNTER_ERRORED] = "errored",
	[IBVCAP_TX_COUNTER_FLUSHED] = "flushed",
	[IBVCAP_TX_COUNTER_LATE_DROPPED] = "late_dropped",
	[IBVCAP_TX_COUNTER_COMPLETED_BYTES] = "completed_bytes",
	[IBVCAP_TX_COUNTER_WIRE_BYTES] = "wire_bytes",
	[IBVCAP_TX_COUNTER_LATE] = "late",
	[IBVCAP_TX_COUNTER_TIMED] = "timed",
	[IBVCAP_TX_COUNTER_TIMED_LATENESS_NS] = "timed_lateness_ns",
	[IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS] = "timed_lateness_max_ns",
	[IBVCAP_TX_COUNTER_PACED] = "paced",
	[IBVCAP_TX_COUNTER_PACED_LATENESS_NS] = "paced_lateness_ns",
	[IBVCAP_TX_COUNTER_PACED_LATENESS_MAX_NS] = "paced_lateness_max_ns",
	[IBVCAP_TX_COUNTER_IDLE_KICKS] = "idle_kicks",
	[IBVCAP_TX_COUNTER_BATCHES] = "batches",
	[IBVCAP_TX_COUNTER_QUEUE_RESETS] = "queue_resets",
	[IBVCAP_TX_COUNTER_WAKES] = "wakes",
	[IBVCAP_TX_COUNTER_BAD_SENDERS] = "bad_senders",
};
static_assert(IBVCAP_TX_COUNTER_N == 19, "a counter wants its label here");

const char *const consumer_counter_labels[CONSUMER_COUNTER_N] = {
	[CONSUMER_COUNTER_PUBLISHED] = "published",
	[CONSUMER_COUNTER_DELIVERED] = "delivered",
	[CONSUMER_COUNTER_SKIPPED] = "skipped",
	[CONSUMER_COUNTER_LAG] = "lag",
	[CONSUMER_COUNTER_LEASED_BLOCKS] = "leased_blocks",
	[CONSUMER_COUNTER_GONE] = "gone",
	[CONSUMER_COUNTER_SOURCES] = "sources",
	[CONSUMER_COUNTER_ARRIVED] = "arrived",
	[CONSUMER_COUNTER_ONCE] = "once",
	[CONSUMER_COUNTER_REPEATED] = "repeated",
	[CONSUMER_COUNTER_SENT] = "sent",
	[CONSUMER_COUNTER_LOST] = "lost",
	[CONSUMER_COUNTER_LOST_BEFORE_CARD] = "lost_before_card",
	[CONSUMER_COUNTER_LOST_IN_CARD] = "lost_in_card",
	[CONSUMER_COUNTER_LOST_AFTER_CARD] = "lost_after_card",
	[CONSUMER_COUNTER_LOST_UNREAD] = "lost_unread",
	[CONSUMER_COUNTER_REORDERED] = "reordered",
	[CONSUMER_COUNTER_LATE] = "late",
	[CONSUMER_COUNTER_STRAY] = "stray",
	[CONSUMER_COUNTER_RESTARTED] = "restarted",
	[CONSUMER_COUNTER_UNREAD] = "unread",
	[CONSUMER_COUNTER_UNTRACKED] = "untracked",
};
static_assert(CONSUMER_COUNTER_N == 22, "a counter wants its label here");

const char *const stream_counter_labels[STREAM_COUNTER_N] = {
	[STREAM_COUNTER_IN_FLIGHT] = "in_flight", [STREAM_COUNTER_HEAD] = "head",
	[STREAM_COUNTER_NO_FRAME] = "no_frame",   [STREAM_COUNTER_RING_FULL] = "ring_full",
	[STREAM_COUNTER_NO_SOCKET] = "no_socket", [STREAM_COUNTER_UNBOUND] = "unbound",
};
static_assert(STREAM_COUNTER_N == 6, "a counter wants its label here");

const char *const channel_counter_labels[CHANNEL_COUNTER_N] = {
	[CHANNEL_COUNTER_PENDING] = "pending",
	[CHANNEL_COUNTER_SENDERS] = "senders",
};
static_assert(CHANNEL_COUNTER_N == 2, "a counter wants its label here");

const char *const interface_counter_labels[INTERFACE_COUNTER_N] = {
	[INTERFACE_COUNTER_OUT_OF_BUFFER] = "out_of_buffer",
	[INTERFACE_COUNTER_PORT_DISCARDS] = "port_discards",
};
static_assert(INTERFACE_COUNTER_N == 2, "a counter wants its label here");
