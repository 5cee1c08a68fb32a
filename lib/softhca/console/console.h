// SPDX-License-Identifier: Apache-2.0
/* The subcommands of softhca that look into running processes. */
#ifndef SOFTHCA_CONSOLE_CONSOLE_H
#define SOFTHCA_CONSOLE_CONSOLE_H

/* The lines of usage, one a subcommand. */
extern const char console_usage[];

/* Runs the subcommand that argv[1] names, and returns its exit status. -1: argv[1] names none. */
int console_run(int argc, char **argv);

#endif
