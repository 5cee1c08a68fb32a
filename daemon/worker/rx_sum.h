// SPDX-License-Identifier: Apache-2.0
/*
 * The sum of a stream: matched = published + no_buffer + errored + joined + in flight, over all of its queues. A flow
 * counter may count packets of several queues, so matched and no_buffer belong to the stream, and each ring of it shows
 * them; rows are counted by the queue. The workers settle the sum together and without a lock: each notes what it has
 * accounted for since a reading of the flow counters, and the last of them to do so finds how many packets are lost.
 */
#ifndef DAEMON_WORKER_RX_SUM_H
#define DAEMON_WORKER_RX_SUM_H

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>

#define RX_SUM_QUEUES_MAX 16

struct backend_queue;

/* What one worker tells the others. */
struct rx_sum_part {
	const struct ibvcap_ring *ring;
	const struct backend_queue *queue;
	uint32_t queue_slots;       /* as many packets may yet come at any time */
	_Atomic uint64_t accounted; /* packets that the flow counters have and that are not lost, at the last note */
	_Atomic uint64_t noted;     /* enum rx_sum_note */
	_Atomic uint64_t stalled_utc_ns; /* when a lossless consumer was last seen to stop the queue; 0: never */
	_Atomic uint64_t before_at_ns;   /* of the reading that before is about; 0: it is being written */
	_Atomic uint64_t before;         /* as accounted, a while before that reading */
};

/* Constant but for the atomic words once the workers' threads run. */
struct rx_sum {
	uint32_t n_queues;
	bool counts_drops; /* n_dropped of the queues is exact */
	bool joins;        /* the queues hold fragments, which may be lost later */
	struct rx_sum_part parts[RX_SUM_QUEUES_MAX];
	_Atomic uint64_t read;    /* the flow counters in the newest reading that a worker noted */
	_Atomic uint64_t matched; /* the same, with a packet for each row of those that were split */
	_Atomic uint64_t no_buffer;
	_Atomic uint64_t no_buffer_lossless;
};

/* A reading of the flow counters of all queues. */
struct rx_reading {
	uint64_t matched;
	uint64_t at_ns; /* before the first counter was read, CLOCK_MONOTONIC: names the reading */
	uint64_t utc_ns;
	uint64_t before_utc_ns; /* when they were read before that; 0: never */
};

enum rx_sum_note {
	RX_SUM_OPEN,    /* up to a whole queue of the packets of this reading may yet come */
	RX_SUM_SETTLED, /* every packet of this reading that the queue got is accounted for */
	RX_SUM_ENDED,   /* no packet comes any more */
};

/** To be called before any worker is made. */
void rx_sum_init(struct rx_sum *sum, uint32_t n_queues, bool counts_drops);

/**
 * The worker of that queue, with all rows, errors and joined packets so far, and the fragments that it holds. Only a
 * reading that is newer than its last one.
 */
void rx_sum_note(struct rx_sum *sum, uint32_t queue, const struct rx_reading *reading, enum rx_sum_note note,
                 uint64_t rows, uint64_t held);

/**
 * Any worker, after its note: add the packets that are certainly lost, if all workers have noted this reading or a
 * newer one. Returns how many were added.
 */
uint64_t rx_sum_settle(struct rx_sum *sum, const struct rx_reading *reading);

/** The worker of that queue: rows and errors at a moment before the reading. */
void rx_sum_note_before(struct rx_sum *sum, uint32_t queue, const struct rx_reading *reading, uint64_t rows);

/**
 * So many packets at least, and at most, were lost until the reading (UINT64_MAX: not known). Right for a device that
 * poll() has emptied of the packets of that reading.
 */
void rx_sum_bound(const struct rx_sum *sum, const struct rx_reading *reading, uint64_t *least, uint64_t *most);

/** Packets of this queue that the device dropped. Of a device that counts them itself. */
uint64_t rx_sum_dropped_of(const struct rx_sum *sum, uint32_t queue);

/** Are all packets of a reading of the flow counters accounted for? Any thread. */
bool rx_sum_is_settled(const struct rx_sum *sum, uint64_t matched);

/** And has no other packet come since? Any thread. */
bool rx_sum_is_at_rest(const struct rx_sum *sum, uint64_t matched);

#endif
