// SPDX-License-Identifier: Apache-2.0
/*
 * The program ibvcap-doctor, which `ibvcap doctor` runs: is this machine ready for capture, and if not, what has to be
 * done? It is a program of its own because it links the daemon's configuration and backend.
 */
#include "tools/doctor/checks.h"
#include "tools/doctor/print.h"
#include "tools/doctor/probe_queue.h"
#include "tools/doctor/read.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define DEFAULT_CONFIG "/etc/ibvcapd.conf"

static const char usage[] =
	"usage: ibvcap doctor [--config FILE] [--json]\n"
	"Check that this machine is ready for what the configuration asks of it; ibvcap-tuning(7) "
	"explains the checks.\n"
	"Run it as root: others do not see everything. Exit status: 0 ready, 1 warnings, 2 errors.\n"
	"\n"
	"  -c, --config FILE  the daemon's configuration (" DEFAULT_CONFIG ")\n"
	"  -j, --json         print JSON\n"
	"  -h, --help         print this\n";

struct arguments {
	const char *config;
	bool json;
};

static int print_usage_line(void)
{
	fprintf(stderr, "%.*s\n--help prints all options\n", (int)strcspn(usage, "\n"), usage);
	return EX_USAGE;
}

/* -1: go on; otherwise the exit code. */
static int parse_doctor_arguments(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "c:jh", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			arguments->config = optarg;
			break;
		case 'j':
			arguments->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EX_OK;
		default:
			return print_usage_line();
		}
	}
	if (optind < argc) {
		fprintf(stderr, "ibvcap doctor: unexpected argument '%s'\n", argv[optind]);
		return print_usage_line();
	}
	return -1;
}

/* The exit code: the worst level found, or EX_IOERR. */
static int run_doctor(const struct arguments *arguments, struct doctor_facts *facts, struct findings *findings)
{
	doctor_read_config(arguments->config, facts);
	doctor_find_daemon(facts);
	doctor_read("", facts);
	doctor_ask(facts);
	doctor_probe_queues(facts);
	doctor_check(facts, findings);
	if (arguments->json)
		doctor_print_json(facts, findings);
	else
		doctor_print_text(facts, findings);
	config_free(facts->config);
	if (fflush(stdout) == 0 && !ferror(stdout))
		return (int)findings_worst_level(findings);
	fputs("ibvcap doctor: standard output cannot be written\n", stderr);
	return EX_IOERR;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {.config = DEFAULT_CONFIG};
	int code = parse_doctor_arguments(argc, argv, &arguments);
	struct findings *findings;
	struct doctor_facts *facts;

	if (code >= 0)
		return code;
	findings = calloc(1, sizeof(*findings));
	facts = calloc(1, sizeof(*facts));
	if (findings && facts) {
		code = run_doctor(&arguments, facts, findings);
	} else {
		fputs("ibvcap doctor: out of memory\n", stderr);
		code = EX_OSERR;
	}
	free(findings);
	free(facts);
	return code;
}
