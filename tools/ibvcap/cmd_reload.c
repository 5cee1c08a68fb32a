// SPDX-License-Identifier: Apache-2.0
/* ibvcap reload: the daemon reads its configuration file again. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/common/options.h"
#include "tools/reconfigure/reconfigure.h"

#include <getopt.h>

static const char usage[] =
	"usage: ibvcap reload [--socket PATH]\n"
	"Make ibvcapd read its configuration file again and apply the differences: it adds and removes streams, and\n"
	"changes flows, rights and limits of the others. If anything is wrong, it changes nothing. Only root and\n"
	"the daemon's user may do this.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -h, --help         print this\n";

int cmd_reload(int argc, char **argv)
{
	struct query_options options;
	int code = options_parse_query(argc, argv, usage, false, &options);

	if (code >= 0)
		return code;
	if (optind < argc)
		return options_reject("reload", usage, "unexpected argument '%s'", argv[optind]);
	return reconfigure_daemon("reload", options.socket, IBVCAP_RECONFIGURE_RELOAD, NULL, NULL);
}
