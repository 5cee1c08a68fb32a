// SPDX-License-Identifier: Apache-2.0
/*
 * Sleeping and waking: lib/ibvcap/ring.h ("wake-up"), lib/ibvcap/wait.c, lib/ibvcap/rx.c (ibvcap_acquire()),
 * rx_ring_wake() and rx_ring_close() in daemon/ring/rx_ring.c, worker_do_work() in daemon/worker/worker.c,
 * daemon/control/notifier.c. Each step that others can see is one step here and names the C function it stands for.
 *
 * What would hide a lost wake-up is left out: the slices of 100 ms of a sleep, the notifier's ticks, the looks
 * before a sleep (SPINS). Of sleeps that end early (a deadline, a signal) there are TIMEOUTS in all.
 *
 * Bounds (-D): CONSUMERS; FDS of them wait on the descriptor (the first ones); PACKETS; BATCH = RECEIVE_BATCH;
 * WAKE_BATCHES; TIMEOUTS; CLOSE: the ring is closed in the end. Variants (-D): see CMakeLists.txt.
 *
 * What holds: every process ends, whatever is published last: a sleeper whose head has come, or whose ring was
 * closed, and that nobody wakes, is an invalid end state; and while every poll comes back full nobody is passed
 * over more than WAKE_BATCHES - 1 times.
 */
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef FDS
#define FDS 0
#endif
#ifndef PACKETS
#define PACKETS 3
#endif
#ifndef BATCH
#define BATCH 2
#endif
#ifndef WAKE_BATCHES
#define WAKE_BATCHES 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 0
#endif
#ifdef CLOSE
#define CLOSES true
#else
#define CLOSES false
#endif

/* Memory orders as they are in ring.h; a variant weakens one. */
#ifndef FENCE
#define FENCE SC /* daemon_fence_head() */
#endif
#ifndef REQUEST_STORE
#define REQUEST_STORE SC /* consumer_request_wake() */
#endif
#ifndef REQUEST_LOAD
#define REQUEST_LOAD SC /* daemon_load_wake_request() */
#endif
#ifndef HEAD_LOAD
#define HEAD_LOAD SC /* consumer_load_head_seq_cst() */
#endif
#define ACQ REL /* of a load: it waits for nothing of its own thread */

#define WORKER   0
#define NOTIFIER (CONSUMERS + 1)
#define THREADS  (CONSUMERS + 2)
#ifndef STORES_MAX
#define STORES_MAX 3
#endif

#define HEAD         0
#define WORD         1
#define CLOSED       2
#define WAKE_AT(c)   (3 + (c))
#define WAKE_PIPE(c) (3 + CONSUMERS + (c))
#define MEMORY_N     (3 + 2 * CONSUMERS)

#include "memory.pml"

/* ---- the kernel ---------------------------------------------------------------------------------- */

bool asleep[CONSUMERS + 1]; /* on the ring's wake word; the last one is the notifier */
bool readable[CONSUMERS];   /* the pipe has a byte */

/* FUTEX_WAIT: compares and queues under the same lock that FUTEX_WAKE takes. */
inline futex_wait(who, expected)
{
	d_step { asleep[who] = (memory[WORD] == expected) }
}

inline futex_wake()
{
	d_step {
		c = 0;
		do
		:: c <= CONSUMERS ->
#ifdef WAKE_ONE
			if
			:: asleep[c] -> asleep[c] = false; break /* Broken: who else waits for this sleeps on. */
			:: else
			fi;
#else
			asleep[c] = false;
#endif
			c++
		:: else -> break
		od;
		c = 0
	}
}

/* ---- the worker ---------------------------------------------------------------------------------- */

byte passed_over; /* full polls without a look while somebody slept whose head had come: only the model's */

/* wake_all() */
inline wake_all()
{
#ifdef WAKE_FIRST
	futex_wake(); /* Broken: who compares the word in between sleeps on. */
	add(WORKER, WORD, 1)
#else
	add(WORKER, WORD, 1); /* daemon_bump_wake_word() */
	futex_wake()
#endif
}

inline is_due()
{
#ifdef WOKEN_FLAG
	/* Broken: a request that came right after one that was served looks like it. */
	if
	:: at == 0 -> woken_at[c] = 0
	:: at != 0 && at <= head && !woken_at[c] -> woken_at[c] = 1; due = true
	:: else
	fi
#else
	if
	:: at <= head && at > woken_at[c] -> woken_at[c] = at; due = true
	:: else
	fi
#endif
}

inline rx_ring_wake()
{
#ifndef NO_FENCE
	store(WORKER, HEAD, head, FENCE); /* daemon_fence_head() */
#endif
	c = 0;
	do
	:: c < CONSUMERS ->
		atomic {
			load(WORKER, WAKE_AT(c), REQUEST_LOAD, at);
			is_due();
			at = 0;
			c++
		}
	:: else -> c = 0; break
	od;
	if
	:: due -> due = false; wake_all()
	:: else
	fi;
	passed_over = 0
}

inline publish()
{
	if
	:: n > 0 -> head = head + n; store(WORKER, HEAD, head, REL) /* rx_ring_publish() */
	:: else
	fi
}

inline pass_over()
{
	d_step {
		c = 0;
		do
		:: c < CONSUMERS ->
			if
			:: asleep[c] && memory[WAKE_AT(c)] != 0 && memory[WAKE_AT(c)] <= head -> passed_over++; break
			:: else
			fi;
			c++
		:: else -> break
		od;
		assert(passed_over < WAKE_BATCHES);
		c = 0
	}
}

#ifdef NEVER_WHEN_FULL
#define IS_TIME_TO_WAKE(n) (n < BATCH) /* Broken. */
#else
#define IS_TIME_TO_WAKE(n) (n < BATCH || full_batches % WAKE_BATCHES == 0)
#endif

/* worker_do_work() with what has come by now; after an empty poll it sleeps until there is more. */
proctype Worker()
{
	byte head, n, at, c, full_batches, woken_at[CONSUMERS];
	bool due, idle;

	do
	:: atomic {
		!(idle && head == PACKETS);
		n = (idle -> 1 : 0);
		do
		:: n < BATCH && head + n < PACKETS -> n++
		:: break
		od;
		idle = (n == 0);
		full_batches = (full_batches + (n == BATCH)) % WAKE_BATCHES
	   }
	   publish();
	   if
	   :: IS_TIME_TO_WAKE(n) -> rx_ring_wake()
	   :: else -> pass_over()
	   fi;
	   n = 0
	:: idle && head == PACKETS -> break
	od;
#ifdef CLOSE
	/* rx_ring_close() */
#ifdef CLOSE_LATE
	wake_all(); /* Broken. */
	store(WORKER, CLOSED, 1, REL)
#else
	store(WORKER, CLOSED, 1, REL); /* daemon_close_ring() */
	wake_all()
#endif
#endif
}

#include "wake_consumer.pml"

/* ---- the notifier -------------------------------------------------------------------------------- */

/* wants_byte() and write_byte() */
inline notify_one()
{
	load(NOTIFIER, WAKE_AT(c), REQUEST_LOAD, at);
	if
	:: at != 0 && (at <= head || closed) ->
		atomic {
			load(NOTIFIER, WAKE_PIPE(c), RLX, at);
			readable[c] = readable[c] || at
		}
	:: else
	fi;
	at = 0
}

inline notify()
{
	load(NOTIFIER, CLOSED, ACQ, closed);
	load(NOTIFIER, HEAD, ACQ, head);
	do
	:: c < FDS -> notify_one(); c++
	:: else -> break
	od;
	atomic { c = 0; head = 0; closed = 0 }
}

proctype Notifier()
{
	byte seen, head, closed, at, c;

	load(NOTIFIER, WORD, ACQ, seen);
	do
	:: true ->
		notify();
#ifdef NOTIFIER_LATE
		load(NOTIFIER, WORD, ACQ, seen); /* Broken: the change that it is about to wait for may have been. */
#endif
		futex_wait(CONSUMERS, seen);
end:		!asleep[CONSUMERS];
		load(NOTIFIER, WORD, ACQ, seen)
	od
}

init {
	atomic {
		byte t;
		do
		:: t < CONSUMERS -> run Consumer(t); t++
		:: else -> break
		od;
		t = 0;
		run Worker();
#if FDS > 0
		run Notifier();
#endif
		do
		:: t <= CONSUMERS -> run Memory(t); t++ /* the notifier stores nothing */
		:: else -> break
		od;
		t = 0
	}
}
