// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/check.h"
#include "daemon/config/config.h"
#include "daemon/config/fields.h"
#include "daemon/config/load_channel.h"
#include "daemon/config/memory.h"
#include "daemon/config/names.h"
#include "daemon/config/reader.h"
#include "daemon/config/render.h"
#include "daemon/config/source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a flow -------------------------------------------------------------------------------------- */

static int read_flow(const struct reader *reader, struct config *config, const config_setting_t *setting,
                     struct config_flow *flow)
{
	struct value values[GROUP_KEYS_MAX];
	int r = reader_read_group(reader, setting, &flow_keys, values);

	if (r == 0)
		r = field_read_address(reader, &values[FLOW_DESTINATION], "destination", &flow->destination);
	if (r == 0)
		r = field_read_address(reader, &values[FLOW_SOURCE], "source", &flow->source);
	if (r < 0)
		return r;
	flow->destination_port = (uint16_t)values[FLOW_PORT].integer;
	flow->source_port = (uint16_t)values[FLOW_SOURCE_PORT].integer;
	flow->vlan = (int32_t)values[FLOW_VLAN].integer;
	flow->line = (int)config_setting_source_line(setting);
	flow->file = field_copy_file(reader, config, setting);
	flow->text = render_group(config, &flow_keys, values);
	if (!flow->file || !flow->text)
		return failure_set(reader->failure, EX_OSERR, ENOMEM, "out of memory");
	return check_flow(reader, setting, flow);
}

static int read_flows(const struct reader *reader, struct config *config, const config_setting_t *list,
                      struct config_stream *stream)
{
	void *array;
	int n = field_allocate_list(reader, config, list, "flows", CONFIG_FLOWS_MAX, sizeof(struct config_flow),
	                            &array);

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++) {
		int r = read_flow(reader, config, config_setting_get_elem(list, (unsigned)i),
		                  (struct config_flow *)array + i);

		if (r < 0)
			return r;
	}
	stream->flows = array;
	stream->n_flows = (uint32_t)n;
	return 0;
}

/* ---- a stream ------------------------------------------------------------------------------------ */

static void read_numbers(const struct value *values, struct config_stream *stream)
{
	stream->backend = CONFIG_BACKEND_VERBS;
	stream->payload_size = (uint32_t)values[STREAM_PAYLOAD_SIZE].integer;
	stream->slots_per_block = (uint32_t)values[STREAM_SLOTS_PER_BLOCK].integer;
	stream->history_blocks = (uint32_t)values[STREAM_HISTORY_BLOCKS].integer;
	stream->receive_queue_slots = (uint32_t)values[STREAM_RECEIVE_QUEUE_SLOTS].integer;
	stream->page_bytes = field_page_bytes(&values[STREAM_PAGE_SIZE]);
	stream->poll = field_poll(&values[STREAM_POLL]);
	stream->spin_us = (uint32_t)values[STREAM_SPIN_US].integer;
	stream->cpu = (int32_t)values[STREAM_CPU].integer;
	stream->max_consumers = (uint32_t)values[STREAM_MAX_CONSUMERS].integer;
	stream->lease_blocks = (uint32_t)values[STREAM_LEASE_BLOCKS].integer;
	stream->max_consumers_per_user = (uint32_t)values[STREAM_MAX_CONSUMERS_PER_USER].integer;
	stream->max_lease_blocks_per_user = (uint32_t)values[STREAM_MAX_LEASE_BLOCKS_PER_USER].integer;
	stream->oversize_sink = values[STREAM_OVERSIZE_SINK].integer;
	stream->timestamps = values[STREAM_TIMESTAMPS].integer;
	stream->join = values[STREAM_JOIN].integer;
	stream->lossless_deadline_ms = (uint32_t)values[STREAM_LOSSLESS_DEADLINE_MS].integer;
}

/* Who may do what. */
static int read_rights(const struct reader *reader, struct config *config, const struct value *values,
                       struct config_stream *stream)
{
	int r = field_read_ids(reader, config, &values[STREAM_USERS], "users", names_resolve_user, &stream->users,
	                       &stream->n_users);

	if (r == 0)
		r = field_read_ids(reader, config, &values[STREAM_GROUPS], "groups", names_resolve_group,
		                   &stream->groups, &stream->n_groups);
	if (r == 0)
		r = field_read_ids(reader, config, &values[STREAM_LOSSLESS_USERS], "lossless_users", names_resolve_user,
		                   &stream->lossless_users, &stream->n_lossless_users);
	if (r == 0)
		r = field_read_ids(reader, config, &values[STREAM_LOSSLESS_GROUPS], "lossless_groups",
		                   names_resolve_group, &stream->lossless_groups, &stream->n_lossless_groups);
	return r;
}

static int read_stream(const struct reader *reader, struct config *config, const config_setting_t *setting,
                       struct config_stream *stream)
{
	struct value values[GROUP_KEYS_MAX];
	int r = reader_read_group(reader, setting, &stream_keys, values);

	if (r < 0)
		return r;
	read_numbers(values, stream);
	stream->line = (int)config_setting_source_line(setting);
	stream->file = field_copy_file(reader, config, setting);
	stream->text = render_group(config, &stream_keys, values);
	if (!stream->file || !stream->text)
		return failure_set(reader->failure, EX_OSERR, ENOMEM, "out of memory");
	r = field_copy_string(reader, &values[STREAM_NAME], "name", stream->name, sizeof(stream->name));
	if (r == 0)
		r = field_copy_string(reader, &values[STREAM_INTERFACE], "interface", stream->interface,
		                      sizeof(stream->interface));
	if (r == 0)
		r = read_flows(reader, config, values[STREAM_FLOWS].setting, stream);
	if (r == 0)
		r = read_rights(reader, config, values, stream);
	return r < 0 ? r : check_stream(reader, setting, values, stream);
}

static int read_streams(const struct reader *reader, struct config *config, const config_setting_t *list)
{
	struct config_stream *streams;
	void *array;
	int n = field_allocate_list(reader, config, list, "streams", CONFIG_STREAMS_MAX, sizeof(*streams), &array);

	if (n < 0)
		return n;
	streams = array;
	config->streams = streams;
	for (int i = 0; i < n; i++) {
		const config_setting_t *setting = config_setting_get_elem(list, (unsigned)i);
		int r = read_stream(reader, config, setting, &streams[i]);

		if (r == 0)
			r = check_name_is_new(reader, setting, config, &streams[i]);
		if (r < 0)
			return r;
		config->n_streams++;
	}
	return 0;
}

/* ---- control ------------------------------------------------------------------------------------- */

static int read_mode(const struct reader *reader, const struct value *value, mode_t *mode)
{
	char *end;
	unsigned long bits = strtoul(value->string, &end, 8);

	if (value->string[0] >= '0' && value->string[0] <= '7' && *end == '\0' && bits <= 0777) {
		*mode = (mode_t)bits;
		return 0;
	}
	return reader_failure(reader, value->setting, "mode = \"%s\": accepted are octal permissions, \"0660\"",
	                      value->string);
}

static int read_socket_group(const struct reader *reader, const struct value *value, gid_t *group)
{
	*group = (gid_t)-1;
	if (!value->setting || value->string[0] == '\0')
		return 0;
	return names_read(reader, value->setting, "group", names_resolve_group, group);
}

static int read_control(const struct reader *reader, struct config *config, const config_setting_t *setting)
{
	struct value values[GROUP_KEYS_MAX];
	int r = reader_read_group(reader, setting, &control_keys, values);

	if (r == 0)
		r = field_copy_string(reader, &values[CONTROL_SOCKET], "socket", config->socket_path,
		                      sizeof(config->socket_path));
	if (r == 0 && config->socket_path[0] != '/')
		r = reader_failure(reader, values[CONTROL_SOCKET].setting,
		                   "socket = \"%s\": accepted is an absolute path", config->socket_path);
	if (r == 0)
		r = read_mode(reader, &values[CONTROL_MODE], &config->socket_mode);
	if (r == 0)
		r = read_socket_group(reader, &values[CONTROL_GROUP], &config->socket_group);
	if (r < 0)
		return r;
	config->max_clients = (uint32_t)values[CONTROL_MAX_CLIENTS].integer;
	config->max_clients_per_user = (uint32_t)values[CONTROL_MAX_CLIENTS_PER_USER].integer;
	config->max_messages_per_s = (uint32_t)values[CONTROL_MAX_MESSAGES_PER_S].integer;
	config->max_messages_per_s_per_user = (uint32_t)values[CONTROL_MAX_MESSAGES_PER_S_PER_USER].integer;
	config->idle_timeout_s = (uint32_t)values[CONTROL_IDLE_TIMEOUT_S].integer;
	config->restart_wait_s = (uint32_t)values[CONTROL_RESTART_WAIT_S].integer;
	config->control_text = render_group(config, &control_keys, values);
	return config->control_text ? 0 : failure_set(reader->failure, EX_OSERR, ENOMEM, "out of memory");
}

/* ---- the file ------------------------------------------------------------------------------------ */

/* Without a control group every key of it has its default: an empty group says the same. */
static int read_control_or_defaults(const struct reader *reader, struct config *config, const struct value *value)
{
	config_t empty;
	int r;

	if (value->setting)
		return read_control(reader, config, value->setting);
	config_init(&empty);
	r = read_control(reader, config, config_root_setting(&empty));
	config_destroy(&empty);
	return r;
}

static int read_file(const struct reader *reader, struct config *config, const config_setting_t *root)
{
	struct value values[GROUP_KEYS_MAX];
	int r = reader_read_group(reader, root, &top_keys, values);

	if (r == 0)
		r = read_control_or_defaults(reader, config, &values[TOP_CONTROL]);
	if (r == 0 && !values[TOP_STREAMS].setting && !values[TOP_CHANNELS].setting)
		r = reader_failure(reader, root,
		                   "the file needs 'streams' or 'channels': what is captured, what may be sent");
	if (r == 0 && values[TOP_STREAMS].setting)
		r = read_streams(reader, config, values[TOP_STREAMS].setting);
	if (r == 0 && values[TOP_CHANNELS].setting)
		r = load_channels(reader, config, values[TOP_CHANNELS].setting);
	if (r < 0)
		return r;
	config->text = render_group(config, &top_keys, values);
	return config->text ? 0 : failure_set(reader->failure, EX_OSERR, ENOMEM, "out of memory");
}

static int failure_unparsed(const struct reader *reader, const config_t *file)
{
	const char *text = config_error_text(file);
	char where[PATH_MAX];

	return failure_set(reader->failure, EX_CONFIG, EINVAL, "%s:%d: %s%s",
	                   reader_file(reader, config_error_file(file), where, sizeof(where)), config_error_line(file),
	                   text, strcmp(text, "syntax error") == 0 ? ": accepted is 'key = value;'" : "");
}

static int parse(const struct reader *reader, struct config *config, const char *text)
{
	config_t file;
	int r;

	config_init(&file);
	if (reader->directory)
		config_set_include_dir(&file, reader->directory);
	r = config_read_string(&file, text) ? read_file(reader, config, config_root_setting(&file))
	                                    : failure_unparsed(reader, &file);
	config_destroy(&file);
	return r;
}

/* The main file's directory; NULL without a '/', where it is the process' own. *directory is the config's. */
static int find_directory(struct config *config, const char *path, char **directory)
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

static int read_into(struct config *config, const char *path, const char *text, struct failure *failure)
{
	struct reader reader = {.path = path, .failure = failure};
	char *name = config_allocate(config, strlen(path) + 1, 1);
	char *directory;
	int r;

	if (!name || find_directory(config, path, &directory) < 0)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	config->file = strcpy(name, path);
	reader.directory = directory;
	r = source_check(&reader, text);
	return r == 0 ? parse(&reader, config, text) : r;
}

int config_load(const char *path, struct config **config, struct failure *failure)
{
	char *text;
	int r = source_read(path, &text);

	if (r < 0)
		return failure_set(failure, EX_NOINPUT, -r, "%s: cannot be read: %s", path, source_error(r));
	r = config_load_text(path, text, config, failure);
	free(text);
	return r;
}

int config_load_text(const char *path, const char *text, struct config **config, struct failure *failure)
{
	struct config *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	r = read_into(c, path, text, failure);
	if (r < 0) {
		config_free(c);
		return r;
	}
	*config = c;
	return 0;
}
