// SPDX-License-Identifier: Apache-2.0
/*
 * ibvcap metrics: asks the daemon once, and prints its status as metrics. A daemon that does not answer is a metric,
 * too, so it is no failure. With --listen, another program serves them.
 */
#include "lib/base/time.h"
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/status/metrics.h"

#include <sysexits.h>

#define ANSWER_MS 2000

static const char usage[] =
	"usage: ibvcap metrics [OPTIONS...]\n"
	"Print the status as metrics for Prometheus, once. If the daemon does not answer within 2 s, ibvcap_up is 0.\n"
	"With --listen, serve them by HTTP, and a page for people.\n";

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct metrics_options, socket),
	{"openmetrics", 'o', NULL, "print OpenMetrics instead of Prometheus' text format", OPTION_FLAG,
         OPTION_AT(struct metrics_options, openmetrics)},
	{"listen", 'l', "ADDRESS", "serve /metrics and a page on this ADDRESS:PORT, until it is stopped", OPTION_TEXT,
         OPTION_AT(struct metrics_options, listen)},
};

static const struct option_rule rules[] = {
	{"openmetrics", OPTION_NOT_WITH, "listen", "who asks for /metrics says which format it reads"},
};

const struct options_table cmd_metrics_table = {.command = "metrics",
                                                .usage = usage,
                                                OPTION_ROWS(rows),
                                                OPTION_RULES(rules),
                                                .no_more = "an address stands behind --listen"};

int cmd_metrics(int argc, char **argv)
{
	struct metrics_options options = {0};
	struct status_view view;
	uint64_t begun_ns;
	int r = options_parse(&cmd_metrics_table, argc, argv, &options);

	if (r >= 0)
		return r;
	if (options.listen)
		return run_program("ibvcap-metrics", "ibvcap-metrics",
		                   (char *[]){argv[0], (char *)options.listen, (char *)options.socket, NULL});
	begun_ns = time_monotonic_ns();
	r = status_view_ask(&view, options.socket, ANSWER_MS);
	if (r < 0)
		fprintf(stderr, "ibvcap metrics: %s\n", ibvcap_error_text());
	metrics_print(stdout, &view, (struct metrics_health){r == 0, r == 0 ? 0 : time_monotonic_ns() - begun_ns},
	              options.openmetrics ? METRICS_OPENMETRICS : METRICS_TEXT);
	status_view_deinit(&view);
	return EX_OK;
}
