// SPDX-License-Identifier: Apache-2.0
/* From a file, or a text, to a checked configuration. */
#include "daemon/config/config.h"
#include "daemon/config/config_reader.h"
#include "daemon/config/config_syntax.h"
#include "daemon/config/config_text.h"
#include "daemon/config/key.h"
#include "lib/base/min.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The setting that a group has under this name from a file other than this one, where libconfig has stopped: in one of
 * the last entries, from the root on. NULL: there is none, or several groups have one.
 */
static const config_setting_t *config_find_in_other_file(const config_t *file, const char *name)
{
	const config_setting_t *at = config_root_setting(file), *found = NULL;
	const char *here = config_error_file(file);

	for (int n; at && config_setting_is_aggregate(at);
	     at = n ? config_setting_get_elem(at, (unsigned)n - 1) : NULL) {
		const config_setting_t *setting =
			config_setting_is_group(at) ? config_setting_get_member(at, name) : NULL;
		const char *there = setting ? config_setting_source_file(setting) : here;

		n = config_setting_length(at);
		if (there == here || (there && here && strcmp(there, here) == 0))
			continue;
		if (found)
			return NULL;
		found = setting;
	}
	return found;
}

/* The key that libconfig found for the second time. text: of the file that libconfig names. */
static bool config_find_duplicate(const struct config_reader *reader, const config_t *file, const char *text,
                                  struct syntax_mistake *mistake)
{
	const config_setting_t *first = NULL, *setting;
	struct token_cursor at = {text, 1};
	char key[64], buffer[PATH_MAX];

	mistake->line = (unsigned)config_error_line(file);
	if (syntax_find_duplicate(text, mistake->line, mistake))
		return true;
	for (unsigned n = 0; n < KEYS_OF_A_LINE_MAX && syntax_next_key(&at, mistake->line, key, sizeof(key)); n++) {
		setting = config_find_in_other_file(file, key);
		if (setting && first)
			return false;
		first = setting ? setting : first;
	}
	if (first)
		snprintf(mistake->text, sizeof(mistake->text),
		         "duplicate key %s, which its group has at %s:%u already: accepted is each key once",
		         config_setting_name(first),
		         config_reader_file(reader, config_setting_source_file(first), buffer, sizeof(buffer)),
		         config_setting_source_line(first));
	return first;
}

/* libconfig before 1.7 puts the directory before an absolute path, too. */
static const char *config_accepted_instead(const char *said)
{
	if (strcmp(said, "syntax error") == 0)
		return ": accepted is 'key = value;'";
	if (strcmp(said, "cannot open include file") == 0)
		return ": accepted is a path from the directory of the main file; libconfig before 1.7 takes no "
		       "absolute path";
	return "";
}

static int config_parse_failure(const struct config_reader *reader, const config_t *file, const char *text)
{
	const char *said = config_error_text(file), *included = config_error_file(file);
	struct syntax_mistake mistake;
	char where[PATH_MAX], *read = NULL;
	const char *name = config_reader_file(reader, included, where, sizeof(where));
	bool is_found = false;

	if (included)
		text = config_text_read(name, &read, NULL) == 0 ? read : "";
	if (strcmp(said, "duplicate setting name") == 0)
		is_found = config_find_duplicate(reader, file, text, &mistake);
	else if (strcmp(said, "syntax error") == 0)
		is_found = syntax_find_mistake(text, (unsigned)config_error_line(file), &mistake);
	free(read);
	if (is_found)
		return failure_set(reader->failure, EX_CONFIG, EINVAL, "%s:%u: %s", name, mistake.line, mistake.text);
	return failure_set(reader->failure, EX_CONFIG, EINVAL, "%s:%d: %s%s", name, config_error_line(file), said,
	                   config_accepted_instead(said));
}

static int config_read_root(const struct config_reader *reader, const config_setting_t *root,
                            const struct key_group *group, void *base)
{
	int r = config_reader_read_group(reader, root, group, base);

	if (r == 0 && group == &top_keys && reader->config->n_streams + reader->config->n_channels == 0)
		r = config_reader_failure(
			reader, root,
			"the file needs 'streams' or 'channels': packets to capture, or packets that may be sent; "
			"to write a first stream to /etc/ibvcapd.conf: sudo ibvcap-try --write INTERFACE PORT");
	return r;
}

static int config_parse(const struct config_reader *reader, const char *text, const struct key_group *group, void *base)
{
	config_t file;
	int r;

	config_init(&file);
	config_set_include_dir(&file, reader->directory);
	r = config_read_string(&file, text) ? config_read_root(reader, config_root_setting(&file), group, base)
	                                    : config_parse_failure(reader, &file, text);
	config_destroy(&file);
	return r;
}

/*
 * The directory of the main file. The config owns *directory. It is "." if the path has none, so that
 * libconfig accepts the same @include lines for "a.conf" and "./a.conf".
 */
static int config_find_directory(struct config *config, const char *path, char **directory)
{
	const char *slash = strrchr(path, '/'), *from = slash ? path : ".";
	size_t length = slash && slash != path ? (size_t)(slash - path) : 1;

	*directory = config_allocate(config, length + 1, 1);
	if (!*directory)
		return -ENOMEM;
	memcpy(*directory, from, length);
	return 0;
}

/* Read a text with the keys of the group into base. */
static int config_read_into(struct config *config, const char *path, const char *text, const struct key_group *group,
                            void *base, struct failure *failure)
{
	struct config_reader reader = {.path = path, .config = config, .failure = failure, .keys = group};
	char *name = config_allocate(config, strlen(path) + 1, 1);
	char *directory;
	int r;

	if (!name || config_find_directory(config, path, &directory) < 0)
		return failure_no_memory(failure);
	config->file = strcpy(name, path);
	reader.directory = directory;
	r = config_text_check(&reader, text);
	return r == 0 ? config_parse(&reader, text, group, base) : r;
}

int config_load(const char *path, struct config **config, struct failure *failure)
{
	uint64_t written_ns = 0;
	char *text;
	int r = config_text_read(path, &text, &written_ns);

	if (r < 0)
		return failure_set(failure, EX_NOINPUT, -r, "%s: cannot be read: %s%s", path, config_text_error(r),
		                   r == -ENOENT && strcmp(path, CONFIG_DEFAULT_FILE) == 0
		                           ? "; 'sudo ibvcap-try --write INTERFACE PORT' writes a first one"
		                           : "");
	r = config_load_text(path, text, config, failure);
	if (r == 0)
		(*config)->written_ns = u64_max((*config)->written_ns, written_ns);
	free(text);
	return r;
}

int config_load_text(const char *path, const char *text, struct config **config, struct failure *failure)
{
	struct config *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return failure_no_memory(failure);
	failure->text[0] = '\0';
	r = config_read_into(c, path, text, &top_keys, c, failure);
	if (r < 0) {
		config_free(c);
		return r;
	}
	*config = c;
	return 0;
}

int config_load_sequence(const char *path, struct ibvcap_sequence *sequence, struct failure *failure)
{
	struct config_stream stream = {0};
	struct config *owner = NULL;
	char *text;
	int r = config_text_read(path, &text, NULL);

	if (r < 0)
		return failure_set(failure, EX_NOINPUT, -r, "%s: cannot be read: %s", path, config_text_error(r));
	failure->text[0] = '\0';
	owner = calloc(1, sizeof(*owner));
	r = owner ? config_read_into(owner, path, text, &sequence_keys, &stream, failure) : failure_no_memory(failure);
	if (r == 0 && !stream.sequence.bytes)
		r = failure_set(failure, EX_CONFIG, EINVAL,
		                "%s: the file needs 'bytes', those of the field with the number", path);
	*sequence = stream.sequence;
	config_free(owner);
	free(text);
	return r;
}
