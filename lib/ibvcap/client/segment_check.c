// SPDX-License-Identifier: Apache-2.0
/*
 * Maps shared memory that the daemon sent, and checks it before the library uses it. The daemon may be of another
 * version, or not be ibvcapd at all.
 */
#include "lib/ibvcap/client/segment_check.h"

#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int segment_reject(const char *whole, const char *what)
{
	return error_set(-EPROTO, "the %s that the daemon sent: %s; library and daemon are of different versions",
	                 whole, what);
}

static int segment_map(const struct segment *segment, int fd, const char *whole)
{
	const char *name = segment->name;
	int r = shm_map(segment->shm, fd, segment->writable);

	/* The kernel's EAGAIN; the library's means that the daemon has no place. */
	if (r == -EAGAIN)
		return error_set(-ENOMEM,
		                 "the %s that the daemon sent: its %s segment cannot be locked in memory, as "
		                 "mlockall(MCL_FUTURE) asks: raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=)",
		                 whole, name);
	if (r < 0)
		return error_set(r, "the %s that the daemon sent: its %s segment cannot be mapped: %s", whole, name,
		                 r == -EPROTO ? "its size is not sealed" : strerror(-r));
	return 0;
}

static int segment_check(const struct segment *segment, uint64_t epoch, const char *whole)
{
	const struct shm *shm = segment->shm;
	struct ibvcap_segment head;

	if (shm->bytes < segment->bytes_min || !segment_is_ready(shm->address))
		return error_set(-EPROTO, "the %s that the daemon sent: its %s segment is incomplete", whole,
		                 segment->name);
	memcpy(&head, shm->address, sizeof(head));
	if (head.magic != segment->magic || head.bytes != shm->bytes || head.epoch != epoch)
		return error_set(-EPROTO, "the %s that the daemon sent: its %s segment is none, or of another epoch",
		                 whole, segment->name);
	if (head.abi_major != IBVCAP_ABI_MAJOR)
		return error_set(-EPROTO, "the daemon's shared memory has ABI %u, this library reads %u",
		                 head.abi_major, IBVCAP_ABI_MAJOR);
	return 0;
}

int segment_map_all(const struct segment *segments, unsigned n, const int *fds, uint64_t epoch, const char *whole)
{
	int r = 0;

	for (unsigned i = 0; i < n; i++) {
		if (r == 0)
			r = segment_map(&segments[i], fds[i], whole);
		else
			close(fds[i]);
	}
	for (unsigned i = 0; r == 0 && i < n; i++)
		if (segments[i].magic)
			r = segment_check(&segments[i], epoch, whole);
	return r;
}

bool segment_fits(uint64_t offset, uint64_t align, uint64_t n, uint64_t each, uint64_t total)
{
	uint64_t bytes;

	return offset % align == 0 && !__builtin_mul_overflow(n, each, &bytes) && offset <= total &&
	       bytes <= total - offset;
}

int segment_unblock(int fd, const char *whole, const char *name)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return error_set(-EPROTO, "the %s that the daemon sent: its %s cannot be used: %s", whole, name,
		                 strerror(errno));
	return 0;
}
