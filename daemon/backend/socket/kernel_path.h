// SPDX-License-Identifier: Apache-2.0
/* The operations that the backends packet and xdp have in common: both take an interface's packets from the kernel. */
#ifndef DAEMON_BACKEND_SOCKET_KERNEL_PATH_H
#define DAEMON_BACKEND_SOCKET_KERNEL_PATH_H

#include "daemon/backend/backend.h"

/** The worker copies packets, so no device has to know the memory. */
int kernel_path_register_memory(struct backend *backend, void *address, size_t bytes, struct backend_memory **memory,
                                struct failure *failure);
void kernel_path_unregister_memory(struct backend_memory *memory);

/** A queue receives from its first flow on. */
int kernel_path_start(struct backend_queue *queue);

#endif
