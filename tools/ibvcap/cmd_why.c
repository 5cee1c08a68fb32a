// SPDX-License-Identifier: Apache-2.0
/*
 * ibvcap why: asks the daemon, again after a second if packets have matched, and explains the losses of one stream. If
 * no stream has the name, but an interface has, it looks at what arrives there; that needs no daemon.
 */
#include "lib/base/interface_name.h"
#include "lib/base/nearest.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/status/why.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

static const char usage[] =
	"usage: ibvcap why STREAM [--socket PATH] [--json]\n"
	"       ibvcap why INTERFACE [--json]\n"
	"Print where each packet of a stream went, from the wire to each consumer: every term of the sum, its\n"
	"cause, and what helps. If none matches now, root gets a look of a second at what UDP arrives, and what to\n"
	"write into the configuration for it. The same for a network interface, without a stream.\n";

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct query_options, socket),
	{"json", 'j', NULL, "print JSON", OPTION_FLAG, OPTION_AT(struct query_options, json)},
};

const struct options_table cmd_why_table = {
	.command = "why",
	.usage = usage,
	OPTION_ROWS(rows),
	.no_more = "one stream at a time",
	.words = {{"which stream or interface? 'ibvcap status' lists the streams",
                   offsetof(struct query_options, stream)}},
};

/* What the name may have meant: a stream of view, which is NULL if the daemon does not answer, or an interface. */
static void explain_unknown(const char *name, const struct status_view *view)
{
	struct if_nameindex *interfaces = if_nameindex();
	struct nearest nearest = {.word = name};
	bool is_channel = false;

	for (int i = 0; view && i < view->n_channels; i++)
		is_channel |= strcmp(view->channels[i].name, name) == 0;
	for (int i = 0; view && i < view->n_streams; i++)
		nearest_offer(&nearest, view->streams[i].name);
	for (struct if_nameindex *i = interfaces; i && i->if_index; i++)
		nearest_offer(&nearest, i->if_name);
	fprintf(stderr, "ibvcap why: %s '%s'",
	        view ? "no stream or interface" : "without the daemon it looks at interfaces only, and none is called",
	        name);
	if (is_channel)
		fputs("; it is a channel, of which 'ibvcap status' says what was not sent, and why", stderr);
	else if (nearest.best)
		fprintf(stderr, ": did you mean '%s'", nearest.best);
	fputs(nearest.best && !is_channel ? "? The interfaces are" : "; the interfaces are", stderr);
	for (struct if_nameindex *i = interfaces; i && i->if_index; i++)
		fprintf(stderr, "%s %s", i == interfaces ? "" : ",", i->if_name);
	fputs(view ? ", and 'ibvcap status' lists the streams that this user may see\n" : "\n", stderr);
	if (interfaces)
		if_freenameindex(interfaces);
}

/* Returns the number of streams of that name, or an error of status_view_ask(). */
static int explain_stream(const struct query_options *options, struct status_view *view)
{
	const struct timespec pause = {.tv_sec = WHY_QUIET_S};
	struct status_view before;
	int r = status_view_ask(view, options->socket, 0);

	if (r < 0 || !why_has_matched(view, options->stream))
		return r < 0 ? r : why_print(view, NULL, options->stream, options->json);
	before = *view;
	nanosleep(&pause, NULL);
	r = status_view_ask(view, options->socket, 0);
	if (r == 0)
		r = why_print(view, &before, options->stream, options->json);
	status_view_deinit(&before);
	return r;
}

int cmd_why(int argc, char **argv)
{
	struct query_options options = {0};
	struct status_view view;
	int r = options_parse(&cmd_why_table, argc, argv, &options), code;
	char interface[IFNAMSIZ];
	bool has_interface;

	if (r >= 0)
		return r;
	r = explain_stream(&options, &view);
	has_interface = r <= 0 && interface_name_find(options.stream, interface) == 0;
	code = r > 0 ? EX_OK : r < 0 ? report_exit_code(r) : EX_UNAVAILABLE;
	if (r < 0 && !has_interface)
		report_failure("why", r);
	if (r <= 0 && !has_interface)
		explain_unknown(options.stream, r < 0 ? NULL : &view);
	if (r >= 0)
		status_view_deinit(&view);
	if (has_interface)
		return why_print_interface(interface, options.json) ? EX_OK : EX_NOPERM;
	return code;
}
