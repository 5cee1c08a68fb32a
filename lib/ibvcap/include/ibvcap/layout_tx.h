// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes that ibvcapd shares with its senders, and nothing else: no functions. What layout.h says of segments,
 * positions, compatibility and byte order holds here too.
 *
 * Each sender has three segments, every one an anonymous memfd that it gets over the control socket.
 *
 *   arena          by config  daemon RW, sender RW   n_slots rows of slot_bytes: a packet's payload each
 *   sender page    4 KiB      daemon RW, sender RW   struct ibvcap_sender_page, descriptors
 *   sender state   4 KiB      daemon RW, sender RO   struct ibvcap_sender_state, statuses
 *
 * Packet k of a sender (u64, from 0, never wraps) has descriptor, payload row and status at k mod n_slots, always: no
 * descriptor can name a row that is not there or that overlaps another's. Cursors: completed <= submitted <= completed
 * + n_slots. The row and descriptor of packet k are the sender's until it is submitted, and again once it is completed.
 * What is written to a row in between may be sent or not; it can be of no other packet.
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
	IBVCAP_TX_FLAG_DROP_LATE = 1 << 0, /* when it would be late: do not send it, status -ETIME */
};

/* One a slot, 16 B: four share a cache line. Written before submitted is published; the daemon reads it once. */
struct ibvcap_tx_descriptor {
	uint64_t not_before_ns; /* UTC, of this host's CLOCK_REALTIME; 0 = as soon as may be */
	uint16_t length;        /* bytes of payload, from the start of the row; at most slot_bytes */
	uint16_t destination;   /* index into the channel's */
	uint32_t flags;         /* enum ibvcap_tx_flag */
};
static_assert(sizeof(struct ibvcap_tx_descriptor) == 16, "shared layout");

/* ---- counters ------------------------------------------------------------------------------------ */

/*
 * Of a sender, in its state; and of a channel: all its senders', also of those that are gone. Labels in counters.h.
 * Append only. Units: packets unless said. submitted = completed + errored + flushed + late_dropped + pending, exactly;
 * pending is what is left, 0 at rest.
 */
enum ibvcap_tx_counter {
	IBVCAP_TX_COUNTER_SUBMITTED,    /* as the daemon has seen it */
	IBVCAP_TX_COUNTER_COMPLETED,    /* sent, as the device says */
	IBVCAP_TX_COUNTER_ERRORED,      /* not sent: see their statuses */
	IBVCAP_TX_COUNTER_FLUSHED,      /* not sent, or unknown: its sender left, or the queue was reset (-ECANCELED) */
	IBVCAP_TX_COUNTER_LATE_DROPPED, /* not sent: late, and IBVCAP_TX_FLAG_DROP_LATE asked for that (-ETIME) */
	IBVCAP_TX_COUNTER_COMPLETED_BYTES, /* payload bytes of completed ones */
	IBVCAP_TX_COUNTER_WIRE_BYTES,      /* of completed ones: Ethernet frames with FCS, what a rate counts */
	IBVCAP_TX_COUNTER_LATE,            /* more than late_after after their time: posted nevertheless, or dropped */
	IBVCAP_TX_COUNTER_TIMED,           /* posted that had a time, not over 1000 s ago */
	IBVCAP_TX_COUNTER_TIMED_LATENESS_NS, /* sum over timed: posted this long after their time */
	IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS,
	IBVCAP_TX_COUNTER_PACED,             /* posted after waiting for the channel's rate */
	IBVCAP_TX_COUNTER_PACED_LATENESS_NS, /* sum over paced: posted this long after the schedule let them */
	IBVCAP_TX_COUNTER_PACED_LATENESS_MAX_NS,
	IBVCAP_TX_COUNTER_IDLE_KICKS, /* times that it woke the worker and had submitted nothing new; a few by chance */
	IBVCAP_TX_COUNTER_BATCHES,    /* chains handed to the device; of a channel only, as all that follow */
	IBVCAP_TX_COUNTER_QUEUE_RESETS,
	IBVCAP_TX_COUNTER_WAKES,       /* times that senders were to be woken: a system call of the worker each */
	IBVCAP_TX_COUNTER_BAD_SENDERS, /* put out for what their page said */
	IBVCAP_TX_COUNTER_N
};
#define IBVCAP_TX_COUNTERS_MAX 32
static_assert(IBVCAP_TX_COUNTER_N <= IBVCAP_TX_COUNTERS_MAX, "shared layout");

/* ---- a sender's two segments ---------------------------------------------------------------------- */

/* The daemon's about one sender; the sender maps it read-only. The first part is constant once ready. */
struct ibvcap_sender_state {
	struct ibvcap_segment segment;

	uint32_t n_slots;        /* a power of two */
	uint32_t slot_bytes;     /* distance between rows of the arena; the most a payload may have */
	uint32_t n_destinations; /* the channel has */
	uint32_t counters_n;     /* entries of counters[] in use by the writer */
	uint64_t arena_segment_bytes;
	uint64_t page_segment_bytes;
	uint64_t descriptors_offset; /* in the page: n_slots × struct ibvcap_tx_descriptor */
	uint64_t statuses_offset;    /* in this segment: n_slots × int32_t, 0 or negative errno */
	uint64_t rate_bps;           /* of the whole channel, in bits of frames with FCS; 0 = not limited */
	uint32_t burst_bytes;        /* with a rate: so many may leave at once */
	uint32_t page_bytes;         /* of the arena */
	uint64_t late_after_ns;
	uint64_t reserved0[3];
	char channel[IBVCAP_CHANNEL_NAME_MAX];

	/* Packets whose statuses are final. Daemon stores with release once a batch; the sender loads with acquire. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) completed;
	/* 1: the worker is about to sleep, and wants a byte on the socket when something is submitted: ring_tx.h. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint32_t) need_kick;
	IBVCAP_ATOMIC(uint32_t) connection; /* enum ibvcap_connection */
	IBVCAP_ATOMIC(uint32_t) reason;     /* enum ibvcap_disconnect */
	/* Futex word of this sender alone: changed, then woken, when completed passed what it asked for. */
	IBVCAP_ATOMIC(uint32_t) wake_word;

	/* Written by the worker; enum ibvcap_tx_counter. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) counters[IBVCAP_TX_COUNTERS_MAX];
};
static_assert(offsetof(struct ibvcap_sender_state, n_slots) == 32, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, rate_bps) == 80, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, channel) == 128, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, completed) == 256, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, need_kick) == 384, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, wake_word) == 396, "shared layout");
static_assert(offsetof(struct ibvcap_sender_state, counters) == 512, "shared layout");
static_assert(sizeof(struct ibvcap_sender_state) == 768, "shared layout");

/* The sender's own; the daemon reads each word of it once, bounds what it read, and trusts none of it. */
struct ibvcap_sender_page {
	struct ibvcap_segment segment;
	/* "Wake me at completed >= wake_at"; 0 = no request. wake_socket: by a byte, else on the state's word. */
	IBVCAP_ATOMIC(uint64_t) wake_at;
	IBVCAP_ATOMIC(uint32_t) wake_socket;
	uint8_t reserved0[84];
	/* Packets whose descriptors and payloads are written; stored by the sender, see ring_tx.h. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) submitted;
};
static_assert(offsetof(struct ibvcap_sender_page, wake_at) == 32, "shared layout");
static_assert(offsetof(struct ibvcap_sender_page, submitted) == 128, "shared layout");
static_assert(sizeof(struct ibvcap_sender_page) == 256, "shared layout");

#endif
