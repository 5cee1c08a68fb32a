// SPDX-License-Identifier: Apache-2.0
/* Recognizes the frames whose headers end where the device splits them, without a walk over the headers. Pure. */
#ifndef DAEMON_PACKET_PACKET_PLAIN_H
#define DAEMON_PACKET_PACKET_PLAIN_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PACKET_IPV4_BYTES 20 /* without options */
#define PACKET_IPV6_BYTES 40 /* without extension headers */
#define PACKET_UDP_BYTES  8

/* Offset of the UDP header's length field from the start of the IP header. */
#define PACKET_UDP_LENGTH_AT_IPV4 (PACKET_IPV4_BYTES + 4)
#define PACKET_UDP_LENGTH_AT_IPV6 (PACKET_IPV6_BYTES + 4)

/*
 * The plain frame of one header layout: IPv4 without options that is not a fragment, or IPv6 without extension
 * headers, then UDP, with the VLAN tag of the layout if it has one. One word decides whether a frame is plain, and has
 * the length in the IP header, too. It is made of two words of the frame, which lie so that what counts in one is at
 * other bytes than what counts in the other.
 */
struct packet_plain {
	uint64_t mask[2];      /* of the two words, without a bit in common */
	uint64_t counts;       /* the bits of the word that make a frame plain: all but those of the length */
	uint64_t want;         /* their values */
	uint32_t l3;           /* where the IP header starts: 14 or 18 */
	uint32_t header_bytes; /* to the UDP payload: 42, 46, 62 or 66 */
	uint32_t before_udp;   /* header_bytes without those of UDP */
	size_t udp_length_at;  /* one of the above */
};

/** The plain frame of the layout whose headers have that many bytes. False: there is no such layout. */
bool packet_plain_init(struct packet_plain *plain, uint32_t header_bytes);

/**
 * All that makes a frame plain, and its length. ip: the frame's byte l3; header_bytes of the frame are readable.
 * udp_length_at: the layout's, a constant in a loop.
 */
static inline __attribute__((always_inline)) uint64_t packet_plain_word(const struct packet_plain *plain,
                                                                        const uint8_t *ip, size_t udp_length_at)
{
	uint64_t word[2];

	memcpy(&word[0], ip - (udp_length_at == PACKET_UDP_LENGTH_AT_IPV4 ? 3 : 2), sizeof(word[0]));
	memcpy(&word[1], ip + 2, sizeof(word[1]));
	return (word[0] & plain->mask[0]) | (word[1] & plain->mask[1]);
}

static inline bool packet_word_is_plain(const struct packet_plain *plain, uint64_t word)
{
	return (word & plain->counts) == plain->want;
}

static inline bool packet_is_plain(const struct packet_plain *plain, const uint8_t *ip)
{
	return packet_word_is_plain(plain, packet_plain_word(plain, ip, plain->udp_length_at));
}

static inline uint16_t packet_u16_be(const uint8_t *bytes)
{
	uint16_t be;

	memcpy(&be, bytes, sizeof(be));
	return be;
}

/** Where the IP packet of a plain frame ends, from the beginning of the frame. */
static inline uint32_t packet_ip_end(const struct packet_plain *plain, const uint8_t *ip, size_t udp_length_at)
{
	return udp_length_at == PACKET_UDP_LENGTH_AT_IPV4
	               ? plain->l3 + ntohs(packet_u16_be(ip + 2))
	               : plain->l3 + PACKET_IPV6_BYTES + ntohs(packet_u16_be(ip + 4));
}

/** The UDP header's length field of a plain frame: the header's own 8 bytes included. */
static inline uint32_t packet_udp_length(const struct packet_plain *plain, const uint8_t *ip)
{
	return ntohs(packet_u16_be(ip + plain->udp_length_at));
}

#endif
