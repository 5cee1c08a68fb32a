// SPDX-License-Identifier: Apache-2.0
/*
 * Part of wake.pml: daemon/control/notifier.c, its two threads; and control, which puts consumer 0 out (-DREMOVE).
 *
 * How long a wake takes is in the client's hands: it goes on outside of the mutex. With -DSLOW_WAKES consumer 0's user
 * may at any moment be one who costs much, and be forgiven: the quick lane leaves it to the slow one then; with
 * -DENDLESS=SLOW a wake there may never end.
 */
#define QUICK false
#define SLOW  true

bool locked;               /* the mutex */
bool is_slow_due;
bool deferred[CONSUMERS];  /* to the slow lane */
byte served[CONSUMERS];    /* the last request that was */
bool listed[CONSUMERS] = true;
bool busy[CONSUMERS];      /* a wake is under way */
bool removed[CONSUMERS];
bool is_ours[CONSUMERS];   /* to be freed when the wake ends */

inline lock()
{
	atomic { !locked -> locked = true }
}

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
inline wake(lane)
{
	atomic { USE(c); at = memory[WAKE_SOCKET(c)] }
	if
	:: at -> d_step { USE(c); readable[c] = true }
	:: else -> wake_consumer()
	fi;
	at = 0;
#ifdef ENDLESS
	if
	:: skip
	:: c == 0 && lane == ENDLESS ->
end_endless:	false
	fi
#endif
}

/* free_entry() */
inline free_entry(which)
{
	listed[which] = false;
	removed[which] = false;
#ifdef REMOVE
	gone[which] = gone[which] || is_ours[which];
	readable[which] = readable[which] || is_ours[which];
#endif
	is_ours[which] = false
}

/* wake_unlocked() */
inline wake_unlocked(lane)
{
	atomic { served[c] = due; deferred[c] = false; due = 0 }
#ifndef WAKE_LOCKED
	atomic { busy[c] = true; locked = false }
#endif
	wake(lane);
	atomic {
#ifndef WAKE_LOCKED
		!locked -> locked = true;
		busy[c] = false;
#endif
		if
		:: removed[c] -> free_entry(c)
		:: else
		fi
	}
}

#ifdef COMPACT
/* Broken: the last entry is moved to where one became free. */
#define ENTRY(i) (listed[0] -> (i) : CONSUMERS - 1 - (i))
#else
#define ENTRY(i) (i)
#endif

#ifdef SLOW_WAKES
#define MAY_COST(c) ((c) == 0)
#else
#define MAY_COST(c) false
#endif

#ifdef TWO_AT_A_TIME
#define IS_BEING_WOKEN(c) false /* Broken. */
#else
#define IS_BEING_WOKEN(c) busy[c]
#endif

/* is_for_slow_lane() */
inline choose_lane()
{
	if
	:: IS_BEING_WOKEN(c) || MAY_COST(c) ->
		deferred[c] = true;
		is_slow_due = true;
#ifdef SERVED_WHEN_DEFERRED
		served[c] = due; /* Broken. */
#endif
		due = 0
	:: !IS_BEING_WOKEN(c)
	fi
}

inline is_left_to_slow_lane()
{
	if
#ifdef LANE_ANEW
	:: MAY_COST(c) && deferred[c]
	:: deferred[c] = false; due = 0 /* Broken: forgiven meanwhile, so it is nobody's. */
#else
	:: deferred[c]
#endif
	:: !deferred[c] -> due = 0
	fi
}

/* due_request(), and whose it is */
inline look_at_entry(lane)
{
	atomic {
		c = ENTRY(i);
		at = 0;
		if
		:: listed[c] && !removed[c] -> USE(c); at = memory[WAKE_AT(c)]
		:: else
		fi;
		due = ((at > served[c] || at && c < FIRST_HONEST) && (at <= head || closed) -> at : 0);
		at = 0;
		if
		:: due && lane == QUICK -> choose_lane()
		:: due && lane == SLOW -> is_left_to_slow_lane()
		:: else
		fi
	}
	if
	:: due -> wake_unlocked(lane)
	:: else
	fi;
	c = 0
}

/* notify(); the mutex is held, now and then */
inline notify(lane)
{
#ifdef CLOSE
	closed = memory[CLOSED];
#endif
	head = memory[HEAD];
	do
	:: i < CONSUMERS -> look_at_entry(lane); i++
	:: else -> break
	od;
	atomic { i = 0; head = 0; closed = 0 }
}

/* quick_main() */
proctype Quick()
{
	byte head, closed, at, due, c, i;

	do
	:: true ->
#ifdef DOORBELL_LATE
end:		rung;
		lock();
		notify(QUICK);
		locked = false;
		rung = false /* Broken: with it goes what rang during the walk. */
#else
end:		d_step { rung; rung = false } /* eventfd_read() */
		lock();
		notify(QUICK);
		locked = false
#endif
	od
}

#ifdef SLOW_WAKES
/* slow_main() */
proctype Slow()
{
	byte head, closed, at, due, c, i;

	do
	:: true ->
end:		atomic { !locked && is_slow_due -> locked = true } /* pthread_cond_wait() */
#ifdef SLOW_DUE_LATE
		notify(SLOW);
		is_slow_due = false; /* Broken: with it goes what the other found meanwhile. */
#else
		is_slow_due = false;
		notify(SLOW);
#endif
		locked = false
	od
}
#endif

/* ---- control ------------------------------------------------------------------------------------- */

#ifdef FREE_WHILE_BUSY
#define IS_BUSY(c) false /* Broken. */
#else
#define IS_BUSY(c) busy[c]
#endif

/* remove_entry() */
inline remove_entry()
{
	if
	:: IS_BUSY(0) -> removed[0] = true
	:: else -> free_entry(0)
	fi;
#ifdef COMPACT
	listed[0] = false
#endif
}

#ifdef REMOVE
/* attach_hang_up(); after MAIL_CONSUMER_REMOVED, attachment_free(), which is notifier_dispose() */
proctype Control()
{
	put_out = true; /* daemon_disconnect() */
	lock();
	atomic { remove_entry(); locked = false }
	removal_mailed = true;
	removal_answered;
	lock();
	atomic {
		remove_entry();
		is_ours[0] = IS_BUSY(0);
		gone[0] = !is_ours[0];
		readable[0] = readable[0] || gone[0];
		locked = false;
		control_ended = true
	}
}
#endif
