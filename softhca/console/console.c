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

const char console_usage[] = "       softhca objects [--json] [PID]\n"
			     "       softhca inject [--json] [--device=DEVICE] PID [FAULT[=VALUE]...]\n"
			     "       softhca trace [--json] [--wire=FILE] [PID]\n"
			     "       softhca trace --mark=TEXT [PID]\n"
			     "       softhca warnings [--json] [PID]\n"
			     "       softhca warnings --list\n";

const char console_options[] = "  --json                  lines are JSON objects (inject, objects, trace, warnings)\n"
			       "  --device=NAME           only on this device or network device (inject)\n"
			       "  --wire=FILE             write the frames as pcapng, too (trace)\n"
			       "  --list                  print the table of pitfalls, in Markdown (warnings)\n"
			       "  --mark=TEXT             put a bookmark into the trace that runs (trace)\n";

struct console {
	bool json, list;
	const char *name; /* of the subcommand */
	const char *wire, *mark, *device;
	char **words; /* those behind PID, ended by NULL */
	pid_t pids[MAX_PROCESSES];
	int n_pids;
};

/* Behind a message; --help has the rest. */
static int console_usage_error(void)
{
	fputs("softhca --help prints the usage\n", stderr);
	return EX_USAGE;
}

/* Reads PID, or finds all processes. An exit status. */
static int console_find(struct console *c, const char *pid)
{
	char *end;

	if (pid) {
		c->pids[0] = (pid_t)strtol(pid, &end, 10);
		c->n_pids = 1;
		if (!*end && c->pids[0] > 0)
			return EX_OK;
		complain("%s: '%s': the number of a process is wanted; see: softhca objects", c->name, pid);
		return console_usage_error();
	}
	c->n_pids = ask_find(c->pids, MAX_PROCESSES);
	if (c->n_pids)
		return EX_OK;
	complain("no process in this network namespace has a softhca device open");
	return EX_UNAVAILABLE;
}

/* The request is the name of the subcommand. */
static int console_ask_all(struct console *c)
{
	char request[CONTROL_MAX_REQUEST];
	int status = EX_OK;

	snprintf(request, sizeof(request), "%s%s", c->name, c->json ? " json" : "");
	for (int i = 0; i < c->n_pids; i++) {
		int r = ask(c->pids[i], request, ask_print, NULL);

		status = r ? r : status;
	}
	return status;
}

static int console_list_pitfalls(void)
{
	puts("| warning | what | remedy | source |\n|---|---|---|---|");
	for (unsigned int i = 0; i < N_WARNINGS; i++)
		printf("| `%s` | %s | %s | %s |\n", warning_rows[i].name, warning_rows[i].what, warning_rows[i].remedy,
		       warning_rows[i].source);
	return EX_OK;
}

/* Of one process: lines of several would be mixed. */
static int console_trace_or_mark(struct console *c)
{
	int status = EX_OK;

	if (c->mark) {
		for (int i = 0; i < c->n_pids && !status; i++)
			status = console_mark(c->pids[i], c->mark);
		return status;
	}
	if (c->n_pids > 1) {
		complain("%d processes have a device open; name one: softhca trace PID; see: softhca objects",
		         c->n_pids);
		return EX_USAGE;
	}
	return console_trace(c->pids[0], c->json, c->wire);
}

/* The faults go in one request, so that the process answers to all or names the first that is wrong. */
static int console_inject(struct console *c)
{
	char request[CONTROL_MAX_REQUEST];
	size_t n = (size_t)snprintf(request, sizeof(request), "inject%s%s%s", c->json ? " json" : "",
	                            c->device ? " device=" : "", c->device ? c->device : "");

	for (char **word = c->words; *word && n < sizeof(request); word++)
		n += (size_t)snprintf(request + n, sizeof(request) - n, " %s", *word);
	if (n >= sizeof(request)) {
		complain("too many faults at a time");
		return EX_USAGE;
	}
	return ask(c->pids[0], request, ask_print, NULL);
}

static const struct {
	const char *name;
	int (*run)(struct console *c);
	const char *options; /* the letters of those that it takes */
	bool takes_words;
} commands[] = {
	{"inject", console_inject, "jd", .takes_words = true},
	{"objects", console_ask_all, "j", .takes_words = false},
	{"trace", console_trace_or_mark, "jwm", .takes_words = false},
	{"warnings", console_ask_all, "jl", .takes_words = false},
};

/* NULL, or what is wrong with the command line behind the options. */
static const char *console_check(const struct console *c, bool takes_words, int n_words)
{
	if (c->mark && (c->json || c->wire))
		return "--mark goes without --json and --wire";
	if (c->list && (c->json || n_words))
		return "--list goes alone";
	if (takes_words && !n_words)
		return "which process? PID is missing; see: softhca objects";
	return !takes_words && n_words > 1 ? "one PID at a time, or none for all" : NULL;
}

static int console_run_command(size_t command, int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
	                                        {"wire", required_argument, NULL, 'w'},
	                                        {"mark", required_argument, NULL, 'm'},
	                                        {"device", required_argument, NULL, 'd'},
	                                        {"list", no_argument, NULL, 'l'},
	                                        {"help", no_argument, NULL, 'h'},
	                                        {}};
	struct console c = {.name = commands[command].name};
	const char *wrong;
	char program[32];
	int option, at, r;

	snprintf(program, sizeof(program), "softhca %s", c.name);
	argv[0] = program; /* in the messages of getopt */
	while ((option = getopt_long(argc, argv, "", options, &at)) != -1) {
		if (option == 'h') {
			printf("usage:\n%s%s", console_usage, console_options);
			return EX_OK;
		}
		if (option != '?' && !strchr(commands[command].options, option))
			complain("%s: it does not take --%s", c.name, options[at].name);
		if (option == '?' || !strchr(commands[command].options, option))
			return console_usage_error();
		c.json |= option == 'j';
		c.list |= option == 'l';
		if (option == 'w')
			c.wire = optarg;
		else if (option == 'm')
			c.mark = optarg;
		else if (option == 'd')
			c.device = optarg;
	}
	c.words = argv + optind + (optind < argc);
	wrong = console_check(&c, commands[command].takes_words, argc - optind);
	if (wrong) {
		complain("%s: %s", c.name, wrong);
		return console_usage_error();
	}
	if (c.list)
		return console_list_pitfalls();
	r = console_find(&c, argv[optind]);
	return r ? r : commands[command].run(&c);
}

int console_run(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return console_run_command(i, argc - 1, argv + 1);
	return -1;
}
