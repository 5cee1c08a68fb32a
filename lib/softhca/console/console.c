// SPDX-License-Identifier: Apache-2.0
/* The subcommands' command lines. */
#include "console.h"

#include "../control/control.h"
#include "../wire/complain.h"
#include "ask.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define MAX_PROCESSES 64

const char console_usage[] = "       softhca objects [--json] [PID]\n";

struct console {
	bool json;
	pid_t pids[MAX_PROCESSES];
	int n_pids;
};

static int console_usage_error(void)
{
	fprintf(stderr, "usage:\n%s", console_usage);
	return EX_USAGE;
}

/* Reads PID, or finds all processes. An exit status. */
static int console_find(struct console *c, const char *pid)
{
	char *end;

	if (pid) {
		c->pids[0] = (pid_t)strtol(pid, &end, 10);
		c->n_pids = 1;
		return *end || c->pids[0] <= 0 ? console_usage_error() : EX_OK;
	}
	c->n_pids = ask_find(c->pids, MAX_PROCESSES);
	if (c->n_pids)
		return EX_OK;
	complain("no process in this network namespace has a softhca device open");
	return EX_UNAVAILABLE;
}

static int console_objects(struct console *c)
{
	int status = EX_OK;

	for (int i = 0; i < c->n_pids; i++) {
		int r = ask(c->pids[i], c->json ? "objects json" : "objects", ask_print, NULL);

		status = r ? r : status;
	}
	return status;
}

int console_run(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {}};
	struct console c = {};
	int option, r;

	if (argc < 2 || strcmp(argv[1], "objects") != 0)
		return -1;
	while ((option = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1) {
		if (option != 'j')
			return console_usage_error();
		c.json = true;
	}
	if (argc - 1 - optind > 1)
		return console_usage_error();
	r = console_find(&c, argv[1 + optind]);
	return r ? r : console_objects(&c);
}
