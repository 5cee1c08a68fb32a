// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/diff.h"

#include "daemon/config/change.h"
#include "daemon/config/keys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 1024

struct walk {
	difference_take *take;
	void *context;
	struct difference of; /* whose keys are looked at */
	unsigned n;
};

static void __attribute__((format(printf, 2, 3))) tell(struct walk *walk, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	walk->of.text = text;
	walk->take(walk->context, &walk->of);
	walk->of.text = NULL;
	walk->n++;
}

/* Lines "key = value;" of one table, and so in one order. */
static void compare_keys(struct walk *walk, const char *before, const char *after)
{
	while (*before && *after) {
		size_t n_before = strcspn(before, "\n"), n_after = strcspn(after, "\n");
		const char *value = strstr(before, " = ") + strlen(" = ");

		if (n_before != n_after || memcmp(before, after, n_before) != 0)
			tell(walk, "%.*s (was %.*s)", (int)n_after - 1, after, (int)(before + n_before - value) - 1,
			     value);
		before += n_before + 1;
		after += n_after + 1;
	}
}

static bool has_flow(const struct config_stream *stream, const struct config_flow *flow)
{
	for (uint32_t i = 0; i < stream->n_flows; i++)
		if (strcmp(stream->flows[i].text, flow->text) == 0)
			return true;
	return false;
}

static void tell_flow(struct walk *walk, const struct config_flow *flow, const char *what)
{
	char keys[TEXT_BYTES / 2];

	snprintf(keys, sizeof(keys), "%s", flow->text);
	for (char *end = keys; (end = strchr(end, '\n')) != NULL;)
		*end = ' ';
	tell(walk, "%s: { %s} %s", stream_keys.keys[STREAM_FLOWS].name, keys, what);
}

static void compare_flows(struct walk *walk, const struct config_stream *before, const struct config_stream *after)
{
	for (uint32_t i = 0; i < before->n_flows; i++)
		if (!has_flow(after, &before->flows[i]))
			tell_flow(walk, &before->flows[i], "removed");
	for (uint32_t i = 0; i < after->n_flows; i++)
		if (!has_flow(before, &after->flows[i]))
			tell_flow(walk, &after->flows[i], "added");
}

static void compare_streams(struct walk *walk, const struct config *before, const struct config *after)
{
	for (uint32_t i = 0; i < before->n_streams; i++) {
		walk->of = (struct difference){.stream = before->streams[i].name};
		if (!change_find_stream(after, before->streams[i].name))
			tell(walk, "removed");
	}
	for (uint32_t i = 0; i < after->n_streams; i++) {
		const struct config_stream *mine = &after->streams[i], *other = change_find_stream(before, mine->name);

		walk->of = (struct difference){.stream = mine->name};
		if (!other) {
			tell(walk, "added");
			continue;
		}
		compare_keys(walk, other->text, mine->text);
		compare_flows(walk, other, mine);
	}
}

static void compare_channels(struct walk *walk, const struct config *before, const struct config *after)
{
	for (uint32_t i = 0; i < before->n_channels; i++) {
		walk->of = (struct difference){.channel = before->channels[i].name};
		if (!change_find_channel(after, before->channels[i].name))
			tell(walk, "removed");
	}
	for (uint32_t i = 0; i < after->n_channels; i++) {
		const struct config_channel *mine = &after->channels[i],
					    *other = change_find_channel(before, mine->name);

		walk->of = (struct difference){.channel = mine->name};
		if (other)
			compare_keys(walk, other->text, mine->text);
		else
			tell(walk, "added");
	}
}

unsigned diff_config(const struct config *before, const struct config *after, difference_take *take, void *context)
{
	struct walk walk = {.take = take, .context = context};

	compare_keys(&walk, before->text, after->text);
	compare_keys(&walk, before->control_text, after->control_text);
	compare_streams(&walk, before, after);
	compare_channels(&walk, before, after);
	return walk.n;
}
