// SPDX-License-Identifier: Apache-2.0
/*
 * Sleeping and waking: lib/ibvcap: ring.h ("wake-up"), waiter.c, rx_wait.c, rx_batch.c (rx_acquire_in_epoch()),
 * rx_ring_wake() and rx_ring_close() in daemon/ring/rx_ring.c, rx_worker_do_work() in daemon/worker/rx_worker.c,
 * daemon/control/notifier.c (wake_notifier.pml). Each step that others can see is one step here and names the C
 * function it stands for.
 *
 * What would hide a lost wake-up is left out: the slices of 100 ms of a sleep, the looks before it (SPINS). Of
 * sleeps that end early (a deadline, a signal) there are TIMEOUTS in all.
 *
 * Bounds (-D): CONSUMERS; FDS of them wait on the descriptor (the first ones); PACKETS; BATCH = RX_RECEIVE_BATCH;
 * WAKE_POLLS; TIMEOUTS; CLOSE: the ring is closed in the end; REMOVE: consumer 0 is put out at any moment, and
 * nothing of it may be used once its memory is given back; BUDGET, ENDLESS: wake_notifier.pml. Variants (-D): see
 * CMakeLists.txt.
 *
 * What holds: every process ends, whatever is published last: a sleeper whose head has come, or whose ring was
 * closed, and that nobody wakes, is an invalid end state; and while every poll finds something nobody is passed
 * over more than WAKE_POLLS - 1 times.
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
#ifndef WAKE_POLLS
#define WAKE_POLLS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 0
#endif
#ifdef CLOSE
#define CLOSES true
#else
#define CLOSES false
#endif
#ifdef HOSTILE
#define FIRST_HONEST 1 /* consumer 0 has no code of its own: it asks to be woken at each ring of the doorbell */
#else
#define FIRST_HONEST 0
#endif

/* Memory orders as they are in ring.h; a variant weakens one. */
#ifndef FENCE
#define FENCE SC /* daemon_fence_head() */
#endif
#ifndef REQUEST_STORE
#define REQUEST_STORE SC /* client_request_wake() */
#endif
#ifndef REQUEST_LOAD
#define REQUEST_LOAD SC /* daemon_load_wake_request() */
#endif
#ifndef HEAD_LOAD
#define HEAD_LOAD SC /* consumer_load_head_seq_cst() */
#endif
#define ACQ REL /* of a load: it waits for nothing of its own thread */

#define WORKER  0
#define THREADS (CONSUMERS + 1) /* the notifier and control have no stores that could be late */
#ifndef STORES_MAX
#define STORES_MAX 3
#endif

#define HEAD           0
#define CLOSED         1
#define WAKE_AT(c)     (2 + (c))
#define WAKE_SOCKET(c) (2 + CONSUMERS + (c))
#define MEMORY_N       (2 + 2 * CONSUMERS)

#include "memory.pml"

/* ---- the kernel ---------------------------------------------------------------------------------- */

bool asleep[CONSUMERS];   /* on its word */
bool readable[CONSUMERS]; /* its socket has a byte, or its other end is closed */
byte n_ended;             /* consumers: only the model's */
bool rung;                /* the doorbell's count is not 0 */

/* Of wake_word only this matters: was it changed since its consumer last loaded it? true while it does not care. */
bool word_changed[CONSUMERS] = true;

/* FUTEX_WAIT: compares and queues under the same lock that FUTEX_WAKE takes. */
inline futex_wait(who)
{
	d_step { asleep[who] = !word_changed[who] }
}

/* eventfd_write(): whoever reads it sees all that was stored before. */
inline ring_doorbell()
{
	d_step { buffer[WORKER].n == 0; rung = true }
}

/* ---- the worker ---------------------------------------------------------------------------------- */

byte passed_over; /* polls without a look while somebody slept whose head had come: only the model's */

#ifdef REMOVE
bool member[CONSUMERS] = true; /* the worker's set */
bool removal_mailed, removal_answered;
bool gone[CONSUMERS]; /* its memory and descriptors were given back: rx_session_free() */
bool put_out;         /* consumer 0's status: daemon_disconnect() */
bool control_ended;
#define IS_MEMBER(c)  member[c]
#define IS_PUT_OUT(c) ((c) == 0 && put_out)
#define IS_GONE(c)    gone[c]
#define USE(c)        assert(!gone[c])
#else
#define IS_MEMBER(c)  true
#define IS_PUT_OUT(c) false
#define IS_GONE(c)    false
#define USE(c)        skip
#endif

inline is_due()
{
#if defined(WOKEN_FLAG)
	/* Broken: a request that came right after one that was served looks like it. */
	if
	:: at == 0 -> woken_at[c] = 0
	:: at != 0 && at <= head && !woken_at[c] -> woken_at[c] = 1; due = true
	:: else
	fi
#elif defined(WOKEN_EARLY)
	/* Broken: counts as served when it was only seen. */
	if
	:: at > woken_at[c] -> due = due || at <= head; woken_at[c] = at
	:: else
	fi
#else
	if
	:: at <= head && at > woken_at[c] -> woken_at[c] = at; due = true
	:: else
	fi
#endif
}

inline look_at_requests()
{
#if !defined(NO_FENCE) && !defined(FENCE_LATE)
	store(WORKER, HEAD, head, FENCE); /* daemon_fence_head() */
#endif
	c = 0;
	do
	:: c < CONSUMERS && IS_MEMBER(c) ->
		atomic {
			load(WORKER, WAKE_AT(c), REQUEST_LOAD, at);
			USE(c);
			is_due();
			at = 0;
			c++
		}
	:: c < CONSUMERS && !IS_MEMBER(c) -> c++
	:: else -> c = 0; break
	od;
#ifdef FENCE_LATE
	store(WORKER, HEAD, head, FENCE); /* Broken: looks before it says. */
#endif
	if
	:: due -> due = false; ring_doorbell()
	:: else
	fi;
	passed_over = 0
}

/* rx_ring_wake(): once a head; who asks for what is there already sees that himself. */
inline rx_ring_wake()
{
	if
	:: woken_head != head -> woken_head = head; look_at_requests()
	:: else
	fi
}

inline publish()
{
	if
	:: n > 0 ->
		head = head + n;
#ifdef WOKEN_HEAD_EARLY
		woken_head = head; /* Broken: at this head nobody may have looked. */
#endif
		store(WORKER, HEAD, head, REL) /* rx_ring_publish() */
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
		assert(passed_over < WAKE_POLLS);
		c = 0
	}
}

#ifdef NEVER_WHEN_BUSY
#define IS_TIME_TO_WAKE(n) (n == 0) /* Broken. */
#else
#define IS_TIME_TO_WAKE(n) (n == 0 || busy_polls % WAKE_POLLS == 0)
#endif

/* take_mails(): MAIL_REMOVE_CONSUMER */
inline take_mails()
{
#ifdef REMOVE
	d_step {
		if
		:: removal_mailed && !removal_answered -> member[0] = false; removal_answered = true
		:: else
		fi
	}
#else
	skip
#endif
}

/* rx_worker_do_work() with what has come by now; after an empty poll it sleeps until there is more, or mail. */
proctype Worker()
{
	byte head, woken_head, n, at, c, busy_polls, woken_at[CONSUMERS];
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
		busy_polls = (busy_polls + (n > 0)) % WAKE_POLLS
	   }
	   publish();
	   if
	   :: IS_TIME_TO_WAKE(n) -> rx_ring_wake()
	   :: else -> pass_over()
	   fi;
	   n = 0;
	   take_mails()
	:: idle && head == PACKETS -> break
	od;
#ifdef CLOSE
	/* rx_ring_close() */
#ifdef CLOSE_LATE
	ring_doorbell(); /* Broken. */
	store(WORKER, CLOSED, 1, REL)
#else
	store(WORKER, CLOSED, 1, REL); /* daemon_close_ring() */
	ring_doorbell()
#endif
#endif
#ifdef REMOVE
end:	removal_mailed;
	take_mails()
#endif
}

/* When nothing more can happen: who still sleeps was forgotten, and control waits for nobody. */
proctype Watch()
{
	timeout;
	assert(n_ended == CONSUMERS - FIRST_HONEST);
#ifdef REMOVE
	assert(control_ended)
#endif
}

#include "wake_consumer.pml"
#include "wake_notifier.pml"

init {
	atomic {
		byte t;
		do
		:: t < CONSUMERS ->
			if
			:: t < FIRST_HONEST -> memory[WAKE_AT(t)] = 1
			:: else -> run Consumer(t)
			fi;
			t++
		:: else -> break
		od;
		t = 0;
		run Worker();
		run Notifier();
		run Watch();
#ifdef REMOVE
		run Control();
#endif
		do
		:: t < THREADS ->
			if
			:: t != WORKER && t <= FIRST_HONEST
			:: else -> run Memory(t)
			fi;
			t++
		:: else -> break
		od;
		t = 0
	}
}
