// SPDX-License-Identifier: Apache-2.0
/*
 * To be preloaded into the daemon: the kernel seems not to know SO_PASSRIGHTS (Linux 6.16), so that clients can send
 * descriptors to the daemon as they can on older kernels.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

__attribute__((visibility("default"))) int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	int (*real)(int, int, int, const void *, socklen_t) =
		(int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");

	if (level != SOL_SOCKET || name != SO_PASSRIGHTS)
		return real(fd, level, name, value, bytes);
	errno = ENOPROTOOPT;
	return -1;
}
