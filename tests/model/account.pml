// SPDX-License-Identifier: Apache-2.0
/*
 * The account of lossless consumers: rx_ring_charge_stalls() and settle() in daemon/ring/backpressure.c, account_take() in
 * daemon/control/account.c. One user, who has two consumers at a time, each of which hangs up and attaches again at any
 * moment and pins as it likes; the worker hears of it late, of each in order. Time goes in rounds of the worker: it
 * looks, takes its mail, and a round passes.
 *
 * What holds, for every stretch of time and whatever the user does:
 *   - the queue waits for DEADLINE and a REPAYth of the rest of that stretch at most; a round more, until the next look
 *   - who is demoted has kept it waiting for that long: nobody pays for time in which no consumer of the user pinned
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
#define ACCOUNTS 2 /* one, but for broken variants */
#define NONE     255
#define SINCE_MAX ((DEADLINE + 2) * REPAY) /* longer ago than any debt */

typedef Place {
	bool attached; /* in the point's list; until MAIL_CONSUMER_REMOVED */
	bool session;
	bool in_ring;
	bool lossless; /* policy in force */
	bool pins;     /* its cursor has not left the oldest block */
	byte account
};

typedef Account {
	bool exists;
	bool pins;  /* since the last look */
	byte owed;
	byte since; /* rounds since it was settled */
};

Place place[PLACES];
Account account[ACCOUNTS];
byte waited;  /* the judge's */
bool pinned;  /* open_block(): somebody pins */
bool charging;

inline settle(which)
{
	if
	:: account[which].pins -> account[which].owed = account[which].owed + REPAY * account[which].since
	:: !account[which].pins && account[which].since < account[which].owed ->
		account[which].owed = account[which].owed - account[which].since
	:: else -> account[which].owed = 0
	fi;
	account[which].since = 0;
	account[which].pins = false
}

inline look_at(at)
{
	if
	:: place[at].in_ring && place[at].lossless && place[at].pins ->
		if
		:: account[place[at].account].owed / REPAY >= DEADLINE ->
			place[at].lossless = false; /* demote() */
			assert(waited / REPAY >= DEADLINE)
		:: else -> account[place[at].account].pins = true
		fi
	:: else
	fi
}

inline settle_of(at)
{
	if
	:: place[at].in_ring && place[at].lossless ->
		settle(place[at].account);
#ifdef CLEARED
		/* Broken: who has caught up for a moment owes nothing. */
		account[place[at].account].owed = (place[at].pins -> account[place[at].account].owed : 0)
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
	:: account[which].exists && account[which].since < SINCE_MAX -> account[which].since++
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

/* is_used() */
#define IS_WITH(at, a)     (place[at].account == (a))
#define IS_USED(a)         (place[0].attached && IS_WITH(0, a) || place[1].attached && IS_WITH(1, a))

/* forget_repaid() */
inline forget_repaid(which)
{
#ifdef FORGET_EARLY
	if
	:: account[which].exists && !IS_USED(which) -> /* Broken: what is owed goes with who owes it. */
#else
	if
	:: account[which].exists && !IS_USED(which) && account[which].since >= account[which].owed ->
#endif
		account[which].exists = false;
		account[which].owed = 0;
		account[which].since = 0
	:: else
	fi
}

/* account_take(), attachment_new(). No place, no account left: not now. */
inline attach(at)
{
	forget_repaid(0);
	forget_repaid(1);
	if
#if defined(ALWAYS_NEW)
	:: true -> /* Broken. */
#elif defined(ONE_EACH)
	/* Broken: what another has is not for this one. */
	:: account[0].exists && !IS_USED(0) -> a = 0
	:: !(account[0].exists && !IS_USED(0)) && account[1].exists && !IS_USED(1) -> a = 1
	:: else ->
#else
	:: account[0].exists -> a = 0
	:: else ->
#endif
		if
		:: !account[0].exists -> a = 0
		:: account[0].exists && !account[1].exists -> a = 1
		:: else
		fi
	fi;
	if
	:: a != NONE ->
		account[a].exists = true;
		place[at].attached = true;
		place[at].session = true;
		place[at].lossless = true;
		place[at].account = a
	:: else
	fi;
	a = NONE
}

/* rx_ring_remove_consumer(), then attachment_free() */
inline remove(at)
{
#ifdef CLEARED_FOR_ALL
	account[place[at].account].pins = false; /* Broken: the other one may pin. */
#else
	account[place[at].account].pins =
		account[place[at].account].pins && PINS(1 - at) && IS_WITH(1 - at, place[at].account);
#endif
	place[at].in_ring = false;
	place[at].attached = false;
	place[at].lossless = false;
	place[at].pins = false;
	place[at].account = 0
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
