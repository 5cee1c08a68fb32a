// SPDX-License-Identifier: Apache-2.0
/*
 * The stall budget: rx_ring_charge_stalls() and its settling in daemon/ring/backpressure.c, user_share_at() and
 * users_forget() in daemon/control/user.c. One user has two consumers; each leaves and attaches again at any moment and
 * pins blocks as it likes. The worker hears of each late, but in order. Time goes in rounds of the worker: the worker
 * looks, takes its mail, and a round passes. Control forgets a budget at a tick, the model when a consumer attaches: a
 * repaid budget is the same as none.
 *
 * What holds, for every stretch of time and whatever the user does:
 *   - the queue waits for DEADLINE and a REPAYth of the rest of that stretch at most; a round more, until the next look
 *   - a consumer is demoted only after its user has kept the queue waiting for that long: no user pays for time in
 *     which none of its consumers pinned a block
 *
 * waited is the judge: REPAY a round of waiting, less one a round without, from any moment on.
 *
 * Bounds (-D): DEADLINE rounds, REPAY in place of RX_RING_REPAY. Variants (-D): see CMakeLists.txt.
 */
#ifndef DEADLINE
#define DEADLINE 3
#endif
#ifndef REPAY
#define REPAY 3
#endif
#define PLACES   2 /* the user's consumers, those on their way out among them */
#define BUDGETS  2 /* one, but for broken variants */
#define NONE     255
#define SINCE_MAX ((DEADLINE + 2) * REPAY) /* longer ago than any debt */

typedef Place {
	bool attached; /* in the endpoint's list; until MAIL_CONSUMER_REMOVED */
	bool session;
	bool in_ring;
	bool lossless; /* policy in force */
	bool pins;     /* its cursor has not left the oldest block */
	byte budget
};

typedef Budget {
	bool exists;
	bool pins;  /* since the last look */
	byte owed;
	byte since; /* rounds since it was settled */
};

Place place[PLACES];
Budget budget[BUDGETS];
byte waited;  /* the judge's */
bool pinned;  /* rx_ring_open_block(): somebody pins */
bool charging;

inline settle(which)
{
	if
	:: budget[which].pins -> budget[which].owed = budget[which].owed + REPAY * budget[which].since
	:: !budget[which].pins && budget[which].since < budget[which].owed ->
		budget[which].owed = budget[which].owed - budget[which].since
	:: else -> budget[which].owed = 0
	fi;
	budget[which].since = 0;
	budget[which].pins = false
}

inline look_at(at)
{
	if
	:: place[at].in_ring && place[at].lossless && place[at].pins ->
		if
		:: budget[place[at].budget].owed / REPAY >= DEADLINE ->
			place[at].lossless = false; /* demote() */
			assert(waited / REPAY >= DEADLINE)
		:: else -> budget[place[at].budget].pins = true
		fi
	:: else
	fi
}

inline settle_of(at)
{
	if
	:: place[at].in_ring && place[at].lossless ->
		settle(place[at].budget);
#ifdef CLEARED
		/* Broken: who has caught up for a moment owes nothing. */
		budget[place[at].budget].owed = (place[at].pins -> budget[place[at].budget].owed : 0)
#endif
	:: else
	fi
}

#define PINS(p) (place[p].in_ring && place[p].lossless && place[p].pins)

/* rx_ring_charge_stalls() */
inline charge_pins()
{
	pinned = PINS(0) || PINS(1);
	if
#ifdef ONLY_WHILE_PINNED
	:: pinned -> /* Broken: who stops to pin is charged until the next one does. */
#else
	:: pinned || charging ->
#endif
		settle_of(0);
		settle_of(1);
		charging = pinned;
		if
		:: pinned -> look_at(0); look_at(1)
		:: else
		fi
	:: else
	fi
}

inline grow_older(which)
{
	if
	:: budget[which].exists && budget[which].since < SINCE_MAX -> budget[which].since++
	:: else
	fi
}

inline round_passes()
{
	if
	:: PINS(0) || PINS(1) -> waited = waited + REPAY
	:: else -> waited = (waited > 0 -> waited - 1 : 0)
	fi;
	assert(waited / REPAY <= DEADLINE);
	grow_older(0);
	grow_older(1)
}

/* ---- control ------------------------------------------------------------------------------------- */

/* is_share_in_use() */
#define IS_WITH(at, a)     (place[at].budget == (a))
#define IS_USED(a)         (place[0].attached && IS_WITH(0, a) || place[1].attached && IS_WITH(1, a))

/* users_forget() */
inline forget_repaid(which)
{
#ifdef FORGET_EARLY
	if
	:: budget[which].exists && !IS_USED(which) -> /* Broken: the debt goes with the consumer. */
#else
	if
	:: budget[which].exists && !IS_USED(which) && budget[which].since >= budget[which].owed ->
#endif
		budget[which].exists = false;
		budget[which].owed = 0;
		budget[which].since = 0
	:: else
	fi
}

/* user_share_at(), rx_session_new(). No place, no budget left: not now. */
inline attach(at)
{
	forget_repaid(0);
	forget_repaid(1);
	if
#if defined(ALWAYS_NEW)
	:: true -> /* Broken. */
#elif defined(ONE_EACH)
	/* Broken: two consumers never share a budget. */
	:: budget[0].exists && !IS_USED(0) -> a = 0
	:: !(budget[0].exists && !IS_USED(0)) && budget[1].exists && !IS_USED(1) -> a = 1
	:: else ->
#else
	:: budget[0].exists -> a = 0
	:: else ->
#endif
		if
		:: !budget[0].exists -> a = 0
		:: budget[0].exists && !budget[1].exists -> a = 1
		:: else
		fi
	fi;
	if
	:: a != NONE ->
		budget[a].exists = true;
		place[at].attached = true;
		place[at].session = true;
		place[at].lossless = true;
		place[at].budget = a
	:: else
	fi;
	a = NONE
}

/* rx_ring_remove_consumer(), then rx_session_free() */
inline remove(at)
{
#ifdef CLEARED_FOR_ALL
	budget[place[at].budget].pins = false; /* Broken: the other one may pin. */
#else
	budget[place[at].budget].pins =
		budget[place[at].budget].pins && PINS(1 - at) && IS_WITH(1 - at, place[at].budget);
#endif
	place[at].in_ring = false;
	place[at].attached = false;
	place[at].lossless = false;
	place[at].pins = false;
	place[at].budget = 0
}

#define IS_LEAVING(at) (place[at].attached && !place[at].session)

/* What may happen to one of them while the worker waits, or takes its mail. */
inline happens(at)
{
	if
	:: !place[at].attached -> attach(at)
	:: place[at].session -> place[at].session = false
	:: took_mail && place[at].session && !place[at].in_ring -> place[at].in_ring = true
	:: took_mail && IS_LEAVING(at) -> remove(at)
	:: !took_mail && place[at].in_ring -> place[at].pins = !place[at].pins
	fi
}

proctype Everything()
{
	byte a = NONE;
	bool took_mail;

	do
	:: atomic { happens(0) }
	:: atomic { happens(1) }
	:: d_step { !took_mail; charge_pins(); took_mail = true }
	:: d_step { took_mail; round_passes(); took_mail = false }
	od
}

init {
	run Everything()
}
