// SPDX-License-Identifier: Apache-2.0
/* Part of wake.pml: daemon/control/notifier.c, and what control does when it puts a consumer out. */

/* ---- the notifier: one thread a ring ------------------------------------------------------------- */

/* rx_ring_wake_consumer() */
inline wake_consumer()
{
#ifdef WAKE_FIRST
	asleep[c] = false; /* Broken: who compares the word in between sleeps on. */
	d_step { USE(c); word_changed[c] = true }
#else
	d_step { USE(c); word_changed[c] = true } /* daemon_bump_wake_word() */
	asleep[c] = false
#endif
}

/* wake() */
inline notify_one()
{
	atomic { USE(c); at = memory[WAKE_AT(c)] }
	if
	:: at != 0 && (at <= head || closed) ->
		atomic { USE(c); at = memory[WAKE_SOCKET(c)] }
		if
		:: at -> d_step { USE(c); readable[c] = true }
		:: else -> wake_consumer()
		fi
	:: else
	fi;
	at = 0
}

inline notify()
{
#ifdef CLOSE
	closed = memory[CLOSED];
#endif
	head = memory[HEAD];
	do
	:: c < CONSUMERS -> notify_one(); c++
	:: else -> break
	od;
	atomic { c = 0; head = 0; closed = 0 }
}

proctype Notifier()
{
	byte head, closed, at, c;

	do
	:: true ->
#ifdef DOORBELL_LATE
end:		rung;
		notify();
		rung = false /* Broken: with it goes what rang during the walk. */
#else
		notify();
end:		d_step { rung; rung = false } /* eventfd_read() */
#endif
	od
}
