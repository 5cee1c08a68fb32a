// SPDX-License-Identifier: Apache-2.0
/*
 * RoCE packets: Ethernet, GRH (RoCE v1) or IP and UDP (RoCE v2), the transport's headers (IBTA volume 1, chapter 9),
 * the payload, padding, and the invariant CRC (annexes A16 and A17). All functions are pure.
 */
#ifndef SOFTHCA_ROCE_ROCE_PACKET_H
#define SOFTHCA_ROCE_ROCE_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#define ROCE_UDP_PORT  4791
#define ROCE_GRH_BYTES 40u
/* Ethernet, GRH or IPv6, UDP, the longest headers, 4096 bytes, the CRC. */
#define ROCE_FRAME_BYTES (14u + 40 + 8 + 12 + 28 + 4096 + 4)

/* IBTA 9.2.1: 000 in the upper three bits is RC, 011 is UD. */
enum roce_opcode {
	RC_SEND_FIRST = 0x00,
	RC_SEND_MIDDLE = 0x01,
	RC_SEND_LAST = 0x02,
	RC_SEND_LAST_IMM = 0x03,
	RC_SEND_ONLY = 0x04,
	RC_SEND_ONLY_IMM = 0x05,
	RC_WRITE_FIRST = 0x06,
	RC_WRITE_MIDDLE = 0x07,
	RC_WRITE_LAST = 0x08,
	RC_WRITE_LAST_IMM = 0x09,
	RC_WRITE_ONLY = 0x0a,
	RC_WRITE_ONLY_IMM = 0x0b,
	RC_READ_REQUEST = 0x0c,
	RC_READ_RESPONSE_FIRST = 0x0d,
	RC_READ_RESPONSE_MIDDLE = 0x0e,
	RC_READ_RESPONSE_LAST = 0x0f,
	RC_READ_RESPONSE_ONLY = 0x10,
	RC_ACKNOWLEDGE = 0x11,
	RC_ATOMIC_ACKNOWLEDGE = 0x12,
	RC_COMPARE_SWAP = 0x13,
	RC_FETCH_ADD = 0x14,
	UD_SEND_ONLY = 0x64,
	UD_SEND_ONLY_IMM = 0x65,
};

/* What a packet of an opcode has and is. */
enum roce_traits {
	ROCE_DETH = 1 << 0,
	ROCE_RETH = 1 << 1,
	ROCE_ATOMIC_ETH = 1 << 2,
	ROCE_AETH = 1 << 3,
	ROCE_ATOMIC_ACK_ETH = 1 << 4,
	ROCE_IMM = 1 << 5,
	ROCE_PAYLOAD = 1 << 6,
	ROCE_FIRST = 1 << 7, /* begins a message */
	ROCE_LAST = 1 << 8,  /* ends one */
	ROCE_SEND = 1 << 9,
	ROCE_WRITE = 1 << 10,
	ROCE_RESPONSE = 1 << 11, /* from the responder to the requester */
	ROCE_KNOWN = 1 << 12,
};
uint32_t roce_traits(uint8_t opcode); /* 0: not an opcode of RC or UD */

/* IBTA 9.7.5.2: the upper three bits are the kind, the lower five a timer or a code. */
enum roce_syndrome {
	AETH_ACK = 0x1f, /* with no limit of credits */
	AETH_RNR_NAK = 0x20,
	AETH_NAK_SEQUENCE = 0x60,
	AETH_NAK_INVALID = 0x61,
	AETH_NAK_ACCESS = 0x62,
	AETH_NAK_OPERATION = 0x63,
};
#define AETH_KIND(syndrome) ((syndrome)&0xe0)

enum roce_version { ROCE_V1 = 1, ROCE_V2 = 2 }; /* enum ib_uverbs_gid_type */

/* Where a packet goes. IPv4 addresses are mapped to IPv6. */
struct roce_path {
	uint8_t dmac[6];
	uint8_t sgid[16], dgid[16];
	enum roce_version version;
	uint8_t tclass, hop_limit;
	uint32_t flow_label;
	uint16_t udp_sport;
};

struct roce_packet {
	uint8_t opcode;
	bool solicited, ack_request;
	uint32_t dest_qpn, psn;
	uint32_t qkey, src_qpn; /* DETH */
	uint64_t va;            /* RETH and AtomicETH */
	uint32_t rkey, dma_bytes;
	uint64_t swap_add, compare;
	uint8_t syndrome; /* AETH */
	uint32_t msn;
	uint64_t atomic_result;
	uint32_t imm_be;
	uint32_t bytes; /* of the payload, without padding */
	/* of a packet that was read: */
	const uint8_t *smac, *payload, *l3; /* l3: GRH or IP header */
	bool ipv4;
	enum roce_version version;
	uint8_t sgid[16], dgid[16];
};

enum roce_verdict { ROCE_IS_OTHER, ROCE_IS_BAD, ROCE_IS_GOOD };

/* Builds the tables of the CRC. To be called once before the other functions. */
void roce_packet_init(void);

/* A frame that is not RoCE, one that must be dropped (a length, a checksum or a field is wrong), or a packet. */
enum roce_verdict roce_packet_read(struct roce_packet *p, const uint8_t *frame, uint32_t bytes);

/* Writes the headers and returns the place of the payload, which the caller fills in. */
uint8_t *roce_packet_begin(uint8_t *frame, const struct roce_packet *p, const struct roce_path *path,
                           const uint8_t smac[6]);
/* Pads the payload and writes the CRC. Returns the length of the frame. */
uint32_t roce_packet_end(uint8_t *frame, const struct roce_packet *p, const struct roce_path *path);

/* The 40 bytes in front of a received datagram: the GRH or IPv6 header, or 20 bytes of zeros and the IPv4 header. */
void roce_packet_grh(const struct roce_packet *p, uint8_t grh[ROCE_GRH_BYTES]);

/* PSNs have 24 bits. The difference is negative if `a` comes before `b`. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t psn_since(uint32_t a, uint32_t b)
{
	return (a - b) & 0xffffff;
}

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & 0xffffff;
}

#endif
