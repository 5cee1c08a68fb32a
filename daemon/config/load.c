// SPDX-License-Identifier: Apache-2.0
/* From a file, or a text, to a checked configuration. */
#include "daemon/config/config.h"
#include "daemon/config/config_memory.h"
#include "daemon/config/config_reader.h"
#include "daemon/config/config_text.h"
#include "daemon/config/key_table.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int config_parse_failure(const struct config_reader *reader, const config_t *file)
{
	const char *text = config_error_text(file);
	char where[PATH_MAX];

	return failure_set(reader->failure, EX_CONFIG, EINVAL, "%s:%d: %s%s",
	                   config_reader_file(reader, config_error_file(file), where, sizeof(where)),
	                   config_error_line(file), text,
	                   strcmp(text, "syntax error") == 0 ? ": accepted is 'key = value;'" : "");
}

static int config_read_root(const struct config_reader *reader, const config_setting_t *root)
{
	int r = config_reader_read_group(reader, root, &top_keys, reader->config);

	if (r == 0 && reader->config->n_streams + reader->config->n_channels == 0)
		r = config_reader_failure(
			reader, root,
			"the file needs 'streams' or 'channels': packets to capture, or packets that may be sent");
	return r;
}

static int config_parse(const struct config_reader *reader, const char *text)
{
	config_t file;
	int r;

	config_init(&file);
	if (reader->directory)
		config_set_include_dir(&file, reader->directory);
	r = config_read_string(&file, text) ? config_read_root(reader, config_root_setting(&file))
	                                    : config_parse_failure(reader, &file);
	config_destroy(&file);
	return r;
}

/* The directory of the main file, or NULL if its path has no '/'. The config owns *directory. */
static int config_find_directory(struct config *config, const char *path, char **directory)
{
	const char *slash = strrchr(path, '/');
	size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;

	*directory = NULL;
	if (!slash)
		return 0;
	*directory = config_allocate(config, length + 1, 1);
	if (!*directory)
		return -ENOMEM;
	memcpy(*directory, path, length);
	return 0;
}

static int config_read_into(struct config *config, const char *path, const char *text, struct failure *failure)
{
	struct config_reader reader = {.path = path, .config = config, .failure = failure};
	char *name = config_allocate(config, strlen(path) + 1, 1);
	char *directory;
	int r;

	if (!name || config_find_directory(config, path, &directory) < 0)
		return failure_no_memory(failure);
	config->file = strcpy(name, path);
	reader.directory = directory;
	r = config_text_check(&reader, text);
	return r == 0 ? config_parse(&reader, text) : r;
}

int config_load(const char *path, struct config **config, struct failure *failure)
{
	char *text;
	int r = config_text_read(path, &text);

	if (r < 0)
		return failure_set(failure, EX_NOINPUT, -r, "%s: cannot be read: %s", path, config_text_error(r));
	r = config_load_text(path, text, config, failure);
	free(text);
	return r;
}

int config_load_text(const char *path, const char *text, struct config **config, struct failure *failure)
{
	struct config *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return failure_no_memory(failure);
	r = config_read_into(c, path, text, failure);
	if (r < 0) {
		config_free(c);
		return r;
	}
	*config = c;
	return 0;
}
