// SPDX-License-Identifier: Apache-2.0
/* Compares the account of an interface, which the recorder wrote, with the packets of the interface. */
#ifndef TOOLS_INSPECT_INSPECT_ACCOUNT_H
#define TOOLS_INSPECT_INSPECT_ACCOUNT_H

#include "tools/inspect/inspect_sum.h"

/** A contradiction between the packets, the statistics and the account. NULL: none. Pure. */
const char *inspect_contradiction(const struct inspect_source *source);

/**
 * A contradiction between the account of a source and the other accounts of its section, which are of the same file.
 * number: of the source. NULL: none. Pure.
 */
const char *inspect_contradiction_of_others(const struct inspect_sum *sum, uint32_t number);

#endif
