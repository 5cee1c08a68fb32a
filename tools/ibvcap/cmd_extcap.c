// SPDX-License-Identifier: Apache-2.0
/*
 * ibvcap extcap: Wireshark's questions to a program in its extcap folder (extcap(4)). It names the streams, describes
 * the options of its dialog, and records a stream to Wireshark's pipe as `ibvcap record` does.
 */
#include "tools/ibvcap/ibvcap.h"

#include "lib/recording/packet_filter.h"
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
	"Show streams as interfaces in Wireshark, which calls this by a script in its extcap folder.\n";

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

struct extcap_options {
	enum extcap_question question;
	const char *stream;
	const char *version;
	const char *filter;
	const char *fifo; /* empty: none */
	const char *last;
	const char *snap;
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
	const char *arguments[16] = {"ibvcap record", "--write=-", "--policy=lossy", "--quiet", "--quiet"};
	int n = 5, fd = open(options->fifo, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) {
		fprintf(stderr, "ibvcap extcap: --fifo '%s': %s\n", options->fifo, strerror(errno));
		return EX_CANTCREAT;
	}
	close(fd);
	if (options->oldest)
		arguments[n++] = "--oldest";
	if (options->last && strtod(options->last, NULL) != 0) {
		arguments[n++] = "--seconds-back";
		arguments[n++] = options->last;
	}
	if (options->filter && options->filter[0]) {
		arguments[n++] = "--filter";
		arguments[n++] = options->filter;
	}
	if (options->snap) {
		arguments[n++] = "--snap";
		arguments[n++] = options->snap;
	}
	arguments[n++] = "--";
	arguments[n++] = options->stream;
	optind = 0;                               /* getopt begins again */
	return cmd_record(n, (char **)arguments); /* which changes their order, and no text */
}

/* ---- arguments ----------------------------------------------------------------------------------- */

static const char *take_interface(void *options, const char *text)
{
	size_t n = strlen(INTERFACE_PREFIX);

	if (strncmp(text, INTERFACE_PREFIX, n) != 0 || !text[n])
		return INTERFACE_PREFIX "STREAM is wanted";
	((struct extcap_options *)options)->stream = text + n;
	return NULL;
}

#define AT(member) OPTION_AT(struct extcap_options, member)

static const struct option_row rows[] = {
	{"extcap-interfaces", 0, NULL, "list the streams of the daemon at $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET,
         OPTION_FLAG, AT(question), .value = EXTCAP_INTERFACES},
	{"extcap-version", 0, "VERSION", "Wireshark's; not used", OPTION_TEXT, AT(version)},
	{"extcap-interface", 0, "NAME", "the stream, as --extcap-interfaces calls it: " INTERFACE_PREFIX "STREAM",
         OPTION_CALL, .take = take_interface},
	{"extcap-dlts", 0, NULL, "print its link type", OPTION_FLAG, AT(question), .value = EXTCAP_LINK_TYPES},
	{"extcap-config", 0, NULL, "print the options of its dialog, which are the last ones below", OPTION_FLAG,
         AT(question), .value = EXTCAP_CONFIG},
	{"extcap-capture-filter", 0, "F", "only packets that this filter takes (pcap-filter(7))", OPTION_TEXT,
         AT(filter)},
	{"capture", 0, NULL, "record it, as ibvcap record --policy lossy does, until SIGTERM", OPTION_FLAG,
         AT(question), .value = EXTCAP_CAPTURE},
	{"fifo", 0, "PATH", "to this pipe, until nobody reads it", OPTION_TEXT, AT(fifo)},
	{"oldest", 0, NULL, "begin with the oldest packet in the ring", OPTION_FLAG, AT(oldest)},
	{"last", 0, "S", "begin with packets of the last S seconds; 0: the next packet that comes (0)", OPTION_TEXT,
         AT(last)},
	{"snap", 0, "N", "only the first N bytes of each packet", OPTION_TEXT, AT(snap)},
};

const struct options_table cmd_extcap_table = {
	.command = "extcap",
	.usage = usage,
	OPTION_ROWS(rows),
};

/* An exit code. */
static int check_filter(const char *text)
{
	char error[PACKET_FILTER_ERROR_BYTES];
	struct packet_filter *filter = packet_filter_new(text, error);

	if (!filter)
		puts(error);
	packet_filter_free(filter);
	return filter ? EX_OK : EX_USAGE;
}

static int check_extcap_options(const struct extcap_options *options)
{
	/* Wireshark also asks without a question whether the filter is right: it shows what is printed. */
	if (options->question == EXTCAP_NOTHING && options->filter)
		return check_filter(options->filter);
	if (options->question == EXTCAP_NOTHING)
		return options_refuse(&cmd_extcap_table,
		                      "Wireshark calls this, with --extcap-interfaces, --extcap-dlts, "
		                      "--extcap-config or --capture; to see a stream in Wireshark: wireshark "
		                      "-k -i " INTERFACE_PREFIX "STREAM");
	if (options->question != EXTCAP_INTERFACES && !options->stream)
		return options_refuse(&cmd_extcap_table, "--extcap-interface is missing");
	if (options->question == EXTCAP_CAPTURE && !options->fifo[0])
		return options_refuse(&cmd_extcap_table, "--capture goes with --fifo");
	return -1;
}

int cmd_extcap(int argc, char **argv)
{
	struct extcap_options options = {.fifo = ""};
	int code = options_parse(&cmd_extcap_table, argc, argv, &options);

	if (code < 0)
		code = check_extcap_options(&options);
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
