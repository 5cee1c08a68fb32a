// SPDX-License-Identifier: Apache-2.0
/*
 * Consumer 0 is lossless. No C code does this yet; modelled as designed, so that the code can follow it: in
 * open_block(), before retire_oldest(), the worker looks at the cursor of each lossless consumer. A block that the
 * cursor has not left is pinned: it is not retired, nothing is posted, and what then arrives the device drops and
 * counts. After a deadline (-DDEADLINE: at any moment) the consumer is demoted: it is a lossy one from then on.
 * Demotion ends the pin and nothing else: floor, snapshot and spares go on as ever, so no lease is dropped.
 *
 * PIN says which cursor pins: ACQUIRED, what it has not acquired (the backlog; its leases are safe by their slots),
 * or RELEASED, what it has not given back, as the layout's comment on released says. Both keep every packet. But
 * a consumer that holds fewer leases than its quota and waits for more pins the ring against itself with
 * RELEASED: an invalid end state here, a needless demotion at the deadline in reality.
 *
 * DROPS: how many packets the device may drop while everything is pinned.
 */
#ifndef PIN
#define PIN ACQUIRED
#endif
#ifndef DROPS
#define DROPS 1
#endif

inline may_retire()
{
#ifdef PIN_AFTER_FLOOR
	store(WORKER, FLOOR, floor + 1, FLOOR_STORE); /* Broken: the backlog is given up before it is looked at. */
#endif
	load(WORKER, PIN(0), ACQ, looked);
	atomic {
		pinned = !demoted[0] && looked / N <= floor;
#ifdef DEADLINE
		if
		:: pinned -> pinned = false; demoted[0] = true
		:: skip
		fi;
#endif
		may = !pinned
	}
}
