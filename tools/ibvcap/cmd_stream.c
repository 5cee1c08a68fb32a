// SPDX-License-Identifier: Apache-2.0
/* ibvcap stream: add streams to the running daemon, or remove one. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/ibvcap/reconfigure.h"
#include "tools/ibvcap/stream_args.h"

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
	"Add the streams of FILE (\"-\": standard input; streams = ( { ... } ); as in ibvcapd.conf) to the running "
	"daemon, "
	"or\n"
	"one by its keys: name=a interface=eth0 payload_size=1472 flows.destination=239.1.2.3 flows.port=7502 (a key "
	"of "
	"flows\n"
	"for the second time begins the next one). Or remove one: its readers get what was published, and then its "
	"end.\n"
	"Until the daemon reads its own file again.\n"
	"For root and the daemon's user.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -h, --help         print this\n";

static int read_stream_file(const char *path, char text[TEXT_BYTES])
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	const char *error = NULL;
	size_t n;

	if (!file) {
		fprintf(stderr, "ibvcap stream: %s: %s\n", path, strerror(errno));
		return EX_NOINPUT;
	}
	errno = 0;
	n = fread(text, 1, TEXT_BYTES - 1, file);
	text[n] = '\0';
	if (ferror(file))
		error = strerror(errno);
	else if (strlen(text) != n)
		error = "it is no text, it has a NUL byte";
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

static int add_stream_args(const char *socket, char *const *words, int n_words)
{
	char *text = stream_args_text((const char *const *)words, n_words);
	int code = text ? reconfigure_daemon("stream", socket, IBVCAP_RECONFIGURE_ADD_STREAM, "arguments", text)
	                : EX_USAGE;

	if (!text)
		fprintf(stderr, "ibvcap stream: one FILE, or words KEY=VALUE\n%s", usage);
	free(text);
	return code;
}

int cmd_stream(int argc, char **argv)
{
	const char *socket, *verb;
	int code = reconfigure_parse(argc, argv, usage, 2, true, &socket);

	if (code >= 0)
		return code;
	verb = argv[optind];
	if (strcmp(verb, "add") == 0 && (argc - optind > 2 || stream_args_are_keys(argv[optind + 1])))
		return add_stream_args(socket, argv + optind + 1, argc - optind - 1);
	if (strcmp(verb, "add") == 0)
		return add_stream_file(socket, argv[optind + 1]);
	if (strcmp(verb, "remove") == 0 && argc - optind == 2)
		return reconfigure_daemon("stream", socket, IBVCAP_RECONFIGURE_REMOVE_STREAM, argv[optind + 1], NULL);
	if (strcmp(verb, "remove") != 0)
		fprintf(stderr, "ibvcap stream: '%s' is neither add nor remove\n", verb);
	fputs(usage, stderr);
	return EX_USAGE;
}
