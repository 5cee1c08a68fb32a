// SPDX-License-Identifier: Apache-2.0
/* Asks processes that run below softhca (control/control.h). */
#ifndef SOFTHCA_CONSOLE_ASK_H
#define SOFTHCA_CONSOLE_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What came: the bytes behind the first of a packet. False ends the connection. */
typedef bool ask_reader(void *arg, char kind, const char *bytes, size_t n);

/* The processes in this network namespace that can be asked, at most `max`. Returns their number. */
int ask_find(pid_t *pids, int max);
/* Sends the request to the process and reads the answer. An exit status of sysexits(3), after a line that says what
 * failed. */
int ask(pid_t pid, const char *request, ask_reader *read, void *arg);
/* The reader that prints text. */
ask_reader ask_print;

#endif
