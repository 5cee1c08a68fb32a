// SPDX-License-Identifier: Apache-2.0
/* ibvcap reload: the daemon reads its configuration file again. */
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/reconfigure/reconfigure.h"

static const char usage[] =
	"usage: ibvcap reload [--socket PATH]\n"
	"Make ibvcapd read its configuration file again and apply the differences: it adds and removes streams, and\n"
	"changes flows, rights and limits of the others. If anything is wrong, it changes nothing. Only root and\n"
	"the daemon's user may do this.\n";

static const struct option_row rows[] = {OPTION_SOCKET('s', struct query_options, socket)};

const struct options_table cmd_reload_table = {.command = "reload",
                                               .usage = usage,
                                               OPTION_ROWS(rows),
                                               .no_more = "the daemon reads the file again with which it was started"};

int cmd_reload(int argc, char **argv)
{
	struct query_options options = {0};
	int code = options_parse(&cmd_reload_table, argc, argv, &options);

	return code >= 0 ? code : reconfigure_daemon("reload", options.socket, IBVCAP_RECONFIGURE_RELOAD, NULL, NULL);
}
