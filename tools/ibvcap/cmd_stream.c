// SPDX-License-Identifier: Apache-2.0
/* ibvcap stream: add streams to the running daemon, or remove one. */
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/reconfigure/reconfigure.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define TEXT_BYTES 65536

static const char usage[] =
	"usage: ibvcap stream add FILE [--socket PATH]\n"
	"       ibvcap stream add KEY=VALUE... [--socket PATH]\n"
	"       ibvcap stream remove NAME [--socket PATH]\n"
	"Add streams to the running daemon: all those of FILE (-: standard input), written as in ibvcapd.conf,\n"
	"streams = ( { ... } ); or one stream, by its keys: name=a interface=eth0 payload_size=1472\n"
	"flows.destination=239.1.2.3 flows.port=7502. A key of flows that comes for the second time begins the next\n"
	"flow; sequence.offset=2 and sensor_time.offset=8 are written alike. Or remove a stream: its\n"
	"consumers still receive the published packets, then the end of the stream.\n"
	"The change lasts until the daemon reads its own file again. Only root and the daemon's user may do this.\n";

static const struct option_row rows[] = {OPTION_SOCKET('s', struct query_options, socket)};

const struct options_table cmd_stream_table = {
	.command = "stream",
	.usage = usage,
	OPTION_ROWS(rows),
	.takes_more = true,
};

static int read_stream_file(const char *path, char text[TEXT_BYTES])
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	const char *error = NULL;
	size_t n;

	if (!file) {
		fprintf(stderr, "ibvcap stream: %s: %s%s\n", path, strerror(errno),
		        errno == ENOENT ? "; without a file, give the keys: name=... interface=... payload_size=... "
		                          "flows.destination=... flows.port=..."
		                        : "");
		return EX_NOINPUT;
	}
	errno = 0;
	n = fread(text, 1, TEXT_BYTES - 1, file);
	text[n] = '\0';
	if (ferror(file))
		error = strerror(errno);
	else if (strlen(text) != n)
		error = "the file is no text: it contains a NUL byte";
	if (error)
		fprintf(stderr, "ibvcap stream: %s: %s\n", path, error);
	if (file != stdin)
		fclose(file);
	return error ? EX_NOINPUT : EX_OK;
}

static int add_stream_file(const char *socket, const char *path)
{
	static char text[TEXT_BYTES];
	int code = read_stream_file(path, text);

	return code != EX_OK ? code : reconfigure_daemon("stream", socket, IBVCAP_RECONFIGURE_ADD_STREAM, path, text);
}

static const char *find_odd_word(char *const *words, int n_words)
{
	int i = 0;

	while (i + 1 < n_words && stream_args_are_keys(words[i]))
		i++;
	return words[i];
}

static int add_stream_args(const char *socket, char *const *words, int n_words)
{
	char *text = stream_args_text((const char *const *)words, n_words);
	int code;

	if (!text)
		return options_refuse(&cmd_stream_table, "'%s' is no KEY=VALUE, and a FILE is added alone",
		                      find_odd_word(words, n_words));
	code = reconfigure_daemon("stream", socket, IBVCAP_RECONFIGURE_ADD_STREAM, "arguments", text);
	for (int i = 0; i < n_words && code == EX_CONFIG; i++)
		if (strncmp(words[i], "port=", 5) == 0 || strncmp(words[i], "destination=", 12) == 0)
			fprintf(stderr, "ibvcap stream: keys of a flow begin with 'flows.': flows.%s\n", words[i]);
	free(text);
	return code;
}

int cmd_stream(int argc, char **argv)
{
	struct query_options options = {0};
	int code = options_parse(&cmd_stream_table, argc, argv, &options), n_words = argc - optind - 1;
	char **words = argv + optind + 1; /* behind the verb */
	bool adds, removes;

	if (code >= 0)
		return code;
	adds = n_words > 0 && strcmp(argv[optind], "add") == 0;
	removes = n_words == 1 && strcmp(argv[optind], "remove") == 0;
	if (adds && (n_words > 1 || stream_args_are_keys(words[0])))
		return add_stream_args(options.socket, words, n_words);
	if (adds)
		return add_stream_file(options.socket, words[0]);
	if (removes)
		return reconfigure_daemon("stream", options.socket, IBVCAP_RECONFIGURE_REMOVE_STREAM, words[0], NULL);
	if (n_words >= 0 && strcmp(argv[optind], "add") && strcmp(argv[optind], "remove"))
		return options_refuse(&cmd_stream_table,
		                      "'%s': add FILE, add KEY=VALUE... or remove NAME is wanted; 'ibvcap status' "
		                      "lists the streams",
		                      argv[optind]);
	if (n_words >= 0 && strcmp(argv[optind], "remove") == 0)
		return options_refuse(&cmd_stream_table,
		                      "remove takes the name of one stream; 'ibvcap status' lists them");
	return options_refuse(&cmd_stream_table, "add FILE, add KEY=VALUE... or remove NAME is wanted");
}
