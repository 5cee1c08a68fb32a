// SPDX-License-Identifier: Apache-2.0
/*
 * softhca -i NETDEV[,NETDEV...] [OPTIONS] -- COMMAND ARGS...
 *
 * Sets the environment for libsofthca.so and becomes the command by exec, so exit status and signals are the command's
 * own.
 */
#include "settings.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#define LIBRARY "libsofthca.so"

static const char usage_text[] =
	"usage: softhca -i NETDEV[,NETDEV...] [-p PROFILE] [-e ENGINE] [-l LIBRARY] [--]\n"
	"               COMMAND [ARGS...]\n"
	"\n"
	"Runs COMMAND with one emulated ConnectX device per network device (mlx5_0, mlx5_1, ...).\n"
	"\n"
	"  -i, --interfaces=LIST   network devices that are the ports\n"
	"  -p, --profile=NAME      model: %s\n"
	"                          (default connectx5)\n"
	"  -e, --engine=NAME       the wire: afpacket (default), afpacket-throughput, memory,\n"
	"                          generator\n"
	"  -l, --library=FILE      libsofthca.so to preload (default: beside this program or\n"
	"                          installed)\n"
	"  --settings              print the table of settings (Markdown)\n"
	"  -h, --help\n"
	"\n"
	"COMMAND needs CAP_NET_RAW for anything that receives or sends, as with a real device.\n";

static void softhca_print_usage(FILE *out)
{
	fprintf(out, usage_text, profile_names);
}

/* The library lies beside this program (in a build tree), or where it is installed relative to this program; else
 * the dynamic linker has to find it. */
static const char *softhca_find_library(void)
{
	static char path[PATH_MAX];
	static const char *const places[] = {"/" LIBRARY, "/" SOFTHCA_DIRECTORY "/" LIBRARY};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *dir;

	if (n < 0)
		return LIBRARY;
	self[n] = 0;
	dir = dirname(self);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char candidate[PATH_MAX + 64];

		snprintf(candidate, sizeof(candidate), "%s%s", dir, places[i]);
		if (realpath(candidate, path))
			return path;
	}
	return LIBRARY;
}

static bool softhca_check_interfaces(const char *list)
{
	char *copy = strdup(list), *save = NULL, *name = copy ? strtok_r(copy, ",", &save) : NULL;
	bool good = name;

	for (; name && good; name = strtok_r(NULL, ",", &save))
		if (!if_nametoindex(name)) {
			fprintf(stderr, "softhca: no network device called %s; see: ip -br link\n", name);
			good = false;
		}
	if (copy && !*copy)
		fprintf(stderr, "softhca: -i needs the name of a network device\n");
	free(copy);
	return good;
}

static void softhca_print_settings(void)
{
	char row[512];

	puts("| environment | default | accepted | meaning |\n|---|---|---|---|");
	for (size_t i = 0; settings_describe(i, row, sizeof(row)); i++)
		puts(row);
}

static const char *softhca_find_command(const char *name, char *path, size_t size)
{
	char *copy, *save = NULL;
	const char *search = getenv("PATH");

	if (strchr(name, '/') || !search)
		return name;
	copy = strdup(search);
	for (char *dir = strtok_r(copy, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
		snprintf(path, size, "%s/%s", dir, name);
		if (!access(path, X_OK)) {
			free(copy);
			return path;
		}
	}
	free(copy);
	return name;
}

/* AddressSanitizer's library has to be loaded first. If the command needs it, return its name, to be preloaded
 * before ours. */
static const char *softhca_sanitizer_of(const char *command)
{
	static char name[64];
	char path[PATH_MAX];
	struct stat st;
	int fd = open(softhca_find_command(command, path, sizeof(path)), O_RDONLY | O_CLOEXEC);
	const char *p, *at = NULL;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(Elf64_Ehdr)) {
		close(fd);
		return NULL;
	}
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return NULL;
	if (!memcmp(p, ELFMAG, SELFMAG)) {
		/* The names of needed libraries lie near the start, in .dynstr. */
		size_t n = st.st_size < (1 << 20) ? (size_t)st.st_size : 1 << 20;

		at = memmem(p, n, "libasan.so.", 11);
		if (!at)
			at = memmem(p, n, "libtsan.so.", 11);
	}
	if (at)
		snprintf(name, sizeof(name), "%s", at);
	munmap((void *)p, (size_t)st.st_size);
	return at ? name : NULL;
}

/* Spaces and colons separate the names in LD_PRELOAD (ld.so(8)), so a path with one would be ignored and the command
 * would run without softhca. */
static bool softhca_can_preload(const char *library)
{
	if (!library[strcspn(library, " :")])
		return true;
	fprintf(stderr,
	        "softhca: '%s': LD_PRELOAD takes no path with a space or a colon; make a link to it elsewhere, and "
	        "name that with -l\n",
	        library);
	return false;
}

static void softhca_set_preload(const char *library, const char *command)
{
	const char *sanitizer = softhca_sanitizer_of(command), *old = getenv("LD_PRELOAD");
	char value[PATH_MAX * 2];

	snprintf(value, sizeof(value), "%s%s%s%s%s", sanitizer ? sanitizer : "", sanitizer ? ":" : "", library,
	         old && *old ? ":" : "", old ? old : "");
	setenv("LD_PRELOAD", value, 1);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"interfaces", required_argument, NULL, 'i'},
	                                        {"profile", required_argument, NULL, 'p'},
	                                        {"engine", required_argument, NULL, 'e'},
	                                        {"library", required_argument, NULL, 'l'},
	                                        {"settings", no_argument, NULL, 's'},
	                                        {"help", no_argument, NULL, 'h'},
	                                        {}};
	const char *interfaces = getenv("SOFTHCA_INTERFACES"), *library = NULL;
	struct settings settings;
	char message[512];
	int c;

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
		case 'h':
			softhca_print_usage(stdout);
			return 0;
		default:
			softhca_print_usage(stderr);
			return EX_USAGE;
		}
	}
	if (!interfaces || optind == argc) {
		softhca_print_usage(stderr);
		return EX_USAGE;
	}
	setenv("SOFTHCA_INTERFACES", interfaces, 1);
	if (!settings_read(&settings, message, sizeof(message))) {
		fprintf(stderr, "%s\n", message);
		return EX_USAGE;
	}
	if (!softhca_check_interfaces(interfaces))
		return EX_NOINPUT;
	if (!library)
		library = softhca_find_library();
	if (!softhca_can_preload(library))
		return EX_USAGE;
	softhca_set_preload(library, argv[optind]);
	execvp(argv[optind], argv + optind);
	fprintf(stderr, "softhca: %s: %s\n", argv[optind], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
