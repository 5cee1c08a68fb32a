// SPDX-License-Identifier: Apache-2.0
/*
 * One direction of a memory wire: frames in a ring of slots that the receiving end makes and the
 * sending end writes. Both may be different programs, so what is read here is not believed: an
 * index is masked, a length checked.
 */
#ifndef SOFTHCA_WIRE_MEMORY_RING_H
#define SOFTHCA_WIRE_MEMORY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define MEMORY_HEADROOM_BYTES 8 /* the device may move the start of a frame by 4 bytes */

struct memory_slot {
	uint64_t realtime_ns;
	uint32_t len;
	uint8_t headroom[MEMORY_HEADROOM_BYTES + 4];
	uint8_t frame[];
};

/* At the start of the shared memory; the slots follow at MEMORY_SLOTS_OFFSET. */
struct memory_shared {
	uint32_t n_slots, slot_bytes; /* for the sending end, which checks them */
	_Alignas(64) uint32_t head;   /* written by the sending end: slots ever filled */
	uint64_t discards;            /* by the sending end: no slot free */
	_Alignas(64) uint32_t tail;   /* by the receiving end: slots ever given back */
	uint32_t asleep;              /* by the receiving end: wake it, it waits for `head` */
};
#define MEMORY_SLOTS_OFFSET 4096

/* One end's view: the shape as it was checked once. */
struct memory_ring {
	struct memory_shared *shared; /* NULL: none */
	size_t bytes;
	uint32_t n_slots, slot_bytes; /* n_slots: a power of two */
	uint32_t next;                /* receiving end: slot to look at */
};

/* A new ring for frames up to `frame_bytes`, in at most `bytes` of memory; `*fd` is for the other
 * end. 0 or negative errno. */
int memory_ring_create(struct memory_ring *r, size_t bytes, uint32_t frame_bytes, int *fd);
/* What the other end made; -EPROTO where it is no ring. */
int memory_ring_map(struct memory_ring *r, int fd);
void memory_ring_unmap(struct memory_ring *r);

/* Receiving end. NULL: no frame. The slot is the caller's until memory_ring_release(). */
struct memory_slot *memory_ring_next(struct memory_ring *r);
void memory_ring_release(struct memory_ring *r);
/* False: there is a frame. True: the sending end will wake us, until memory_ring_awake(). */
bool memory_ring_sleep(struct memory_ring *r);
void memory_ring_awake(struct memory_ring *r);

/* Sending end. A frame without room is a discard of the other end. */
void memory_ring_put(struct memory_ring *r, const struct iovec *iov, int iovcnt, uint64_t realtime_ns);
/* After a burst: does the other end sleep? True once a sleep. */
bool memory_ring_must_wake(struct memory_ring *r);

#endif
