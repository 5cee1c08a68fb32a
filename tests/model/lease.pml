// SPDX-License-Identifier: Apache-2.0
/*
 * Leases against recycling: lib/ibvcap/ring.h ("leases"), lib/ibvcap/rx.c, daemon/ring/rx_ring.c,
 * daemon/worker/receive.c, operation by operation. Each step that others can see is one step here and names
 * the C function it stands for. Lossless (-DLOSSLESS, lossless.pml) is not in the C code yet: it is modelled as
 * designed.
 *
 * The device is as bad as a device may be: a row may be overwritten from the moment it is posted.
 *
 * Bounds (-D): CONSUMERS, Q lease slots each, N rows a block, QUEUE rows with the device, HISTORY blocks,
 * PACKETS. Variants (-D): see the list in CMakeLists.txt, and #ifdef below where each breaks its step.
 *
 * What holds, asserted where it can first be seen to fail:
 *   - no row is posted of a block that a consumer holds a valid lease on                     post_row()
 *   - what a consumer reads is what was published, or it is told that it was put out         give_back()
 *   - the worker always finds memory for the next block while leases are within their quota  open_block()
 *   - nobody honest is taken for a liar                                                      load_and_mark()
 *   - published = delivered + skipped + lag, and every gap told with the next batch          hand_out(), skip_to_floor()
 *   - every process ends: whoever waits for ever is an invalid end state
 */
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef Q
#define Q 2
#endif
#ifndef N
#define N 1
#endif
#ifndef QUEUE
#define QUEUE 1
#endif
#ifndef HISTORY
#define HISTORY 0
#endif
#ifndef PACKETS
#define PACKETS 5
#endif
#ifndef CHUNK
#define CHUNK 1
#endif

/* daemon/ring/segments.c: live_blocks_max(), rx_ring_init(), power_of_two_from() */
#define LIVE     (HISTORY + (QUEUE + N - 1) / N + 1)
#define SPARES   (CONSUMERS * Q)
#define N_BLOCKS (LIVE + SPARES)
#if LIVE <= 2
#define ENTRIES 2
#elif LIVE <= 4
#define ENTRIES 4
#else
#define ENTRIES 8
#endif

/* Memory orders as they are in ring.h; a variant weakens one. */
#ifndef HEAD_STORE
#define HEAD_STORE REL /* daemon_publish_head() */
#endif
#ifndef FLOOR_STORE
#define FLOOR_STORE SC /* daemon_store_floor() */
#endif
#ifndef FLOOR_LOAD
#define FLOOR_LOAD SC /* consumer_load_floor() */
#endif
#ifndef LEASE_STORE
#define LEASE_STORE SC /* consumer_store_lease(), consumer_clear_lease() */
#endif
#ifndef LEASE_LOAD
#define LEASE_LOAD SC /* daemon_load_lease() */
#endif
#ifndef STATUS_STORE
#define STATUS_STORE REL /* daemon_disconnect() */
#endif
#ifdef HOARD
#define HOARDS true /* gives back only when it must: all its slots are in use */
#else
#define HOARDS false
#endif
#ifdef HOSTILE
#define HONEST (CONSUMERS - 1)
#else
#define HONEST CONSUMERS
#endif
#ifndef LOSSLESS
#define DROPPED  0
#define MAY_SKIP true
#else
#define DROPPED  dropped
#define MAY_SKIP (self != 0 || demoted[0])
#define CURSORS
#endif
#ifdef DEADLINE
#define CAN_DEMOTE true
#else
#define CAN_DEMOTE false
#endif
#if defined(STATUS_READER) && !defined(CURSORS)
#define CURSORS
#endif
#define ACQ REL /* of a load: it waits for nothing of its own thread */

/* Threads: the worker, the consumers, control. */
#define NONE    255
#define WORKER  0
#define CONTROL (CONSUMERS + 1)
#ifdef HANG_UP
#define THREADS (CONSUMERS + 2)
#else
#define THREADS (CONSUMERS + 1)
#endif
#ifndef STORES_MAX
#define STORES_MAX 3
#endif

/* Addresses: lib/ibvcap/include/ibvcap/layout.h */
#define HEAD             0
#define FLOOR            1
#define TABLE(number)    (2 + (number) % ENTRIES)
#define ROW(physical, r) (2 + ENTRIES + (physical) * N + (r)) /* payload, headers, meta; 0 = with the device */
#define PAGE(c)          (2 + ENTRIES + N_BLOCKS * N + (c) * (Q + 4))
#define LEASE(c, slot)   (PAGE(c) + (slot))
#define ACQUIRED(c)      (PAGE(c) + Q)
#define SKIPPED(c)       (PAGE(c) + Q + 1)
#define RELEASED(c)      (PAGE(c) + Q + 2)
#define STATUS(c)        (PAGE(c) + Q + 3)
#define MAIL             PAGE(CONSUMERS)
#define MEMORY_N         (2 + ENTRIES + N_BLOCKS * N + CONSUMERS * (Q + 4) + 1)

#include "memory.pml"

/* ---- what only the model knows ------------------------------------------------------------------- */

byte safe[CONSUMERS * Q];   /* a block that the consumer was told is safe, and still reads: SAFE(), 0 = none */
bool member[CONSUMERS];     /* the worker's set */
bool finished;              /* nothing more will be published */
byte attach_sequence[CONSUMERS];
#ifdef LOSSLESS
bool demoted[CONSUMERS];
#endif
#ifdef STATUS_READER
byte true_delivered; /* consumer 0's */
#endif

#define SAFE(number, physical) (((number) + 1) * 16 + (physical))
/* As another number's than the one that the physical block is being given. */
#define HOLDS(c, q, number, physical) \
	(member[c] && safe[(c) * Q + (q)] / 16 != 0 && safe[(c) * Q + (q)] % 16 == (physical) && \
	 safe[(c) * Q + (q)] / 16 != (number) + 1)

/* ---- the worker ---------------------------------------------------------------------------------- */

/*
 * ring.h, step 2, and mark_leased()'s body: an honest consumer must not look like a liar. With -DHOSTILE the last
 * consumer has no code of its own: each load of its slots finds any value at all.
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
inline mark_leased()
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

/* The end of release_unleased(): private to the worker. */
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

/* retire_oldest(): floor first, then one snapshot from which all held blocks are decided anew. */
inline retire_oldest()
{
	floor++;
#ifdef SNAPSHOT_FIRST
	/* Broken: the blocks are decided before anybody can know that they are due. */
	hold_oldest();
	mark_leased();
	store(WORKER, FLOOR, floor, FLOOR_STORE);
#elif defined(SNAPSHOT_TWICE)
	/* Broken: what was held before is decided by one look, the block that is due by another. */
	store(WORKER, FLOOR, floor, FLOOR_STORE);
	mark_leased();
	hold_oldest();
	mark_leased();
#elif defined(DEMOTION_DROPS_LEASE)
	store(WORKER, FLOOR, floor, FLOOR_STORE);
	hold_oldest();
	mark_leased();
	/* Broken: demotion takes the block although it is leased. */
	if
	:: demoted[0] -> held_leased[n_held - 1] = false
	:: else
	fi;
#else
	store(WORKER, FLOOR, floor, FLOOR_STORE);
	hold_oldest();
	mark_leased();
#endif
	free_unmarked()
}

#ifdef LOSSLESS
#include "lossless.pml"
#else
#define may_retire() may = true
#endif

/* open_block(): memory for the next number, off the stack and into the table. */
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

/* open_block(). Its branch for a ring without a free block is asserted never to be needed. */
inline open_block()
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
		:: may -> retire_oldest()
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

/* backend's post(): from now on the device writes. Nobody may be reading. */
inline post_row()
{
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

/* receive_refill() and rx_ring_post_span(), in chunks of a row. */
inline receive_refill()
{
	do
	:: QUEUE - (posted - head) >= CHUNK ->
		may = true;
		if
		:: posted / N == next_block -> open_block()
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

/* take_mail(): MAIL_ADD_CONSUMER, rx_ring_add_consumer(); MAIL_REMOVE_CONSUMER, rx_ring_remove_consumer(). */
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
#ifdef LOSSLESS
	byte looked, dropped;
	bool pinned;
#endif

	d_step { /* create_private() */
		do
		:: n_free < N_BLOCKS -> free_blocks[n_free] = N_BLOCKS - 1 - n_free; n_free++
		:: else -> break
		od
	}
	receive_refill(); /* worker_prime() */
	do
	:: head + DROPPED < PACKETS && posted > head -> /* receive_batch() */
		n = 1;
		do
		:: n < posted - head && head + DROPPED + n < PACKETS -> n++
		:: break
		od;
		publish();
		receive_refill();
		take_mails()
#ifdef LOSSLESS
	:: pinned && posted == head && dropped < DROPS && head + dropped < PACKETS ->
		dropped++ /* the device's, for want of a posted row */
	:: atomic { pinned && head + dropped < PACKETS && (memory[PIN(0)] != looked || CAN_DEMOTE) -> pinned = false }
		receive_refill() /* after an empty poll */
#endif
	:: head + DROPPED == PACKETS -> break
	od;
	buffer[WORKER].n == 0;
	finished = true
}

/* ---- a consumer: one thread in libibvcap --------------------------------------------------------- */

#define ME (self + 1)
#define BLOCK (next / N)

/* find_slot(): the slot that holds the block, else a free one, else Q. */
inline find_slot()
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

/* lease_block(): what the variants exchange. */
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

/* lease_block(). From the check on the consumer may read the block until it clears the slot. */
inline lease_block()
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

/* consumer_store_acquired() */
inline store_acquired()
{
#ifdef CURSORS
#ifdef ACQUIRED_FIRST
	store(ME, ACQUIRED(self), next, REL); /* Broken: a reader sees the skip as delivered. */
	store(ME, SKIPPED(self), skipped, RLX)
#else
	store(ME, SKIPPED(self), skipped, RLX);
	store(ME, ACQUIRED(self), next, REL)
#endif
#else
	skip
#endif
}

/* skip_to_floor() */
inline skip_to_floor()
{
	load(ME, FLOOR, FLOOR_LOAD, floor);
	load(ME, HEAD, ACQ, head);
	atomic {
		floor = (floor > head / N -> head : floor * N); /* to */
		if
		:: floor > next ->
			assert(MAY_SKIP);
			skipped = skipped + floor - next;
			gap = gap + floor - next;
			next = floor;
			floor = 0;
			head = 0;
			store_acquired()
		:: else -> floor = 0; head = 0
		fi
	}
}

/* hand_out() of 1 to all published rows of the block: max, chosen by the caller. */
inline hand_out()
{
	atomic {
		i = 1;
		do
		:: next + i < head && (next + i) % N != 0 -> i++
		:: break
		od;
		assert(next == expected + gap); /* told with this batch, and exact */
		delivered = delivered + i;
		gap = 0;
		next = next + i;
		expected = next;
		assert(delivered + skipped == next - attached);
#ifdef STATUS_READER
		true_delivered = delivered;
#endif
		n_batches[slot]++;
		last[slot] = last[slot] + i;
		i = 0;
		head = 0
	}
	store_acquired()
}

/* take(), when something is published; min only makes it wait longer, which a consumer may do anyhow. */
inline take()
{
	if
	:: n_batches[slot] == 0 -> lease_block(); n_held = n_held + ok
	:: else -> ok = true
	fi;
	if
	:: ok -> ok = false; hand_out()
	:: else -> skip_to_floor()
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

/* store_released() */
inline store_released()
{
#ifdef CURSORS
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
	:: head > released -> released = head; head = 0; store(ME, RELEASED(self), released, REL)
	:: else -> head = 0
	fi
#else
	skip
#endif
}

/* rx_check_connected(): what was torn must be told now. */
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

/* ibvcap_release() of a batch in slot. */
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
		find_slot();
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

/* ---- control ------------------------------------------------------------------------------------- */

#ifdef HANG_UP
/* attach_hang_up(): the consumer has to know before its leases end that they do. */
proctype Control()
{
#ifdef MAIL_FIRST
	store(CONTROL, MAIL, 1, REL); /* Broken. */
	store(CONTROL, STATUS(0), 1, STATUS_STORE)
#else
	store(CONTROL, STATUS(0), 1, STATUS_STORE); /* daemon_disconnect() */
	store(CONTROL, MAIL, 1, REL)                /* mail_removal() */
#endif
}
#endif

#ifdef STATUS_READER
/* daemon/control/status.c: append_consumer() and status_count_consumer(), at any moment. */
inline count_consumer(into)
{
#ifdef SKIPPED_FIRST
	skipped = memory[SKIPPED(0)]; /* Broken: misses a skip that acquired includes. */
	acquired = memory[ACQUIRED(0)];
#else
	acquired = memory[ACQUIRED(0)];
	skipped = memory[SKIPPED(0)];
#endif
	d_step {
		into = (skipped < acquired -> acquired - skipped : 0);
		assert(into <= true_delivered);
		acquired = 0;
		skipped = 0
	}
}

proctype StatusReader()
{
	byte acquired, skipped, delivered, before;

	count_consumer(before);
#ifdef STATUS_GROWS
	count_consumer(delivered);
	assert(delivered >= before)
#endif
}
#endif

init {
	atomic {
		byte t;
		do
		:: t < CONSUMERS ->
#ifndef ATTACH
			member[t] = true;
#endif
			if
			:: t < HONEST -> run Consumer(t)
			:: else
			fi;
			t++
		:: else -> break
		od;
		t = 0;
		run Worker();
#ifdef HANG_UP
		run Control();
#endif
#ifdef STATUS_READER
		run StatusReader();
#endif
		do
		:: t < THREADS -> run Memory(t); t++
		:: else -> break
		od;
		t = 0
	}
}
