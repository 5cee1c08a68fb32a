// SPDX-License-Identifier: Apache-2.0
/* ibvcap top: asks the daemon again and again, and shows the difference between the last two answers. */
#include "tools/status/top.h"

#include "lib/base/time.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"

#include <stdio.h>
#include <sysexits.h>

#define ANSWER_MS 2000

/* Ask the daemon once more. -errno: it does not answer. */
static int ask_again(const struct top_options *options, struct top_view *view)
{
	struct status_view answer;
	int r = status_view_ask(&answer, options->socket, ANSWER_MS);

	top_view_take(view, r < 0 ? NULL : &answer, time_monotonic_ns());
	return r;
}

/* ---- to stdout ------------------------------------------------------------------------------------- */

static void put_plain_line(void *, enum top_style, const char *line)
{
	puts(line);
}

static bool print_view(const struct top_options *options, const struct top_view *view)
{
	if (options->json)
		report_json(top_to_json(view), JSON_COMPACT);
	else
		top_print(view, put_plain_line, NULL);
	return fflush(stdout) == 0 && !ferror(stdout);
}

static void wait_interval(uint64_t ns)
{
	const struct timespec time = {.tv_sec = (time_t)(ns / TIME_SECOND_NS), .tv_nsec = (long)(ns % TIME_SECOND_NS)};

	nanosleep(&time, NULL);
}

/* When the daemon ends, this waits for the next run of the daemon. */
static int run_lines(const struct top_options *options, struct top_view *view)
{
	bool is_reported = false;
	int r = 0;

	while (!stop_signal_came()) {
		wait_interval(options->interval_ns);
		if (stop_signal_came())
			break;
		r = ask_again(options, view);
		if (r < 0 && options->once)
			break;
		if (r < 0 && !is_reported)
			fprintf(stderr, "ibvcap top: %s; trying again\n", ibvcap_error_text());
		is_reported = r < 0;
		if (r == 0 && view->before.status && !print_view(options, view))
			return EX_IOERR;
		if (options->once && view->before.status)
			return EX_OK;
	}
	if (stop_signal_came())
		return EX_OK;
	return report_failure("top", r);
}

/* ---- to a terminal --------------------------------------------------------------------------------- */

static int run_screen(const struct top_options *options, struct top_view *view)
{
	struct top_screen *screen = top_screen_new();

	if (!screen) {
		fputs("ibvcap top: standard output is no terminal that ncurses can draw on: use --once or --json\n",
		      stderr);
		return EX_USAGE;
	}
	do {
		top_screen_clear(screen);
		if (view->now.status) {
			top_print(view, top_screen_put, screen);
		} else {
			top_screen_put(screen, TOP_TROUBLE, ibvcap_error_text());
			top_screen_put(screen, TOP_PLAIN, "trying again");
		}
		top_screen_show(screen);
		if (!top_screen_wait(screen, options->interval_ns))
			break;
		if (!stop_signal_came())
			ask_again(options, view);
	} while (!stop_signal_came());
	top_screen_free(screen);
	return EX_OK;
}

int top_run(const struct top_options *options)
{
	struct top_view view = {.interval_ns = 0};
	int r;

	/* Before ncurses starts, because it installs handlers of its own only for signals that have none. */
	stop_signal_catch();
	r = ask_again(options, &view);
	if (r < 0)
		return report_failure("top", r);
	r = options->once || options->json ? run_lines(options, &view) : run_screen(options, &view);
	top_view_take(&view, NULL, 0);
	return r;
}
