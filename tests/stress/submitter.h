// SPDX-License-Identifier: Apache-2.0
/* A sender of the stress test: libibvcap's own code, submitting packets that say who sent them, which, and how long. */
#ifndef TESTS_STRESS_SUBMITTER_H
#define TESTS_STRESS_SUBMITTER_H

#include "lib/ibvcap/tx/tx.h"
#include "tests/support/senders.h"

#include <stdatomic.h>

#define SUBMITTER_SLOTS 64u
#define SUBMITTER_BYTES 256u

struct submitter {
	uint32_t id;
	_Atomic bool *end;
	struct test_sender sender;
	struct ibvcap_tx tx;
	unsigned seed;
	uint64_t bad;             /* submitted that cannot be sent */
	uint64_t results_errored; /* as ibvcap_tx_results() told */
	uint64_t results;
	uint64_t passed_over;
	/* The wire's. */
	uint64_t frames;
	uint64_t next;  /* the lowest sequence that may come */
	uint64_t wrong; /* frames that are not what was submitted, or not in order */
};

/** A handle on the daemon's own mappings: two views of one page ThreadSanitizer would not know to be the same. */
void submitter_init(struct submitter *submitter, uint32_t id, _Atomic bool *end);

/** Until *end, then until all is completed. Aborts on an error of the library. */
void submitter_run(struct submitter *submitter);

/** A payload came out of the device. False: of no submitter, or not whole. */
bool submitter_check(struct submitter *submitters, uint32_t n, const uint8_t *payload, uint32_t bytes);

/** Print its sum; true: exact, and what the wire saw is what it says. queue_fails: some may have been flushed. */
bool submitter_is_good(const struct submitter *submitter, bool queue_fails, bool sees_wire);

#endif
