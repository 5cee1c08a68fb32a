// SPDX-License-Identifier: Apache-2.0
/* A consumer of the stress test: libibvcap's own code, reading numbered packets and holding each to its number. */
#ifndef TESTS_STRESS_READER_H
#define TESTS_STRESS_READER_H

#include "tests/support/readers.h"

#include <stdatomic.h>

#define ROW_BYTES  128u
#define ROW_FACTOR 31u /* word w of packet s is s * 31 + w */

struct reader {
	enum ibvcap_policy policy;
	uint32_t keeps; /* so many blocks it holds from its first packets to its end */
	_Atomic bool *end;
	struct ring_consumer consumer; /* unused by a tap */
	struct test_reader handle;
	unsigned seed;
	uint64_t expected;
	uint64_t delivered;
	uint64_t gaps; /* sum of what batches told */
	uint64_t torn; /* rows that are not what was sent, batches that are not where the last one ended */
};

/** Until *end. Aborts on an error of the library. */
void reader_run(struct reader *reader);

/** Print its sum; true: nothing torn, and every packet since it attached accounted for as its policy promises. */
bool reader_is_good(const struct reader *reader);

#endif
