// SPDX-License-Identifier: Apache-2.0
/* SIGUSR1 begins a new file. */
#ifndef TOOLS_RECORD_ROTATE_SIGNAL_H
#define TOOLS_RECORD_ROTATE_SIGNAL_H

#include <stdbool.h>

void rotate_signal_catch(void);

/** Has one come since this was last true? */
bool rotate_signal_is_new(void);

#endif
