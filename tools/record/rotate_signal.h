// SPDX-License-Identifier: Apache-2.0
/* The signals of a recording: SIGUSR1 begins a new file; SIGINT and SIGTERM end it. */
#ifndef TOOLS_RECORD_ROTATE_SIGNAL_H
#define TOOLS_RECORD_ROTATE_SIGNAL_H

#include <stdbool.h>

void rotate_signal_catch(void);

/** Has one come since this was last true? */
bool rotate_signal_is_new(void);

/** Did a signal ask for the end? A second one, a second later or more, ends the program, also while the disk does not
 * answer. */
bool rotate_signal_asks_for_end(void);

#endif
