// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a configuration file and scans it for what libconfig 1.5 would not report: numbers that it cuts to 32 bits,
 * comments without an end, and included files that cannot be read.
 */
#include "daemon/config/config_text.h"

#include "daemon/config/config_syntax.h"
#include "lib/base/min.h"
#include "lib/base/time.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INCLUDE_DEPTH_MAX 10 /* that of libconfig */
#define INCLUDE           "@include"

static int config_text_read_all(int fd, char *text, size_t room)
{
	size_t used = 0;
	ssize_t n;

	while ((n = read(fd, text + used, room - used)) > 0)
		used += (size_t)n;
	if (n < 0)
		return -errno;
	if (used == room)
		return -EFBIG;
	text[used] = '\0';
	return strlen(text) == used ? 0 : -EILSEQ;
}

const char *config_text_error(int error)
{
	switch (error) {
	case -EILSEQ:
		return "it is not text: it has a NUL byte";
	case -EFBIG:
		return "it is longer than the 1 MiB that a configuration may have";
	case -EACCES: /* an administrator who checks the file as root does not notice */
		return "Permission denied: the user that the daemon runs as (--user) has to be able to read it";
	default:
		return strerror(-error);
	}
}

int config_text_read(const char *path, char **text, uint64_t *written_ns)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	int r;

	if (fd < 0)
		return -errno;
	if (written_ns && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		*written_ns = u64_max(*written_ns, (uint64_t)status.st_mtim.tv_sec * TIME_SECOND_NS +
		                                           (uint64_t)status.st_mtim.tv_nsec);
	*text = malloc(CONFIG_TEXT_BYTES_MAX + 1);
	r = *text ? config_text_read_all(fd, *text, CONFIG_TEXT_BYTES_MAX + 1) : -ENOMEM;
	close(fd);
	if (r < 0) {
		free(*text);
		*text = NULL;
	}
	return r;
}

/* ---- what libconfig does not report ------------------------------------------------------------- */

struct text_cursor {
	const struct config_reader *reader;
	const char *file;
	const char *start;
	struct token_cursor at;
	unsigned depth;
};

static int text_check(const struct config_reader *reader, const char *file, const char *text, unsigned depth);

/* A number with the suffix L is read right by libconfig. Hexadecimal numbers and fractions are refused later. */
static int text_check_number(const struct text_cursor *c, const struct token *word)
{
	char *end;
	long long value = strtoll(word->start, &end, 10);
	int n = (int)(end - word->start);

	if (end == word->start || end < word->start + word->length || (value >= INT32_MIN && value <= INT32_MAX))
		return 0;
	return failure_set(c->reader->failure, EX_CONFIG, EINVAL,
	                   "%s:%u: %.*s is too large: accepted are integers up to %d", c->file, word->line,
	                   n > 40 ? 40 : n, word->start, INT32_MAX);
}

static bool text_is_first_in_line(const struct text_cursor *c, const struct token *token)
{
	const char *before = token->start;

	while (before > c->start && (before[-1] == ' ' || before[-1] == '\t'))
		before--;
	return before == c->start || before[-1] == '\n';
}

/* With the path in full, because the name starts from a directory that the reader may not know. */
static int text_refuse_included(const struct text_cursor *c, const char *name, unsigned line, const char *file,
                                int error)
{
	bool is_relative = file[0] != '/';
	char directory[PATH_MAX];

	if (is_relative && !getcwd(directory, sizeof(directory)))
		directory[0] = '\0';
	return failure_set(c->reader->failure, EX_CONFIG, -error, "%s:%u: @include \"%s\": %s%s%s cannot be read: %s%s",
	                   c->file, line, name, is_relative ? directory : "", is_relative ? "/" : "", file,
	                   config_text_error(error),
	                   name[0] == '/' ? "" : "; a path starts from the directory of the main file");
}

static int text_check_included(const struct text_cursor *c, const char *name, unsigned line)
{
	char buffer[PATH_MAX];
	const char *file = config_reader_file(c->reader, name, buffer, sizeof(buffer));
	char *text;
	int r;

	if (c->depth == INCLUDE_DEPTH_MAX)
		return failure_set(c->reader->failure, EX_CONFIG, ELOOP,
		                   "%s:%u: @include \"%s\": accepted are files that include each other %d deep",
		                   c->file, line, name, INCLUDE_DEPTH_MAX);
	r = config_text_read(file, &text, &c->reader->config->written_ns);
	if (r < 0)
		return text_refuse_included(c, name, line, file, r);
	r = text_check(c->reader, file, text, c->depth + 1);
	free(text);
	return r;
}

static int text_check_include(struct text_cursor *c, const struct token *include)
{
	char name[PATH_MAX];
	const char *from = include->start + strlen(INCLUDE);
	size_t length;

	from += strspn(from, " \t");
	length = *from == '"' ? strcspn(from + 1, "\"\n") : 0;
	if (length == 0 || length >= sizeof(name) || from[1 + length] != '"')
		return 0; /* libconfig reports the syntax error */
	memcpy(name, from + 1, length);
	name[length] = '\0';
	c->at.at = from + length + 2;
	return text_check_included(c, name, include->line);
}

static int text_check_word(struct text_cursor *c, const struct token *word)
{
	const char *at = word->start;

	if (isdigit((unsigned char)*at) || ((*at == '-' || *at == '+') && isdigit((unsigned char)at[1])))
		return text_check_number(c, word);
	if (strncmp(at, INCLUDE, strlen(INCLUDE)) == 0 && text_is_first_in_line(c, word))
		return text_check_include(c, word);
	return 0;
}

/* To libconfig a comment without an end reaches to the end of the file, so the rest of the file would be ignored. */
static int text_check(const struct config_reader *reader, const char *file, const char *text, unsigned depth)
{
	struct text_cursor c = {.reader = reader, .file = file, .start = text, .at = {text, 1}, .depth = depth};
	struct token token;
	int r = 0;

	do {
		token = token_next(&c.at);
		if (token.kind == TOKEN_WORD)
			r = text_check_word(&c, &token);
		else if (token.kind == TOKEN_OPEN_COMMENT)
			r = failure_set(reader->failure, EX_CONFIG, EINVAL,
			                "%s:%u: a comment without an end: accepted is /* … */", file, token.line);
	} while (token.kind != TOKEN_END && r == 0);
	return r;
}

int config_text_check(const struct config_reader *reader, const char *text)
{
	return text_check(reader, reader->path, text, 0);
}
