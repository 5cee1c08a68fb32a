// SPDX-License-Identifier: Apache-2.0
/*
 * Part of wake.pml: daemon/control/notifier.c, its thread; and control, which disconnects consumer 0 at any moment
 * (-DREMOVE). With -DBUDGET the user of consumer 0 may be over its wake budget at any look: it is woken later.
 *
 * The client decides how long a wake-up takes, so the thread holds no mutex meanwhile. With -DENDLESS a wake-up of
 * consumer 0 may never end: nobody else is woken then, but control goes on. (That a wake-up takes a bounded time, and
 * that a user has a bounded number of long ones, is the wake budget's matter; the model has no time.)
 */
bool locked;                  /* the mutex */
byte served[CONSUMERS];       /* the last request that was */
bool listed[CONSUMERS] = true;
bool busy[CONSUMERS];         /* a wake-up is under way */
bool removed[CONSUMERS];
bool is_ours[CONSUMERS];      /* to be freed when the wake-up ends */

inline lock()
{
	atomic { !locked -> locked = true }
}

/* rx_ring_wake_consumer() */
inline wake_consumer()
{
#ifdef WAKE_FIRST
	asleep[c] = false; /* Broken: a consumer that compares the word in between sleeps on. */
	d_step { USE(c); word_changed[c] = true }
#else
	d_step { USE(c); word_changed[c] = true } /* daemon_bump_wake_word() */
	asleep[c] = false
#endif
}

/* notifier_wake_consumer() */
inline wake()
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
	:: c == 0 ->
end_endless:	false
	fi
#endif
}

/* notifier_free_entry() */
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
inline wake_unlocked()
{
	atomic { served[c] = due; due = 0 }
#ifndef WAKE_LOCKED
	atomic { busy[c] = true; locked = false }
#endif
	wake();
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

#ifdef BUDGET
#define MAY_BE_OVER_BUDGET(c) ((c) == 0)
#else
#define MAY_BE_OVER_BUDGET(c) false
#endif

/* due_request(); then cpu_budget_excess_ns() */
inline look_at_entry()
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
		:: due && MAY_BE_OVER_BUDGET(c) ->
#ifndef LATE_FORGOTTEN /* Broken: nothing but another ring wakes it. */
			late = true;
#endif
			due = 0
		:: true
		fi
	}
	if
	:: due -> wake_unlocked()
	:: else
	fi;
	c = 0
}

/* notify_all(); the mutex is held, except during a wake-up */
inline notify_all()
{
#ifdef CLOSE
	closed = memory[CLOSED];
#endif
	head = memory[HEAD];
	do
	:: i < CONSUMERS -> look_at_entry(); i++
	:: else -> break
	od;
	atomic { i = 0; head = 0; closed = 0 }
}

/* notifier_main() */
proctype Notifier()
{
	byte head, closed, at, due, c, i;
	bool late;

	do
	:: true ->
#ifdef DOORBELL_LATE
end:		rung;
		lock();
		notify_all();
		locked = false;
		rung = false /* Broken: a ring during the pass is lost with it. */
#else
end:		if /* await_ring() */
		:: d_step { rung -> rung = false; late = false }
		:: late -> late = false /* the time is over */
		fi;
		lock();
		notify_all();
		locked = false
#endif
	od
}

/* ---- control ------------------------------------------------------------------------------------- */

#ifdef FREE_WHILE_BUSY
#define IS_BUSY(c) false /* Broken. */
#else
#define IS_BUSY(c) busy[c]
#endif

/* notifier_remove_entry() */
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
/* rx_session_close(); after MAIL_CONSUMER_REMOVED, rx_session_release(), which calls notifier_dispose() */
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
