// SPDX-License-Identifier: Apache-2.0
/* Port numbers of the connection manager: they are the network namespace's, whichever process takes one. */
#ifndef SOFTHCA_CM_CM_PORT_H
#define SOFTHCA_CM_CM_PORT_H

#include <stdbool.h>
#include <stdint.h>

struct cm_port {
	unsigned int ps; /* port space */
	uint16_t number; /* 0: any that is free */
	uint8_t gid[16]; /* of the address; zeros: of all addresses */
	bool ipv6_only;  /* all addresses of IPv6 beside all of IPv4 */
};

/* Takes the port, until the returned descriptor is closed, and sets its number. -EADDRINUSE, -EADDRNOTAVAIL if none is
 * free, or another negative errno. */
int cm_port_take(struct cm_port *port);
/* Does any process have the port, for this address or for all? */
bool cm_port_is_taken(const struct cm_port *port);

#endif
