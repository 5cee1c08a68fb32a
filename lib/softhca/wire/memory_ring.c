// SPDX-License-Identifier: Apache-2.0
/* One direction of a memory wire: a ring of slots in memory that two processes share. */
#include "memory_ring.h"

#include "dma.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_LINE 64u
/* The receiver of a ring that its maker could shrink might fault in it. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct memory_slot *memory_ring_slot(const struct memory_ring *r, uint32_t i)
{
	return (void *)((uint8_t *)r->shared + MEMORY_SLOTS_OFFSET + (size_t)(i & (r->n_slots - 1)) * r->slot_bytes);
}

static int memory_ring_map_fd(struct memory_ring *r, int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	r->shared = p;
	r->bytes = bytes;
	return 0;
}

int memory_ring_create(struct memory_ring *r, size_t bytes, uint32_t frame_bytes, int *fd)
{
	int error;

	*r = (struct memory_ring){.n_slots = 1};
	r->slot_bytes =
		(uint32_t)((sizeof(struct memory_slot) + frame_bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));
	while ((size_t)r->n_slots * 2 * r->slot_bytes + MEMORY_SLOTS_OFFSET <= bytes)
		r->n_slots *= 2;
	bytes = MEMORY_SLOTS_OFFSET + (size_t)r->n_slots * r->slot_bytes;
	*fd = memfd_create("softhca-wire", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	error = ftruncate(*fd, (off_t)bytes) || fcntl(*fd, F_ADD_SEALS, SEALS) ? -errno
	                                                                       : memory_ring_map_fd(r, *fd, bytes);
	if (error) {
		syscall(SYS_close, *fd);
		return error;
	}
	r->shared->n_slots = r->n_slots;
	r->shared->slot_bytes = r->slot_bytes;
	return 0;
}

int memory_ring_map(struct memory_ring *r, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS), error;
	struct stat st;

	*r = (struct memory_ring){};
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size <= MEMORY_SLOTS_OFFSET)
		return -EPROTO;
	error = memory_ring_map_fd(r, fd, (size_t)st.st_size);
	if (error)
		return error;
	r->n_slots = r->shared->n_slots;
	r->slot_bytes = r->shared->slot_bytes;
	if (!r->n_slots || (r->n_slots & (r->n_slots - 1)) || r->slot_bytes % CACHE_LINE ||
	    r->slot_bytes <= sizeof(struct memory_slot) ||
	    (r->bytes - MEMORY_SLOTS_OFFSET) / r->slot_bytes < r->n_slots) {
		memory_ring_unmap(r);
		return -EPROTO;
	}
	return 0;
}

void memory_ring_unmap(struct memory_ring *r)
{
	if (r->shared)
		munmap(r->shared, r->bytes);
	r->shared = NULL;
}

struct memory_slot *memory_ring_next(struct memory_ring *r)
{
	/* Pairs with the release in memory_ring_put(). */
	uint32_t head = __atomic_load_n(&r->shared->head, __ATOMIC_ACQUIRE);

	if (head == r->next)
		return NULL;
	return memory_ring_slot(r, r->next++);
}

void memory_ring_release(struct memory_ring *r)
{
	/* Pairs with the acquire in memory_ring_put(). */
	__atomic_store_n(&r->shared->tail, r->next, __ATOMIC_RELEASE);
}

bool memory_ring_sleep(struct memory_ring *r)
{
	/* Sleeping and waking exchange `asleep`, and one of the two exchanges comes first. If it is the sending
	 * end's, its `head` is visible here; if it is this one, the sending end sees it and wakes us. Exchanges and
	 * not a fence, since ThreadSanitizer does not understand fences. */
	__atomic_exchange_n(&r->shared->asleep, 1, __ATOMIC_ACQ_REL);
	return __atomic_load_n(&r->shared->head, __ATOMIC_ACQUIRE) == r->next;
}

void memory_ring_awake(struct memory_ring *r)
{
	__atomic_store_n(&r->shared->asleep, 0, __ATOMIC_RELAXED);
}

void memory_ring_put(struct memory_ring *r, const struct iovec *iov, int iovcnt, uint64_t realtime_ns)
{
	struct memory_shared *shared = r->shared;
	uint32_t head = shared->head, room = r->slot_bytes - (uint32_t)sizeof(struct memory_slot);
	struct memory_slot *to = memory_ring_slot(r, head);
	uint32_t len = 0;

	/* Pairs with the release in memory_ring_release(). */
	if (head - __atomic_load_n(&shared->tail, __ATOMIC_ACQUIRE) >= r->n_slots) {
		__atomic_fetch_add(&shared->discards, 1, __ATOMIC_RELAXED);
		return;
	}
	for (int i = 0; i < iovcnt; i++) {
		if (iov[i].iov_len > room - len) {
			__atomic_fetch_add(&shared->discards, 1, __ATOMIC_RELAXED);
			return; /* longer than the MTU of the other end */
		}
		dma_copy(to->frame + len, iov[i].iov_base, iov[i].iov_len);
		len += (uint32_t)iov[i].iov_len;
	}
	to->len = len;
	to->realtime_ns = realtime_ns;
	/* Pairs with the acquire in memory_ring_next(). */
	__atomic_store_n(&shared->head, head + 1, __ATOMIC_RELEASE);
}

bool memory_ring_must_wake(struct memory_ring *r)
{
	/* Pairs with the exchange in memory_ring_sleep(). */
	return __atomic_exchange_n(&r->shared->asleep, 0, __ATOMIC_ACQ_REL);
}
