// SPDX-License-Identifier: Apache-2.0
/* Memory behind a descriptor: a dma-buf of the kernel, or its stand-in (preload/udmabuf.h). */
#ifndef SOFTHCA_UVERBS_DMABUF_H
#define SOFTHCA_UVERBS_DMABUF_H

#include "fdtab.h"

/* The stand-in for a dma-buf: the first bytes of the memfd behind the descriptor. */
struct dmabuf {
	struct fd_object fd_object;
	uint64_t bytes;
};

/*
 * A memfd of this name stands for a dma-buf that another process made, whether or not that process runs under softhca:
 * the memory of a GPU, say, that a program hands to a service.
 */
#define DMABUF_MEMFD_NAME "softhca-dmabuf"

bool dmabuf_is_named_memfd(int fd);

/* Maps the pages that have the bytes `offset` to `offset + length` - 1 of the dma-buf, and sets `*at` to the first of
 * these bytes. 0 or the negative errno that ib_umem_dmabuf_get() gives. */
int dmabuf_map(struct fdtab *t, int fd, uint64_t offset, uint64_t length, bool writable, uint8_t **at);
void dmabuf_unmap(uint8_t *at, uint64_t length);

#endif
