// SPDX-License-Identifier: Apache-2.0
/* Shows the lines of `ibvcap top` on a terminal with ncurses, and handles its keys. */
#include "tools/status/top.h"

#include "lib/base/time.h"

#include <ncurses.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

#define LINES_MAX 4096

static const char help[] = "q: quit   arrows, page up and down, home: scroll";

struct line {
	enum top_style style;
	char *text;
};

struct top_screen {
	SCREEN *terminal;
	struct line *content;
	int n_lines;
	int first; /* index of the first line that is shown */
};

/* Asked before newterm(), because newterm() leaks memory when it fails. */
static bool is_known_terminal(void)
{
	int error;

	if (!isatty(STDOUT_FILENO) || setupterm(NULL, STDOUT_FILENO, &error) == ERR)
		return false;
	del_curterm(cur_term);
	return true;
}

struct top_screen *top_screen_new(void)
{
	struct top_screen *screen = calloc(1, sizeof(*screen));

	if (!screen)
		return NULL;
	screen->content = calloc(LINES_MAX, sizeof(*screen->content));
	if (screen->content && is_known_terminal())
		screen->terminal = newterm(NULL, stdout, stdin);
	if (!screen->terminal) {
		top_screen_free(screen);
		return NULL;
	}
	cbreak();
	noecho();
	curs_set(0);
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	return screen;
}

void top_screen_free(struct top_screen *screen)
{
	if (!screen)
		return;
	if (screen->terminal) {
		endwin();
		delscreen(screen->terminal);
	}
	if (screen->content)
		top_screen_clear(screen);
	free(screen->content);
	free(screen);
}

void top_screen_clear(struct top_screen *screen)
{
	for (int i = 0; i < screen->n_lines; i++)
		free(screen->content[i].text);
	screen->n_lines = 0;
}

void top_screen_put(void *context, enum top_style style, const char *text)
{
	struct top_screen *screen = context;
	char *copy = screen->n_lines < LINES_MAX ? strdup(text) : NULL;

	if (copy)
		screen->content[screen->n_lines++] = (struct line){style, copy};
}

static const attr_t attributes[] = {[TOP_PLAIN] = A_NORMAL, [TOP_HEADING] = A_REVERSE, [TOP_TROUBLE] = A_BOLD};

/* Lines are cut off at the edges of the terminal. Its last row shows the keys. */
void top_screen_show(struct top_screen *screen)
{
	int height = getmaxy(stdscr) - 1, width = getmaxx(stdscr);
	int last = screen->n_lines > height ? screen->n_lines - height : 0;

	if (screen->first > last)
		screen->first = last;
	erase();
	for (int i = 0; i < height && screen->first + i < screen->n_lines; i++) {
		const struct line *line = &screen->content[screen->first + i];

		attrset(attributes[line->style]);
		mvaddnstr(i, 0, line->text, width);
	}
	attrset(A_NORMAL);
	mvaddnstr(height, 0, help, width - 1);
	refresh();
}

/* False if the user wants to quit. */
static bool handle_key(struct top_screen *screen, int key)
{
	int page = getmaxy(stdscr) - 2;

	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case KEY_DOWN:
		screen->first++;
		break;
	case KEY_NPAGE:
		screen->first += page;
		break;
	case KEY_UP:
		screen->first--;
		break;
	case KEY_PPAGE:
		screen->first -= page;
		break;
	case KEY_HOME:
		screen->first = 0;
		break;
	}
	if (screen->first < 0)
		screen->first = 0;
	top_screen_show(screen); /* also for KEY_RESIZE */
	return true;
}

bool top_screen_wait(struct top_screen *screen, uint64_t ns)
{
	uint64_t now = time_monotonic_ns(), end_ns = now + ns;

	for (; now < end_ns; now = time_monotonic_ns()) {
		struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
		int r = poll(&input, 1, (int)((end_ns - now + 999999) / 1000000));
		int key = r ? getch() : ERR;

		if (r > 0 && key == ERR) /* standard input has ended */
			return false;
		if (r < 0 && key == ERR) /* a signal other than the terminal's new size */
			return true;
		for (; key != ERR; key = getch())
			if (!handle_key(screen, key))
				return false;
	}
	return true;
}
