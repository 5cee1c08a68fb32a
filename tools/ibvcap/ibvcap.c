// SPDX-License-Identifier: Apache-2.0
/* The program ibvcap: its table of subcommands, and main(). */
#include "tools/ibvcap/ibvcap.h"

#include "lib/base/fd.h"
#include "lib/base/nearest.h"
#include "tools/common/options.h"

#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
	const struct options_table *table; /* NULL: another program has it */
};

/* It links the daemon's configuration and libibverbs. */
static int run_doctor_program(int, char **argv)
{
	return run_program("ibvcap-doctor", "ibvcap-tools again", argv);
}

/* It links librdkafka. */
static int run_produce_program(int, char **argv)
{
	return run_program("ibvcap-produce", "ibvcap-produce", argv);
}

static const struct command commands[] = {
	{"check", "say which numbered packets of a stream were lost, from the sender on", cmd_check, &cmd_check_table},
	{"doctor", "check that this machine is ready, and say what to do if not", run_doctor_program, NULL},
	{"extcap", "show streams as interfaces in Wireshark", cmd_extcap, &cmd_extcap_table},
	{"extract", "copy the packets of a time out of recordings", cmd_extract, &cmd_extract_table},
	{"info", "say what is in a recording, what is missing, and why", cmd_info, &cmd_info_table},
	{"metrics", "print the status as metrics for Prometheus", cmd_metrics, &cmd_metrics_table},
	{"produce", "send a stream to Kafka, as blocks of packets or as arrays", run_produce_program, NULL},
	{"record", "record streams to pcapng files that say what is missing, and why", cmd_record, &cmd_record_table},
	{"recv", "receive a stream: print rates, check the test pattern, dump payloads", cmd_recv, &cmd_recv_table},
	{"reload", "make the daemon read its configuration again", cmd_reload, &cmd_reload_table},
	{"replay", "send the UDP payloads of a capture file, with its timing", cmd_replay, &cmd_replay_table},
	{"send", "send the test pattern or a file on a channel", cmd_send, &cmd_send_table},
	{"status", "show where every packet went", cmd_status, &cmd_status_table},
	{"stream", "add a stream to the running daemon, or remove one", cmd_stream, &cmd_stream_table},
	{"top", "show rates, fill and losses as they change", cmd_top, &cmd_top_table},
	{"why", "explain why packets of a stream were lost, and what helps", cmd_why, &cmd_why_table},
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Commands of other programs, and what they are here. */
static const struct {
	const char *word;
	const char *command;
} other_words[] = {
	{"capture", "record"}, {"dump", "record"},  {"list", "status"},
	{"ls", "status"},      {"receive", "recv"}, {"version", "--version"},
};
#define N_OTHER_WORDS (sizeof(other_words) / sizeof(other_words[0]))

static void print_commands(FILE *to)
{
	fputs("usage: ibvcap COMMAND [ARGUMENTS...]\n"
	      "\n"
	      "Commands ('ibvcap COMMAND --help' says more):\n",
	      to);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].summary);
	fputs("\n"
	      "  -h, --help     print this\n"
	      "  -V, --version  print the version\n",
	      to);
}

/* The exit code of a subcommand that ended with code: EX_IOERR if its output could not be written. */
static int check_output(const char *command, int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "ibvcap %s: standard output cannot be written\n", command);
	return code ? code : EX_IOERR;
}

/* Of each long option that the command does not have: the commands that have it. */
static void name_other_commands(const struct command *command, int argc, char **argv)
{
	for (int a = 1; a < argc && command->table; a++) {
		unsigned n = 0;

		if (options_has(command->table, argv[a]))
			continue;
		for (size_t i = 0; i < N_COMMANDS; i++) {
			if (!commands[i].table || !options_has(commands[i].table, argv[a]))
				continue;
			if (n++ == 0)
				fprintf(stderr, "ibvcap %s: %.*s is an option of ibvcap %s", command->name,
				        (int)strcspn(argv[a], "="), argv[a], commands[i].name);
			else
				fprintf(stderr, ", %s", commands[i].name);
		}
		if (n)
			fputc('\n', stderr);
	}
}

static int run_command(const struct command *command, int argc, char **argv)
{
	char name[32];
	int code;

	/* getopt begins its messages with argv[0]. */
	snprintf(name, sizeof(name), "ibvcap %s", command->name);
	argv[0] = name;
	code = command->run(argc, argv);
	if (code == EX_USAGE)
		name_other_commands(command, argc, argv);
	return check_output(command->name, code);
}

static int refuse_command(const char *name)
{
	struct nearest nearest = {.word = name};
	const char *meant;

	for (size_t i = 0; i < N_COMMANDS; i++)
		nearest_offer(&nearest, commands[i].name);
	for (size_t i = 0; i < N_OTHER_WORDS; i++)
		nearest_offer(&nearest, other_words[i].word);
	meant = nearest.best;
	for (size_t i = 0; i < N_OTHER_WORDS; i++)
		if (nearest.best == other_words[i].word)
			meant = other_words[i].command;
	if (name[0] == '-' && (name[1] != '-' || !meant))
		fprintf(stderr, "ibvcap: no option '%s' before the command: options of a command stand behind it\n",
		        name);
	else if (meant && name[0])
		fprintf(stderr, "ibvcap: no command '%s': did you mean '%s'? 'ibvcap --help' lists the commands\n",
		        name, meant);
	else if (name[0])
		fprintf(stderr, "ibvcap: no command '%s'\n", name);
	if (!nearest.best || !name[0])
		print_commands(stderr);
	return EX_USAGE;
}

/* "ibvcap help record" as "ibvcap record --help". */
static int run_help(const char *name)
{
	char option[] = "--help";
	char *argv[] = {NULL, option, NULL};

	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return run_command(&commands[i], 2, argv);
	return refuse_command(name);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	standard_files_open();
	if (!strcmp(name, "help") && argc > 2)
		return run_help(argv[2]);
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
		print_commands(stdout);
		return EX_OK;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		printf("ibvcap %s (libibvcap %s)\n", IBVCAP_BUILD_VERSION, ibvcap_version());
		return EX_OK;
	}
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return run_command(&commands[i], argc - 1, argv + 1);
	return refuse_command(name);
}
