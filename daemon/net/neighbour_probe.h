// SPDX-License-Identifier: Apache-2.0
/* Makes the kernel resolve a neighbour, by datagrams from ordinary sockets. Inside the net room only. */
#ifndef DAEMON_NET_NEIGHBOUR_PROBE_H
#define DAEMON_NET_NEIGHBOUR_PROBE_H

#include "daemon/config/config.h"

struct neighbour_probe {
	int ipv4;
	int ipv6; /* -1: the kernel has no IPv6 */
};

int neighbour_probe_open(struct neighbour_probe *probe);
void neighbour_probe_close(struct neighbour_probe *probe);

/**
 * Send an empty datagram to the discard port of a neighbour (RFC 863). It does not leave the link. Errors are
 * ignored: the neighbour's state shows them.
 */
void neighbour_probe_send(const struct neighbour_probe *probe, unsigned interface_index,
                          const struct config_address *neighbour);

#endif
