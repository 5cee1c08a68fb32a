// SPDX-License-Identifier: Apache-2.0
/* Splits a text into the tokens of libconfig's syntax. */
#include "daemon/config/config_syntax.h"

#include <ctype.h>
#include <string.h>

static void token_skip(struct token_cursor *cursor, size_t n)
{
	for (; n && *cursor->at; n--)
		cursor->line += *cursor->at++ == '\n';
}

/* False: a comment without an end. */
static bool token_skip_blank(struct token_cursor *cursor)
{
	for (;;) {
		const char *at = cursor->at;

		if (isspace((unsigned char)*at)) {
			token_skip(cursor, 1);
		} else if (*at == '#' || (at[0] == '/' && at[1] == '/')) {
			token_skip(cursor, strcspn(at, "\n"));
		} else if (at[0] == '/' && at[1] == '*') {
			const char *end = strstr(at + 2, "*/");

			if (!end)
				return false;
			token_skip(cursor, (size_t)(end + 2 - at));
		} else {
			return true;
		}
	}
}

static bool token_is_word_character(char character)
{
	return isalnum((unsigned char)character) || (character && strchr("_*-.+@", character));
}

struct token token_next(struct token_cursor *cursor)
{
	bool is_open = !token_skip_blank(cursor);
	struct token token = {.start = cursor->at, .line = cursor->line};

	if (is_open) {
		token.kind = TOKEN_OPEN_COMMENT;
		token_skip(cursor, strlen(cursor->at));
	} else if (*cursor->at == '\0') {
		token.kind = TOKEN_END;
	} else if (*cursor->at == '"') {
		token.kind = TOKEN_STRING;
		token_skip(cursor, 1);
		while (*cursor->at && *cursor->at != '"')
			token_skip(cursor, *cursor->at == '\\' ? 2 : 1);
		token_skip(cursor, 1);
	} else if (token_is_word_character(*cursor->at)) {
		token.kind = TOKEN_WORD;
		while (token_is_word_character(*cursor->at))
			cursor->at++;
	} else {
		token.kind = TOKEN_MARK;
		token_skip(cursor, 1);
	}
	token.length = (size_t)(cursor->at - token.start);
	return token;
}
