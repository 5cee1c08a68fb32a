// SPDX-License-Identifier: Apache-2.0
/*
 * Shows the losses of a stream in its rings: the counters of the stream, and the ledger. Control thread only, but for
 * sum.queues, each of which is the worker's of that queue.
 */
#ifndef DAEMON_CONTROL_RX_LOSSES_H
#define DAEMON_CONTROL_RX_LOSSES_H

#include "daemon/losses/losses.h"
#include "lib/ibvcap/ring.h"

struct rx_losses {
	struct losses sum;
	struct ibvcap_ring *rings[LOSSES_QUEUES_MAX];
	const _Atomic uint64_t *split[LOSSES_QUEUES_MAX]; /* of each queue, as in struct losses_counts; NULL: none */
	struct losses_reading reading;                    /* the last one */
	struct ring_interface interface;                  /* as the rings have it */
	uint64_t interface_utc_ns;                        /* when it was read last */
	uint64_t interface_lost_before;                   /* before the epoch */
	uint64_t interface_uncounted_before;              /* likewise, and even */
};

/** Before the worker of the queue runs, after losses_init(). */
void rx_losses_add_queue(struct rx_losses *losses, uint32_t queue, struct ibvcap_ring *ring,
                         const _Atomic uint64_t *split);

/**
 * The flow counters were read; before_utc_ns is set here. True: the ledger has all that is to be known of the reading.
 * False: mail it to the workers, and call rx_losses_update() until rx_losses_is_waiting() is false.
 */
bool rx_losses_read(struct rx_losses *losses, const struct losses_reading *reading);

/**
 * The interface was read: show what it has lost before the flow rules. utc_ns: when it was read. uncounted: odd
 * while it may lose packets that nothing counts; grows when that changes.
 */
void rx_losses_note_interface(struct rx_losses *losses, uint64_t lost, uint64_t at_ns, uint64_t utc_ns,
                              uint64_t uncounted);

/** Add up what the workers have noted since, and write it into the rings. */
void rx_losses_update(struct rx_losses *losses);

/** Is the last reading not in the ledger yet? */
bool rx_losses_is_waiting(const struct rx_losses *losses);

/** Are all packets of a reading of the flow counters accounted for, or lost? */
bool rx_losses_is_settled(const struct rx_losses *losses, uint64_t matched);

#endif
