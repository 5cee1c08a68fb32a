// SPDX-License-Identifier: Apache-2.0
/* Compares the account of an interface, which the recorder wrote, with the packets of the interface. */
#ifndef TOOLS_INSPECT_INSPECT_ACCOUNT_H
#define TOOLS_INSPECT_INSPECT_ACCOUNT_H

#include "tools/inspect/inspect_sum.h"

/** What in the packets, the statistics or the account contradicts the others. NULL: nothing. Pure. */
const char *inspect_contradiction(const struct inspect_source *source);

/**
 * What contradicts the other accounts of the file: those of one section are of one file. number: of the source. NULL:
 * nothing. Pure.
 */
const char *inspect_contradiction_of_others(const struct inspect_sum *sum, uint32_t number);

#endif
