// SPDX-License-Identifier: Apache-2.0
/*
 * softhca -i NETDEV[,NETDEV...] [OPTIONS] -- COMMAND ARGS...
 * softhca objects ...
 *
 * Sets the environment for libsofthca.so and becomes the command by exec, so exit status and signals are the command's
 * own.
 */
#include "console/console.h"
#include "settings.h"
#include "softhca_interfaces.h"
#include "softhca_program.h"
#include "wire/complain.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define LIBRARY "libsofthca.so"

static const char usage_text[] =
	"usage: softhca -i NETDEV[,NETDEV...] [-p PROFILE] [-e ENGINE] [-l LIBRARY] [--]\n"
	"               COMMAND [ARGS...]\n"
	"%s"
	"\n"
	"Runs COMMAND with one emulated ConnectX device per network device (mlx5_0, mlx5_1, ...).\n"
	"\n"
	"  -i, --interfaces=LIST   network devices that are the ports\n"
	"  -p, --profile=NAME      model: %s\n"
	"                          (default connectx5)\n"
	"  -e, --engine=NAME       the wire: afpacket (default), afpacket-throughput,\n"
	"                          generator\n"
	"  -l, --library=FILE      libsofthca.so to preload (default: beside this program or\n"
	"                          installed)\n"
	"  --settings              print the table of settings (Markdown)\n"
	"%s"
	"  --version               print the version\n"
	"  -h, --help\n"
	"\n"
	"COMMAND needs CAP_NET_RAW for queue pairs: as with a real device for RAW_PACKET, and for\n"
	"RC and UD since the wire is a packet socket.\n";

static void softhca_print_usage(FILE *out)
{
	fprintf(out, usage_text, console_usage, profile_names, console_options);
}

/* Behind a message, which all options would push off the screen. */
static void softhca_print_synopsis(void)
{
	fputs("usage: softhca -i NETDEV[,NETDEV...] [OPTIONS...] [--] COMMAND [ARGS...]\n--help prints all options\n",
	      stderr);
}

/* Finds the library beside this program (in a build tree), or where it is installed relative to this program. Returns
 * its path. Without a library it prints where it looked, and returns NULL. */
static const char *softhca_find_library(void)
{
	static const char *const places[] = {"", "/" SOFTHCA_DIRECTORY};
	static char path[PATH_MAX];
	char self[PATH_MAX], candidates[2][PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *dir;

	if (n < 0) {
		complain("/proc/self/exe: %s; name the library: -l FILE", strerror(errno));
		return NULL;
	}
	self[n] = 0;
	dir = dirname(self);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(candidates[i], sizeof(candidates[i]), "%s%s/" LIBRARY, dir, places[i]);
		if (realpath(candidates[i], path))
			return path;
	}
	complain("the library that it preloads is neither %s nor %s; name it: -l FILE", candidates[0], candidates[1]);
	return NULL;
}

static void softhca_print_settings(void)
{
	char row[512];

	puts("| environment | default | accepted | meaning |\n|---|---|---|---|");
	for (size_t i = 0; settings_describe(i, row, sizeof(row)); i++)
		puts(row);
}

/* A set-uid program does not run at all with the device, and gives no LD_PRELOAD to programs that it starts. */
static bool softhca_check_program(const struct program *p, const char *command)
{
	if (p->is_privileged) {
		complain(
			"%s: the dynamic linker ignores LD_PRELOAD for programs that are set-uid, set-gid or have file "
			"capabilities; run it as its user, or give ambient capabilities (see ibv_launch(1))",
			command);
		return false;
	}
	if (p->is_static)
		complain("%s: is statically linked, so it does not see the devices; programs that it starts do",
		         command);
	return true;
}

/* Spaces and colons separate the names in LD_PRELOAD (ld.so(8)), so a path with one would be ignored and the command
 * would run without softhca. */
static bool softhca_can_preload(const char *library)
{
	/* ld.so looks for a name without '/' itself. */
	if (strchr(library, '/') && access(library, R_OK)) {
		complain("-l %s: %s", library, strerror(errno));
		return false;
	}
	if (!library[strcspn(library, " :")])
		return true;
	complain("'%s': LD_PRELOAD takes no path with a space or a colon; make a link to it elsewhere, and name that "
	         "with -l",
	         library);
	return false;
}

static void softhca_set_preload(const char *library, const char *sanitizer)
{
	const char *old = getenv("LD_PRELOAD");
	char value[PATH_MAX * 2];

	snprintf(value, sizeof(value), "%s%s%s%s%s", sanitizer, *sanitizer ? ":" : "", library, old && *old ? ":" : "",
	         old ? old : "");
	setenv("LD_PRELOAD", value, 1);
}

/* Becomes the command, or returns an exit status. */
static int softhca_run(const char *interfaces, const char *library, char **command)
{
	struct settings settings;
	struct program program;
	char message[512], *names = softhca_resolve_interfaces(interfaces);

	if (!names)
		return EX_NOINPUT;
	setenv("SOFTHCA_INTERFACES", names, 1);
	free(names);
	if (!settings_read(&settings, message, sizeof(message))) {
		complain("%s", message);
		return EX_USAGE;
	}
	if (!library && !(library = softhca_find_library()))
		return EX_UNAVAILABLE;
	program_read(&program, command[0]);
	if (!softhca_can_preload(library) || !softhca_check_program(&program, command[0]))
		return EX_USAGE;
	softhca_set_preload(library, program.sanitizer);
	execvp(command[0], command);
	complain("%s: %s", command[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"interfaces", required_argument, NULL, 'i'},
	                                        {"profile", required_argument, NULL, 'p'},
	                                        {"engine", required_argument, NULL, 'e'},
	                                        {"library", required_argument, NULL, 'l'},
	                                        {"settings", no_argument, NULL, 's'},
	                                        {"version", no_argument, NULL, 'v'},
	                                        {"help", no_argument, NULL, 'h'},
	                                        {}};
	const char *interfaces = getenv("SOFTHCA_INTERFACES"), *library = NULL;
	int c = console_run(argc, argv);

	if (c >= 0)
		return c;
	while ((c = getopt_long(argc, argv, "+i:p:e:l:h", options, NULL)) != -1) {
		switch (c) {
		case 'i':
			interfaces = optarg;
			break;
		case 'p':
			setenv("SOFTHCA_PROFILE", optarg, 1);
			break;
		case 'e':
			setenv("SOFTHCA_ENGINE", optarg, 1);
			break;
		case 'l':
			library = optarg;
			break;
		case 's':
			softhca_print_settings();
			return 0;
		case 'v':
			puts("softhca " SOFTHCA_VERSION);
			return 0;
		case 'h':
			softhca_print_usage(stdout);
			return 0;
		default: /* getopt has printed a message */
			softhca_print_synopsis();
			return EX_USAGE;
		}
	}
	if (!interfaces)
		complain(
			"-i NETDEV is missing: the network device that is to be an RDMA device; see: ip -br link%s%s%s",
			optind < argc ? "; '" : "", optind < argc ? argv[optind] : "",
			optind < argc ? "' is none of objects, inject, trace and warnings" : "");
	else if (optind == argc)
		complain("the COMMAND that is to see the devices is missing: softhca -i %s COMMAND", interfaces);
	if (!interfaces || optind == argc) {
		softhca_print_synopsis();
		return EX_USAGE;
	}
	return softhca_run(interfaces, library, argv + optind);
}
