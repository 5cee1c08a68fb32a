// SPDX-License-Identifier: Apache-2.0
/* Turns KEY=VALUE arguments into the text of a configuration file, which only the daemon checks. */
#include "tools/reconfigure/reconfigure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz_"

/* "list.key=value", as the lengths of its parts. list is 0 if there is none. */
struct word {
	const char *text;
	size_t list;
	size_t key;
	const char *value;
};

static bool split_arg(const char *text, struct word *word)
{
	size_t n = strspn(text, NAME_LETTERS);

	*word = (struct word){.text = text};
	if (n > 0 && text[n] == '.') {
		word->list = n;
		text += n + 1;
		n = strspn(text, NAME_LETTERS);
	}
	word->key = n;
	word->value = text + n + 1;
	return n > 0 && text[n] == '=';
}

bool stream_args_are_keys(const char *word)
{
	struct word parts;

	return split_arg(word, &parts);
}

static const char *arg_key(const struct word *word)
{
	return word->text + (word->list ? word->list + 1 : 0);
}

static bool is_config_literal(const char *value)
{
	const char *digits = value + (*value == '-');

	return (*digits && digits[strspn(digits, "0123456789")] == '\0') || strcmp(value, "true") == 0 ||
	       strcmp(value, "false") == 0 || (*value && strchr("\"[(", *value));
}

static void write_arg_value(FILE *to, const char *value)
{
	bool literal = is_config_literal(value);

	fputs(literal ? " = " : " = \"", to);
	for (; *value; value++) {
		if (!literal && (*value == '"' || *value == '\\'))
			fprintf(to, "\\%c", *value);
		else if (*value == '\n') /* each argument stays one line */
			fputs(literal ? " " : "\\n", to);
		else
			fputc(*value, to);
	}
	fputs(literal ? ";" : "\";", to);
}

static bool is_same_text(const char *a, size_t n_a, const char *b, size_t n_b)
{
	return n_a == n_b && memcmp(a, b, n_a) == 0;
}

/* Has the list entry that began with words[first] the key of words[i] already? */
static bool entry_has_key(const struct word *words, int first, int i)
{
	for (int k = first; k < i; k++)
		if (is_same_text(arg_key(&words[k]), words[k].key, arg_key(&words[i]), words[i].key))
			return true;
	return false;
}

static void write_args(FILE *to, const struct word *words, int n_words)
{
	int first = 0;

	fputs("streams = ( {", to);
	for (int i = 0; i < n_words; i++) {
		const struct word *word = &words[i], *before = i > 0 ? word - 1 : &(struct word){0};
		bool goes_on = before->list && is_same_text(before->text, before->list, word->text, word->list);

		if (before->list && !goes_on)
			fputs(" } );", to);
		if (word->list && !goes_on)
			fprintf(to, " %.*s = ( {", (int)word->list, word->text);
		if (goes_on && entry_has_key(words, first, i)) {
			fputs(" }, {", to);
			first = i;
		}
		if (!goes_on)
			first = i;
		fprintf(to, " %.*s", (int)word->key, arg_key(word));
		write_arg_value(to, word->value);
		fputs(i + 1 < n_words ? "\n" : "", to);
	}
	fputs(words[n_words - 1].list ? " } ); } );\n" : " } );\n", to);
}

char *stream_args_text(const char *const *words, int n_words)
{
	struct word *parts = calloc((size_t)n_words, sizeof(*parts));
	char *text = NULL;
	bool good = parts != NULL;
	size_t bytes;
	FILE *to;

	for (int i = 0; i < n_words && good; i++)
		good = split_arg(words[i], &parts[i]);
	to = good ? open_memstream(&text, &bytes) : NULL;
	if (to) {
		write_args(to, parts, n_words);
		fclose(to);
	}
	free(parts);
	return text;
}
