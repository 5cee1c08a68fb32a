// SPDX-License-Identifier: Apache-2.0
/*
 * Part of lease.pml: daemon/ring/rx_ring.c, daemon/worker/rx_receive.c, and rx_worker_take_mail() of
 * daemon/worker/rx_worker.c.
 */

/* ---- the worker ---------------------------------------------------------------------------------- */

/*
 * ring.h, step 2, and rx_ring_mark_leased()'s body: an honest consumer must not look like a liar. With -DHOSTILE the
 * last consumer has no code of its own: each load of its slots finds any value at all.
 */
inline load_and_mark(c, slot)
{
	atomic {
		load(WORKER, LEASE(c, slot), LEASE_LOAD, lease);
#ifdef HOSTILE
		do
		:: c == CONSUMERS - 1 && lease < PACKETS + 3 -> lease++
		:: break
		od;
		assert(c == CONSUMERS - 1 || lease <= next_block);
#else
		assert(lease <= next_block);
#endif
		i = 0;
		do
		:: i < n_held ->
			held_leased[i] = held_leased[i] || (lease == held_number[i] + 1);
			i++
		:: else -> break
		od;
		i = 0;
		lease = 0
	}
}

/* One look at every slot of every consumer. */
inline rx_ring_mark_leased()
{
	c = 0;
	do
	:: c < CONSUMERS ->
		slot = 0;
		do
		:: slot < Q && member[c] -> load_and_mark(c, slot); slot++
		:: else -> break
		od;
		c++
	:: else -> break
	od;
	atomic { c = 0; slot = 0 }
}

/* The end of rx_ring_release_unleased(): private to the worker. */
inline free_unmarked()
{
	d_step {
		kept = 0;
		i = 0;
		do
		:: i < n_held ->
			if
			:: held_leased[i] ->
				held_number[kept] = held_number[i];
				held_physical[kept] = held_physical[i];
				kept++
			:: else ->
				free_blocks[n_free] = held_physical[i];
				n_free++
			fi;
			i++
		:: else -> break
		od;
		n_held = kept;
		do
		:: i > 0 ->
			i--;
			held_leased[i] = false;
			if
			:: i >= n_held -> held_number[i] = 0; held_physical[i] = 0
			:: else
			fi
		:: else -> break
		od;
		kept = 0
	}
}

inline hold_oldest()
{
	d_step {
		held_number[n_held] = floor - 1;
		held_physical[n_held] = physical[(floor - 1) % ENTRIES];
		n_held++
	}
}

/* rx_ring_retire_oldest(): floor first, then one snapshot from which all held blocks are decided anew. */
inline rx_ring_retire_oldest()
{
	floor++;
#ifdef SNAPSHOT_FIRST
	/* Broken: the blocks are decided before anybody can know that they are due. */
	hold_oldest();
	rx_ring_mark_leased();
	store(WORKER, FLOOR, floor, FLOOR_STORE);
#elif defined(SNAPSHOT_TWICE)
	/* Broken: what was held before is decided by one look, the block that is due by another. */
	store(WORKER, FLOOR, floor, FLOOR_STORE);
	rx_ring_mark_leased();
	hold_oldest();
	rx_ring_mark_leased();
#elif defined(DEMOTION_DROPS_LEASE)
	store(WORKER, FLOOR, floor, FLOOR_STORE);
	hold_oldest();
	rx_ring_mark_leased();
	/* Broken: demotion takes the block although it is leased. */
	if
	:: demoted -> held_leased[n_held - 1] = false
	:: else
	fi;
#else
	store(WORKER, FLOOR, floor, FLOOR_STORE);
	hold_oldest();
	rx_ring_mark_leased();
#endif
	free_unmarked()
}

#ifdef LOSSLESS
#include "lossless.pml"
#else
#define may_retire() may = true
#endif

/* rx_ring_open_block(): memory for the next number, off the stack and into the table. */
inline name_block()
{
	d_step {
		assert(n_free > 0);
		n_free--;
		named = free_blocks[n_free];
		free_blocks[n_free] = 0
	}
	store(WORKER, TABLE(next_block), named, REL)
}

/* rx_ring_open_block(). Its branch for a ring without a free block is asserted never to be needed. */
inline rx_ring_open_block()
{
	may = true;
	named = NONE;
#ifdef TABLE_FIRST
	if
	:: n_free > 0 -> name_block() /* Broken: the entry is the oldest number's until floor has passed it. */
	:: else
	fi;
#endif
	if
	:: next_block - floor == LIVE ->
		may_retire();
		if
		:: may ->
			rx_ring_retire_oldest();
#ifdef POLICY_LATE
			if
			:: demoted -> store(WORKER, POLICY(0), 1, REL) /* Broken: the floor has passed already. */
			:: else
			fi
#endif
		:: else
		fi
	:: else -> assert(n_free > 0)
	fi;
	if
	:: may ->
		if
		:: named == NONE -> name_block()
		:: else
		fi;
		d_step {
			physical[next_block % ENTRIES] = named;
			named = 0;
			next_block++
		}
	:: else -> named = 0
	fi
}

/*
 * backend's post(): from now on the device writes. Nobody may be reading. POST_BARRIER: everything that the worker
 * stored before is visible to all before the device writes (udma_to_device_barrier() of a verbs provider).
 */
inline post_row()
{
#ifdef POST_BARRIER
	buffer[WORKER].n == 0;
#endif
	d_step {
		i = physical[(posted / N) % ENTRIES];
		c = 0;
		do
		:: c < CONSUMERS ->
			slot = 0;
			do
			:: slot < Q -> assert(!HOLDS(c, slot, posted / N, i)); slot++
			:: else -> break
			od;
			c++
		:: else -> break
		od;
		memory[ROW(i, posted % N)] = 0;
		posted++;
		i = 0;
		c = 0;
		slot = 0
	}
}

/* rx_receive_refill() and rx_ring_post_span(), in chunks of a row. */
inline rx_receive_refill()
{
	do
	:: QUEUE - (posted - head) >= CHUNK ->
		may = true;
		if
		:: posted / N == next_block -> rx_ring_open_block()
		:: else
		fi;
		if
		:: may -> post_row()
		:: else -> break
		fi
	:: else -> break
	od
}

/* describe_rows(): plain stores; then rx_ring_publish(), for as many rows of a block as the poll brought. */
inline publish()
{
	do
	:: n > 0 ->
		store(WORKER, ROW(physical[(head / N) % ENTRIES], head % N), head + 1, RLX);
		head++;
		n--;
		if
		:: n == 0 || head % N == 0 -> store(WORKER, HEAD, head, HEAD_STORE)
		:: else
		fi
	:: else -> break
	od
}

/* rx_worker_take_mail(): MAIL_ADD_CONSUMER, rx_ring_add_consumer(); MAIL_REMOVE_CONSUMER, rx_ring_remove_consumer(). */
inline take_mails()
{
#ifdef ATTACH
	if
	:: atomic {
		!member[0];
		if
		:: attach_sequence[0] = (floor * N < head -> floor * N : head) /* IBVCAP_START_OLDEST */
		:: attach_sequence[0] = head /* IBVCAP_START_NEWEST */
		fi;
		member[0] = true
	   }
	:: skip /* the mail has not come yet, or was taken */
	fi
#elif defined(HANG_UP)
	atomic {
		load(WORKER, MAIL, ACQ, lease);
		member[0] = member[0] && !lease;
		lease = 0
	}
#else
	skip
#endif
}

proctype Worker()
{
	byte head, posted, floor, next_block;
	byte physical[ENTRIES], free_blocks[N_BLOCKS], n_free;
	byte held_number[SPARES + 2], held_physical[SPARES + 2], n_held;
	bool held_leased[SPARES + 2];
	bool may;
	byte c, i, kept, lease, n, named, slot;
#ifdef RESETS
	byte resets;
#endif
#ifdef LOSSLESS
	byte cursor, looked, dropped;
	bool pinned;
#endif

	d_step { /* create_private() */
		do
		:: n_free < N_BLOCKS -> free_blocks[n_free] = N_BLOCKS - 1 - n_free; n_free++
		:: else -> break
		od
	}
	rx_receive_refill(); /* rx_worker_prime() */
	do
	:: head + DROPPED < PACKETS && posted > head -> /* rx_receive_batch() */
		n = 1;
		do
		:: n < posted - head && head + DROPPED + n < PACKETS -> n++
		:: break
		od;
		publish();
		rx_receive_refill();
		take_mails()
#ifdef LOSSLESS
	:: pinned && posted == head && dropped < DROPS && head + dropped < PACKETS ->
		dropped++ /* the device's, for want of a posted row */
	:: atomic { pinned && head + dropped < PACKETS && (READ_CURSOR != cursor || CAN_DEMOTE) -> pinned = false }
		rx_receive_refill() /* after an empty poll */
#endif
#ifdef RESETS
	:: resets < RESETS && posted > head -> /* rx_receive_restart(): rx_ring_rewind() */
		atomic { resets++; posted = head };
		rx_receive_refill()
#endif
	:: head + DROPPED == PACKETS -> break
	od;
	buffer[WORKER].n == 0;
	finished = true
}
