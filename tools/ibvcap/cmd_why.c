// SPDX-License-Identifier: Apache-2.0
/* ibvcap why: asks the daemon once, and explains the losses of one stream. */
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/status/why_print.h"

#include <getopt.h>
#include <stdio.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap why STREAM [--socket PATH] [--json]\n"
	"Print where each packet of a stream went, from the wire to each consumer: every term of the sum, its\n"
	"cause, and what helps.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -j, --json         print JSON\n"
	"  -h, --help         print this\n";

int cmd_why(int argc, char **argv)
{
	struct query_options options;
	struct status_view view;
	int r = options_parse_query(argc, argv, usage, true, &options);
	int n_found;

	if (r >= 0)
		return r;
	if (argc - optind != 1)
		return options_reject("why", usage, "which stream? 'ibvcap status' lists them");
	r = status_view_ask(&view, options.socket, 0);
	if (r < 0)
		return report_failure("why", r);
	n_found = why_print(&view, argv[optind], options.json);
	status_view_deinit(&view);
	if (n_found > 0)
		return EX_OK;
	fprintf(stderr, "ibvcap why: no stream '%s' that this user may see; 'ibvcap status' lists the streams\n",
	        argv[optind]);
	return EX_UNAVAILABLE;
}
