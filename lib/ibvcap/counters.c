// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/counters.h"

const char *const ring_counter_labels[IBVCAP_CTR_N] = {
	[IBVCAP_CTR_MATCHED] = "matched",
	[IBVCAP_CTR_PUBLISHED] = "published",
	[IBVCAP_CTR_NO_BUFFER] = "no_buffer",
	[IBVCAP_CTR_ERRORED] = "errored",
	[IBVCAP_CTR_PUBLISHED_BYTES] = "published_bytes",
	[IBVCAP_CTR_TRUNCATED] = "truncated",
	[IBVCAP_CTR_SHORT] = "short",
	[IBVCAP_CTR_IRREGULAR] = "irregular",
	[IBVCAP_CTR_BAD_CHECKSUM] = "bad_checksum",
	[IBVCAP_CTR_BATCHES] = "batches",
	[IBVCAP_CTR_EMPTY_POLLS] = "empty_polls",
	[IBVCAP_CTR_SPARES_USED] = "spares_used",
	[IBVCAP_CTR_POSTED] = "posted",
	[IBVCAP_CTR_QUEUE_RESETS] = "queue_resets",
	[IBVCAP_CTR_WAKES] = "wakes",
	[IBVCAP_CTR_FILL_MAX] = "fill_max",
};
static_assert(IBVCAP_CTR_N == 16, "a counter wants its label here");

const char *const tx_counter_labels[IBVCAP_TX_CTR_N] = {
	[IBVCAP_TX_CTR_SUBMITTED] = "submitted",
	[IBVCAP_TX_CTR_COMPLETED] = "completed",
	[IBVCAP_TX_CTR_ERRORED] = "errored",
	[IBVCAP_TX_CTR_FLUSHED] = "flushed",
	[IBVCAP_TX_CTR_LATE_DROPPED] = "late_dropped",
	[IBVCAP_TX_CTR_COMPLETED_BYTES] = "completed_bytes",
	[IBVCAP_TX_CTR_WIRE_BYTES] = "wire_bytes",
	[IBVCAP_TX_CTR_LATE] = "late",
	[IBVCAP_TX_CTR_TIMED] = "timed",
	[IBVCAP_TX_CTR_TIMED_LATENESS_NS] = "timed_lateness_ns",
	[IBVCAP_TX_CTR_TIMED_LATENESS_MAX_NS] = "timed_lateness_max_ns",
	[IBVCAP_TX_CTR_PACED] = "paced",
	[IBVCAP_TX_CTR_PACED_LATENESS_NS] = "paced_lateness_ns",
	[IBVCAP_TX_CTR_PACED_LATENESS_MAX_NS] = "paced_lateness_max_ns",
	[IBVCAP_TX_CTR_IDLE_KICKS] = "idle_kicks",
	[IBVCAP_TX_CTR_BATCHES] = "batches",
	[IBVCAP_TX_CTR_QUEUE_RESETS] = "queue_resets",
	[IBVCAP_TX_CTR_WAKES] = "wakes",
	[IBVCAP_TX_CTR_BAD_SENDERS] = "bad_senders",
};
static_assert(IBVCAP_TX_CTR_N == 19, "a counter wants its label here");

const char *const consumer_counter_labels[CONSUMER_CTR_N] = {
	[CONSUMER_CTR_PUBLISHED] = "published",
	[CONSUMER_CTR_DELIVERED] = "delivered",
	[CONSUMER_CTR_SKIPPED] = "skipped",
	[CONSUMER_CTR_LAG] = "lag",
	[CONSUMER_CTR_LEASED_BLOCKS] = "leased_blocks",
};
static_assert(CONSUMER_CTR_N == 5, "a counter wants its label here");

const char *const stream_counter_labels[STREAM_CTR_N] = {
	[STREAM_CTR_IN_FLIGHT] = "in_flight",
	[STREAM_CTR_HEAD] = "head",
};
static_assert(STREAM_CTR_N == 2, "a counter wants its label here");

const char *const channel_counter_labels[CHANNEL_CTR_N] = {
	[CHANNEL_CTR_PENDING] = "pending",
	[CHANNEL_CTR_SENDERS] = "senders",
};
static_assert(CHANNEL_CTR_N == 2, "a counter wants its label here");

const char *const interface_counter_labels[INTERFACE_CTR_N] = {
	[INTERFACE_CTR_OUT_OF_BUFFER] = "out_of_buffer",
	[INTERFACE_CTR_PORT_DISCARDS] = "port_discards",
};
static_assert(INTERFACE_CTR_N == 2, "a counter wants its label here");
