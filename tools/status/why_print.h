// SPDX-License-Identifier: Apache-2.0
/* Prints the result of why_explain(), and of a look at an interface, as text or JSON. */
#ifndef TOOLS_STATUS_WHY_PRINT_H
#define TOOLS_STATUS_WHY_PRINT_H

#include "tools/status/status_view.h"

/** Explain the stream, or the two of that name, of which one ends. Returns their number: 0 if there is none. */
int why_print(const struct status_view *view, const char *stream, bool as_json);

/** Look at the UDP that arrives on the interface, and print it. False: it could not, and the output says why. */
bool why_print_interface(const char *interface, bool as_json);

#endif
