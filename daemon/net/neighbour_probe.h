// SPDX-License-Identifier: Apache-2.0
/* Ordinary sockets by which the kernel is made to resolve a neighbour. Inside the net room only. */
#ifndef DAEMON_NET_NEIGHBOUR_PROBE_H
#define DAEMON_NET_NEIGHBOUR_PROBE_H

#include "daemon/config/config.h"

struct neighbour_probe {
	int ipv4;
	int ipv6; /* -1: the kernel has no IPv6 */
};

int neighbour_probe_open(struct neighbour_probe *probe);
void neighbour_probe_close(struct neighbour_probe *probe);

/** An empty datagram to a neighbour's discard port (RFC 863); it never leaves the link. What goes wrong shows later. */
void neighbour_probe_send(const struct neighbour_probe *probe, unsigned interface_index,
                          const struct config_address *neighbour);

#endif
