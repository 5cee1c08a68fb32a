// SPDX-License-Identifier: Apache-2.0
/* The ibvcap program: one function a subcommand, each with argv[0] the subcommand's name; returns the exit code. */
#ifndef TOOLS_IBVCAP_IBVCAP_H
#define TOOLS_IBVCAP_IBVCAP_H

#include <stdbool.h>
#include <stdint.h>

int cmd_doctor(int argc, char **argv);
int cmd_recv(int argc, char **argv);
int cmd_reload(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_send(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_stream(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_why(int argc, char **argv);

/** The exit code for a failure of the library: 64, 69 no daemon, 75 try again, 76 protocol, 77 permission, … */
int exit_code_of(int error);

/** -h: the usage, and EX_OK; any other option, or none: the same on stderr, and EX_USAGE. */
int say_usage(int option, const char *usage);

/** A whole decimal number of an option, at least 1 and at most max; false: said so on stderr. */
bool parse_count(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value);

/** The same from 0. */
bool parse_number(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value);

/** The same for seconds, as a decimal fraction, more than 0. */
bool parse_seconds(const char *command, const char *option, const char *text, uint64_t *ns);

#endif
