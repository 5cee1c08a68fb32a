// SPDX-License-Identifier: Apache-2.0
/*
 * A sender and the transmit worker: lib/ibvcap/ring_tx.h, ibvcap_tx_submit() in lib/ibvcap/tx/tx.c, tx_waiter_ops in
 * lib/ibvcap/tx/tx_wait.c, waiter_wait() in lib/ibvcap/client/waiter.c, tx_worker_sleep_for_work() in
 * daemon/worker/tx_worker.c, tx_queue_arm() and tx_queue_disarm() in daemon/worker/tx_queue.c, sender_publish() and
 * sender_wants_wake() in daemon/ring/sender.c. Each step that others can see is one step here and names the C function
 * it stands for.
 *
 * What would hide a lost kick or wake-up is left out: the slices of 100 ms of a sender's sleep, timed packets, and that
 * the worker spins first. The device sends at once, so that no completion event wakes the worker either.
 *
 * Bounds (-D): PACKETS. The sender may wait for each, and does for the last. Variants (-D): see CMakeLists.txt.
 *
 * What holds: it ends. A worker that sleeps while something is submitted, or a sender that sleeps while all of it is
 * completed, is an invalid end state.
 */
#ifndef PACKETS
#define PACKETS 3
#endif

/* Memory orders as they are in ring_tx.h; a variant weakens one. */
#ifndef SUBMIT_STORE
#define SUBMIT_STORE SC /* sender_store_submitted() */
#endif
#ifndef KICK_LOAD
#define KICK_LOAD SC /* sender_load_need_kick() */
#endif
#ifndef KICK_STORE
#define KICK_STORE SC /* daemon_store_need_kick() */
#endif
#ifndef SUBMIT_LOAD
#define SUBMIT_LOAD SC /* daemon_load_submitted() */
#endif
#ifndef FENCE
#define FENCE SC /* daemon_fence_completed() */
#endif
#ifndef REQUEST_STORE
#define REQUEST_STORE SC /* client_request_wake() */
#endif
#ifndef REQUEST_LOAD
#define REQUEST_LOAD SC /* daemon_load_wake_request() */
#endif
#ifndef COMPLETED_LOAD
#define COMPLETED_LOAD SC /* sender_load_completed_seq_cst() */
#endif
#define ACQ REL /* of a load: it waits for nothing of its own thread */

#define WORKER     0
#define SENDER     1
#define THREADS    2 /* the notifier has no stores that could be late */
#define STORES_MAX 3

#define SUBMITTED 0
#define NEED_KICK 1
#define COMPLETED 2
#define WAKE_AT   3
#define MEMORY_N  4

#include "memory.pml"

/* ---- the kernel ---------------------------------------------------------------------------------- */

bool kicked;              /* the worker's epoll has an event of the sender's small epoll */
bool rung;                /* the doorbell's count is not 0 */
bool asleep;              /* the sender, on its word */
bool word_changed = true; /* since it last loaded it; true while it does not care */
bool ended;               /* the sender: only the model's */

/* eventfd_write(): a process that reads the eventfd sees all that was stored before. */
inline tell(thread, what)
{
	d_step { buffer[thread].n == 0; what = true }
}

/* ---- the worker ---------------------------------------------------------------------------------- */

inline publish()
{
	store(WORKER, COMPLETED, taken, REL); /* sender_publish() */
	/* sender_wants_wake() */
#ifndef NO_FENCE
	store(WORKER, COMPLETED, taken, FENCE); /* daemon_fence_completed() */
#endif
	load(WORKER, WAKE_AT, REQUEST_LOAD, at);
	if
	:: at <= taken && at > woken_at -> woken_at = at; tell(WORKER, rung)
	:: else
	fi;
	at = 0
}

/* tx_worker_do_work(); done: there was something. */
inline do_work()
{
	load(WORKER, SUBMITTED, SUBMIT_LOAD, submitted); /* sender_read_submitted() */
	done = submitted > taken;
	taken = submitted;
	submitted = 0;
	if
	:: done -> publish()
	:: else
	fi
}

inline take_event()
{
	kicked = false /* epoll_wait() in tx_worker_sleep_wait(): an edge is reported once */
}

inline tx_worker_sleep_for_work()
{
#ifdef LOOK_FIRST
	do_work(); /* Broken: looks before it asks. */
	store(WORKER, NEED_KICK, 1, KICK_STORE);
#else
	store(WORKER, NEED_KICK, 1, KICK_STORE); /* tx_queue_arm() */
#ifdef NO_LOOK
	done = false; /* Broken. */
#else
	do_work();
#endif
#endif
#ifdef EMPTY_LATE
	take_event(); /* Broken: what was told since the look is gone. */
#endif
	if
	:: !done -> kicked; take_event() /* tx_worker_sleep_wait() */
	:: else
	fi;
	store(WORKER, NEED_KICK, 0, KICK_STORE) /* tx_queue_disarm() */
}

proctype Worker()
{
	byte taken, submitted, at, woken_at;
	bool done;

	do
	:: taken < PACKETS ->
		do_work();
		if
		:: !done && taken < PACKETS -> tx_worker_sleep_for_work()
		:: else
		fi
	:: else -> break
	od
}

/* ---- the notifier -------------------------------------------------------------------------------- */

proctype Notifier()
{
end:
	do
	:: d_step { rung; rung = false };
	   d_step { /* sender_due_request(), sender_wake() */
		if
		:: memory[WAKE_AT] != 0 && memory[WAKE_AT] <= memory[COMPLETED] -> word_changed = true; asleep = false
		:: else
		fi
	   }
	od
}

/* ---- the sender ---------------------------------------------------------------------------------- */

/* ibvcap_tx_submit() */
inline submit()
{
#ifdef KICK_FIRST
	load(SENDER, NEED_KICK, KICK_LOAD, value); /* Broken: looks before it says. */
	store(SENDER, SUBMITTED, mine, SUBMIT_STORE);
#else
	store(SENDER, SUBMITTED, mine, SUBMIT_STORE); /* sender_store_submitted() */
	load(SENDER, NEED_KICK, KICK_LOAD, value); /* sender_load_need_kick() */
#endif
	if
	:: value -> tell(SENDER, kicked)
	:: else
	fi;
	value = 0
}

/* ibvcap_tx_flush(): waiter_wait() without its end of time. */
inline flush()
{
	do
	:: load(SENDER, COMPLETED, ACQ, value); /* tx_wait_look() */
	   if
	   :: value >= mine -> break
	   :: else
	   fi;
	   word_changed = false; /* client_load_wake_word() */
#ifdef REQUEST_LATE
	   load(SENDER, COMPLETED, COMPLETED_LOAD, value); /* Broken: looks before it asks. */
	   store(SENDER, WAKE_AT, mine, REQUEST_STORE);
#else
	   store(SENDER, WAKE_AT, mine, REQUEST_STORE); /* client_request_wake() */
	   load(SENDER, COMPLETED, COMPLETED_LOAD, value);
#endif
	   if
	   :: value < mine -> d_step { asleep = !word_changed }; !asleep /* FUTEX_WAIT */
	   :: else
	   fi;
	   store(SENDER, WAKE_AT, 0, RLX); /* client_cancel_wake() */
	   word_changed = true
	od;
	value = 0
}

proctype Sender()
{
	byte mine, value;

	do
	:: mine < PACKETS ->
		mine++;
		submit();
		if
		:: flush()
		:: mine < PACKETS
		fi
	:: else -> break
	od;
	ended = true
}

/* When nothing more can happen: who still sleeps was forgotten. */
proctype Watch()
{
	timeout;
	assert(ended)
}

init {
	atomic {
		run Worker();
		run Notifier();
		run Sender();
		run Watch();
		run Memory(WORKER);
		run Memory(SENDER)
	}
}
