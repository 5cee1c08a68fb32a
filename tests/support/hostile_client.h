// SPDX-License-Identifier: Apache-2.0
/* What the parts of hostile_client share. hostile_page.c and hostile_sender.c lie in memory, hostile_client.c on the
 * socket. */
#ifndef TESTS_SUPPORT_HOSTILE_CLIENT_H
#define TESTS_SUPPORT_HOSTILE_CLIENT_H

#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <stdint.h>

#define HOSTILE_REASONS 10 /* enum ibvcap_disconnect */
#define HOSTILE_DEAF    4

/* Why it was refused, by the daemon's own words. */
enum hostile_refusal {
	REFUSED_RATE, /* too many messages or connections a second */
	REFUSED_MALFORMED,
	REFUSED_NO_REQUEST, /* a message of the daemon's own, say */
	REFUSED_ELSE,
	REFUSED_N
};

struct hostile {
	const char *path;
	const char *stream;
	uint64_t random;
	uint64_t end_ms;
	uint64_t attached;
	uint64_t sent;    /* messages out of the ordinary */
	uint64_t written; /* words of its page */
	uint64_t looks;   /* blocks that were recycled, each after a look at its page, while it lied */
	uint64_t broken;  /* what it must never be able to do, and did */
	uint64_t hung_up;
	uint64_t refused[REFUSED_N];
	uint64_t
		put_out[HOSTILE_REASONS]; /* attachments, by what the daemon's page said in the end; 0: it was let be */
	int deaf[HOSTILE_DEAF];           /* connections whose answers are not read */
};

uint64_t hostile_next(struct hostile *hostile);
uint64_t hostile_now_ms(void);
bool hostile_is_over(const struct hostile *hostile);
void hostile_nap_ms(unsigned ms);

/* -1: not now. */
int hostile_connect(struct hostile *hostile);

/* The connection, and its descriptors; -1: refused. */
int hostile_attach(struct hostile *hostile, enum ibvcap_policy policy, int fds[PROTOCOL_FDS_MAX], unsigned *n_fds);

/* One turn of each way: an attachment, or some messages. */
void hostile_lease(struct hostile *hostile);
void hostile_plausible(struct hostile *hostile);
void hostile_random(struct hostile *hostile);
void hostile_punch(struct hostile *hostile);
void hostile_back(struct hostile *hostile);
void hostile_ahead(struct hostile *hostile);
void hostile_split(struct hostile *hostile);
void hostile_still(struct hostile *hostile);
void hostile_watched(struct hostile *hostile);
void hostile_tap(struct hostile *hostile);
void hostile_send(struct hostile *hostile);
void hostile_kick(struct hostile *hostile);
void hostile_end(struct hostile *hostile);

#endif
