// SPDX-License-Identifier: Apache-2.0
/*
 * Part of lease.pml: a tap, rx_lease_block(), rx_copy_row() and rx_check_copy() in lib/ibvcap/rx/rx_batch.c. It has no
 * page, the worker knows nothing of it, and nobody else is attached: so the worker does not look at anybody's leases
 * between its store of floor and the post, and only the backend's post() keeps the two in order (POST_BARRIER).
 */
inline tap_load_floor()
{
	floor = memory[FLOOR]
}

inline rx_copy_row()
{
	copy = memory[ROW(physical, next % N)]
}

/* The copy, then the floor: the other way about is what a load of floor without its fence allows. */
inline copy_and_check()
{
#ifdef TAP_FLOOR_FIRST
	tap_load_floor(); /* Broken. */
	rx_copy_row()
#else
	rx_copy_row();
	tap_load_floor()
#endif
}

/* rx_check_copy(): recycled meanwhile, it was not delivered but skipped. */
inline rx_check_copy()
{
	d_step {
		torn = floor <= BLOCK && copy != next + 1;
		assert(!torn);
		delivered = delivered + (floor <= BLOCK);
		skipped = skipped + (floor > BLOCK);
		next++;
		assert(delivered + skipped == next && next <= memory[HEAD]);
		copy = 0;
		floor = 0;
		physical = 0
	}
}

inline tap_skip_to_floor()
{
	floor = memory[FLOOR];
	d_step {
		floor = (floor > memory[HEAD] / N -> memory[HEAD] : floor * N); /* to */
		if
		:: floor > next -> skipped = skipped + floor - next; next = floor
		:: else
		fi;
		floor = 0;
		physical = 0
	}
}

proctype Tap()
{
	byte next, delivered, skipped, physical, floor, copy;
	bool torn;

	do
	:: atomic { memory[HEAD] > next -> physical = memory[TABLE(BLOCK)] }
	   floor = memory[FLOOR]; /* rx_tap_block() */
	   if
	   :: floor > BLOCK -> tap_skip_to_floor()
	   :: else -> copy_and_check(); rx_check_copy()
	   fi
	:: finished && next == memory[HEAD] -> break
	od
}
