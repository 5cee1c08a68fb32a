// SPDX-License-Identifier: Apache-2.0
/* Makes and maps the rings of AF_XDP sockets. */
#include "daemon/backend/xdp/xdp_ring.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

static const struct {
	int option;
	size_t entry_bytes;
	off_t mapped_at;
} kinds[] = {
	[XDP_RING_RX] = {XDP_RX_RING, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING},
	[XDP_RING_TX] = {XDP_TX_RING, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING},
	[XDP_RING_FILL] = {XDP_UMEM_FILL_RING, sizeof(uint64_t), XDP_UMEM_PGOFF_FILL_RING},
	[XDP_RING_COMPLETION] = {XDP_UMEM_COMPLETION_RING, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING},
};

static const struct xdp_ring_offset *ring_offsets(const struct xdp_mmap_offsets *offsets, enum xdp_ring_kind kind)
{
	switch (kind) {
	case XDP_RING_RX:
		return &offsets->rx;
	case XDP_RING_TX:
		return &offsets->tx;
	case XDP_RING_FILL:
		return &offsets->fr;
	case XDP_RING_COMPLETION:
		break;
	}
	return &offsets->cr;
}

int xdp_ring_init(struct xdp_ring *ring, int fd, enum xdp_ring_kind kind, uint32_t size)
{
	struct xdp_mmap_offsets offsets;
	socklen_t offsets_bytes = sizeof(offsets);
	const struct xdp_ring_offset *at = ring_offsets(&offsets, kind);
	uint8_t *mapping;

	if (setsockopt(fd, SOL_XDP, kinds[kind].option, &size, sizeof(size)) < 0 ||
	    getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &offsets_bytes) < 0)
		return -errno;
	ring->mapped_bytes = at->desc + size * kinds[kind].entry_bytes;
	mapping = mmap(NULL, ring->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
	               kinds[kind].mapped_at);
	if (mapping == MAP_FAILED)
		return -errno;
	ring->mapping = mapping;
	ring->producer = (uint32_t *)(mapping + at->producer);
	ring->consumer = (uint32_t *)(mapping + at->consumer);
	ring->flags = (uint32_t *)(mapping + at->flags);
	ring->entries = mapping + at->desc;
	ring->mask = size - 1;
	ring->next = ring->ready = 0;
	return 0;
}

void xdp_ring_deinit(struct xdp_ring *ring)
{
	if (ring->mapping)
		munmap(ring->mapping, ring->mapped_bytes);
	ring->mapping = NULL;
}
