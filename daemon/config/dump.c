// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/config.h"
#include "daemon/config/keys.h"

#include <string.h>

/* Each line that far in. */
static void put_lines(FILE *to, const char *text, int depth)
{
	while (*text) {
		size_t n = strcspn(text, "\n") + 1;

		fprintf(to, "%*s%.*s", depth * 4, "", (int)n, text);
		text += n;
	}
}

static void open_entry(FILE *to, const char *text, int depth)
{
	fprintf(to, "%*s{\n", depth * 4, "");
	put_lines(to, text, depth + 1);
}

static void close_entry(FILE *to, bool is_last, int depth)
{
	fprintf(to, "%*s}%s\n", depth * 4, "", is_last ? "" : ",");
}

static void dump_streams(const struct config *config, FILE *to)
{
	fprintf(to, "%s = (\n", top_keys.keys[TOP_STREAMS].name);
	for (uint32_t i = 0; i < config->n_streams; i++) {
		const struct config_stream *stream = &config->streams[i];

		open_entry(to, stream->text, 1);
		fprintf(to, "        %s = (\n", stream_keys.keys[STREAM_FLOWS].name);
		for (uint32_t k = 0; k < stream->n_flows; k++) {
			open_entry(to, stream->flows[k].text, 3);
			close_entry(to, k + 1 == stream->n_flows, 3);
		}
		fputs("        );\n", to);
		close_entry(to, i + 1 == config->n_streams, 1);
	}
	fputs(");\n", to);
}

static void dump_channels(const struct config *config, FILE *to)
{
	fprintf(to, "%s = (\n", top_keys.keys[TOP_CHANNELS].name);
	for (uint32_t i = 0; i < config->n_channels; i++) {
		const struct config_channel *channel = &config->channels[i];

		open_entry(to, channel->text, 1);
		fprintf(to, "        %s = (\n", channel_keys.keys[CHANNEL_DESTINATIONS].name);
		for (uint32_t k = 0; k < channel->n_destinations; k++) {
			open_entry(to, channel->destinations[k].text, 3);
			close_entry(to, k + 1 == channel->n_destinations, 3);
		}
		fputs("        );\n", to);
		close_entry(to, i + 1 == config->n_channels, 1);
	}
	fputs(");\n", to);
}

void config_dump(const struct config *config, FILE *to)
{
	put_lines(to, config->text, 0);
	fprintf(to, "%s = {\n", top_keys.keys[TOP_CONTROL].name);
	put_lines(to, config->control_text, 1);
	fputs("};\n", to);
	if (config->n_streams)
		dump_streams(config, to);
	if (config->n_channels)
		dump_channels(config, to);
}
