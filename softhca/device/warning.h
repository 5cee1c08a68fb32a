// SPDX-License-Identifier: Apache-2.0
/*
 * Pitfalls: what a device accepts and a program hardly means. Each is one row of a table (warning_table.c). They are
 * looked for with the setting SOFTHCA_WARNINGS, or from the first `softhca warnings` on.
 */
#ifndef SOFTHCA_DEVICE_WARNING_H
#define SOFTHCA_DEVICE_WARNING_H

#include <stdint.h>

enum warning {
	WARNING_UNSIGNALLED,
	WARNING_UNACKED,
	WARNING_UNARMED,
	WARNING_FLOW_ORDER,
	WARNING_SAME_RULE,
	WARNING_LATE_COUNTER,
	WARNING_POST_IN_ERROR,
	WARNING_SLOW_POLL,
	WARNING_LOST_BY_RESET,
	WARNING_NO_STAMPS,
	WARNING_NOT_READY,
	WARNING_FORK,
	WARNING_STRIDING_POST,
	N_WARNINGS
};

struct warning_row {
	const char *name, *what, *remedy, *source;
};
extern const struct warning_row warning_rows[N_WARNINGS];

/* How often each was given, and when and of what first. */
struct warning_given {
	uint64_t count, first_ns; /* CLOCK_REALTIME */
	uint32_t number;          /* of the queue or completion queue; 0: none */
};

struct device;
struct lines;

/* With the lock held. */
void warning_give(struct device *d, enum warning w, uint32_t number);
/* Looks from now on. With the lock held. */
void warning_begin(struct device *d);
/* Looks at the queues, in a turn of the device thread. */
void warning_look(struct device *d);
/* Adds a line for each that was given. With the lock held. */
void warning_report(const struct device *d, struct lines *lines);

#endif
