// SPDX-License-Identifier: Apache-2.0
/*
 * A value that is read again and again and whose reading may hang: it waits for a device's firmware, or for a lock of
 * the kernel that is held as long as another device's firmware takes. A background thread reads it, and the control
 * thread has the latest value and its age. Control thread only, but for read().
 */
#ifndef DAEMON_BASE_READING_H
#define DAEMON_BASE_READING_H

#include "daemon/base/background.h"

#include <stdbool.h>
#include <stdint.h>

/* Embedded in the object that is read, which may be freed only if no reading is on its way. */
struct reading {
	struct background
		*runner; /* thread that waits for the source. NULL: the caller of reading_ask() reads synchronously */
	/** In the runner's thread. 0 or -errno. */
	int (*read)(void *context, uint64_t *value);
	void *context;
	/** A reading was taken; result says whether it succeeded. May be NULL. */
	void (*taken)(void *context);
	void *taken_context;

	/* The last reading that succeeded. Times are those before the device was asked. */
	uint64_t value;
	uint64_t at_ns; /* CLOCK_MONOTONIC; 0: there was none */
	uint64_t at_utc_ns;
	/* The last reading. */
	int result;
	uint64_t tried_ns; /* CLOCK_MONOTONIC; 0: there was none */
	uint64_t cost_ns;  /* CPU time of the thread for it, and since its reading before */

	uint64_t waiting_since_ns; /* a reading is on its way since then, CLOCK_MONOTONIC; 0: none is */
	bool is_due;               /* another one follows it */
	bool is_closed;
	void (*gone)(void *context); /* callback of reading_close(); its context follows */
	void *gone_context;

	struct background_job job;
	/* The thread's while the reading is on its way. */
	struct {
		uint64_t value, at_ns, at_utc_ns, cost_ns;
		int result;
	} now;
};

/** Read at once until runner is set. */
void reading_init(struct reading *reading, int (*read)(void *context, uint64_t *value), void *context);

/** Read, unless a reading is on its way. */
void reading_ask(struct reading *reading);

/**
 * For a caller that asks often: reading_ask(), but a thousand times the CPU time of the last reading (cost_ns) after
 * that one, or READING_REST_NS_MAX if that is less.
 */
#define READING_REST_NS_MAX UINT64_C(500000000)
void reading_ask_often(struct reading *reading);

/** Read once more after this call, even if a reading is on its way. */
void reading_renew(struct reading *reading);

/**
 * Read no more, and do not call taken any more. gone, if not NULL, is called when no reading is on its way, which may
 * be at once: it may free the object.
 */
void reading_close(struct reading *reading, void (*gone)(void *context), void *context);

/** The object must not be freed yet. */
static inline bool reading_is_on_its_way(const struct reading *reading)
{
	return reading->waiting_since_ns != 0;
}

/** Time that the present reading has taken so far. 0: there is none. */
uint64_t reading_waits_ns(const struct reading *reading, uint64_t now_ns);

/** Age of the value; if there is none yet, how long it is waited for. */
uint64_t reading_age_ns(const struct reading *reading, uint64_t now_ns);

#endif
