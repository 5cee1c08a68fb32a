// SPDX-License-Identifier: Apache-2.0
/*
 * The datagrams of which some fragments have come. Memory is bounded: DATAGRAMS_MAX datagrams at once, and
 * DATAGRAMS_PER_SOURCE of one source address; a new one takes the place of the oldest. A datagram of which a part lacks
 * after DATAGRAM_TIMEOUT_NS is given up.
 *
 * What a UDP socket of Linux gets becomes whole here, too (net/ipv4/ip_fragment.c): the first fragment after a datagram
 * that is whole begins another one; a fragment of which all bytes have come before is dropped; one that overlaps others
 * makes the whole datagram refused (RFC 5722).
 *
 * Fragments that are equal to others with their identification are counted as ambiguous, if their datagram does not
 * become whole: the network may have repeated them, or the sender may have used the identification again for a
 * datagram of which a fragment is lost. For that, the bytes of a whole datagram are remembered for as long. So are the
 * fragments of a datagram with a wrong checksum, but for one, which may be made of two. So are those of a datagram that
 * is given up without its first fragment: nobody knows its port.
 */
#ifndef LIB_FRAGMENTS_DATAGRAMS_H
#define LIB_FRAGMENTS_DATAGRAMS_H

#include "lib/frame/frame.h"

#include <stdbool.h>
#include <stdint.h>

#define DATAGRAMS_MAX        512
#define DATAGRAMS_PER_SOURCE 64
/* Long for a network of one site; short, because IPv4 uses an identification again after 65,536 packets (RFC 4963). */
#define DATAGRAM_TIMEOUT_NS UINT64_C(200000000)

struct datagrams;

/* Each fragment is in one of the first three, but for one fragment of each datagram in the next three. */
struct datagram_counts {
	uint64_t held;       /* fragments, now, of datagrams of which a part lacks */
	uint64_t joined;     /* fragments that stand for no datagram of their own: parts of others, or of other ports */
	uint64_t ambiguous;  /* fragments of which it cannot be told whether a datagram of the stream is lost */
	uint64_t whole;      /* datagrams */
	uint64_t lost;       /* datagrams to the stream's ports that were given up */
	uint64_t refused;    /* datagrams whose fragments overlap, and fragments with wrong lengths */
	uint64_t incomplete; /* datagrams that were given up: lost, or ambiguous without the first fragment */
	uint64_t incomplete_bytes; /* bytes of their UDP datagrams that had come */
};

/* A frame as it would have come without fragments: its headers up to IP, then the UDP datagram. */
struct datagram_frame {
	const uint8_t *headers; /* valid until the next call */
	uint32_t header_bytes;
	const uint8_t *bytes; /* of the UDP datagram, with its UDP header; likewise */
	uint32_t n_kept;      /* so many of them are there */
	uint32_t n_bytes;
	bool is_checksum_bad;
	bool has_wrong_header; /* of IPv4, by its checksum, which a fragment came with: *headers have a right one */
	uint32_t tag;          /* of its first fragment */
};

/** Does a datagram to this UDP port belong to the stream? In network order. */
typedef bool datagrams_wants_port(const void *context, uint16_t port_be);

/** bytes_max: of each datagram so many bytes are kept, UDP header included. 0 or -ENOMEM. */
int datagrams_new(uint32_t bytes_max, datagrams_wants_port *wants_port, const void *context,
                  struct datagrams **datagrams);
void datagrams_free(struct datagrams *datagrams);

/**
 * A frame that is a fragment of UDP, which frame_walk() has read. tag: of its event. True: it made a datagram whole,
 * which is in *whole.
 */
bool datagrams_add(struct datagrams *datagrams, const uint8_t *bytes, uint32_t n_bytes, const struct frame *frame,
                   uint32_t tag, uint64_t now_ns, struct datagram_frame *whole);

/**
 * All frames that came before that time have been added: give up those that had waited too long by then. So a datagram
 * is not given up while its fragments wait for a worker that stood still.
 */
void datagrams_expire(struct datagrams *datagrams, uint64_t came_ns);
/** Likewise, if it is likely but not certain that they have all been added. */
void datagrams_time_out(struct datagrams *datagrams, uint64_t came_ns);
/** Give all up: no packet comes any more. */
void datagrams_give_up(struct datagrams *datagrams);

/** All fragments that are held came after that time; UINT64_MAX: none is held. */
uint64_t datagrams_oldest_ns(const struct datagrams *datagrams);

const struct datagram_counts *datagrams_counts(const struct datagrams *datagrams);

#endif
