// SPDX-License-Identifier: Apache-2.0
/*
 * Part of lease.pml: consumer 0 is lossless. In rx_ring_open_block(), before rx_ring_retire_oldest(), the worker looks
 * at its cursor, attach_sequence + delivered + skipped: consumer_stalls() in daemon/ring/backpressure.c. A block that
 * the cursor has not left is pinned: it is not retired, nothing is posted, and the device drops and counts the packets
 * that arrive. After its deadline (-DDEADLINE: at any moment that it pins; stall_budget.pml has which) it is demoted: a
 * lossy one from then on. Demotion ends the pin and nothing else: floor, snapshot and spares go on as ever, so no lease
 * is dropped.
 *
 * The two counts are read one after the other: what was handed out or skipped in between is in one or in none of
 * them, so the cursor may be behind the consumer's own, never before it, and never goes back.
 *
 * Broken, PIN_BY_RELEASED: pinned by what was not given back. A consumer that holds fewer leases than its quota and
 * waits for more pins the ring against itself: nothing more happens here, a needless demotion in reality.
 *
 * DROPS: how many packets the device may drop while everything is pinned.
 */
#ifndef DROPS
#define DROPS 1
#endif
#ifdef PIN_BY_RELEASED
#define READ_CURSOR memory[OLD_WORD(0)]
#else
#define READ_CURSOR (memory[DELIVERED(0)] + memory[SKIPPED(0)])
#endif

/* daemon_load_delivered(), daemon_load_skipped(); whoever lies is put out, and this one must not look like it. */
inline load_cursor()
{
#ifdef PIN_BY_RELEASED
	load(WORKER, OLD_WORD(0), ACQ, looked)
#else
	load(WORKER, DELIVERED(0), ACQ, looked);
	atomic {
		load(WORKER, SKIPPED(0), ACQ, lease);
		looked = looked + lease;
		lease = 0;
		assert(looked >= cursor && looked <= head);
		assert(looked <= true_next)
	}
#endif
}

/* demote_consumer() */
inline demote()
{
	demoted = true;
#ifndef POLICY_LATE
	store(WORKER, POLICY(0), 1, REL) /* daemon_store_policy() */
#endif
}

inline may_retire()
{
#ifdef PIN_AFTER_FLOOR
	store(WORKER, FLOOR, floor + 1, FLOOR_STORE); /* Broken: the backlog is given up before it is looked at. */
#endif
	load_cursor();
	atomic {
		cursor = looked;
		looked = 0;
		pinned = !demoted && cursor / N <= floor;
#ifdef DEADLINE
		if
		:: pinned -> pinned = false; demote()
		:: skip
		fi;
#endif
		may = !pinned
	}
}

/* When nothing more can happen: the worker waits for the cursor, and its consumer for head. */
proctype Watch()
{
	timeout;
	assert(finished)
}
