// SPDX-License-Identifier: Apache-2.0
/* Opens packet sockets, and says what right is missing. */
#include "daemon/backend/packet/af_packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int af_packet_open_socket(const struct af_packet *backend, struct failure *failure)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		return fd;
	return failure_set(failure, errno == EPERM ? EX_NOPERM : EX_OSERR, errno,
	                   "interface %s: cannot open a packet socket: %s%s", backend->interface, strerror(errno),
	                   errno == EPERM ? ": CAP_NET_RAW is missing: AmbientCapabilities=CAP_NET_RAW in the unit, or "
	                                    "'ibv_launch COMMAND'"
	                                  : "");
}
