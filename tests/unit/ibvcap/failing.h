// SPDX-License-Identifier: Apache-2.0
/*
 * Lets one call of the library fail, the one at which a countdown comes to 0. The linker puts it in the calls' place
 * (--wrap, see CMakeLists.txt), for every object of the test; the countdown is the calling thread's.
 */
#ifndef TESTS_UNIT_IBVCAP_FAILING_H
#define TESTS_UNIT_IBVCAP_FAILING_H

#include <stdbool.h>
#include <stdint.h>

/** n calls are let through, then one fails; below 0: none does. */
void failing_after(int64_t n);
/** n calls are let through, then all fail until failing_after() is called. */
void failing_from(int64_t n);
/** So many calls were made since then. */
int64_t failing_count_calls(void);
/** It did. */
bool failing_has_fired(void);

/** Count what is allocated and not freed, from 0 on; and stop. What was counted. */
void failing_count_memory(void);
int64_t failing_stop_counting(void);

#endif
