// SPDX-License-Identifier: Apache-2.0
/*
 * Leases against recycling: lib/ibvcap/ring.h ("leases"), lib/ibvcap/rx/rx_batch.c, daemon/ring/rx_ring.c,
 * daemon/worker/rx_receive.c, operation by operation. Each step that others can see is one step here and names
 * the C function it stands for. Parts that a search asks for: LOSSLESS (lossless.pml), TAP (lease_tap.pml), and
 * STATUS_READER, daemon/control/status_consumer.c.
 *
 * The device is as bad as a device may be: a row may be overwritten from the moment it is posted.
 *
 * Bounds (-D): CONSUMERS, Q lease slots each, N rows a block, QUEUE rows with the device, HISTORY blocks,
 * PACKETS, RESETS of the queue. Variants (-D): see the list in CMakeLists.txt, and #ifdef below where each breaks its
 * step.
 *
 * What holds, asserted where it can first be seen to fail:
 *   - no row is posted of a block that a consumer holds a valid lease on                     post_row()
 *   - what a consumer reads is what was published, or it is told that it was put out         give_back()
 *   - the worker always finds memory for the next block while leases are within their quota  rx_ring_open_block()
 *   - nobody honest is taken for a liar                                                      load_and_mark()
 *   - published = delivered + skipped + lag, and every gap told with the next batch          rx_hand_out()
 *   - a status never shows more delivered than were, nor fewer than the one before           StatusReader()
 *   - a status calls no row gone that was delivered, or will be                  GoneReader(), rx_hand_out()
 *   - a lossless consumer skips nothing unless it was demoted, and is told so with the gap   rx_hand_out()
 *   - a tap's copy is whole when its check says so                                           Tap()
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

/* daemon/ring/rx_segments.c: window_blocks(), rx_ring_init(), power_of_two_from() */
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
#ifndef COUNT_STORE
#define COUNT_STORE REL /* consumer_store_delivered(), consumer_store_skipped() */
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
#ifdef LOSSLESS
#define DROPPED dropped
#else
#define DROPPED 0
#endif
#ifdef DEADLINE
#define CAN_DEMOTE true
#else
#define CAN_DEMOTE false
#endif
#if defined(STATUS_READER) || defined(GONE_READER) || defined(LOSSLESS)
#define COUNTS /* in the page: only where somebody reads them */
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
#define PAGE(c)          (2 + ENTRIES + N_BLOCKS * N + (c) * (Q + 5))
#define LEASE(c, slot)   (PAGE(c) + (slot))
#define DELIVERED(c)     (PAGE(c) + Q)
#define SKIPPED(c)       (PAGE(c) + Q + 1)
#define OLD_WORD(c)      (PAGE(c) + Q + 2) /* of broken variants: a cursor, acquired or released */
#define STATUS(c)        (PAGE(c) + Q + 3)
#define POLICY(c)        (PAGE(c) + Q + 4) /* 1 = demoted */
#define MAIL             PAGE(CONSUMERS)
#define MEMORY_N         (2 + ENTRIES + N_BLOCKS * N + CONSUMERS * (Q + 5) + 1)

#include "memory.pml"

/* ---- what only the model knows ------------------------------------------------------------------- */

byte safe[CONSUMERS * Q];   /* a block that the consumer was told is safe, and still reads: SAFE(), 0 = none */
bool member[CONSUMERS];     /* the worker's set */
bool finished;              /* nothing more will be published */
byte attach_sequence[CONSUMERS];
#ifdef LOSSLESS
bool demoted; /* consumer 0; the worker's own policy */
#endif
#ifdef COUNTS
byte true_delivered, true_next; /* consumer 0's */
#endif
#ifdef GONE_READER
byte row_delivered, row_gone; /* consumer 0's rows, a bit each */
#define ROWS(from, to) ((1 << (to)) - (1 << (from)))
#endif

#define SAFE(number, physical) (((number) + 1) * 16 + (physical))
/* As another number's than the one that the physical block is being given. */
#define HOLDS(c, q, number, physical) \
	(member[c] && safe[(c) * Q + (q)] / 16 != 0 && safe[(c) * Q + (q)] % 16 == (physical) && \
	 safe[(c) * Q + (q)] / 16 != (number) + 1)

#include "lease_worker.pml"
#include "lease_consumer.pml"
#ifdef TAP
#include "lease_tap.pml"
#endif

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

#ifdef GONE_READER
/* daemon/control/status_consumer.c: view_consumer() and count_gone(), at any moment, with a quota of 1 (Q). */
inline view_counts()
{
	cursor = memory[DELIVERED(0)];
	cursor = cursor + memory[SKIPPED(0)]
}

proctype GoneReader()
{
	byte floor, lease, cursor;

#ifdef GONE_COUNTS_FIRST
	view_counts(); /* Broken: the consumer goes on meanwhile. */
#endif
	floor = memory[FLOOR];
	lease = memory[LEASE(0, 0)];
#ifndef GONE_COUNTS_FIRST
	view_counts();
#endif
	d_step {
#ifndef GONE_WITHOUT_LEASES /* Broken: the rest of a leased block can still be acquired. */
		if
		:: lease == cursor / N + 1 -> cursor = lease * N
		:: else
		fi;
#endif
		if
		:: floor * N > cursor ->
			assert((row_delivered & ROWS(cursor, floor * N)) == 0);
			row_gone = ROWS(cursor, floor * N)
		:: else
		fi;
		floor = 0;
		lease = 0;
		cursor = 0
	}
}
#endif

#ifdef STATUS_READER
/* daemon/control/status_consumer.c: view_consumer() and status_count_consumer(), at any moment. */
inline count_consumer(into)
{
#ifdef ACQUIRED_WORD
	acquired = memory[OLD_WORD(0)]; /* Broken: a skip changes two words, and not both at once. */
	skipped = memory[SKIPPED(0)];
	into = (skipped < acquired -> acquired - skipped : 0);
#else
#ifdef HEAD_FIRST
	published = memory[HEAD]; /* Broken: the consumer goes on meanwhile. */
#endif
	into = memory[DELIVERED(0)];
	skipped = memory[SKIPPED(0)];
#ifndef HEAD_FIRST
	published = memory[HEAD];
#endif
	assert(into + skipped <= published); /* the rest is lag: nothing had to be clamped */
#endif
	d_step {
		assert(into <= true_delivered);
		acquired = 0;
		published = 0;
		skipped = 0
	}
}

proctype StatusReader()
{
	byte acquired, published, skipped, delivered, before;

	count_consumer(before);
	count_consumer(delivered);
	assert(delivered >= before)
}
#endif

init {
	atomic {
		byte t;
		do
		:: t < CONSUMERS ->
#if !defined(ATTACH) && !defined(TAP)
			member[t] = true;
#endif
#ifndef TAP
			if
			:: t < HONEST -> run Consumer(t)
			:: else
			fi;
#endif
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
#ifdef GONE_READER
		run GoneReader();
#endif
#ifdef TAP
		run Tap();
#endif
#ifdef LOSSLESS
		run Watch();
#endif
		do
		:: t < THREADS -> run Memory(t); t++
		:: else -> break
		od;
		t = 0
	}
}
