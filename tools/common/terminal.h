// SPDX-License-Identifier: Apache-2.0
/* Output for terminals only, not for pipes and files: colours, unless NO_COLOR is set, and shares. */
#ifndef TOOLS_COMMON_TERMINAL_H
#define TOOLS_COMMON_TERMINAL_H

#include <stdint.h>
#include <stdio.h>

enum terminal_colour { TERMINAL_PLAIN = 0, TERMINAL_RED = 31, TERMINAL_GREEN = 32, TERMINAL_YELLOW = 33 };

/** Print in a colour, if to is a terminal that has colours and NO_COLOR is not set. */
__attribute__((format(printf, 3, 4))) void terminal_print(FILE *to, enum terminal_colour colour, const char *format,
                                                          ...);

/** On a terminal: "  lost 0.02 %", in red or green. */
void terminal_print_lost(FILE *to, uint64_t lost, uint64_t of);

#endif
