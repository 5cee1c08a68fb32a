// SPDX-License-Identifier: Apache-2.0
/* ibvcap reload, ibvcap stream: another configuration for a daemon that runs. */
#include "tools/ibvcap.h"
#include "tools/stream_words.h"

#include <errno.h>
#include <getopt.h>
#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define TEXT_BYTES 65536

static const char reload_usage[] =
	"usage: ibvcap reload [--socket PATH]\n"
	"Have ibvcapd read its configuration file again and apply what has changed: streams come and go, flows, rights "
	"and\n"
	"limits of the others change. On any error nothing is changed. For root and the daemon's user.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -h, --help         print this\n";

static const char stream_usage[] =
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

/* -1: go on with the words from optind on, n_words at least; else the exit code. */
static int parse(int argc, char **argv, const char *usage, int n_words, bool or_more, const char **socket)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	*socket = NULL;
	while ((option = getopt_long(argc, argv, "s:h", known, NULL)) != -1) {
		if (option != 's')
			return say_usage(option, usage);
		*socket = optarg;
	}
	if (argc - optind == n_words || (or_more && argc - optind > n_words))
		return -1;
	return say_usage('?', usage);
}

static int change(const char *command, const char *socket, enum ibvcap_reconfigure what, const char *name,
                  const char *text)
{
	char said[1024];
	int r = ibvcap_reconfigure(socket, what, name, text, said, sizeof(said), 0);

	if (r < 0) {
		fprintf(stderr, "ibvcap %s: %s\n", command, ibvcap_error_text());
		/* The command line was right: what is invalid is what it names. */
		return r == -EINVAL ? EX_CONFIG : exit_code_of(r);
	}
	puts(said);
	return EX_OK;
}

int cmd_reload(int argc, char **argv)
{
	const char *socket;
	int code = parse(argc, argv, reload_usage, 0, false, &socket);

	return code >= 0 ? code : change("reload", socket, IBVCAP_RECONFIGURE_RELOAD, NULL, NULL);
}

static int read_text(const char *path, char text[TEXT_BYTES])
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

static int add(const char *socket, const char *path)
{
	static char text[TEXT_BYTES];
	int code = read_text(path, text);

	return code != EX_OK ? code : change("stream", socket, IBVCAP_RECONFIGURE_ADD_STREAM, path, text);
}

static int add_words(const char *socket, char *const *words, int n_words)
{
	char *text = stream_words_text((const char *const *)words, n_words);
	int code = text ? change("stream", socket, IBVCAP_RECONFIGURE_ADD_STREAM, "arguments", text) : EX_USAGE;

	if (!text)
		fprintf(stderr, "ibvcap stream: one FILE, or words KEY=VALUE\n%s", stream_usage);
	free(text);
	return code;
}

int cmd_stream(int argc, char **argv)
{
	const char *socket, *verb;
	int code = parse(argc, argv, stream_usage, 2, true, &socket);

	if (code >= 0)
		return code;
	verb = argv[optind];
	if (strcmp(verb, "add") == 0 && (argc - optind > 2 || stream_words_are_keys(argv[optind + 1])))
		return add_words(socket, argv + optind + 1, argc - optind - 1);
	if (strcmp(verb, "add") == 0)
		return add(socket, argv[optind + 1]);
	if (strcmp(verb, "remove") == 0 && argc - optind == 2)
		return change("stream", socket, IBVCAP_RECONFIGURE_REMOVE_STREAM, argv[optind + 1], NULL);
	if (strcmp(verb, "remove") != 0)
		fprintf(stderr, "ibvcap stream: '%s' is neither add nor remove\n", verb);
	fputs(stream_usage, stderr);
	return EX_USAGE;
}
