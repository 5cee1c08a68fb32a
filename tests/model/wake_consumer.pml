// SPDX-License-Identifier: Apache-2.0
/* Part of wake.pml: one thread in libibvcap: waiter.c, rx_wait.c and ibvcap_rx_acquire() of lib/ibvcap. */

/* ---- a consumer ---------------------------------------------------------------------------------- */

#define ME     (self + 1)
#define HAS_FD (self < FDS)

#define WAIT_TIME    0 /* enum wait_result */
#define WAIT_REACHED 1
#define WAIT_END     2

byte timeouts = TIMEOUTS;

/* client_request_wake() */
inline request_wake(from, by_socket)
{
#ifdef SOCKET_LATE
	store(ME, WAKE_AT(self), from, REQUEST_STORE);
	store(ME, WAKE_SOCKET(self), by_socket, RLX) /* Broken. */
#else
	store(ME, WAKE_SOCKET(self), by_socket, RLX);
	store(ME, WAKE_AT(self), from, REQUEST_STORE)
#endif
}

/* client_cancel_wake() */
inline cancel_wake()
{
	store(ME, WAKE_AT(self), 0, RLX)
}

/* rx_wait_disarm() */
inline disarm()
{
	if
	:: armed -> armed = false; cancel_wake(); readable[self] = IS_GONE(self)
	:: else
	fi
}

/* take(): everything that is published, if it is at least min. */
inline take(min)
{
	atomic {
		load(ME, HEAD, ACQ, head);
		got = head >= next + (min);
		next = (got -> head : next);
		head = 0
	}
}

/* consumer_ring_closed() */
inline look_closed()
{
#ifdef CLOSE
	load(ME, CLOSED, ACQ, closed)
#else
	skip
#endif
}

/* rx_wait_look(): rx_wait_check_connected() and the end of the ring come before head. */
inline look(from)
{
	look_closed();
	atomic {
		load(ME, HEAD, ACQ, head);
		waited = (IS_PUT_OUT(self) -> WAIT_END :
			(head >= (from) -> WAIT_REACHED : (closed -> WAIT_END : WAIT_TIME)));
		head = 0;
		closed = 0
	}
}

inline sleep()
{
	futex_wait(self);
	if
	:: !asleep[self]
	:: d_step { asleep[self] && timeouts > 0; asleep[self] = false; timeouts--; late = true }
	/* The end of a slice: no thread wakes it for that. */
	:: d_step { asleep[self] && IS_PUT_OUT(self); asleep[self] = false }
	fi
}

/* waiter_sleep(); of its look, only what the consumer has not loaded just before it */
inline waiter_sleep()
{
#ifndef SEEN_LATE
	word_changed[self] = false; /* client_load_wake_word() */
#endif
#ifdef REQUEST_LATE
	load(ME, HEAD, HEAD_LOAD, head);
	request_wake(target, false); /* Broken: looks before it asks. */
#else
	request_wake(target, false);
	load(ME, HEAD, HEAD_LOAD, head); /* consumer_load_head_seq_cst() */
#endif
#ifndef CLOSED_UNSEEN
	look_closed();
#endif
	if
	:: head < target && !closed ->
#ifdef SEEN_LATE
		word_changed[self] = false; /* Broken: the word may have been changed for this very request. */
#endif
		sleep()
	:: else
	fi;
	atomic { head = 0; closed = 0; word_changed[self] = true }
	cancel_wake()
}

/* waiter_arm() */
inline arm()
{
	request_wake(next + 1, true);
	armed = true;
#ifdef NO_LOOK
	waited = WAIT_TIME; /* Broken: what came before the request is never told. */
#else
	load(ME, HEAD, HEAD_LOAD, head);
	if
	:: head > next -> waited = WAIT_REACHED; head = 0
	:: else -> head = 0; look(next + 1)
	fi
#endif
}

/* waiter_wait(). Whoever uses the descriptor waits with timeout 0 or any other. */
inline waiter_wait()
{
	late = false;
	look(target);
	if
	:: waited == WAIT_TIME && HAS_FD -> late = true
	:: true
	fi;
	do
	:: waited == WAIT_TIME && !late ->
		waiter_sleep();
		look(target)
	:: waited != WAIT_TIME || late -> break
	od;
	if
	:: waited == WAIT_TIME && HAS_FD -> arm()
	:: else
	fi
}

/* rx_acquire_in_epoch(), until a batch comes; a user of the descriptor polls it whenever it returns 0. */
inline acquire()
{
	disarm();
	take(target - next);
	if
	:: !got ->
		waiter_wait();
		take(1);
		if
		:: got -> disarm()
		:: !got && waited == WAIT_END -> ended = true
		:: !got && waited != WAIT_END && armed -> readable[self] /* poll() */
		:: !got && waited != WAIT_END && !armed
		fi
	:: else
	fi
}

proctype Consumer(byte self)
{
	byte next, head, target, closed, waited;
	bool got, armed, late, ended;

	do
	:: next < PACKETS && !ended -> target = next + 1; acquire() /* min 1 */
	:: next + 1 < PACKETS && !ended -> target = next + 2; acquire() /* min 2 */
	:: next == PACKETS && CLOSES && !ended -> target = next + 1; acquire()
	:: next == PACKETS && !CLOSES || ended -> break
	od;
	atomic { assert(next == PACKETS || IS_PUT_OUT(self)); n_ended++ }
}
