// SPDX-License-Identifier: Apache-2.0
/* Makes the names of the files of a recording, and finds out which names it could have made. */
#include "tools/record/file_window.h"

#include "lib/base/time.h"
#include "lib/recording/recording_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define NUMBER_DIGITS     5 /* at least */
#define NUMBER_DIGITS_MAX 9 /* in a file's number: its successor fits in a uint32_t */
#define TIME_DIGITS       14
#define FLOW_DIGITS_MAX   3

/* Behind the last '/'. */
const char *file_names_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Where the numbers go: before the first '.' of the name that is not its first character, so "a.pcapng.zst" is whole.
 */
static size_t stem_bytes(const char *path)
{
	const char *base = file_names_base(path), *dot = *base ? strchr(base + 1, '.') : NULL;

	return dot ? (size_t)(dot - path) : strlen(path);
}

/* ---- making --------------------------------------------------------------------------------------- */

/* Put text into the path where its stem ends. */
static int insert_at_stem(char path[PATH_MAX], const char *text)
{
	size_t stem = stem_bytes(path);
	char rest[PATH_MAX];

	strcpy(rest, path + stem);
	if (stem + strlen(text) + strlen(rest) + sizeof(RECORDING_INDEX) > PATH_MAX)
		return -ENAMETOOLONG;
	snprintf(path + stem, PATH_MAX - stem, "%s%s", text, rest);
	return 0;
}

/* The pattern is the user's own, and strftime() takes nothing from it but the time. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static size_t put_time_in(char path[PATH_MAX], const char *pattern, const struct tm *utc)
{
	return strftime(path, PATH_MAX, pattern, utc);
}
#pragma GCC diagnostic pop

/* Does a regular file have this name, or will it? A pipe or a device takes any number of files. */
static bool is_name_taken(const struct file_window *window, const char *path)
{
	const struct open_file *open;
	struct stat status;

	TAILQ_FOREACH (open, &window->open, entry)
		if (!strcmp(open->path, path))
			return true;
	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

int file_window_name(struct file_window *window, uint64_t time_ns, const char *flow, char path[PATH_MAX])
{
	time_t seconds = (time_t)(time_ns / TIME_SECOND_NS);
	bool has_time = strchr(window->pattern, '%'), takes_number;
	char number[32], plain[PATH_MAX];
	struct tm utc;
	int r = 0;

	gmtime_r(&seconds, &utc);
	if (has_time && put_time_in(path, window->pattern, &utc) == 0)
		return -ENAMETOOLONG;
	if (!has_time && snprintf(path, PATH_MAX, "%s", window->pattern) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (flow && (insert_at_stem(path, "_") < 0 || insert_at_stem(path, flow) < 0))
		return -ENAMETOOLONG;
	strcpy(plain, path);
	/* Without an option that begins new files the first file has the name as it is, and files that SIGUSR1 begins
	 * get numbers. A name with the time may come again within the smallest unit of time that it shows. */
	takes_number = window->numbered && !has_time;
	window->may_replace = !window->numbered && !window->by_flow && window->number == 1;
	if (!takes_number && !window->may_replace)
		takes_number = is_name_taken(window, path);
	while (takes_number && r == 0) {
		strcpy(path, plain);
		snprintf(number, sizeof(number), "_%05u", window->number);
		if (!has_time)
			strftime(number + strlen(number), sizeof(number) - strlen(number), "_%Y%m%d%H%M%S", &utc);
		r = insert_at_stem(path, number);
		takes_number = r == 0 && is_name_taken(window, path) && ++window->number;
	}
	window->number++;
	return r;
}

/* ---- reading --------------------------------------------------------------------------------------- */

/* Cut "_" and min to max digits off the end of text. NULL: it has no such end. */
static const char *take_digits(char *text, size_t min, size_t max)
{
	size_t n = strlen(text), first = n;

	while (first && text[first - 1] >= '0' && text[first - 1] <= '9')
		first--;
	if (n - first < min || n - first > max || !first || text[first - 1] != '_')
		return NULL;
	text[first - 1] = '\0';
	return text + first;
}

/* Cut "_", the name of a stream, "-" and the number of a flow off the end of text. */
static bool take_flow(char *text, const struct own_streams *streams, struct file_name *name)
{
	const char *digits = strrchr(text, '-');
	size_t n_digits = digits ? strspn(digits + 1, "0123456789") : 0, end = digits ? (size_t)(digits - text) : 0;

	if (!n_digits || n_digits > FLOW_DIGITS_MAX || digits[1 + n_digits])
		return false;
	for (name->stream = 0; name->stream < streams->n; name->stream++) {
		size_t n = strlen(streams->names[name->stream]);

		if (end <= n || text[end - n - 1] != '_' ||
		    memcmp(text + end - n, streams->names[name->stream], n) != 0)
			continue;
		name->flow = atoi(digits + 1);
		text[end - n - 1] = '\0';
		return true;
	}
	return false;
}

/* True for each pattern: the time that strptime() reads in the text makes the same text again. */
static bool is_from_time(const char *pattern, const char *text)
{
	struct tm utc = {.tm_mday = 1};
	const char *end = strptime(text, pattern, &utc);
	char again[PATH_MAX];

	return end && !*end && put_time_in(again, pattern, &utc) && !strcmp(again, text);
}

/* text: a name up to the end of its stem; rest: what follows there. */
static bool parse_timed(const struct file_window *window, char *text, const char *rest, struct file_name *name)
{
	char whole[PATH_MAX];

	if (window->by_flow && !take_flow(text, &window->streams, name))
		return false;
	return snprintf(whole, sizeof(whole), "%s%s", text, rest) < (int)sizeof(whole) &&
	       is_from_time(window->pattern, whole);
}

static bool parse_numbered(const struct file_window *window, char *text, struct file_name *name)
{
	size_t stem = stem_bytes(window->pattern);
	const char *number;

	if (!take_digits(text, TIME_DIGITS, TIME_DIGITS) ||
	    !(number = take_digits(text, NUMBER_DIGITS, NUMBER_DIGITS_MAX)))
		return false;
	name->number = (uint32_t)strtoul(number, NULL, 10);
	return (!window->by_flow || take_flow(text, &window->streams, name)) && strlen(text) == stem &&
	       !memcmp(text, window->pattern, stem);
}

bool file_names_parse(const struct file_window *window, const char *path, struct file_name *name)
{
	size_t n = strlen(path), part = strlen(RECORDING_PART), stem;
	char whole[PATH_MAX], text[PATH_MAX];

	*name = (struct file_name){0};
	/* A file that was being written when the recorder was killed, or the machine lost its power, counts too. */
	if (n > part && !strcmp(path + n - part, RECORDING_PART))
		n -= part;
	if (n >= sizeof(whole))
		return false;
	snprintf(whole, sizeof(whole), "%.*s", (int)n, path);
	stem = stem_bytes(whole);
	snprintf(text, sizeof(text), "%.*s", (int)stem, whole);
	if (!strchr(window->pattern, '%'))
		return !strcmp(whole + stem, window->pattern + stem_bytes(window->pattern)) &&
		       parse_numbered(window, text, name);
	if (parse_timed(window, text, whole + stem, name))
		return true;
	snprintf(text, sizeof(text), "%.*s", (int)stem, whole);
	return take_digits(text, NUMBER_DIGITS, NUMBER_DIGITS_MAX) && parse_timed(window, text, whole + stem, name);
}

/* Length of a conversion of strftime(): '%', flags, width, modifier, letter. */
static size_t conversion_bytes(const char *at)
{
	size_t n = 1;

	n += strspn(at + n, "_-0^#+");
	n += strspn(at + n, "0123456789");
	n += strspn(at + n, "EO");
	return at[n] ? n + 1 : n;
}

bool file_names_glob(const char *pattern, char glob[FILE_NAMES_GLOB_BYTES])
{
	const char *base = file_names_base(pattern), *stem = pattern + stem_bytes(pattern), *percent;
	char *to = glob;

	for (const char *at = pattern; *at; at++) {
		if (at == stem)
			*to++ = '*';
		if (*at == '%' && at[1] != '%') {
			*to++ = '*';
			at += conversion_bytes(at) - 1;
			continue;
		}
		if (strchr("*?[\\", *at))
			*to++ = '\\';
		*to++ = *at;
		at += *at == '%';
	}
	strcpy(to, "*");
	percent = strchr(pattern, '%');
	return !percent || percent >= base;
}
