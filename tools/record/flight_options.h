// SPDX-License-Identifier: Apache-2.0
/* --last, --trigger, --before, --after. */
#ifndef TOOLS_RECORD_FLIGHT_OPTIONS_H
#define TOOLS_RECORD_FLIGHT_OPTIONS_H

#include "tools/record/record.h"

/** Take an option with its value in optarg. *ok: the value is right. False: another option. */
bool flight_options_parse(int option, struct record_options *options, bool *ok);

/** Do they go together, and with the others? -1: yes; otherwise the exit code. */
int flight_options_check(const struct record_options *options, const char *usage);

/** Set what the user has left open. */
void flight_options_complete(struct record_options *options);

#endif
