// SPDX-License-Identifier: Apache-2.0
/*
 * SIGINT and SIGTERM as a request to finish: the subcommand ends its loop and prints its summary. SIGUSR1 as a request
 * for a new file.
 */
#ifndef TOOLS_COMMON_STOP_SIGNAL_H
#define TOOLS_COMMON_STOP_SIGNAL_H

#include <stdbool.h>

/** Catch both signals from here on. They interrupt system calls, which return EINTR then. */
void stop_signal_catch(void);

/** A second one, a second later or more, ends the program, also while the disk does not answer. */
void stop_signal_end_by_second(void);

/** Has one of them come? */
bool stop_signal_came(void);

/** Catch SIGUSR1. */
void rotate_signal_catch(void);

/** Has one come since this was last true? */
bool rotate_signal_is_new(void);

#endif
