// SPDX-License-Identifier: Apache-2.0
/*
 * The layout of the memory that ibvcapd shares with its senders. No functions. Segments, positions, compatibility and
 * byte order are as in layout.h.
 *
 * Each sender has three segments, anonymous memfds that it gets over the control socket.
 *
 *   arena          by config  daemon RW, sender RW   n_slots rows of slot_bytes: a packet's payload each
 *   sender page    4 KiB      daemon RW, sender RW   struct ibvcap_sender_page, descriptors
 *   sender state   4 KiB      daemon RW, sender RO   struct ibvcap_sender_state, statuses
 *
 * Packet k of a sender (u64, from 0, never wraps) always has its descriptor, payload row and status at k mod n_slots.
 * So no descriptor can name a row outside of the arena or one of another packet. Cursors: completed <= submitted <=
 * completed + n_slots. The sender may write to the row and descriptor of packet k until it submits the packet, and
 * again once it is completed. If it writes to the row in between, the device sends the old bytes or the new ones.
 */
#ifndef IBVCAP_LAYOUT_TX_H
#define IBVCAP_LAYOUT_TX_H

#include <ibvcap/layout.h>

#define IBVCAP_SENDER_STATE_MAGIC UINT64_C(0x5453444e45534349) /* "ICSENDST" */
#define IBVCAP_SENDER_PAGE_MAGIC  UINT64_C(0x4750444e45534349) /* "ICSENDPG" */

#define IBVCAP_CHANNEL_NAME_MAX 64 /* with the closing NUL */
#define IBVCAP_TX_SLOTS_MIN     64
#define IBVCAP_TX_SLOTS_MAX     (1 << 20) /* n_slots is a power of two */

/* ---- descriptors --------------------------------------------------------------------------------- */

enum ibvcap_tx_flag {
	IBVCAP_TX_FLAG_DROP_LATE = 1 << 0, /* do not send the packet if it is late: its status is -ETIME then */
};

/* One for each slot; four share a cache line. The sender writes it before submitted; the worker reads it once. */
struct ibvcap_tx_descriptor {
	uint64_t not_before_ns; /* ns since 1970, UTC, of this host's CLOCK_REALTIME; 0 = as soon as possible */
	uint16_t length;        /* bytes of payload, from the start of the row; at most slot_bytes */
	uint16_t destination;   /* index of one of the channel's destinations */
	uint32_t flags;         /* enum ibvcap_tx_flag */
};
static_assert(sizeof(struct ibvcap_tx_descriptor) == 16, "shared layout");

/* ---- counters ------------------------------------------------------------------------------------ */

/*
 * Indices of a sender's counters, in its state, and of a channel's, the sums over all its senders so far. Labels are in
 * counters.h. Append only. Units: packets unless said. submitted = completed + errored + flushed + late_dropped +
 * pending, exactly; pending is the rest, 0 when the worker has nothing to do.
 */
enum ibvcap_tx_counter {
	IBVCAP_TX_COUNTER_SUBMITTED, /* as the worker has read it */
	IBVCAP_TX_COUNTER_COMPLETED, /* sent, as the device reports */
	IBVCAP_TX_COUNTER_ERRORED,   /* not sent: see their statuses */
	IBVCAP_TX_COUNTER_FLUSHED,   /* not sent, or unknown: the sender closed, or the queue was reset (-ECANCELED) */
	IBVCAP_TX_COUNTER_LATE_DROPPED,    /* not sent: late, with IBVCAP_TX_FLAG_DROP_LATE, or by etf (-ETIME) */
	IBVCAP_TX_COUNTER_COMPLETED_BYTES, /* payload bytes of completed ones */
	IBVCAP_TX_COUNTER_WIRE_BYTES,      /* of completed ones: Ethernet frames with FCS, what a rate counts */
	IBVCAP_TX_COUNTER_LATE,            /* more than late_after after their time: posted all the same, or dropped */
	IBVCAP_TX_COUNTER_TIMED,           /* posted with a send time of less than 1000 s ago */
	IBVCAP_TX_COUNTER_TIMED_LATENESS_NS, /* sum over timed: from the send time to the post */
	IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS,
	IBVCAP_TX_COUNTER_PACED,             /* posted after waiting for the channel's rate */
	IBVCAP_TX_COUNTER_PACED_LATENESS_NS, /* sum over paced: from the scheduled time to the post */
	IBVCAP_TX_COUNTER_PACED_LATENESS_MAX_NS,
	IBVCAP_TX_COUNTER_IDLE_KICKS, /* times that it woke the worker without a new packet; a few happen by chance */
	/* The next four are of channels only, 0 of a sender. */
	IBVCAP_TX_COUNTER_BATCHES, /* chains handed to the device */
	IBVCAP_TX_COUNTER_QUEUE_RESETS,
	IBVCAP_TX_COUNTER_WAKES,       /* times that the worker asked for senders to be woken, a system call each */
	IBVCAP_TX_COUNTER_BAD_SENDERS, /* senders disconnected because of what their page said, or for idle kicks */
	IBVCAP_TX_COUNTER_FRAGMENTED,  /* completed ones that were longer than the MTU and left as IP fragments */
	IBVCAP_TX_COUNTER_FRAGMENTS,   /* frames that these were cut into */
	IBVCAP_TX_COUNTER_N
};
#define IBVCAP_TX_COUNTERS_MAX 32
static_assert(IBVCAP_TX_COUNTER_N <= IBVCAP_TX_COUNTERS_MAX, "shared layout");

/* ---- a sender's two segments ---------------------------------------------------------------------- */

/* The daemon's segment about one sender, which maps it read-only. The first part is constant once ready. */
struct ibvcap_sender_state {
	struct ibvcap_segment segment;

	uint32_t n_slots;        /* a power of two */
	uint32_t slot_bytes;     /* distance between rows of the arena, and the longest payload */
	uint32_t n_destinations; /* of the channel */
	uint32_t counters_n;     /* entries of counters[] in use by the writer */
	uint64_t arena_segment_bytes;
	uint64_t page_segment_bytes;
	uint64_t descriptors_offset; /* in the page: n_slots × struct ibvcap_tx_descriptor */
	uint64_t statuses_offset;    /* in this segment: n_slots × int32_t, 0 or negative errno */
	uint64_t rate_bps;           /* of the whole channel, in bits of frames with FCS; 0 = not limited */
	uint32_t burst_bytes;        /* of a channel with a rate: bytes that may leave at once */
	uint32_t page_bytes;         /* of the arena */
	uint64_t late_after_ns;
	uint64_t reserved0[3];
	char channel[IBVCAP_CHANNEL_NAME_MAX];

	/* Packets whose statuses are final. The worker stores it with release; the sender loads it with acquire. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) completed;
	/* 1: the worker sleeps and needs a byte on the socket when the sender submits a packet: ring_tx.h. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint32_t) need_kick;
	struct ibvcap_client_link link;

	/* Written by the worker; enum ibvcap_tx_counter. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) counters[IBVCAP_TX_COUNTERS_MAX];
};
static_assert(offsetof(struct ibvcap_sender_state, n_slots) == 32, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, rate_bps) == 80, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, channel) == 128, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, completed) == 256, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, need_kick) == 384, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, link) == 388, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, counters) == 512, "shared layout");
static_assert(sizeof(struct ibvcap_sender_state) == 768, "shared layout");

/* The sender's own page. The daemon reads each word once, checks its bounds, and trusts none of it. */
struct ibvcap_sender_page {
	struct ibvcap_segment segment;
	struct ibvcap_wake_request wake;
	uint8_t reserved0[80];
	/* Packets whose descriptors and payloads the sender has written; see ring_tx.h. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) submitted;
};
static_assert(offsetof(struct ibvcap_sender_page, wake) == 32, "shared layout");
static_assert(offsetof(struct ibvcap_sender_page, submitted) == 128, "shared layout");
static_assert(sizeof(struct ibvcap_sender_page) == 256, "shared layout");

#endif
