// SPDX-License-Identifier: Apache-2.0
/*
 * Walks through the tokens of a file that libconfig does not parse, with a stack of the brackets that are open, up to
 * the first thing that cannot be right.
 */
#include "daemon/config/config_syntax.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX      32 /* ibvcapd.conf(5) needs 5 */
#define WORD_SHOWN_MAX 64

struct syntax_bracket {
	char mark;
	unsigned line;
	struct token_cursor inside;
};

struct syntax_walk {
	struct token_cursor at;
	unsigned error_line;
	struct token before; /* TOKEN_END: this is the first token */
	bool is_key;         /* is before the name of a key? */
	struct syntax_bracket open[DEPTH_MAX];
	unsigned n_open;
	struct syntax_mistake *mistake;
};

static bool token_is(const struct token *token, char mark)
{
	return token->kind == TOKEN_MARK && *token->start == mark;
}

/* ---- mistakes ----------------------------------------------------------------------------------- */

static bool __attribute__((format(printf, 3, 4)))
syntax_set(const struct syntax_walk *walk, unsigned line, const char *format, ...)
{
	va_list arguments;

	walk->mistake->line = line;
	va_start(arguments, format);
	vsnprintf(walk->mistake->text, sizeof(walk->mistake->text), format, arguments);
	va_end(arguments);
	return true;
}

/* ---- brackets ----------------------------------------------------------------------------------- */

static const char *syntax_kind_of(char mark)
{
	return mark == '{' ? "group" : mark == '(' ? "list" : "array";
}

static char syntax_end_of(char mark)
{
	return mark == '{' ? '}' : mark == '(' ? ')' : ']';
}

/* The innermost bracket that is open; 0: none. */
static char syntax_inside(const struct syntax_walk *walk)
{
	return walk->n_open ? walk->open[walk->n_open - 1].mark : '\0';
}

static bool syntax_judge_opening(const struct syntax_walk *walk, const struct token *token)
{
	char inside = syntax_inside(walk);

	if (*token->start == '{' && inside == '[')
		return syntax_set(walk, token->line,
		                  "a group in an array: accepted are groups in a list, ( { … }, … )");
	if (*token->start == '{' && inside != '(' && (token_is(&walk->before, '{') || token_is(&walk->before, ';')))
		return syntax_set(walk, token->line,
		                  "a group without a key: accepted are groups in a list, key = ( { … }, … );");
	if (inside == '(' && (token_is(&walk->before, '}') || token_is(&walk->before, ')')))
		return syntax_set(walk, token->line, "accepted is a comma between the entries of a list");
	return false;
}

static bool syntax_judge_closing(const struct syntax_walk *walk, const struct token *token)
{
	const struct syntax_bracket *open = walk->n_open ? &walk->open[walk->n_open - 1] : NULL;

	/* Since libconfig 1.7 a comma may stand there. */
	if (*token->start != '}' && token_is(&walk->before, ',') && token->line == walk->error_line)
		return syntax_set(walk, walk->before.line, "a comma before '%c': take it away", *token->start);
	if (!open)
		return syntax_set(walk, token->line, "'%c' without a bracket that it closes", *token->start);
	if (*token->start == syntax_end_of(open->mark))
		return false;
	return syntax_set(walk, token->line, "'%c', but the %s that begins at line %u is not closed: accepted is '%c'",
	                  *token->start, syntax_kind_of(open->mark), open->line, syntax_end_of(open->mark));
}

static bool syntax_judge_end(const struct syntax_walk *walk)
{
	const struct syntax_bracket *open = walk->n_open ? &walk->open[walk->n_open - 1] : NULL;

	if (!open)
		return false;
	return syntax_set(walk, open->line,
	                  "the %s that begins here is not closed up to the end of the file: accepted is '%c'",
	                  syntax_kind_of(open->mark), syntax_end_of(open->mark));
}

/* In a list or an array, which ends before it. Groups end with it, too. */
static bool syntax_judge_semicolon(const struct syntax_walk *walk, const struct token *token)
{
	const struct syntax_bracket *open = walk->n_open ? &walk->open[walk->n_open - 1] : NULL;

	if (!open || open->mark == '{')
		return false;
	return syntax_set(
		walk, token->line,
		"';' in the %s that begins at line %u: accepted is ',' between its entries, and '%c' at its end",
		syntax_kind_of(open->mark), open->line, syntax_end_of(open->mark));
}

/* ---- words and strings -------------------------------------------------------------------------- */

/* Is the token a value, or an element of a list or array? If not, it is the name of a key. */
static bool syntax_is_value(const struct syntax_walk *walk)
{
	char inside = syntax_inside(walk);

	return token_is(&walk->before, '=') || token_is(&walk->before, ':') || inside == '(' || inside == '[';
}

static bool syntax_is_number_or_boolean(const struct token *word)
{
	char text[WORD_SHOWN_MAX], *end;

	snprintf(text, sizeof(text), "%.*s", (int)word->length, word->start);
	if (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0)
		return true;
	strtod(text, &end);
	return end != text && (*end == '\0' || strcmp(end, "L") == 0 || strcmp(end, "LL") == 0);
}

/* Does a '=' follow? */
static bool syntax_is_key(struct syntax_walk walk)
{
	struct token next = token_next(&walk.at);

	return token_is(&next, '=') || token_is(&next, ':');
}

/* A curly quote is said where it stands. */
static bool syntax_judge_include(const struct syntax_walk *walk, const struct token *word, int n)
{
	struct token_cursor at = walk->at;
	struct token next = token_next(&at);

	if (next.kind == TOKEN_STRING || (next.kind == TOKEN_MARK && !isascii((unsigned char)*next.start)))
		return false;
	return syntax_set(walk, word->line, "no double quotes behind %.*s: accepted is @include \"FILE\"", n,
	                  word->start);
}

static bool syntax_judge_word(const struct syntax_walk *walk, const struct token *word)
{
	int n = word->length < WORD_SHOWN_MAX ? (int)word->length : WORD_SHOWN_MAX;

	if (*word->start == '@' && walk->before.kind != TOKEN_END && walk->before.line == word->line)
		return syntax_set(walk, word->line,
		                  "%.*s behind something else: accepted is @include \"FILE\" in a line of its own", n,
		                  word->start);
	if (*word->start == '@')
		return syntax_judge_include(walk, word, n);
	if (!syntax_is_value(walk) && walk->before.kind == TOKEN_WORD && *walk->before.start != '@' &&
	    !syntax_is_key(*walk))
		return syntax_set(walk, word->line,
		                  "%.*s behind a value: accepted is one value, without a unit, and ';'", n,
		                  word->start);
	if (!syntax_is_value(walk) && token_is(&walk->before, ',') && syntax_is_number_or_boolean(word))
		return syntax_set(
			walk, word->line,
			"%.*s is a second value: accepted is one value for a key; each port has a flow of its own", n,
			word->start);
	if (!syntax_is_value(walk) || syntax_is_number_or_boolean(word))
		return false;
	if (syntax_inside(walk) == '(' && token_is(&walk->before, '}') && syntax_is_key(*walk))
		return syntax_set(walk, word->line,
		                  "the key %.*s, but the list that begins at line %u is not closed: accepted is ')' "
		                  "before it",
		                  n, word->start, walk->open[walk->n_open - 1].line);
	if (syntax_inside(walk) == '(' && syntax_is_key(*walk))
		return syntax_set(walk, word->line,
		                  "the key %.*s stands in a list without braces: accepted are groups in a list, "
		                  "( { %.*s = …; }, … )",
		                  n, word->start, n, word->start);
	if (n == 1 && *word->start == '-')
		return syntax_set(walk, word->line,
		                  "'-' begins an entry, as in YAML: accepted is 'key = value;' in libconfig's syntax; "
		                  "ibvcapd.conf(5) has examples");
	if (*word->start >= '0' && *word->start <= '9' && !memchr(word->start, '.', word->length) &&
	    !memchr(word->start, ':', word->length))
		return syntax_set(
			walk, word->line,
			"%.*s is no number: accepted is one integer, without a unit or a range; or, for a key "
			"that takes text, \"%.*s\" in double quotes",
			n, word->start, n, word->start);
	return syntax_set(walk, word->line,
	                  "%.*s is no value: accepted is a number, true, false, or a string in double quotes, \"%.*s\"",
	                  n, word->start, n, word->start);
}

/* No value of this configuration has more than one line. A string may be continued by another, and follow @include. */
static bool syntax_judge_string(const struct syntax_walk *walk, const struct token *string)
{
	const struct token *before = &walk->before;

	if (memchr(string->start, '\n', string->length))
		return syntax_set(walk, string->line, "a string that does not end in its line: accepted is \"…\"");
	if (syntax_is_value(walk) || before->kind == TOKEN_STRING ||
	    (before->kind == TOKEN_WORD && *before->start == '@'))
		return false;
	return syntax_set(walk, string->line,
	                  "a string where a key belongs: accepted is 'key = value;', with the key "
	                  "without quotes");
}

/* UTF-8 of U+2018 to U+201F, and of U+00A0. */
static bool syntax_judge_typography(const struct syntax_walk *walk, const struct token *token)
{
	const unsigned char *at = (const unsigned char *)token->start;

	if (at[0] == 0xe2 && at[1] == 0x80 && at[2] >= 0x98 && at[2] <= 0x9f)
		return syntax_set(walk, token->line,
		                  "the curly quote %.3s, as of a web page or a word processor: accepted are strings in "
		                  "straight double quotes, \"…\"",
		                  token->start);
	if (at[0] == 0xc2 && at[1] == 0xa0)
		return syntax_set(walk, token->line, "a no-break space, as of a web page: accepted is a space");
	return false;
}

static bool syntax_judge_behind_key(const struct syntax_walk *walk, const struct token *token)
{
	const struct token *key = &walk->before;
	int n = key->length < WORD_SHOWN_MAX ? (int)key->length : WORD_SHOWN_MAX;

	if (token_is(token, '=') || token_is(token, ':'))
		return false;
	return syntax_set(walk, key->line, "no '=' behind %.*s: accepted is '%.*s = value;'", n, key->start, n,
	                  key->start);
}

/* ---- the walk ----------------------------------------------------------------------------------- */

static bool syntax_judge_first(const struct syntax_walk *walk, const struct token *token)
{
	if (!token_is(token, '{') && !token_is(token, '['))
		return false;
	return syntax_set(walk, token->line,
	                  "'%c' begins the file, as in %s: accepted is 'key = value;' in libconfig's syntax; "
	                  "ibvcapd.conf(5) has examples",
	                  *token->start, *token->start == '{' ? "JSON" : "an INI file");
}

static bool syntax_judge(const struct syntax_walk *walk, const struct token *token)
{
	if (walk->before.kind == TOKEN_END && syntax_judge_first(walk, token))
		return true;
	if (token->kind == TOKEN_MARK && syntax_judge_typography(walk, token))
		return true;
	if (walk->is_key && syntax_judge_behind_key(walk, token))
		return true;
	switch (token->kind) {
	case TOKEN_END:
		return syntax_judge_end(walk);
	case TOKEN_WORD:
		return syntax_judge_word(walk, token);
	case TOKEN_STRING:
		return syntax_judge_string(walk, token);
	default:
		break;
	}
	if (*token->start == '\'')
		return syntax_set(walk, token->line, "a single quote: accepted are strings in double quotes, \"…\"");
	if (*token->start == ';')
		return syntax_judge_semicolon(walk, token);
	if (strchr("{([", *token->start))
		return syntax_judge_opening(walk, token);
	return strchr("})]", *token->start) && syntax_judge_closing(walk, token);
}

/* False: the brackets are no brackets of a configuration. */
static bool syntax_advance(struct syntax_walk *walk, const struct token *token)
{
	walk->is_key = token->kind == TOKEN_WORD && *token->start != '@' && !syntax_is_value(walk);
	walk->before = *token;
	if (token->kind != TOKEN_MARK)
		return true;
	if (strchr("{([", *token->start)) {
		if (walk->n_open == DEPTH_MAX)
			return false;
		walk->open[walk->n_open++] = (struct syntax_bracket){*token->start, token->line, walk->at};
	} else if (strchr("})]", *token->start)) {
		if (walk->n_open == 0)
			return false;
		walk->n_open--;
	}
	return true;
}

bool syntax_find_mistake(const char *text, unsigned line, struct syntax_mistake *mistake)
{
	static const char byte_order_mark[] = "\xef\xbb\xbf";
	struct syntax_walk walk = {.at = {text, 1}, .error_line = line, .mistake = mistake};
	struct token token;

	if (strncmp(text, byte_order_mark, strlen(byte_order_mark)) == 0)
		return syntax_set(&walk, 1, "the file begins with a byte order mark: save it as UTF-8 without one");
	do {
		token = token_next(&walk.at);
		if (token.line > line)
			return false;
		if (syntax_judge(&walk, &token))
			return true;
	} while (token.kind != TOKEN_END && syntax_advance(&walk, &token));
	return false;
}

/* ---- a key for the second time ------------------------------------------------------------------ */

/* The line at which the group has the key already; 0: it has not. */
static unsigned syntax_find_key(struct token_cursor group, const struct token *key)
{
	struct syntax_walk walk = {.at = group};

	for (;;) {
		struct token token = token_next(&walk.at);

		if (token.start >= key->start || !syntax_advance(&walk, &token))
			return 0;
		if (walk.is_key && walk.n_open == 0 && token.length == key->length &&
		    strncmp(token.start, key->start, key->length) == 0)
			return token.line;
	}
}

/* Is this key of the walk in its group already? */
static bool syntax_judge_key(const struct syntax_walk *walk, const struct token_cursor *top, const struct token *key)
{
	const struct token_cursor *group = walk->n_open ? &walk->open[walk->n_open - 1].inside : top;
	unsigned first = syntax_find_key(*group, key);

	return first &&
	       syntax_set(walk, key->line,
	                  "duplicate key %.*s, which its group has at line %u already: accepted is each key once",
	                  key->length < WORD_SHOWN_MAX ? (int)key->length : WORD_SHOWN_MAX, key->start, first);
}

bool syntax_find_duplicate(const char *text, unsigned line, struct syntax_mistake *mistake)
{
	const struct token_cursor top = {text, 1};
	struct syntax_walk walk = {.at = top, .mistake = mistake};
	unsigned n_keys = 0;
	struct token token = token_next(&walk.at);

	while (token.kind != TOKEN_END && token.line <= line && syntax_advance(&walk, &token)) {
		if (walk.is_key && token.line == line) {
			if (syntax_judge_key(&walk, &top, &token))
				return true;
			if (++n_keys == KEYS_OF_A_LINE_MAX)
				return false;
		}
		token = token_next(&walk.at);
	}
	return false;
}

bool syntax_next_key(struct token_cursor *cursor, unsigned line, char *key, size_t bytes)
{
	struct syntax_walk walk = {.at = *cursor};
	struct token token;

	do {
		token = token_next(&walk.at);
		*cursor = walk.at;
		if (token.line == line && token.kind == TOKEN_WORD && syntax_is_key(walk)) {
			snprintf(key, bytes, "%.*s", (int)token.length, token.start);
			return true;
		}
	} while (token.kind != TOKEN_END && token.line <= line);
	return false;
}
