// SPDX-License-Identifier: Apache-2.0
/* The subcommands of softhca that look into running processes. Declares trace_command.c. */
#ifndef SOFTHCA_CONSOLE_CONSOLE_H
#define SOFTHCA_CONSOLE_CONSOLE_H

#include <stdbool.h>
#include <sys/types.h>

/* The lines of usage, one a subcommand, and of --help, one an option. */
extern const char console_usage[], console_options[];

/* Runs the subcommand that argv[1] names, and returns its exit status. -1: argv[1] names none. */
int console_run(int argc, char **argv);

/* Prints a trace until the process or this one ends. `path`: the file for frames, "-" standard output, NULL none. */
int console_trace(pid_t pid, bool json, const char *path);
/* Puts a bookmark into the trace of the process. */
int console_mark(pid_t pid, const char *text);

#endif
