// SPDX-License-Identifier: Apache-2.0
/*
 * Shows the losses of a stream in its rings: the counters of the stream, and the ledger. Control thread only, but for
 * losses.queues, each of which is the worker's of that queue.
 */
#ifndef DAEMON_RING_RX_LEDGER_H
#define DAEMON_RING_RX_LEDGER_H

#include "daemon/losses/losses.h"

#include <ibvcap/layout.h>

struct rx_ledger {
	struct losses losses;
	struct ibvcap_ring *rings[LOSSES_QUEUES_MAX];
	const _Atomic uint64_t *split[LOSSES_QUEUES_MAX]; /* of each queue, as in struct losses_counts; NULL: none */
	struct losses_reading reading;                    /* the last one */
};

/** Before any worker of the stream runs. settle_ns: poll() has a packet so long after its flow matched it. */
void rx_ledger_init(struct rx_ledger *ledger, uint32_t n_queues, uint32_t slots, bool counts_drops, bool joins,
                    uint64_t settle_ns);

/** Before the worker of the queue runs. */
void rx_ledger_add_queue(struct rx_ledger *ledger, uint32_t queue, struct ibvcap_ring *ring,
                         const _Atomic uint64_t *split);

/**
 * The flow counters were read; before_utc_ns is set here. True: the ledger has all that is to be known of the reading.
 * False: mail it to the workers, and call rx_ledger_update() until rx_ledger_is_waiting() is false.
 */
bool rx_ledger_read(struct rx_ledger *ledger, const struct losses_reading *reading);

/** Show what the workers have noted since. Returns by how much no_buffer grew. */
uint64_t rx_ledger_update(struct rx_ledger *ledger);

/** Is the last reading not in the ledger yet? */
bool rx_ledger_is_waiting(const struct rx_ledger *ledger);

/** Are all packets of a reading of the flow counters accounted for, or lost? */
bool rx_ledger_is_settled(const struct rx_ledger *ledger, uint64_t matched);

#endif
