// SPDX-License-Identifier: Apache-2.0
/* Part of wake.pml: one thread in libibvcap, lib/ibvcap/wait.c and ibvcap_acquire() of lib/ibvcap/rx.c. */

/* ---- a consumer ---------------------------------------------------------------------------------- */

#define ME     (self + 1)
#define HAS_FD (self < FDS)

#define WAIT_HEAD 0 /* enum rx_wait */
#define WAIT_TIME 1
#define WAIT_END  2

byte timeouts = TIMEOUTS;

/* consumer_request_wake() */
inline request_wake(from, pipe)
{
#ifdef PIPE_LATE
	store(ME, WAKE_AT(self), from, REQUEST_STORE);
	store(ME, WAKE_PIPE(self), pipe, RLX) /* Broken. */
#else
	store(ME, WAKE_PIPE(self), pipe, RLX);
	store(ME, WAKE_AT(self), from, REQUEST_STORE)
#endif
}

/* consumer_cancel_wake() */
inline cancel_wake()
{
	store(ME, WAKE_AT(self), 0, RLX)
}

/* rx_disarm() */
inline disarm()
{
	if
	:: armed -> armed = false; cancel_wake(); readable[self] = false
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

/* look() */
inline look(from)
{
	load(ME, CLOSED, ACQ, closed); /* consumer_ring_closed() */
	atomic {
		load(ME, HEAD, ACQ, head);
		waited = (head >= (from) -> WAIT_HEAD : (closed -> WAIT_END : WAIT_TIME));
		head = 0;
		closed = 0
	}
}

inline sleep()
{
	futex_wait(self, seen);
	if
	:: !asleep[self]
	:: d_step { asleep[self] && timeouts > 0; asleep[self] = false; timeouts--; late = true }
	fi
}

/* sleep_on_word() */
inline sleep_on_word()
{
#ifndef SEEN_LATE
	load(ME, WORD, ACQ, seen); /* consumer_load_wake_word() */
#endif
	request_wake(target, false);
	load(ME, HEAD, HEAD_LOAD, head); /* consumer_load_head_seq_cst() */
	load(ME, CLOSED, ACQ, closed);
	if
	:: head < target && !closed ->
#ifdef SEEN_LATE
		load(ME, WORD, ACQ, seen); /* Broken: the word may have been changed for this very request. */
#endif
		sleep()
	:: else
	fi;
	atomic { head = 0; closed = 0; seen = 0 }
	cancel_wake()
}

/* arm() */
inline arm()
{
	request_wake(next + 1, true);
	armed = true;
#ifdef NO_LOOK
	waited = WAIT_TIME; /* Broken: what came before the request is never told. */
#else
	load(ME, HEAD, HEAD_LOAD, head);
	if
	:: head > next -> waited = WAIT_HEAD; head = 0
	:: else -> head = 0; look(next + 1)
	fi
#endif
}

/* rx_wait(). Whoever uses the descriptor waits with timeout 0 or any other. */
inline rx_wait()
{
	late = false;
	look(target);
	if
	:: waited == WAIT_TIME && HAS_FD -> late = true
	:: true
	fi;
	do
	:: waited == WAIT_TIME && !late ->
		sleep_on_word();
		look(target)
	:: waited != WAIT_TIME || late -> break
	od;
	if
	:: waited == WAIT_TIME && HAS_FD -> arm()
	:: else
	fi
}

/* ibvcap_acquire(), until a batch comes; a user of the descriptor polls it whenever it returns 0. */
inline acquire()
{
	disarm();
	take(target - next);
	if
	:: !got ->
		rx_wait();
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
	byte next, head, target, seen, closed, waited;
	bool got, armed, late, ended;

	do
	:: next < PACKETS && !ended -> target = next + 1; acquire() /* min 1 */
	:: next + 1 < PACKETS && !ended -> target = next + 2; acquire() /* min 2 */
	:: next == PACKETS && CLOSES && !ended -> target = next + 1; acquire()
	:: next == PACKETS && !CLOSES || ended -> break
	od;
	assert(next == PACKETS)
}
