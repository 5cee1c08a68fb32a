// SPDX-License-Identifier: Apache-2.0
/* Turns KEY=VALUE arguments into the text of a configuration file, which only the daemon checks. */
#include "tools/reconfigure/reconfigure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz_"

/* "part.key=value", as the lengths of its names. part is 0 if there is none. */
struct word {
	const char *text;
	size_t part;
	size_t key;
	const char *value;
};

static bool split_arg(const char *text, struct word *word)
{
	size_t n = strspn(text, NAME_LETTERS);

	*word = (struct word){.text = text};
	if (n > 0 && text[n] == '.') {
		word->part = n;
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
	return word->text + (word->part ? word->part + 1 : 0);
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

/* flows is a list of groups; sequence and sensor_time are a group each. */
static bool is_list(const struct word *word)
{
	return is_same_text(word->text, word->part, "flows", strlen("flows"));
}

static void write_args(FILE *to, const struct word *words, int n_words)
{
	int first = 0;

	fputs("streams = ( {", to);
	for (int i = 0; i < n_words; i++) {
		const struct word *word = &words[i], *before = i > 0 ? word - 1 : &(struct word){0};
		bool goes_on = before->part && is_same_text(before->text, before->part, word->text, word->part);

		if (before->part && !goes_on)
			fputs(is_list(before) ? " } );" : " };", to);
		if (word->part && !goes_on)
			fprintf(to, " %.*s = %s", (int)word->part, word->text, is_list(word) ? "( {" : "{");
		if (goes_on && is_list(word) && entry_has_key(words, first, i)) {
			fputs(" }, {", to);
			first = i;
		}
		if (!goes_on)
			first = i;
		fprintf(to, " %.*s", (int)word->key, arg_key(word));
		write_arg_value(to, word->value);
		fputs(i + 1 < n_words ? "\n" : "", to);
	}
	if (words[n_words - 1].part)
		fputs(is_list(&words[n_words - 1]) ? " } );" : " };", to);
	fputs(" } );\n", to);
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
