// SPDX-License-Identifier: Apache-2.0
/* ibvcap top: rates, fill and losses of streams and channels, as they change. */
#include "tools/ibvcap/top.h"

#include "tools/ibvcap/clock.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/ibvcap/top_screen.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <sysexits.h>

#define INTERVAL_MIN_NS (SECOND_NS / 10)
#define ANSWER_MS       2000

static const char usage[] =
	"usage: ibvcap top [OPTIONS...]\n"
	"Show what streams and channels do now: rates, how full readers let the rings get, what is lost. q ends it.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -i, --interval S   of so many seconds each (1); 0.1 at least\n"
	"  -1, --once         one interval, as text\n"
	"  -j, --json         JSON, a line each interval\n"
	"  -h, --help         print this\n";

struct arguments {
	const char *socket;
	uint64_t interval_ns;
	bool once;
	bool json;
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

/* -1: go on; else the exit code. */
static int parse_arguments(int argc, char **argv, struct arguments *arguments)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'}, {"interval", required_argument, NULL, 'i'},
		{"once", no_argument, NULL, '1'},         {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},         {0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "s:i:1jh", known, NULL)) != -1) {
		switch (option) {
		case 's':
			arguments->socket = optarg;
			break;
		case 'i':
			if (!parse_seconds("top", "--interval", optarg, &arguments->interval_ns))
				return EX_USAGE;
			break;
		case '1':
			arguments->once = true;
			break;
		case 'j':
			arguments->json = true;
			break;
		default:
			return say_usage(option, usage);
		}
	}
	if (optind != argc) {
		fprintf(stderr, "ibvcap top: unexpected argument '%s'\n%s", argv[optind], usage);
		return EX_USAGE;
	}
	if (arguments->interval_ns < INTERVAL_MIN_NS) {
		fputs("ibvcap top: --interval: 0.1 seconds at least\n", stderr);
		return EX_USAGE;
	}
	return -1;
}

/* ---- two statuses ---------------------------------------------------------------------------------- */

struct look {
	struct ibvcap_status *status;
	uint64_t at_ns;
};

struct looks {
	struct look now;
	struct look before; /* its status NULL: none */
};

static void looks_deinit(struct looks *looks)
{
	ibvcap_status_free(looks->now.status);
	ibvcap_status_free(looks->before.status);
	*looks = (struct looks){0};
}

/* 0; or -errno, and what was seen before is forgotten. */
static int look_again(const struct arguments *arguments, struct looks *looks)
{
	struct ibvcap_status *status;
	int r = ibvcap_status(arguments->socket, ANSWER_MS, &status);

	if (r < 0) {
		looks_deinit(looks);
		return r;
	}
	ibvcap_status_free(looks->before.status);
	looks->before = looks->now;
	looks->now = (struct look){status, clock_ns(CLOCK_MONOTONIC)};
	return 0;
}

static void view_of(const struct looks *looks, struct top_view *view)
{
	*view = (struct top_view){0};
	status_view_fill(looks->now.status, &view->now);
	if (!looks->before.status)
		return;
	status_view_fill(looks->before.status, &view->before);
	view->interval_ns = looks->now.at_ns - looks->before.at_ns;
}

/* ---- to stdout ------------------------------------------------------------------------------------- */

static void put_text(void *context, enum top_style style, const char *line)
{
	(void)context;
	(void)style;
	puts(line);
}

static bool print(const struct arguments *arguments, const struct looks *looks)
{
	struct top_view view;
	json_t *all;

	view_of(looks, &view);
	if (arguments->json) {
		all = top_to_json(&view);
		json_dumpf(all, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(all);
	} else {
		top_print(&view, put_text, NULL);
	}
	return fflush(stdout) == 0 && !ferror(stdout);
}

static void rest(uint64_t ns)
{
	const struct timespec time = {.tv_sec = (time_t)(ns / SECOND_NS), .tv_nsec = (long)(ns % SECOND_NS)};

	nanosleep(&time, NULL);
}

/* Lines go on when a daemon ends and the next one comes. */
static int run_lines(const struct arguments *arguments, struct looks *looks)
{
	bool told = false;
	int r = 0;

	while (!stop) {
		rest(arguments->interval_ns);
		if (stop)
			break;
		r = look_again(arguments, looks);
		if (r < 0 && arguments->once)
			break;
		if (r < 0 && !told)
			fprintf(stderr, "ibvcap top: %s; trying again\n", ibvcap_error_text());
		told = r < 0;
		if (r == 0 && looks->before.status && !print(arguments, looks))
			return EX_IOERR;
		if (arguments->once && looks->before.status)
			return EX_OK;
	}
	if (stop)
		return EX_OK;
	fprintf(stderr, "ibvcap top: %s\n", ibvcap_error_text());
	return exit_code_of(r);
}

/* ---- to a terminal --------------------------------------------------------------------------------- */

static void draw(struct top_screen *screen, const struct looks *looks)
{
	struct top_view view;

	top_screen_clear(screen);
	if (looks->now.status) {
		view_of(looks, &view);
		top_print(&view, top_screen_put, screen);
	} else {
		top_screen_put(screen, TOP_TROUBLE, ibvcap_error_text());
		top_screen_put(screen, TOP_PLAIN, "trying again");
	}
	top_screen_show(screen);
}

static int run_screen(const struct arguments *arguments, struct looks *looks)
{
	struct top_screen *screen = top_screen_new();

	if (!screen) {
		fputs("ibvcap top: standard output is no terminal that can be drawn on: use --once or --json\n",
		      stderr);
		return EX_USAGE;
	}
	do {
		draw(screen, looks);
		if (!top_screen_wait(screen, arguments->interval_ns))
			break;
		if (!stop)
			look_again(arguments, looks);
	} while (!stop);
	top_screen_free(screen);
	return EX_OK;
}

int cmd_top(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct arguments arguments = {.interval_ns = SECOND_NS};
	struct looks looks = {0};
	int r = parse_arguments(argc, argv, &arguments);

	if (r >= 0)
		return r;
	/* Before ncurses: it leaves alone what is handled already. */
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	r = look_again(&arguments, &looks);
	if (r < 0) {
		fprintf(stderr, "ibvcap top: %s\n", ibvcap_error_text());
		return exit_code_of(r);
	}
	r = arguments.once || arguments.json ? run_lines(&arguments, &looks) : run_screen(&arguments, &looks);
	looks_deinit(&looks);
	return r;
}
