// SPDX-License-Identifier: Apache-2.0
/*
 * The hot path of receiving: turns completions into published rows. For the worker's thread only. Declares
 * rx_checksum.c, rx_unusual.c.
 */
#ifndef DAEMON_WORKER_RX_RECEIVE_H
#define DAEMON_WORKER_RX_RECEIVE_H

#include "daemon/backend/backend.h"
#include "daemon/clock/clock.h"
#include "daemon/packet/packet_plain.h"
#include "daemon/ring/rx_ring.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RX_RECEIVE_BATCH 64 /* completions a poll; post chunks are as large */

/* A plain packet of some length: what tells it, and what its row says. The meta follows from event and length. */
struct rx_kind {
	uint64_t event;         /* bytes, status and flags of its event; UINT64_MAX: none, of no packet */
	uint64_t headers;       /* packet_plain_word() */
	uint64_t meta;          /* all members of its meta behind the timestamp */
	uint16_t udp_length_be; /* in its UDP header */
	uint32_t length;        /* of its payload */
};

struct rx_receive {
	struct backend_queue *queue;
	struct rx_ring *ring;
	size_t header_stride;    /* of the ring */
	uint32_t before_payload; /* bytes that a UDP header's length counts before the row's payload */
	/* All members of a row's meta but its time are meta_full or meta_short, and length times meta_byte. */
	uint64_t meta_full, meta_short, meta_byte;
	struct packet_plain plain; /* the network headers before the split; all 0: rows hold frames */
	struct rx_kind kind;       /* of the last plain packet */
	bool device_timestamps;    /* else rows get the time at which they were polled */
	bool verifies;             /* rows whose checksums the device did not find right are summed */
	bool kernel_times;         /* the device may have no time of a packet, which then has the kernel's */
	bool has_passes;           /* one of these two, or a flag of the ring but LENT: one word to test in each poll */
	struct clock_line clock;   /* all zero until the first MAIL_CLOCK: rows have no time until then */
	uint64_t published;        /* rows with a packet; this and errored are the worker's copies of the counters */
	uint64_t errored;
	uint64_t short_taken; /* use.taken of the queue at the last poll that took fewer frames than asked for */
	uint64_t short_given; /* use.given, likewise */
	uint64_t low_slots;   /* as many free slots count as none */
	uint64_t n_low;       /* times that the device may have had no slot */
	uint64_t newest_ns;   /* no timestamp is before this; that of the last row, or 0 if there was none */
	struct backend_event events[RX_RECEIVE_BATCH];
};

/* What one batch adds to the counters. */
struct rx_tally {
	uint32_t rows; /* all, the errored ones included */
	uint32_t shorts;
	uint64_t bytes;
	uint32_t unusual; /* rows of rx_describe_unusual(): without one, the words below are 0 */
	uint32_t errored;
	uint32_t truncated;
	uint32_t irregular;
	uint32_t fragments;
	uint32_t fragment_lost_bytes;
	uint32_t bad_checksum;
	uint32_t malformed;
};

/** Write the meta of row i, whose timestamp is written. */
void rx_describe_unusual(const struct rx_receive *receive, const struct backend_event *event,
                         const struct rx_span *span, uint32_t i, struct rx_tally *tally);

#define RX_HEADERS_MAX \
	128 /* bytes of a frame to walk: Ethernet, four tags, IPv4 with options or IPv6 with extensions */

/**
 * The first bytes of a frame, from its two rows, or from the header row alone if no CPU reaches the other, which is
 * lent. Returns how many there are, at most RX_HEADERS_MAX.
 */
uint32_t rx_gather_headers(const struct rx_ring *ring, uint32_t frame_bytes, const uint8_t *headers,
                           const uint8_t *payload, uint8_t frame[RX_HEADERS_MAX]);

/** The events of a span whose rows have a wrong checksum get BACKEND_EVENT_CHECKSUM_BAD, and none has _GOOD. */
void rx_verify_checksums(const struct rx_ring *ring, const struct rx_span *span, struct backend_event *events);

/** Row i of the span has a packet's bytes up to from only. */
static inline void rx_zero_rest(const struct rx_ring *ring, const struct rx_span *span, uint32_t i, uint32_t from)
{
	memset(span->payload + (size_t)i * ring->row_stride + from, 0, ring->slot_bytes - from);
}

/** The members before header_stride are set. -EINVAL: there is no such header layout. */
int rx_receive_init(struct rx_receive *receive);

/**
 * Poll once, publish the packets, refill the queue. Returns the number of frames that the queue took, with a row or
 * without one (fewer than RX_RECEIVE_BATCH: the device had no more), or -errno: the queue failed and needs
 * rx_receive_restart().
 */
int rx_receive_batch(struct rx_receive *receive);

/** May the device have had no slot since the last short poll? Right for packets that are published. */
bool rx_receive_may_have_lost(const struct rx_receive *receive);

/** Rows get their timestamps by this line from now on. */
void rx_receive_set_clock(struct rx_receive *receive, const struct clock_line *clock);

/** Post the first slots of a queue that is not started. 0 or -errno. */
int rx_receive_prime(struct rx_receive *receive);

/** Post until the queue is full. 0 or -errno. */
int rx_receive_refill(struct rx_receive *receive);

/** The device had slots at the last short poll, and so no more packets. */
static inline bool rx_receive_was_empty(const struct rx_receive *receive)
{
	return receive->short_given > receive->short_taken;
}

/** Packets that have a row, need none, or are ambiguous. */
static inline uint64_t rx_receive_accounted(const struct rx_receive *receive)
{
	const struct backend_use *use = &receive->queue->use;

	return receive->published + receive->errored + use->joined + use->ambiguous;
}

/** After a failure: reset the queue, post everything unpublished again, start. 0 or -errno. */
int rx_receive_restart(struct rx_receive *receive);

#endif
