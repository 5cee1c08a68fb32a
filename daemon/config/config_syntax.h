// SPDX-License-Identifier: Apache-2.0
/*
 * libconfig says "syntax error" and where its parser stopped, which can be far behind the mistake. This looks at the
 * text again for the usual mistakes. Pure. Inside the config room only.
 */
#ifndef DAEMON_CONFIG_CONFIG_SYNTAX_H
#define DAEMON_CONFIG_CONFIG_SYNTAX_H

#include <stdbool.h>

#define SYNTAX_TEXT_BYTES 256

struct syntax_mistake {
	unsigned line;
	char text[SYNTAX_TEXT_BYTES]; /* what is wrong, and what is accepted */
};

/** text: the file that libconfig cannot parse; line: where it stopped. False: no mistake is found up to there. */
bool syntax_find_mistake(const char *text, unsigned line, struct syntax_mistake *mistake);

/** text: a file in which this line has a key that its group has already. False: that key is not found. */
bool syntax_find_duplicate(const char *text, unsigned line, struct syntax_mistake *mistake);

#endif
