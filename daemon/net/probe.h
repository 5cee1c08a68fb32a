// SPDX-License-Identifier: Apache-2.0
/* Ordinary sockets by which the kernel is made to resolve a neighbour. Inside the net room only. */
#ifndef DAEMON_NET_PROBE_H
#define DAEMON_NET_PROBE_H

#include "daemon/config/config.h"

struct probe {
	int ipv4;
	int ipv6; /* -1: the kernel has no IPv6 */
};

int probe_open(struct probe *probe);
void probe_close(struct probe *probe);

/** An empty datagram to a neighbour's discard port (RFC 863); it never leaves the link. What goes wrong shows later. */
void probe_send(const struct probe *probe, unsigned interface_index, const struct config_address *neighbour);

#endif
