// SPDX-License-Identifier: Apache-2.0
/*
 * A receive queue of a device made of memory, which knows what became of every packet. Of two kinds: a card, which
 * drops a packet for which no slot is posted; or the kernel, whose ring holds packets until there is a slot, and which
 * counts what it drops when that is full. Time is the caller's. One thread.
 */
#ifndef TESTS_SUPPORT_REFERENCE_DEVICE_H
#define TESTS_SUPPORT_REFERENCE_DEVICE_H

#include "daemon/backend/backend.h"

#define DEVICE_SLOTS       256u /* posted at most */
#define DEVICE_KERNEL_RING 128u
#define DEVICE_LATE_NS     20000u /* a completion is visible so long after its packet at most */

struct device_completion {
	uint32_t slot;
	uint64_t visible_ns;
	bool is_flushed;
};

struct device {
	struct backend_queue queue;
	bool has_kernel_ring;
	bool has_failed;
	bool cannot_reset;
	const uint64_t *now_ns;
	uint32_t late_ns; /* of the completions from now on; at most DEVICE_LATE_NS */
	struct {
		uint32_t slot;
		uint8_t *payload;
	} slots[DEVICE_SLOTS];
	uint64_t n_posted, n_used;
	struct device_completion completions[2 * DEVICE_SLOTS];
	uint64_t n_completed, n_polled;
	uint64_t kernel_ring[DEVICE_KERNEL_RING];
	uint64_t n_queued, n_taken;
	uint64_t matched;
	uint64_t accepted; /* packets that have or will get a row: the next one's sequence number */
	uint64_t dropped;
};

extern const struct backend_ops device_ops;

/** Packet number comes. False: it is lost. */
bool device_arrive(struct device *device, uint64_t number);

/** The slots come back unused, and nothing comes any more until reset(). */
void device_fail(struct device *device);

#endif
