// SPDX-License-Identifier: Apache-2.0
/* ibvcap doctor: is this machine ready, and if not, what to do about it. */
#include "tools/doctor.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define SCHEMA_VERSION 1

static const char usage[] =
    "usage: ibvcap doctor [--config FILE] [--json]\n"
    "Check that this machine is ready for capture. Exit status: 0 it is, 1 warnings, 2 errors.\n"
    "\n"
    "  -c, --config FILE  also have ibvcapd check this configuration\n"
    "  -j, --json         print JSON\n"
    "  -h, --help         print this\n";

static const char *const level_names[] = {"ok", "warning", "error"};

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

static void become_checker(const char *file, int output)
{
	/* Its own first words are the error; a debugging preload's are not wanted here. */
	dup2(output, STDERR_FILENO);
	dup2(output, STDOUT_FILENO);
	execlp("ibvcapd", "ibvcapd", "--check-config", "--config", file, (char *)NULL);
	execl("/usr/sbin/ibvcapd", "ibvcapd", "--check-config", "--config", file, (char *)NULL);
	dprintf(STDERR_FILENO, "ibvcapd was not found in PATH: %s\n", strerror(errno));
	_exit(EX_UNAVAILABLE);
}

/* The daemon knows what a right configuration is; ask it. */
static int check_config(const char *file, struct doctor_facts *facts)
{
	int ends[2], status = 0;
	FILE *output;
	pid_t child;

	facts->config_file = file;
	if (pipe(ends))
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0)
		become_checker(file, ends[1]);
	close(ends[1]);
	output = fdopen(ends[0], "r");
	if (output && !fgets(facts->config_message, sizeof(facts->config_message), output))
		facts->config_message[0] = '\0';
	while (output && fgetc(output) != EOF)
		;
	if (output)
		fclose(output);
	facts->config_message[strcspn(facts->config_message, "\n")] = '\0';
	waitpid(child, &status, 0);
	facts->config_status = WIFEXITED(status) ? WEXITSTATUS(status) : EX_SOFTWARE;
	return 0;
}

static unsigned int count(const struct doctor_findings *findings, enum doctor_level level)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < findings->n; i++)
		n += findings->entries[i].level == level;
	return n;
}

static json_t *gids_to_json(const struct doctor_port *port)
{
	json_t *gids = json_array();

	for (unsigned int i = 0; i < port->n_gids; i++)
		json_array_append_new(gids, json_pack("{s:i, s:s, s:s, s:s}", "index", (int)port->gids[i].index, "gid",
						      port->gids[i].gid, "type", port->gids[i].type, "netdev",
						      port->gids[i].netdev));
	return gids;
}

static json_t *devices_to_json(const struct doctor_facts *facts)
{
	json_t *devices = json_array(), *ports;

	for (unsigned int i = 0; i < facts->n_devices; i++) {
		const struct doctor_device *device = &facts->devices[i];

		ports = json_array();
		for (unsigned int j = 0; j < device->n_ports; j++) {
			const struct doctor_port *port = &device->ports[j];

			json_array_append_new(
			    ports, json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:o}", "port", (int)port->number, "state",
					     port->state, "link_layer", port->link_layer, "rate", port->rate, "netdev",
					     port->netdev, "mtu", (int)port->mtu, "gids", gids_to_json(port)));
		}
		json_array_append_new(devices, json_pack("{s:s, s:s, s:o}", "name", device->name, "uverbs",
							 device->uverbs, "ports", ports));
	}
	return devices;
}

static json_t *finding_to_json(const struct doctor_finding *finding)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s}", "check", finding->check, "level",
				   level_names[finding->level], "subject", finding->subject, "found", finding->found);

	if (finding->level != DOCTOR_OK)
		json_object_update_new(object, json_pack("{s:s, s:s, s:s, s:b}", "wanted", finding->wanted, "why",
							 finding->why, "fix", finding->fix, "fix_survives_reboot",
							 finding->fix_survives_reboot));
	return object;
}

static void print_json(const struct doctor_facts *facts, const struct doctor_findings *findings)
{
	json_t *checks = json_array(), *all;

	for (unsigned int i = 0; i < findings->n; i++)
		json_array_append_new(checks, finding_to_json(&findings->entries[i]));
	all = json_pack("{s:i, s:i, s:i, s:o, s:o}", "schema_version", SCHEMA_VERSION, "errors",
			(int)count(findings, DOCTOR_ERROR), "warnings", (int)count(findings, DOCTOR_WARNING), "checks",
			checks, "devices", devices_to_json(facts));
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
}

static void print_finding(const struct doctor_finding *finding)
{
	printf("%-8s %s: %s\n", level_names[finding->level], finding->subject, finding->found);
	if (finding->level == DOCTOR_OK)
		return;
	printf("         wanted: %s\n", finding->wanted);
	printf("         why:    %s\n", finding->why);
	printf("         fix:    %s\n", finding->fix);
	printf("                 (%s a reboot)\n", finding->fix_survives_reboot ? "survives" : "does not survive");
}

static void print_text(const struct doctor_facts *facts, const struct doctor_findings *findings)
{
	for (unsigned int i = 0; i < findings->n; i++)
		print_finding(&findings->entries[i]);
	for (unsigned int i = 0; i < facts->n_devices; i++)
		for (unsigned int j = 0; j < facts->devices[i].n_ports; j++)
			for (unsigned int k = 0; k < facts->devices[i].ports[j].n_gids; k++) {
				const struct doctor_gid *gid = &facts->devices[i].ports[j].gids[k];

				printf("%s%-8s %s port %u GID %u %s %s %s\n", i || j || k ? "" : "\n", "",
				       facts->devices[i].name, facts->devices[i].ports[j].number, gid->index, gid->gid,
				       gid->type, gid->netdev);
			}
	printf("\nerrors: %u, warnings: %u\n", count(findings, DOCTOR_ERROR), count(findings, DOCTOR_WARNING));
}

int doctor_main(int argc, char **argv)
{
	struct doctor_findings *findings = calloc(1, sizeof(*findings));
	struct doctor_facts *facts = calloc(1, sizeof(*facts));
	struct arguments arguments = {0};
	int r = parse_arguments(argc, argv, &arguments);

	if (r < 0 && (!findings || !facts || (arguments.config && check_config(arguments.config, facts) < 0))) {
		fprintf(stderr, "ibvcap doctor: %s\n", strerror(errno));
		r = EX_OSERR;
	}
	if (r < 0) {
		doctor_read("", facts);
		doctor_judge(facts, findings);
		if (arguments.json)
			print_json(facts, findings);
		else
			print_text(facts, findings);
		r = (int)doctor_worst(findings);
	}
	free(findings);
	free(facts);
	return r;
}
