// SPDX-License-Identifier: Apache-2.0
/*
 * libconfig says "syntax error" and where its parser stopped, which can be far behind the mistake. This looks at the
 * text again for the usual mistakes. Pure. Inside the config room only. Declares config_token.c.
 */
#ifndef DAEMON_CONFIG_CONFIG_SYNTAX_H
#define DAEMON_CONFIG_CONFIG_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

#define SYNTAX_TEXT_BYTES  512
#define KEYS_OF_A_LINE_MAX 64 /* a key is searched for in its whole group, and so is each further one of the line */

struct syntax_mistake {
	unsigned line;
	char text[SYNTAX_TEXT_BYTES]; /* the fault, and the accepted values */
};

struct token_cursor {
	const char *at;
	unsigned line;
};

/** text: the file that libconfig cannot parse; line: where it stopped. False: no mistake is found up to there. */
bool syntax_find_mistake(const char *text, unsigned line, struct syntax_mistake *mistake);

/** text: a file in which this line has a key that its group has already. False: that key is not found. */
bool syntax_find_duplicate(const char *text, unsigned line, struct syntax_mistake *mistake);

/** A further key of this line, behind the cursor. False: there is none. */
bool syntax_next_key(struct token_cursor *cursor, unsigned line, char *key, size_t bytes);

/* ---- the tokens of libconfig's syntax ----------------------------------------------------------- */

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,         /* a name, a number, true or false, "@include": letters, digits, and some of + - * . _ @ */
	TOKEN_STRING,       /* with its quotes; the closing one is missing if the text ends before it */
	TOKEN_MARK,         /* any other character */
	TOKEN_OPEN_COMMENT, /* a comment without an end, to the end of the text */
};

struct token {
	enum token_kind kind;
	const char *start;
	size_t length;
	unsigned line; /* of its first character */
};

/** The next token behind white space and comments. The cursor is behind the token then. */
struct token token_next(struct token_cursor *cursor);

#endif
