// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap record`, for its test. */
#ifndef TOOLS_IBVCAP_CMD_RECORD_H
#define TOOLS_IBVCAP_CMD_RECORD_H

#include "tools/record/record.h"

/** Parse the command line. -1: go on; otherwise the exit code. */
int record_parse_arguments(int argc, char **argv, struct record_options *options);

#endif
