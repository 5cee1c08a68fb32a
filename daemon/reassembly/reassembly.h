// SPDX-License-Identifier: Apache-2.0
/*
 * A receive queue that joins IP fragments to whole datagrams, between a device's queue and a worker: to the worker it
 * is a queue like any other (backend.h). The device's queue fills frames of the reassembly's own; each whole datagram
 * is copied to a row. A stream without reassembly has none of it.
 */
#ifndef DAEMON_REASSEMBLY_REASSEMBLY_H
#define DAEMON_REASSEMBLY_REASSEMBLY_H

#include "daemon/backend/backend.h"
#include "lib/fragments/datagrams.h"

#define REASSEMBLY_N_PORTS 65536

struct reassembly;

struct reassembly_options {
	const struct backend_ops *ops;
	struct backend *backend;
	struct backend_queue_options rows; /* of the queue as the worker sees it */
	uint32_t n_frames;                 /* that the device has at once */
	uint32_t frame_bytes;              /* the longest frame that the device can receive, without FCS */
	bool waits_for_rows;               /* without a row, packets wait in the device; else they are lost */
	_Atomic uint64_t *counters; /* of a ring (enum ibvcap_rx_counter); each poll brings some of them up to date */
};

/** Makes the device's queue with memory of its own. */
int reassembly_new(const struct reassembly_options *options, struct reassembly **reassembly, struct failure *failure);
/** Destroys the device's queue, too. NULL: no effect. */
void reassembly_free(struct reassembly *reassembly);

/** Bytes of the memory that is registered for one queue. Pure. */
uint64_t reassembly_bytes(uint32_t n_frames, uint32_t frame_bytes);

/** The queue for the worker, and the one for flows, groups and counts. */
struct backend_queue *reassembly_queue(struct reassembly *reassembly);
struct backend_queue *reassembly_device_queue(struct reassembly *reassembly);

/**
 * The UDP ports of the stream's flows: bit i of word i / 64. Datagrams to other ports have no row. None at first. Any
 * thread.
 */
void reassembly_set_ports(struct reassembly *reassembly, const uint64_t ports[REASSEMBLY_N_PORTS / 64]);

#endif
