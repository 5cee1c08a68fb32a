// SPDX-License-Identifier: Apache-2.0
/* ibvcap doctor: is this machine ready, and if not, what to do about it. */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#define DEFAULT_CONFIG "/etc/ibvcapd.conf"

static const char usage[] = "usage: ibvcap doctor [--config FILE] [--json]\n"
			    "Check that this machine is ready for what the configuration wants of it; ibvcap-tuning(7) "
			    "says more of each check.\n"
			    "As root it sees more. Exit status: 0 it is ready, 1 warnings, 2 errors.\n"
			    "\n"
			    "  -c, --config FILE  the daemon's configuration (" DEFAULT_CONFIG ")\n"
			    "  -j, --json         print JSON\n"
			    "  -h, --help         print this\n";

struct arguments {
	const char *config;
	bool json;
};

/* -1: go on; else the exit code. */
static int parse_arguments(int argc, char **argv, struct arguments *arguments)
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
			fputs(usage, stderr);
			return EX_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "ibvcap doctor: unexpected argument '%s'\n%s", argv[optind], usage);
		return EX_USAGE;
	}
	return -1;
}

int doctor_main(int argc, char **argv)
{
	struct arguments arguments = {.config = DEFAULT_CONFIG};
	int r = parse_arguments(argc, argv, &arguments);
	struct doctor_findings *findings;
	struct doctor_facts *facts;

	if (r >= 0)
		return r;
	findings = calloc(1, sizeof(*findings));
	facts = calloc(1, sizeof(*facts));
	if (findings && facts) {
		doctor_read_config(arguments.config, facts);
		doctor_read("", facts);
		doctor_ask(facts);
		doctor_try(facts);
		doctor_judge(facts, findings);
		if (arguments.json)
			doctor_print_json(facts, findings);
		else
			doctor_print_text(facts, findings);
		r = fflush(stdout) == 0 && !ferror(stdout) ? (int)doctor_worst(findings) : EX_IOERR;
		config_free(facts->config);
	} else {
		fputs("ibvcap doctor: out of memory\n", stderr);
		r = EX_OSERR;
	}
	free(findings);
	free(facts);
	return r;
}
