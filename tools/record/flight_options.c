// SPDX-License-Identifier: Apache-2.0
/* The options with which `ibvcap record` writes what a ring has already. */
#include "tools/record/flight_options.h"

#include "daemon/base/time.h"
#include "tools/common/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_BEFORE_NS (5 * TIME_SECOND_NS)
#define DEFAULT_AFTER_NS  TIME_SECOND_NS

bool flight_options_parse(int option, struct record_options *options, bool *ok)
{
	switch (option) {
	case 'l':
		*ok = options_parse_seconds("record", "--last", optarg, &options->last_ns);
		return true;
	case 'T':
		options->has_triggers = true;
		*ok = trigger_parse(optarg, &options->triggers);
		if (!*ok)
			fprintf(stderr,
			        "ibvcap record: --trigger '%s': signal, loss, udp:[ADDRESS:]PORT or exit:COMMAND is "
			        "wanted\n",
			        optarg);
		return true;
	case 'f':
		*ok = options_parse_seconds("record", "--before", optarg, &options->before_ns);
		return true;
	case 'a':
		*ok = options_parse_seconds("record", "--after", optarg, &options->after_ns);
		return true;
	}
	return false;
}

int flight_options_check(const struct record_options *options, const char *usage)
{
	if (!options->last_ns && !options->has_triggers)
		return options->before_ns || options->after_ns
		               ? options_reject("record", usage, "--before and --after go with --trigger")
		               : -1;
	if (options->last_ns && (options->has_triggers || options->before_ns || options->after_ns))
		return options_reject("record", usage,
		                      "--last writes a file now, --trigger later: one of them is wanted");
	if (options->oldest || options->back_ns || options->duration_ns != UINT64_MAX || options->file_ns != UINT64_MAX)
		return options_reject(
			"record", usage,
			"--last and --trigger say what time is recorded: --oldest, --seconds-back, --duration and "
			"--file-seconds do not go with them");
	if (options->has_triggers && (!strcmp(options->path, "-") || strchr(options->path, '%')))
		return options_reject("record", usage,
		                      "--trigger writes files with a number and the time in their names: --write FILE "
		                      "is wanted, without '%%'");
	if (options->triggers.message.sin_port && !options->files && !options->quota && !options->disk_limit)
		return options_reject(
			"record", usage,
			"--trigger udp: any program of this machine can send a message, so say how much is "
			"kept, by --files, --quota or --disk-limit");
	return -1;
}

void flight_options_complete(struct record_options *options)
{
	if (!options->last_ns && !options->has_triggers)
		return;
	/* To keep the past of a full ring, the device's queue would have to stop. */
	if (options->policy == RECORD_POLICY_AUTO)
		options->policy = RECORD_POLICY_LOSSY;
	if (!options->before_ns)
		options->before_ns = DEFAULT_BEFORE_NS;
	if (!options->after_ns)
		options->after_ns = DEFAULT_AFTER_NS;
}
