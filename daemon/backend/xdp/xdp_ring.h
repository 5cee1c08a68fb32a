// SPDX-License-Identifier: Apache-2.0
/*
 * The rings that an AF_XDP socket shares with the kernel. Each has one producer and one consumer, whose indices run
 * freely and are masked on access. Constants of newer kernels that the headers of Debian 12 lack are defined here.
 */
#ifndef DAEMON_BACKEND_XDP_XDP_RING_H
#define DAEMON_BACKEND_XDP_XDP_RING_H

#include <linux/if_xdp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4) /* bind: a packet may take several descriptors. Linux 6.6 */
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0) /* options of a descriptor: the packet goes on in the next one */
#endif

/* Kinds of rings. */
enum xdp_ring_kind { XDP_RING_RX, XDP_RING_TX, XDP_RING_FILL, XDP_RING_COMPLETION };

struct xdp_ring {
	void *mapping; /* NULL: not mapped */
	size_t mapped_bytes;
	uint32_t *producer;
	uint32_t *consumer;
	const uint32_t *flags;
	void *entries; /* struct xdp_desc, or addresses of frames */
	uint32_t mask;
	uint32_t next;  /* our own index: the next entry that we read or write */
	uint32_t ready; /* reading: entries before this one are known to be there */
};

/** Give the socket the ring and map it. size is a power of two. 0 or -errno; ENOMEM for the mapping. */
int xdp_ring_init(struct xdp_ring *ring, int fd, enum xdp_ring_kind kind, uint32_t size);
/** Any state. A socket stays alive, and bound, while a ring of it is mapped. */
void xdp_ring_deinit(struct xdp_ring *ring);

/* ---- reading descriptors --------------------------------------------------------------------------- */

static inline const struct xdp_desc *xdp_ring_descriptor(const struct xdp_ring *ring, uint32_t index)
{
	return (const struct xdp_desc *)ring->entries + (index & ring->mask);
}

/* How many descriptors, from the next one to ready, the next packet has. 0: there is no whole packet. */
static inline uint32_t xdp_ring_whole_packet(const struct xdp_ring *ring)
{
	for (uint32_t i = ring->next; i != ring->ready; i++)
		if (!(xdp_ring_descriptor(ring, i)->options & XDP_PKT_CONTD))
			return i + 1 - ring->next;
	return 0;
}

/** How many descriptors the next packet has. 0: there is none yet. The kernel publishes packets whole. */
static inline uint32_t xdp_ring_next_packet(struct xdp_ring *ring)
{
	uint32_t n = xdp_ring_whole_packet(ring);

	if (n > 0)
		return n;
	ring->ready = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
	return xdp_ring_whole_packet(ring);
}

/** The kernel may overwrite the descriptors before the next one. */
static inline void xdp_ring_release(const struct xdp_ring *ring)
{
	__atomic_store_n(ring->consumer, ring->next, __ATOMIC_RELEASE);
}

/** Any thread: has the reader read everything that is there? */
static inline bool xdp_ring_is_empty(const struct xdp_ring *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) == __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE);
}

/* ---- writing addresses ----------------------------------------------------------------------------- */

/** There is room: the ring is as large as the number of frames. */
static inline void xdp_ring_add_frames(struct xdp_ring *ring, const uint64_t *addresses, uint32_t n)
{
	uint64_t *entries = ring->entries;

	for (uint32_t i = 0; i < n; i++)
		entries[ring->next++ & ring->mask] = addresses[i];
	__atomic_store_n(ring->producer, ring->next, __ATOMIC_RELEASE);
}

static inline bool xdp_ring_needs_wakeup(const struct xdp_ring *ring)
{
	return __atomic_load_n(ring->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP;
}

#endif
