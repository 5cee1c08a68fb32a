// SPDX-License-Identifier: Apache-2.0
/*
 * Recordings of 0.2 before its release. They have no line of losses in the comments of packets, and the oldest have no
 * account in those of statistics: sentences for people say it all.
 */
#ifndef TOOLS_INSPECT_OLD_RECORDING_H
#define TOOLS_INSPECT_OLD_RECORDING_H

#include "tools/recording/account_json.h"
#include "tools/recording/pcapng.h"

/** What the comment of a packet names, as far as info wants to know it: no_buffer and restarts. Pure. */
void old_recording_losses(const struct pcapng_text *comment, struct recording_losses *losses);

/** The restarts that the loss sum of an interface names. Pure. */
uint64_t old_recording_restarts(const char *sum);

#endif
