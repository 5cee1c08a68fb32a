// SPDX-License-Identifier: Apache-2.0
/* Lines on a terminal, by ncurses: scrolled by keys, drawn anew when its size changes. */
#ifndef TOOLS_IBVCAP_TOP_SCREEN_H
#define TOOLS_IBVCAP_TOP_SCREEN_H

#include "tools/ibvcap/top.h"

struct top_screen;

/** NULL: standard output is no terminal, or none that ncurses knows. */
struct top_screen *top_screen_new(void);

/** The terminal is as it was before. NULL is allowed. */
void top_screen_free(struct top_screen *screen);

/** Between clear and show: a top_put, with the screen as context. */
void top_screen_clear(struct top_screen *screen);
void top_screen_put(void *screen, enum top_style style, const char *line);
void top_screen_show(struct top_screen *screen);

/** Serve keys for that long, or until a signal. False: the user wants no more. */
bool top_screen_wait(struct top_screen *screen, uint64_t ns);

#endif
