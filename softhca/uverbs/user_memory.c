// SPDX-License-Identifier: Apache-2.0
/* Reads and writes the program's memory through the kernel, so that a bad pointer is an error and not a crash. */
#include "user_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* If a filter of system calls forbids this one, the memory is copied directly, and a bad pointer crashes the
 * program. */
static int user_memory_copy(long call, void *ours, uint64_t theirs, size_t bytes)
{
	struct iovec local = {.iov_base = ours, .iov_len = bytes};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)theirs, .iov_len = bytes};
	ssize_t n = syscall(call, getpid(), &local, 1ul, &remote, 1ul, 0ul);

	if (n < 0 && errno != EFAULT) {
		memcpy(call == SYS_process_vm_readv ? ours : remote.iov_base,
		       call == SYS_process_vm_readv ? remote.iov_base : ours, bytes);
		return 0;
	}
	return n == (ssize_t)bytes ? 0 : -EFAULT;
}

int user_memory_read(void *to, uint64_t from, size_t bytes)
{
	return bytes ? user_memory_copy(SYS_process_vm_readv, to, from, bytes) : 0;
}

int user_memory_write(uint64_t to, const void *from, size_t bytes)
{
	return bytes ? user_memory_copy(SYS_process_vm_writev, (void *)from, to, bytes) : 0;
}
