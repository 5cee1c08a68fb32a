// SPDX-License-Identifier: Apache-2.0
/* A condition of a fuzzer: if it does not hold, the fuzzer has found a fault. */
#ifndef TESTS_SOFTHCA_FUZZ_MUST_H
#define TESTS_SOFTHCA_FUZZ_MUST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define must(condition) must_(condition, #condition)
static inline void must_(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "not so: %s\n", what);
		abort();
	}
}

#endif
