// SPDX-License-Identifier: Apache-2.0
/*
 * ibvcap extcap: Wireshark's questions to a program in its extcap folder (extcap(4)). It names the streams, describes
 * the options of its dialog, and records a stream to Wireshark's pipe as `ibvcap record` does.
 */
#include "tools/ibvcap/ibvcap.h"

#include "tools/common/options.h"
#include "tools/status/status_view.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define INTERFACE_PREFIX "ibvcap-" /* before the stream's name: a network interface may have the same name */

static const char usage[] =
	"usage: ibvcap extcap --extcap-interfaces\n"
	"       ibvcap extcap --extcap-interface NAME {--extcap-dlts | --extcap-config}\n"
	"       ibvcap extcap --extcap-interface NAME --capture --fifo PATH [OPTIONS...]\n"
	"Show streams as interfaces in Wireshark, which calls this by a script in its extcap folder.\n"
	"\n"
	"  --extcap-interfaces        list the streams of the daemon at $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET
	"\n"
	"  --extcap-version VERSION   Wireshark's; not used\n"
	"  --extcap-interface NAME    the stream, as --extcap-interfaces calls it: " INTERFACE_PREFIX "STREAM\n"
	"  --extcap-dlts              print its link type\n"
	"  --extcap-config            print the options of its dialog: the last three below\n"
	"  --extcap-capture-filter F  refused: Wireshark's display filters work\n"
	"  --capture                  record it, as ibvcap record --policy lossy does, until SIGTERM\n"
	"  --fifo PATH                to this pipe, until nobody reads it\n"
	"  --oldest                   begin with the oldest packet in the ring\n"
	"  --last S                   begin with packets of the last S seconds; 0: the next packet that comes (0)\n"
	"  --snap N                   only the first N bytes of each packet\n"
	"  -h, --help                 print this\n";

/* The dialog. */
static const char config[] =
	"arg {number=0}{call=--oldest}{display=Begin with the oldest packet in the ring}"
	"{tooltip=The ring holds packets from before the capture}{type=boolflag}{default=false}\n"
	"arg {number=1}{call=--last}{display=Begin with packets of the last seconds}"
	"{tooltip=As far as the ring still holds them. 0: begin with the next packet that comes}"
	"{type=double}{range=0,86400}{default=0}\n"
	"arg {number=2}{call=--snap}{display=Bytes of each packet}"
	"{tooltip=The rest of a longer packet is left out}{type=unsigned}{range=1,262144}{default=262144}\n";

enum extcap_question {
	EXTCAP_NOTHING,
	EXTCAP_INTERFACES,
	EXTCAP_LINK_TYPES,
	EXTCAP_CONFIG,
	EXTCAP_CAPTURE,
};

/* Values of the options, which have no short names. */
enum extcap_option {
	OPTION_INTERFACES = 256,
	OPTION_VERSION,
	OPTION_INTERFACE,
	OPTION_LINK_TYPES,
	OPTION_CONFIG,
	OPTION_FILTER,
	OPTION_CAPTURE,
	OPTION_FIFO,
	OPTION_OLDEST,
	OPTION_LAST,
	OPTION_SNAP,
};

struct extcap_options {
	enum extcap_question question;
	char *stream;
	const char *filter;
	const char *fifo; /* empty: none */
	char *last;
	char *snap;
	bool oldest;
};

/* ---- answers ------------------------------------------------------------------------------------- */

/* Wireshark asks whenever it starts: that no daemon runs is no failure, there are no streams then. */
static int list_streams(void)
{
	struct status_view view;

	puts("extcap {version=" IBVCAP_BUILD_VERSION "}{display=ibvcap}");
	if (status_view_ask(&view, NULL, 0) < 0)
		return EX_OK;
	for (int i = 0; i < view.n_streams; i++)
		if (view.streams[i].queue == 0)
			printf("interface {value=" INTERFACE_PREFIX "%s}{display=ibvcap stream %s on %s}\n",
			       view.streams[i].name, view.streams[i].name, view.streams[i].interface);
	status_view_deinit(&view);
	return EX_OK;
}

/*
 * A lossy consumer cannot stop the stream, however slowly Wireshark reads, and the daemon counts what it missed. (A tap
 * has no batches, and so no losses before each packet.) Nothing goes to stderr but failures: Wireshark shows it as one.
 */
static int capture_stream(const struct extcap_options *options)
{
	static char name[] = "ibvcap record", write[] = "--write=-", policy[] = "--policy=lossy", quiet[] = "--quiet",
		    oldest[] = "--oldest", last[] = "--seconds-back", snap[] = "--snap", end_of_options[] = "--";
	char *arguments[16] = {name, write, policy, quiet, quiet};
	int n = 5, fd = open(options->fifo, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) {
		fprintf(stderr, "ibvcap extcap: --fifo '%s': %s\n", options->fifo, strerror(errno));
		return EX_CANTCREAT;
	}
	close(fd);
	if (options->oldest)
		arguments[n++] = oldest;
	if (options->last && strtod(options->last, NULL) != 0) {
		arguments[n++] = last;
		arguments[n++] = options->last;
	}
	if (options->snap) {
		arguments[n++] = snap;
		arguments[n++] = options->snap;
	}
	arguments[n++] = end_of_options;
	arguments[n++] = options->stream;
	optind = 0; /* getopt begins again */
	return cmd_record(n, arguments);
}

/* ---- arguments ----------------------------------------------------------------------------------- */

/* -1: go on; otherwise the exit code. */
static int parse_extcap_interface(char *name, struct extcap_options *options)
{
	size_t n = strlen(INTERFACE_PREFIX);

	if (strncmp(name, INTERFACE_PREFIX, n) != 0 || !name[n])
		return options_reject("extcap", usage, "--extcap-interface '%s': " INTERFACE_PREFIX "STREAM is wanted",
		                      name);
	options->stream = name + n;
	return -1;
}

static int parse_extcap_option(int option, struct extcap_options *options)
{
	switch (option) {
	case OPTION_INTERFACES:
		options->question = EXTCAP_INTERFACES;
		return -1;
	case OPTION_VERSION:
		return -1;
	case OPTION_INTERFACE:
		return parse_extcap_interface(optarg, options);
	case OPTION_LINK_TYPES:
		options->question = EXTCAP_LINK_TYPES;
		return -1;
	case OPTION_CONFIG:
		options->question = EXTCAP_CONFIG;
		return -1;
	case OPTION_FILTER:
		options->filter = optarg;
		return -1;
	case OPTION_CAPTURE:
		options->question = EXTCAP_CAPTURE;
		return -1;
	case OPTION_FIFO:
		options->fifo = optarg;
		return -1;
	case OPTION_OLDEST:
		options->oldest = true;
		return -1;
	case OPTION_LAST:
		options->last = optarg;
		return -1;
	case OPTION_SNAP:
		options->snap = optarg;
		return -1;
	}
	return options_print_usage(option, usage);
}

static int check_extcap_options(int n_words, const struct extcap_options *options)
{
	/* Wireshark also asks without --capture whether the filter is right. */
	if (options->filter && options->filter[0]) {
		printf("A stream takes no capture filter: its flow rules choose the packets. Use a display filter.\n");
		return EX_USAGE;
	}
	if (n_words || options->question == EXTCAP_NOTHING)
		return options_print_usage('?', usage);
	if (options->question != EXTCAP_INTERFACES && !options->stream)
		return options_reject("extcap", usage, "--extcap-interface is missing");
	if (options->question == EXTCAP_CAPTURE && !options->fifo[0])
		return options_reject("extcap", usage, "--capture goes with --fifo");
	return -1;
}

static int parse_extcap_arguments(int argc, char **argv, struct extcap_options *options)
{
	static const struct option known[] = {
		{"extcap-interfaces", no_argument, NULL, OPTION_INTERFACES},
		{"extcap-version", required_argument, NULL, OPTION_VERSION},
		{"extcap-interface", required_argument, NULL, OPTION_INTERFACE},
		{"extcap-dlts", no_argument, NULL, OPTION_LINK_TYPES},
		{"extcap-config", no_argument, NULL, OPTION_CONFIG},
		{"extcap-capture-filter", required_argument, NULL, OPTION_FILTER},
		{"capture", no_argument, NULL, OPTION_CAPTURE},
		{"fifo", required_argument, NULL, OPTION_FIFO},
		{"oldest", no_argument, NULL, OPTION_OLDEST},
		{"last", required_argument, NULL, OPTION_LAST},
		{"snap", required_argument, NULL, OPTION_SNAP},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, r = -1;

	*options = (struct extcap_options){.fifo = ""};
	while (r < 0 && (option = getopt_long(argc, argv, "h", known, NULL)) != -1)
		r = parse_extcap_option(option, options);
	return r >= 0 ? r : check_extcap_options(argc - optind, options);
}

int cmd_extcap(int argc, char **argv)
{
	struct extcap_options options;
	int code = parse_extcap_arguments(argc, argv, &options);

	if (code >= 0)
		return code;
	switch (options.question) {
	case EXTCAP_INTERFACES:
		return list_streams();
	case EXTCAP_LINK_TYPES:
		puts("dlt {number=1}{name=EN10MB}{display=Ethernet}");
		return EX_OK;
	case EXTCAP_CONFIG:
		fputs(config, stdout);
		return EX_OK;
	case EXTCAP_CAPTURE:
		return capture_stream(&options);
	case EXTCAP_NOTHING:
		break;
	}
	return EX_SOFTWARE;
}
