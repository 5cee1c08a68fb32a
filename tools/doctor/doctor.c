// SPDX-License-Identifier: Apache-2.0
/*
 * The program ibvcap-doctor, which `ibvcap doctor` runs: is this machine ready for capture, and if not, what has to be
 * done? It is a program of its own because it links the daemon's configuration and backend.
 */
#include "tools/common/options.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/read.h"

#include <stdio.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap doctor [--config FILE] [--user USER] [--json]\n"
	"Check that this machine is ready for what the configuration asks of it; ibvcap-tuning(7) "
	"explains the checks.\n"
	"Run it as root: others do not see everything. Exit status: 0 ready, 1 warnings, 2 errors.\n";

struct doctor_options {
	const char *config, *user;
	bool json;
};

static const struct option_row rows[] = {
	{"config", 'c', "FILE", "the daemon's configuration (" CONFIG_DEFAULT_FILE ")", OPTION_TEXT,
         OPTION_AT(struct doctor_options, config)},
	{"user", 'u', "USER",
         "the account that the daemon is to run as (that of ibvcapd); if one runs: may USER connect?", OPTION_TEXT,
         OPTION_AT(struct doctor_options, user)},
	{"json", 'j', NULL, "print JSON", OPTION_FLAG, OPTION_AT(struct doctor_options, json)},
};

static const struct options_table table = {.command = "doctor", .usage = usage, OPTION_ROWS(rows)};

/* The exit code: the worst level found, or EX_IOERR. */
int main(int argc, char **argv)
{
	static struct findings findings;
	static struct doctor_facts facts;
	struct doctor_options options = {.config = CONFIG_DEFAULT_FILE};
	int code = options_parse(&table, argc, argv, &options);

	if (code >= 0)
		return code;
	facts.user = options.user;
	doctor_read_config(options.config, &facts);
	doctor_find_daemon(&facts);
	doctor_read("", &facts);
	doctor_ask(&facts);
	doctor_probe_queues(&facts);
	doctor_probe_cuda(&facts);
	doctor_check(&facts, &findings);
	if (options.json)
		doctor_print_json(&facts, &findings);
	else
		doctor_print_text(&findings);
	config_free(facts.config);
	if (fflush(stdout) == 0 && !ferror(stdout))
		return (int)findings_worst_level(&findings);
	fputs("ibvcap doctor: standard output cannot be written\n", stderr);
	return EX_IOERR;
}
