// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel for the queueing discipline of an interface. */
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <stdio.h>

int net_queueing_discipline(unsigned interface_index, char kind[NET_QUEUEING_BYTES])
{
	struct rtnl_link link = {0};
	struct mnl_socket *socket;
	int r = rtnl_open(&socket);

	if (r < 0)
		return r;
	r = rtnl_get_link(socket, interface_index, &link);
	mnl_socket_close(socket);
	snprintf(kind, NET_QUEUEING_BYTES, "%s", link.qdisc);
	return r;
}
