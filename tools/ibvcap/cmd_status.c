// SPDX-License-Identifier: Apache-2.0
/* ibvcap status: asks the daemon once, and prints its answer. */
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/status/status_view.h"

#include <sysexits.h>

static const char usage[] = "usage: ibvcap status [--socket PATH] [--json]\n"
			    "Print what ibvcapd receives and sends, and where every packet went.\n";

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct query_options, socket),
	{"json", 'j', NULL, "print JSON", OPTION_FLAG, OPTION_AT(struct query_options, json)},
};

const struct options_table cmd_status_table = {.command = "status",
                                               .usage = usage,
                                               OPTION_ROWS(rows),
                                               .no_more =
                                                       "it shows all streams; of one, 'ibvcap why STREAM' says more"};

int cmd_status(int argc, char **argv)
{
	struct query_options options = {0};
	struct status_view view;
	int r = options_parse(&cmd_status_table, argc, argv, &options);

	if (r >= 0)
		return r;
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
