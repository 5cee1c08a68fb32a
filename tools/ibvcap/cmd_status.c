// SPDX-License-Identifier: Apache-2.0
/* ibvcap status: asks the daemon once, and prints its answer. */
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/status/status_print.h"

#include <getopt.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap status [--socket PATH] [--json]\n"
	"Print what ibvcapd receives and sends, and where every packet went.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -j, --json         print JSON\n"
	"  -h, --help         print this\n";

int cmd_status(int argc, char **argv)
{
	struct query_options options;
	struct status_view view;
	int r = options_parse_query(argc, argv, usage, true, &options);

	if (r >= 0)
		return r;
	if (optind < argc)
		return options_reject("status", usage, "unexpected argument '%s'", argv[optind]);
	r = status_view_ask(&view, options.socket, 0);
	if (r < 0)
		return report_failure("status", r);
	if (options.json)
		report_json(status_view_to_json(&view), JSON_INDENT(2));
	else
		status_print(&view);
	status_view_deinit(&view);
	return EX_OK;
}
