// SPDX-License-Identifier: Apache-2.0
/* Compares payloads that arrive with payloads that were sent: which came, in order, late, or never. */
#ifndef TOOLS_SEND_ARRIVALS_H
#define TOOLS_SEND_ARRIVALS_H

#include <stddef.h>
#include <stdint.h>

#define ARRIVALS_PASSED_MAX 256 /* packets that others have overtaken; further back, a late one counts as missing */
#define ARRIVALS_TEXT_BYTES 160

struct arrivals_packet {
	uint64_t hash;
	uint64_t follower; /* number of the next packet in the same bucket */
};

/* Packets with hashes of one bucket, in the order of their numbers. Those before the expected ones have left it. */
struct arrivals_bucket {
	uint64_t first;
	uint64_t end; /* number of the last packet, plus 1 */
};

/* Zero-initialise it. sent = in_order + late + missing + those that may still come. */
struct arrivals {
	uint64_t n_sent;
	uint64_t n_in_order;
	uint64_t n_late;                            /* came after a packet that was sent later */
	uint64_t n_missing;                         /* overtaken by others, and did not come so far */
	uint64_t n_others;                          /* came, and were not sent, or came twice */
	char first_difference[ARRIVALS_TEXT_BYTES]; /* empty: none */
	struct arrivals_packet *expected;           /* packet number n is at n % room */
	struct arrivals_bucket *buckets;            /* of a hash table of the expected packets; room of them */
	size_t room;                                /* a power of 2 */
	uint64_t next;                              /* number of the packet that is expected next */
	uint64_t passed[ARRIVALS_PASSED_MAX];       /* hashes of packets that are missing; 0: none */
	uint64_t n_passed;
};

/** A payload will be sent. 0; -ENOMEM. */
int arrivals_sent(struct arrivals *arrivals, const uint8_t *payload, size_t bytes);

/** A payload has come. */
void arrivals_came(struct arrivals *arrivals, const uint8_t *payload, size_t bytes);

/** Nothing comes any more: what is waited for is missing. */
void arrivals_end(struct arrivals *arrivals);

/** Packets that may still come. */
static inline uint64_t arrivals_expected(const struct arrivals *arrivals)
{
	return arrivals->n_sent - arrivals->next;
}

void arrivals_deinit(struct arrivals *arrivals);

#endif
