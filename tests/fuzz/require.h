// SPDX-License-Identifier: Apache-2.0
/* End the fuzzer with a message if a promise is broken. */
#ifndef TESTS_FUZZ_REQUIRE_H
#define TESTS_FUZZ_REQUIRE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline void require(bool promise, const char *what)
{
	if (promise)
		return;
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

#endif
