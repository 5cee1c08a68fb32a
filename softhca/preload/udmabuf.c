// SPDX-License-Identifier: Apache-2.0
/* The stand-in for /dev/udmabuf: refuses what the kernel's driver refuses, and enters descriptors of memfds as buffers.
 */
#include "udmabuf.h"

#include "../device/refuse.h"
#include "../uverbs/command.h"
#include "../uverbs/dmabuf.h"
#include "../uverbs/user_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_MASK 4095ull
#define MAX_BYTES (64ull << 20) /* the driver's default, size_limit_mb */
#define MAX_ITEMS 1024          /* list_limit */

bool udmabuf_is_missing(void)
{
	return syscall(SYS_faccessat, AT_FDCWD, UDMABUF_PATH, F_OK) && errno == ENOENT;
}

static int udmabuf_check(const struct udmabuf_create *req)
{
	struct stat st;
	int seals;

	if ((req->offset | req->size) & PAGE_MASK || !req->size || req->size > MAX_BYTES)
		return refuse(EINVAL, "offset, size", "not whole pages, none, or more than 64 MiB",
		              "udmabuf: udmabuf_create");
	seals = fcntl((int)req->memfd, F_GET_SEALS);
	if (seals < 0)
		return refuse(EBADFD, "memfd", "it is no memfd", "udmabuf: udmabuf_create");
	if (!(seals & F_SEAL_SHRINK) || seals & F_SEAL_WRITE)
		return refuse(EINVAL, "memfd", "it needs F_SEAL_SHRINK and must not have F_SEAL_WRITE",
		              "udmabuf: SEALS_WANTED, SEALS_DENIED");
	if (REAL(fstat)((int)req->memfd, &st) || req->size > (uint64_t)st.st_size ||
	    req->offset > (uint64_t)st.st_size - req->size)
		return refuse(EINVAL, "offset, size", "beyond the end of the memfd", "udmabuf: udmabuf_create");
	return req->offset ? refuse(EOPNOTSUPP, "offset", "the stand-in has only buffers from the memfd's start",
	                            "softhca: udmabuf_check")
	                   : 0;
}

static int udmabuf_create(struct root *root, const struct udmabuf_create *req)
{
	struct dmabuf *b;
	int r = udmabuf_check(req), fd;

	if (r)
		return r;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	*b = (struct dmabuf){
		.fd_object = {.kind = FD_DMABUF, .refs = 1, .release = (void (*)(struct fd_object *))free},
		.bytes = req->size,
	};
	fd = REAL(fcntl)((int)req->memfd, req->flags & UDMABUF_FLAGS_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
	r = fd < 0 ? -errno : fdtab_set(&root->fdtab, fd, &b->fd_object);
	if (!r)
		return fd;
	if (fd >= 0)
		syscall(SYS_close, fd);
	free(b);
	return r;
}

/* A list of one item is the same as a buffer without a list. */
static int udmabuf_read_list(struct udmabuf_create *req, uint64_t arg)
{
	struct udmabuf_create_list head;
	struct udmabuf_create_item item;

	if (user_memory_read(&head, arg, sizeof(head)))
		return -EFAULT;
	if (!head.count || head.count > MAX_ITEMS)
		return refuse(EINVAL, "count", "0, or more than 1024", "udmabuf: udmabuf_ioctl_create_list");
	if (head.count > 1)
		return refuse(EOPNOTSUPP, "count", "the stand-in has only buffers of one memfd",
		              "softhca: udmabuf_read_list");
	if (user_memory_read(&item, arg + sizeof(head), sizeof(item)))
		return -EFAULT;
	*req = (struct udmabuf_create){item.memfd, head.flags, item.offset, item.size};
	return 0;
}

int udmabuf_ioctl(struct root *root, unsigned long request, const void *arg)
{
	uint64_t began_ns = clock_raw_ns();
	struct udmabuf_create req;
	int r;

	if (request == UDMABUF_CREATE_LIST)
		r = udmabuf_read_list(&req, (uintptr_t)arg);
	else if (request == UDMABUF_CREATE)
		r = user_memory_read(&req, (uintptr_t)arg, sizeof(req));
	else
		return -ENOTTY;
	if (!r)
		r = udmabuf_create(root, &req);
	command_ended(&root->devices[0], "UDMABUF_CREATE", 0, r, began_ns);
	return r;
}

/* The memory is coherent, so there is nothing to do (dma_buf_ioctl, DMA_BUF_IOCTL_SYNC). */
int udmabuf_ioctl_buffer(unsigned long request, const void *arg)
{
	struct dma_buf_sync sync;

	if (request != DMA_BUF_IOCTL_SYNC)
		return -ENOTTY;
	if (user_memory_read(&sync, (uintptr_t)arg, sizeof(sync)))
		return -EFAULT;
	return sync.flags & ~(uint64_t)DMA_BUF_SYNC_VALID_FLAGS_MASK || !(sync.flags & DMA_BUF_SYNC_RW) ? -EINVAL : 0;
}
