// SPDX-License-Identifier: Apache-2.0
/* Maps the memory of a dma-buf into the process, where the device can reach it. A real device reaches it by DMA. */
#include "dmabuf.h"

#include "../device/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_MASK 4095ull

/* The kernel puts "memfd:" before the name, and " (deleted)" behind it. */
bool dmabuf_is_named_memfd(int fd)
{
	static const char wanted[] = "/memfd:" DMABUF_MEMFD_NAME " ";
	char path[32], name[64];
	long n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = syscall(SYS_readlinkat, AT_FDCWD, path, name, sizeof(name));
	return n >= (long)sizeof(wanted) - 1 && !memcmp(name, wanted, sizeof(wanted) - 1);
}

/* The size of the buffer, or a negative errno as dma_buf_get() gives it. */
static int64_t dmabuf_bytes(struct fdtab *t, int fd)
{
	struct dmabuf *standin = (struct dmabuf *)fdtab_find(t, fd, FD_DMABUF);
	struct statfs fs;
	int64_t bytes;

	if (standin) {
		bytes = (int64_t)standin->bytes;
		fd_object_put(&standin->fd_object);
		return bytes;
	}
	if (fcntl(fd, F_GETFL) < 0)
		return refuse(EBADF, "fd", "it is not open", "dma_buf: dma_buf_get");
	if (!dmabuf_is_named_memfd(fd) && (syscall(SYS_fstatfs, fd, &fs) || fs.f_type != DMA_BUF_MAGIC))
		return refuse(EINVAL, "fd", "it is not a dma-buf", "dma_buf: dma_buf_get");
	bytes = syscall(SYS_lseek, fd, 0l, SEEK_END);
	return bytes < 0 ? -errno : bytes;
}

int dmabuf_map(struct fdtab *t, int fd, uint64_t offset, uint64_t length, bool writable, uint8_t **at)
{
	uint64_t first = offset & ~PAGE_MASK, end;
	int64_t bytes;
	void *pages;

	if (__builtin_add_overflow(offset, length, &end))
		return refuse(EINVAL, "offset, length", "their sum wraps", "ib_core: ib_umem_dmabuf_get");
	bytes = dmabuf_bytes(t, fd);
	if (bytes < 0)
		return (int)bytes;
	if (!length || end > (uint64_t)bytes)
		return refuse(EINVAL, "length", "0, or beyond the end of the dma-buf", "ib_core: ib_umem_dmabuf_get");
	pages = mmap(NULL, end - first, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, (off_t)first);
	if (pages == MAP_FAILED)
		return refuse(EOPNOTSUPP, "fd", "this dma-buf cannot be mapped, and softhca has no other way to it",
		              "softhca: dmabuf_map");
	*at = (uint8_t *)pages + (offset - first);
	return 0;
}

void dmabuf_unmap(uint8_t *at, uint64_t length)
{
	uint64_t in_page = (uintptr_t)at & PAGE_MASK;

	munmap(at - in_page, length + in_page);
}
