// SPDX-License-Identifier: Apache-2.0
/*
 * Packet sockets (packet(7)), and the send queue made of one, which the backends have that drive an interface through
 * the kernel.
 */
#ifndef DAEMON_BACKEND_SOCKET_PACKET_SOCKET_H
#define DAEMON_BACKEND_SOCKET_PACKET_SOCKET_H

#include "daemon/backend/backend.h"

/** A packet socket of this type, SOCK_RAW or SOCK_DGRAM, that receives nothing yet. -errno and the failure. */
int packet_socket_open(const char *interface, int type, struct failure *failure);

struct socket_send_place {
	const char *interface;
	int index;
	bool has_ethernet; /* else packets go there from their IP header on */
};

/** What a backend's create_send_queue does. The queue has operations of its own. Needs CAP_NET_RAW. */
int socket_send_new(const struct socket_send_place *place, const struct backend_send_options *options,
                    struct backend_queue **queue, struct failure *failure);

#endif
