// SPDX-License-Identifier: Apache-2.0
/* The common part of the backends packet and xdp. */
#include "daemon/backend/socket/kernel_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int kernel_path_register_memory(struct backend *backend, void *, size_t, struct backend_memory **memory,
                                struct failure *failure)
{
	struct backend_memory *registered = calloc(1, sizeof(*registered));

	if (!registered)
		return failure_no_memory(failure);
	registered->backend = backend;
	*memory = registered;
	return 0;
}

void kernel_path_unregister_memory(struct backend_memory *memory)
{
	free(memory);
}

int kernel_path_start(struct backend_queue *)
{
	return 0;
}

int kernel_path_open_socket(const char *interface, int type, struct failure *failure)
{
	int fd = socket(AF_PACKET, type | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		return fd;
	return failure_set(failure, errno == EPERM ? EX_NOPERM : EX_OSERR, errno,
	                   "interface %s: cannot open a packet socket: %s%s", interface, strerror(errno),
	                   errno == EPERM ? ": CAP_NET_RAW is missing: AmbientCapabilities=CAP_NET_RAW in the unit, or "
	                                    "'ibv_launch COMMAND'"
	                                  : "");
}
