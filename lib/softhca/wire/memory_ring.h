// SPDX-License-Identifier: Apache-2.0
/*
 * One direction of a memory wire: frames in a ring of slots. The receiving end makes the ring, the sending end
 * writes it. The other end may be any program, so nothing read from the ring is trusted: indexes are masked and
 * lengths checked.
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

/* At the start of the shared memory. The slots follow at MEMORY_SLOTS_OFFSET. */
struct memory_shared {
	uint32_t n_slots, slot_bytes; /* for the sending end, which checks them */
	_Alignas(64) uint32_t head;   /* slots ever filled; written by the sending end */
	uint64_t discards;            /* frames for which no slot was free; written by the sending end */
	_Alignas(64) uint32_t tail;   /* slots ever given back; written by the receiving end */
	uint32_t asleep;              /* the receiving end waits for `head` and has to be woken; both ends write it */
};
#define MEMORY_SLOTS_OFFSET 4096

/* One end's view of a ring. The shape was checked once and is kept here. */
struct memory_ring {
	struct memory_shared *shared; /* NULL: none */
	size_t bytes;
	uint32_t n_slots, slot_bytes; /* n_slots: a power of two */
	uint32_t next;                /* receiving end: the next slot to look at */
};

/* Makes a ring for frames of up to `frame_bytes`, in at most `bytes` of memory. `*fd` is the descriptor for the
 * other end. 0 or negative errno. */
int memory_ring_create(struct memory_ring *r, size_t bytes, uint32_t frame_bytes, int *fd);
/* Maps the ring that the other end made. -EPROTO if it is not a ring. */
int memory_ring_map(struct memory_ring *r, int fd);
void memory_ring_unmap(struct memory_ring *r);

/* Receiving end: the next frame, or NULL. The slot belongs to the caller until memory_ring_release(). */
struct memory_slot *memory_ring_next(struct memory_ring *r);
void memory_ring_release(struct memory_ring *r);
/* Receiving end: announces that it will sleep. False: there is a frame. True: the sending end will wake us, until
 * memory_ring_awake(). */
bool memory_ring_sleep(struct memory_ring *r);
void memory_ring_awake(struct memory_ring *r);

/* Sending end. If there is no room, the frame is lost, and is a discard of the other end. */
void memory_ring_put(struct memory_ring *r, const struct iovec *iov, int iovcnt, uint64_t realtime_ns);
/* Sending end, after a burst: must the other end be woken? True once for each sleep. */
bool memory_ring_must_wake(struct memory_ring *r);

#endif
