// SPDX-License-Identifier: Apache-2.0
/* ibvcap reload: the daemon reads its configuration file again. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/ibvcap/reconfigure.h"

#include <stddef.h>

static const char usage[] =
	"usage: ibvcap reload [--socket PATH]\n"
	"Have ibvcapd read its configuration file again and apply what has changed: streams come and go, flows, rights "
	"and\n"
	"limits of the others change. On any error nothing is changed. For root and the daemon's user.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -h, --help         print this\n";

int cmd_reload(int argc, char **argv)
{
	const char *socket;
	int code = reconfigure_parse(argc, argv, usage, 0, false, &socket);

	return code >= 0 ? code : reconfigure_daemon("reload", socket, IBVCAP_RECONFIGURE_RELOAD, NULL, NULL);
}
