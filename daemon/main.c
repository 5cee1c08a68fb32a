// SPDX-License-Identifier: Apache-2.0
/* The command line of ibvcapd: reads the configuration, then checks it, prints it, or runs the daemon with it. */
#include "daemon/base/log.h"
#include "daemon/config/config.h"
#include "daemon/daemon.h"
#include "daemon/dry_run.h"
#include "daemon/flow/flow.h"
#include "daemon/priv/priv.h"
#include "lib/base/fd.h"
#include "lib/base/nearest.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_USER "ibvcap"

static const char usage[] =
	"usage: ibvcapd [--config FILE] [--user USER] [--check-config | --dump-config]\n"
	"Capture UDP streams from NICs into shared memory, and send from it, as the configuration says. Runs in the\n"
	"foreground.\n"
	"\n"
	"  -c, --config FILE   configuration (" CONFIG_DEFAULT_FILE ")\n"
	"  -u, --user USER     root becomes USER and keeps only the capabilities that it needs (" DEFAULT_USER ")\n"
	"  -t, --check-config  say what a start would refuse or wait for, and end\n"
	"  -d, --dump-config   check the file alone, print it with every key and its default filled in, and end\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this\n";

struct arguments {
	const char *config;
	const char *user;
	bool check_config;
	bool dump_config;
};

/* Returns the exit code, or -1 to go on. */
static int parse_daemon_arguments(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"user", required_argument, NULL, 'u'},
		{"check-config", no_argument, NULL, 't'},
		{"dump-config", no_argument, NULL, 'd'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *meant;
	int option;

	while ((option = getopt_long(argc, argv, "c:u:tdVh", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			arguments->config = optarg;
			break;
		case 'u':
			arguments->user = optarg;
			break;
		case 't':
			arguments->check_config = true;
			break;
		case 'd':
			arguments->dump_config = true;
			break;
		case 'V':
			puts("ibvcapd " IBVCAP_BUILD_VERSION);
			return EX_OK;
		case 'h':
			fputs(usage, stdout);
			return EX_OK;
		default: /* getopt has printed a message */
			meant = nearest_option(options, argv[optind - 1]);
			if (meant)
				fprintf(stderr, "ibvcapd: did you mean --%s?\n", meant);
			fputs(usage, stderr);
			return EX_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "ibvcapd: unexpected argument '%s'\n%s", argv[optind], usage);
		return EX_USAGE;
	}
	if (arguments->check_config && arguments->dump_config) {
		fprintf(stderr, "ibvcapd: --check-config and --dump-config: one at a time\n");
		return EX_USAGE;
	}
	return -1;
}

static int dump_config(const struct config *config, struct failure *failure)
{
	config_dump(config, stdout);
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	return failure_set(failure, EX_IOERR, errno, "the configuration cannot be written: %s", strerror(errno));
}

/* A service runs as its user from the start. config is taken over. */
static int run_as_user(const struct arguments *arguments, struct config *config, struct failure *failure)
{
	struct priv_user user = {.uid = geteuid()};
	int r = 0;

	if (arguments->user || geteuid() == 0)
		r = priv_find_user(&user, arguments->user ? arguments->user : DEFAULT_USER, failure);
	if (r < 0) {
		config_free(config);
		return r;
	}
	return daemon_run(config, user.uid == geteuid() ? NULL : &user, failure);
}

static int load_and_run(const struct arguments *arguments, struct failure *failure)
{
	struct config *config;
	int r = config_load(arguments->config, &config, failure);

	if (r < 0)
		return r;
	r = flow_check(config, failure);
	if (r == 0 && arguments->dump_config)
		r = dump_config(config, failure);
	else if (r == 0 && arguments->check_config)
		r = dry_run(config, arguments->user ? arguments->user : DEFAULT_USER, failure);
	else if (r == 0)
		return run_as_user(arguments, config, failure);
	config_free(config);
	return r;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {.config = CONFIG_DEFAULT_FILE};
	struct failure failure = {.exit_code = EX_SOFTWARE};
	int r;

	standard_files_open();
	r = parse_daemon_arguments(argc, argv, &arguments);
	if (r >= 0)
		return r;
	if (load_and_run(&arguments, &failure) < 0) {
		log_lines(LOG_ERR, &(struct log_about){.event = LOG_EVENT_FAILED}, failure.text, "");
		return failure.exit_code;
	}
	return EX_OK;
}
