// SPDX-License-Identifier: Apache-2.0
/*
 * Part of wake.pml: daemon/control/notifier.c, its two threads; and control, which puts consumer 0 out (-DREMOVE).
 *
 * How long a wake takes is in the client's hands: it goes on outside of the mutex. With -DSLOW_WAKES one of consumer 0
 * may have taken long, which moves it from the quick lane to the slow one; with -DENDLESS=SLOW one there may never end.
 */
#define QUICK false
#define SLOW  true

bool locked;               /* the mutex */
bool is_slow_due;
bool is_slow[CONSUMERS];
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
#ifndef WAKE_LOCKED
	atomic { busy[c] = true; locked = false }
#endif
	wake(lane);
	atomic {
#ifndef WAKE_LOCKED
		!locked -> locked = true;
		busy[c] = false;
#endif
#ifdef SLOW_WAKES
		if
		:: c == 0 -> is_slow[0] = true
		:: true
		fi;
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

/* is_due(), and whose it is */
inline look_at_entry(lane)
{
	atomic {
		c = ENTRY(i);
		at = 0;
		if
		:: listed[c] && !removed[c] -> USE(c); at = memory[WAKE_AT(c)]
		:: else
		fi;
		at = at != 0 && (at <= head || closed)
	}
	if
	:: at && is_slow[c] == lane -> wake_unlocked(lane)
	:: at && is_slow[c] != lane -> at = 0; is_slow_due = is_slow_due || lane == QUICK
	:: else
	fi;
	atomic { c = 0; at = 0 }
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
	byte head, closed, at, c, i;

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
	byte head, closed, at, c, i;

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
