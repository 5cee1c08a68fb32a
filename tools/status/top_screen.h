// SPDX-License-Identifier: Apache-2.0
/* Lines on a terminal: keys scroll them, and they are drawn again when the terminal changes its size. */
#ifndef TOOLS_STATUS_TOP_SCREEN_H
#define TOOLS_STATUS_TOP_SCREEN_H

#include "tools/status/top.h"

struct top_screen;

/** Take the terminal over. NULL if standard output is no terminal, or one that ncurses does not know. */
struct top_screen *top_screen_new(void);

/** Give the terminal back in the state in which it was. NULL is allowed. */
void top_screen_free(struct top_screen *screen);

/** Clear the lines, add lines (a top_put with the screen as context), and show them. */
void top_screen_clear(struct top_screen *screen);
void top_screen_put(void *screen, enum top_style style, const char *line);
void top_screen_show(struct top_screen *screen);

/** Handle keys for so long, or until a signal comes. False if the user wants to quit. */
bool top_screen_wait(struct top_screen *screen, uint64_t ns);

#endif
