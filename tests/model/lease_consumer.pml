// SPDX-License-Identifier: Apache-2.0
/* Part of lease.pml: one thread in libibvcap, lib/ibvcap/rx/rx_batch.c. */

/* ---- a consumer: one thread in libibvcap --------------------------------------------------------- */

#define ME (self + 1)
#define BLOCK (next / N)

/* rx_find_lease(): the slot that holds the block, else a free one, else Q. */
inline rx_find_lease()
{
	d_step {
		slot = Q;
		i = 0;
		do
		:: i < Q ->
			if
			:: n_batches[i] > 0 && block[i] == BLOCK -> slot = i; break
			:: n_batches[i] == 0 && slot == Q -> slot = i
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline lease_store()
{
	store(ME, LEASE(self, slot), BLOCK + 1, LEASE_STORE)
}

inline floor_load()
{
	load(ME, FLOOR, FLOOR_LOAD, floor)
}

inline table_load()
{
	load(ME, TABLE(BLOCK), ACQ, physical)
}

#ifdef CHECK_ON_LO
/* Broken: who holds an older block needs no check, as its lease were a range that was checked at its start. */
#define IS_RECYCLED() (floor > BLOCK && n_held == 0)
#else
#define IS_RECYCLED() (floor > BLOCK)
#endif

/* rx_lease_block(): what the variants exchange. */
inline say_and_look()
{
#if defined(FLOOR_FIRST)
	floor_load(); /* Broken: looks before it says. */
	lease_store();
	table_load()
#elif defined(TABLE_LATE)
	lease_store();
	floor_load();
	table_load() /* Broken: the entry may be another number's by now. */
#else
	lease_store();
	table_load();
	floor_load()
#endif
}

/* rx_lease_block(). From the check on the consumer may read the block until it clears the slot. */
inline rx_lease_block()
{
	say_and_look();
	d_step {
		ok = !IS_RECYCLED();
		if
		:: ok ->
			safe[self * Q + slot] = SAFE(BLOCK, physical);
			block[slot] = BLOCK;
			place[slot] = physical;
			first[slot] = next % N;
			last[slot] = next % N
		:: else
		fi;
		physical = 0;
		floor = 0
	}
	if
	:: !ok -> store(ME, LEASE(self, slot), 0, LEASE_STORE) /* consumer_clear_lease() */
	:: else
	fi
}

/* consumer_store_delivered() in rx_hand_out(), consumer_store_skipped() in rx_skip_to_floor(): one word each. */
inline store_counts(word, count)
{
#ifdef ACQUIRED_WORD
	store(ME, SKIPPED(self), skipped, RLX);
	store(ME, OLD_WORD(self), next, REL)
#elif defined(COUNTS)
	store(ME, word, count, COUNT_STORE)
#else
	skip
#endif
}

/* rx_skip_to_floor() */
inline rx_skip_to_floor()
{
	load(ME, FLOOR, FLOOR_LOAD, floor);
	load(ME, HEAD, ACQ, head);
	atomic {
		floor = (floor > head / N -> head : floor * N); /* to */
		if
		:: floor > next ->
#ifdef LOSSLESS
			assert(self != 0 || demoted);
#endif
			skipped = skipped + floor - next;
			gap = gap + floor - next;
			next = floor;
			floor = 0;
			head = 0;
			assert(delivered + skipped == next - attached && next <= memory[HEAD]);
			note_cursor();
			store_counts(SKIPPED(self), skipped)
		:: else -> floor = 0; head = 0
		fi
	}
}

/* what_is_new(): the first batch after a demotion that cost something says so. */
inline look_at_policy()
{
#ifdef LOSSLESS
	if
	:: self == 0 && gap > 0 -> load(ME, POLICY(0), ACQ, told); assert(told == 1); told = 0
	:: else
	fi
#else
	skip
#endif
}

inline note_rows(from, to)
{
#ifdef GONE_READER
	assert((row_gone & ROWS(from, to)) == 0);
	row_delivered = row_delivered | ROWS(from, to)
#else
	skip
#endif
}

inline note_cursor()
{
#ifdef COUNTS
	if
	:: self == 0 -> true_delivered = delivered; true_next = next
	:: else
	fi
#else
	skip
#endif
}

/* rx_hand_out() of 1 to all published rows of the block: max, chosen by the caller. */
inline rx_hand_out()
{
	look_at_policy();
	atomic {
		i = 1;
		do
		:: next + i < head && (next + i) % N != 0 -> i++
		:: break
		od;
		assert(next == expected + gap); /* told with this batch, and exact */
		note_rows(next, next + i);
		delivered = delivered + i;
		gap = 0;
		next = next + i;
		expected = next;
		/* published = head - attached; lag = head - next */
		assert(delivered + skipped == next - attached && next <= memory[HEAD]);
		note_cursor();
		n_batches[slot]++;
		last[slot] = last[slot] + i;
		i = 0;
		head = 0
	}
	store_counts(DELIVERED(self), delivered)
}

/* take(), when something is published; min only makes it wait longer, which a consumer may do anyhow. */
inline take()
{
	if
	:: n_batches[slot] == 0 -> rx_lease_block(); n_held = n_held + ok
	:: else -> ok = true
	fi;
	if
	:: ok -> ok = false; rx_hand_out()
	:: else -> rx_skip_to_floor()
	fi
}

/* Every row of the block that was handed out is looked at as late as can be. */
inline read_rows()
{
	d_step {
		i = first[slot];
		do
		:: i < last[slot] ->
			torn = torn || memory[ROW(place[slot], i)] != block[slot] * N + i + 1;
			i++
		:: else -> break
		od;
		i = 0;
		if
		:: n_batches[slot] == 1 -> safe[self * Q + slot] = 0
		:: else
		fi
	}
}

/* consumer_clear_lease(), or of a block with more batches out the same store again. */
inline lease_again_or_clear()
{
	store(ME, LEASE(self, slot), (n_batches[slot] == 1 -> 0 : block[slot] + 1), LEASE_STORE)
}

/* Broken variant only: everything below the oldest block that is still out is released. */
inline store_released()
{
#ifdef PIN_BY_RELEASED
	d_step {
		head = next;
		i = 0;
		do
		:: i < Q ->
			if
			:: n_batches[i] > 0 && block[i] * N < head -> head = block[i] * N
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
	if
	:: head > released -> released = head; head = 0; store(ME, OLD_WORD(self), released, REL)
	:: else -> head = 0
	fi
#else
	skip
#endif
}

/* rx_wait_check_connected(): what was torn must be told now. */
inline check_connected()
{
#ifdef HANG_UP
	load(ME, STATUS(self), SC, told);
	atomic {
		if
		:: told -> out = true; torn = false
		:: else -> assert(!torn)
		fi;
		told = 0
	}
#else
	assert(!torn)
#endif
}

/* ibvcap_rx_release() of a batch in slot. */
inline give_back()
{
#if defined(CLEAR_FIRST)
	lease_again_or_clear(); /* Broken: reads on after it gave back. */
	read_rows();
	check_connected();
#elif defined(STATUS_FIRST)
	check_connected(); /* Broken: is told nothing of what happens between the look and the last read. */
	read_rows();
	lease_again_or_clear();
	assert(!torn || out);
	torn = false;
#else
	read_rows();
	lease_again_or_clear();
#endif
	d_step {
		n_batches[slot]--;
		if
		:: n_batches[slot] == 0 ->
			n_held--;
			block[slot] = 0;
			place[slot] = 0;
			first[slot] = 0;
			last[slot] = 0
		:: else
		fi
	}
	store_released();
#if !defined(CLEAR_FIRST) && !defined(STATUS_FIRST)
	check_connected();
#endif
	slot = 0
}

inline attach()
{
#ifdef ATTACH
#ifdef ATTACH_EARLY
	next = memory[FLOOR] * N; /* Broken: does not wait for the worker's word. */
#else
	if
	:: d_step { member[self]; next = attach_sequence[self] } /* answered */
	:: finished && !member[self] -> goto ended
	fi;
#endif
	d_step {
		attached = next;
		expected = next;
		released = next
	}
#else
	skip
#endif
}

proctype Consumer(byte self)
{
	byte next, skipped, gap, released, attached;
	byte block[Q], place[Q], n_batches[Q], first[Q], last[Q], n_held;
	byte head, floor, physical, slot, i, told;
	byte expected, delivered; /* only the model's */
	bool ok, torn, out, at_quota;

	attach();
	do
	:: atomic {
		!out && memory[HEAD] > next && (!HOARDS || !at_quota) ->
		head = memory[HEAD]; /* consumer_load_head() */
		rx_find_lease();
		if
		:: slot < Q -> skip
		:: else -> at_quota = true; slot = 0; head = 0; goto again /* -ENOBUFS */
		fi
	   }
	   take();
	   slot = 0;
again:	   skip
	:: atomic {
		n_held > 0 && (!HOARDS || at_quota || finished) ->
		at_quota = false;
		if
		:: n_batches[0] > 0 -> slot = 0
#if Q > 1
		:: n_batches[1] > 0 -> slot = 1
#endif
#if Q > 2
		:: n_batches[2] > 0 -> slot = 2
#endif
		fi
	   }
	   give_back()
	:: (finished && next == memory[HEAD] || out) && n_held == 0 -> break
	od;
ended:	skip
}
