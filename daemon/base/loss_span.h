// SPDX-License-Identifier: Apache-2.0
/* The time in which packets are lost: the log tells when it begins, and when it has ended. */
#ifndef DAEMON_BASE_LOSS_SPAN_H
#define DAEMON_BASE_LOSS_SPAN_H

#include "lib/base/time.h"

#include <stdbool.h>
#include <stdint.h>

#define LOSS_END_NS (10 * TIME_SECOND_NS)

/* Times are CLOCK_MONOTONIC. Zero-initialise it. */
struct loss_span {
	bool goes_on;
	uint64_t begun_ns;
	uint64_t grown_ns; /* when packets were last seen to be lost */
};

enum loss_change { LOSS_UNCHANGED, LOSS_BEGINS, LOSS_ENDS };

/** A look at the counts: grows says that packets were lost since the last one. It ends LOSS_END_NS after the last. */
static inline enum loss_change loss_span_look(struct loss_span *span, bool grows, uint64_t now_ns)
{
	const bool begins = grows && !span->goes_on;

	if (begins)
		*span = (struct loss_span){.goes_on = true, .begun_ns = now_ns};
	if (grows)
		span->grown_ns = now_ns;
	if (begins)
		return LOSS_BEGINS;
	if (!span->goes_on || now_ns - span->grown_ns < LOSS_END_NS)
		return LOSS_UNCHANGED;
	span->goes_on = false;
	return LOSS_ENDS;
}

/** Duration of a loss that has ended or goes on. */
static inline uint64_t loss_span_seconds(const struct loss_span *span)
{
	return (span->grown_ns - span->begun_ns) / TIME_SECOND_NS + 1;
}

#endif
