// SPDX-License-Identifier: Apache-2.0
/* Opens packet sockets, and says what right is missing. */
#include "daemon/backend/socket/packet_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int packet_socket_open(const char *interface, int type, struct failure *failure)
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
