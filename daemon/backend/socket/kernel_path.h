// SPDX-License-Identifier: Apache-2.0
/*
 * The common part of the backends packet and xdp: both take an interface's packets from the kernel, and send through a
 * packet socket (packet(7)). Declares
 * socket_discipline.c, socket_send.c.
 */
#ifndef DAEMON_BACKEND_SOCKET_KERNEL_PATH_H
#define DAEMON_BACKEND_SOCKET_KERNEL_PATH_H

#include "daemon/backend/backend.h"
#include "daemon/net/net.h"

/** The worker copies packets, so no device has to know the memory. */
int kernel_path_register_memory(struct backend *backend, void *address, size_t bytes, struct backend_memory **memory,
                                struct failure *failure);
void kernel_path_unregister_memory(struct backend_memory *memory);

/** A queue receives from its first flow on. */
int kernel_path_start(struct backend_queue *queue);

/** A packet socket of this type, SOCK_RAW or SOCK_DGRAM, that receives nothing yet. -errno and the failure. */
int kernel_path_open_socket(const char *interface, int type, struct failure *failure);

/* What the interface's queueing discipline (tc(8)) does with packets. The administrator may change it. */
struct socket_discipline {
	_Atomic bool is_asked; /* there is, or was, a send queue */
	_Atomic bool is_whole; /* as it was then: it takes a message of several packets whole or not at all */
	_Atomic uint64_t etf[NET_PRIORITIES]; /* struct net_etf, likewise: the delta, and the flags in the upper half */
};

struct socket_send_device {
	const char *interface;
	int index;
	bool has_ethernet; /* else packets go there from their IP header on */
	struct socket_discipline *discipline;
};

/** Ask the kernel, which takes its lock of all interfaces: for the device's thread, once a second. */
void socket_discipline_follow(struct socket_discipline *discipline, const char *interface, int index);

/** What packets of this priority pass, as it was at the last socket_discipline_follow(). Any thread. */
struct net_etf socket_discipline_etf(const struct socket_discipline *discipline, uint32_t priority);

/** Implements a backend's check_send_time. */
int socket_check_send_time(const char *interface, uint32_t priority, struct failure *failure);

/** Implements a backend's create_send_queue. The queue has operations of its own. Needs CAP_NET_RAW. */
int socket_send_new(const struct socket_send_device *device, const struct backend_send_options *options,
                    struct backend_queue **queue, struct failure *failure);

#endif
