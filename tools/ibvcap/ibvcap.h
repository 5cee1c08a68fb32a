// SPDX-License-Identifier: Apache-2.0
/*
 * The subcommands of the program ibvcap. cmd_NAME.c has the subcommand NAME. argv[0] is "ibvcap NAME"; each
 * function returns the exit code. Declares cmd_*.c, run_program.c, sequence_file.c.
 */
#ifndef TOOLS_IBVCAP_IBVCAP_H
#define TOOLS_IBVCAP_IBVCAP_H

struct ibvcap_sequence;
struct options_table;

/* Their options. */
extern const struct options_table cmd_check_table;
extern const struct options_table cmd_extcap_table;
extern const struct options_table cmd_extract_table;
extern const struct options_table cmd_info_table;
extern const struct options_table cmd_metrics_table;
extern const struct options_table cmd_record_table;
extern const struct options_table cmd_recv_table;
extern const struct options_table cmd_reload_table;
extern const struct options_table cmd_replay_table;
extern const struct options_table cmd_send_table;
extern const struct options_table cmd_status_table;
extern const struct options_table cmd_stream_table;
extern const struct options_table cmd_top_table;
extern const struct options_table cmd_why_table;

int cmd_check(int argc, char **argv);
int cmd_extcap(int argc, char **argv);
int cmd_extract(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_metrics(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_recv(int argc, char **argv);
int cmd_reload(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_send(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_stream(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_why(int argc, char **argv);

/** Run a program beside this one, or of libexec. Returns, with an exit code, only if that fails. */
int run_program(const char *program, const char *package, char **argv);

/** Load the file of --sequence; path NULL: bytes is 0. -1, or the exit code of a failure, which is printed. */
int sequence_file_load(const char *command, const char *path, struct ibvcap_sequence *sequence);

struct record_options;
/** Parse the command line of record, also for its test. -1: go on; otherwise the exit code. */
int record_parse_arguments(int argc, char **argv, struct record_options *options);

#endif
