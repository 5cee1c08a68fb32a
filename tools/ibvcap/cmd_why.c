// SPDX-License-Identifier: Apache-2.0
/*
 * ibvcap why: asks the daemon once, and explains the losses of one stream. If no stream has the name, but an interface
 * has, it looks at what arrives there; that needs no daemon.
 */
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/status/why.h"

#include <net/if.h>
#include <stdio.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap why STREAM [--socket PATH] [--json]\n"
	"       ibvcap why INTERFACE [--json]\n"
	"Print where each packet of a stream went, from the wire to each consumer: every term of the sum, its\n"
	"cause, and what helps. If none matched, root gets a look of a second at what UDP arrives, and what to\n"
	"write into the configuration for it. The same for a network interface, without a stream.\n";

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct query_options, socket),
	{"json", 'j', NULL, "print JSON", OPTION_FLAG, OPTION_AT(struct query_options, json)},
};

static const struct options_table table = {
	.command = "why",
	.usage = usage,
	OPTION_ROWS(rows),
	.words = {{"which stream or interface? 'ibvcap status' lists the streams",
                   offsetof(struct query_options, stream)}},
};

int cmd_why(int argc, char **argv)
{
	struct query_options options = {0};
	struct status_view view;
	int r = options_parse(&table, argc, argv, &options), n_found;

	if (r >= 0)
		return r;
	r = status_view_ask(&view, options.socket, 0);
	n_found = r < 0 ? 0 : why_print(&view, options.stream, options.json);
	if (r == 0)
		status_view_deinit(&view);
	if (n_found > 0)
		return EX_OK;
	if (if_nametoindex(options.stream))
		return why_print_interface(options.stream, options.json) ? EX_OK : EX_NOPERM;
	if (r < 0)
		return report_failure("why", r);
	fprintf(stderr, "ibvcap why: no stream '%s' that this user may see; 'ibvcap status' lists the streams\n",
	        options.stream);
	return EX_UNAVAILABLE;
}
