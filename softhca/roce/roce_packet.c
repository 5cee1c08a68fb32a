// SPDX-License-Identifier: Apache-2.0
/* Reads and writes the headers of RoCE packets. */
#include "roce_packet.h"

#include "../device/packet.h"
#include "icrc.h"

#include <endian.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

#define ETH_P_ROCE     0x8915
#define NEXT_HEADER_IB 0x1b /* of a GRH */
#define IPV4_BYTES     20u
#define IPV6_BYTES     40u
#define UDP_BYTES      8u
#define BTH_BYTES      12u
#define CRC_BYTES      4u
#define DEFAULT_PKEY   0xffff
#define HOP_LIMIT      64

static const uint8_t ipv4_mapped[12] = {[10] = 0xff, [11] = 0xff};

uint32_t roce_traits(uint8_t opcode)
{
	enum { FIRST = ROCE_PAYLOAD | ROCE_FIRST, MIDDLE = ROCE_PAYLOAD, LAST = ROCE_PAYLOAD | ROCE_LAST };
	static const uint16_t traits[UD_SEND_ONLY_IMM + 1] = {
		[RC_SEND_FIRST] = ROCE_SEND | FIRST,
		[RC_SEND_MIDDLE] = ROCE_SEND | MIDDLE,
		[RC_SEND_LAST] = ROCE_SEND | LAST,
		[RC_SEND_LAST_IMM] = ROCE_SEND | LAST | ROCE_IMM,
		[RC_SEND_ONLY] = ROCE_SEND | FIRST | LAST,
		[RC_SEND_ONLY_IMM] = ROCE_SEND | FIRST | LAST | ROCE_IMM,
		[RC_WRITE_FIRST] = ROCE_WRITE | FIRST | ROCE_RETH,
		[RC_WRITE_MIDDLE] = ROCE_WRITE | MIDDLE,
		[RC_WRITE_LAST] = ROCE_WRITE | LAST,
		[RC_WRITE_LAST_IMM] = ROCE_WRITE | LAST | ROCE_IMM,
		[RC_WRITE_ONLY] = ROCE_WRITE | FIRST | LAST | ROCE_RETH,
		[RC_WRITE_ONLY_IMM] = ROCE_WRITE | FIRST | LAST | ROCE_RETH | ROCE_IMM,
		[RC_READ_REQUEST] = ROCE_RETH | ROCE_FIRST | ROCE_LAST,
		[RC_READ_RESPONSE_FIRST] = ROCE_RESPONSE | FIRST | ROCE_AETH,
		[RC_READ_RESPONSE_MIDDLE] = ROCE_RESPONSE | MIDDLE,
		[RC_READ_RESPONSE_LAST] = ROCE_RESPONSE | LAST | ROCE_AETH,
		[RC_READ_RESPONSE_ONLY] = ROCE_RESPONSE | FIRST | LAST | ROCE_AETH,
		[RC_ACKNOWLEDGE] = ROCE_RESPONSE | ROCE_AETH,
		[RC_ATOMIC_ACKNOWLEDGE] = ROCE_RESPONSE | ROCE_AETH | ROCE_ATOMIC_ACK_ETH,
		[RC_COMPARE_SWAP] = ROCE_ATOMIC_ETH | ROCE_FIRST | ROCE_LAST,
		[RC_FETCH_ADD] = ROCE_ATOMIC_ETH | ROCE_FIRST | ROCE_LAST,
		[UD_SEND_ONLY] = ROCE_SEND | FIRST | LAST | ROCE_DETH,
		[UD_SEND_ONLY_IMM] = ROCE_SEND | FIRST | LAST | ROCE_DETH | ROCE_IMM,
	};
	uint32_t t = opcode <= UD_SEND_ONLY_IMM ? traits[opcode] : 0;

	return t ? t | ROCE_KNOWN : 0;
}

static uint32_t roce_load24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static uint32_t roce_load32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, 4);
	return be32toh(v);
}

static uint64_t roce_load64(const uint8_t *at)
{
	return (uint64_t)roce_load32(at) << 32 | roce_load32(at + 4);
}

static uint8_t *roce_store32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, 4);
	return at + 4;
}

static uint8_t *roce_store64(uint8_t *at, uint64_t v)
{
	return roce_store32(roce_store32(at, (uint32_t)(v >> 32)), (uint32_t)v);
}

static uint32_t roce_extension_bytes(uint32_t traits)
{
	static const uint8_t bytes[] = {8, 16, 28, 4, 8, 4}; /* ROCE_DETH to ROCE_IMM */
	uint32_t n = 0;

	for (unsigned int i = 0; i < sizeof(bytes); i++)
		n += traits >> i & 1 ? bytes[i] : 0;
	return n;
}

static const uint8_t *roce_read_extensions(struct roce_packet *p, const uint8_t *at, uint32_t traits)
{
	if (traits & ROCE_DETH) {
		p->qkey = roce_load32(at);
		p->src_qpn = roce_load24(at + 5);
		at += 8;
	}
	if (traits & (ROCE_RETH | ROCE_ATOMIC_ETH)) {
		p->va = roce_load64(at);
		p->rkey = roce_load32(at + 8);
		at += 12;
	}
	if (traits & ROCE_RETH) {
		p->dma_bytes = roce_load32(at);
		at += 4;
	}
	if (traits & ROCE_ATOMIC_ETH) {
		p->swap_add = roce_load64(at);
		p->compare = roce_load64(at + 8);
		at += 16;
	}
	if (traits & ROCE_AETH) {
		p->syndrome = at[0];
		p->msn = roce_load24(at + 1);
		at += 4;
	}
	if (traits & ROCE_ATOMIC_ACK_ETH) {
		p->atomic_result = roce_load64(at);
		at += 8;
	}
	if (traits & ROCE_IMM) {
		memcpy(&p->imm_be, at, 4);
		at += 4;
	}
	return at;
}

/* Reads the transport's headers, which begin at `bth`; `end` is the end of the CRC. */
static bool roce_read_transport(struct roce_packet *p, const uint8_t *bth, const uint8_t *end)
{
	uint32_t traits = roce_traits(bth[0]), pad = bth[1] >> 4 & 3, crc;
	uint32_t headers = BTH_BYTES + roce_extension_bytes(traits);

	/* IBTA 9.6.1: version 0, a known opcode, the default partition, whose only member each port is. */
	if (!traits || (bth[1] & 0xf) || (bth[2] << 8 | bth[3]) != DEFAULT_PKEY ||
	    (size_t)(end - bth) < headers + pad + CRC_BYTES || ((end - bth) & 3))
		return false;
	memcpy(&crc, end - CRC_BYTES, CRC_BYTES);
	if (crc != icrc_of(p->l3, (uint32_t)(bth - p->l3), p->ipv4, bth, (uint32_t)(end - CRC_BYTES - bth)))
		return false;
	p->opcode = bth[0];
	p->solicited = bth[1] >> 7;
	p->dest_qpn = roce_load24(bth + 5);
	p->ack_request = bth[8] >> 7;
	p->psn = roce_load24(bth + 9);
	p->payload = roce_read_extensions(p, bth + BTH_BYTES, traits);
	p->bytes = (uint32_t)(end - CRC_BYTES - pad - p->payload);
	return !(p->bytes && !(traits & ROCE_PAYLOAD));
}

static enum roce_verdict roce_read_v1(struct roce_packet *p, const uint8_t *frame, uint32_t bytes)
{
	const uint8_t *grh = frame + ETH_HLEN;
	uint32_t payload;

	if (bytes < ETH_HLEN + ROCE_GRH_BYTES + BTH_BYTES + CRC_BYTES)
		return ROCE_IS_BAD;
	payload = (uint32_t)(grh[4] << 8 | grh[5]);
	if (grh[0] >> 4 != 6 || grh[6] != NEXT_HEADER_IB || payload < BTH_BYTES + CRC_BYTES ||
	    payload > bytes - ETH_HLEN - ROCE_GRH_BYTES)
		return ROCE_IS_BAD;
	p->version = ROCE_V1;
	p->l3 = grh;
	memcpy(p->sgid, grh + 8, 16);
	memcpy(p->dgid, grh + 24, 16);
	return roce_read_transport(p, grh + ROCE_GRH_BYTES, grh + ROCE_GRH_BYTES + payload) ? ROCE_IS_GOOD
	                                                                                    : ROCE_IS_BAD;
}

enum roce_verdict roce_packet_read(struct roce_packet *p, const uint8_t *frame, uint32_t bytes)
{
	struct packet headers;
	const uint8_t *udp;
	uint32_t udp_bytes;

	memset(p, 0, sizeof(*p));
	p->smac = frame + ETH_ALEN;
	packet_read_headers(&headers, frame, bytes);
	if (headers.key.ether_type == htobe16(ETH_P_ROCE) && !headers.key.cvlan)
		return roce_read_v1(p, frame, bytes);
	if (headers.key.ip_proto != IPPROTO_UDP || headers.key.dst_port != htobe16(ROCE_UDP_PORT) || !headers.l4_offset)
		return ROCE_IS_OTHER;
	p->version = ROCE_V2;
	p->l3 = frame + headers.l3_offset;
	p->ipv4 = headers.key.ip_version == 4;
	udp = frame + headers.l4_offset;
	udp_bytes = (uint32_t)(udp[4] << 8 | udp[5]);
	/* Annex A17.4.5: a fragment, a tag or an option is never sent; IPv4's checksum must be right. */
	if (headers.cut || headers.key.fragment || headers.key.cvlan || udp_bytes < UDP_BYTES + BTH_BYTES + CRC_BYTES ||
	    udp_bytes != headers.l3_end - headers.l4_offset ||
	    (p->ipv4 && (headers.ipv4_bytes != IPV4_BYTES || !packet_ipv4_csum_ok(&headers, frame))))
		return ROCE_IS_BAD;
	if (p->ipv4) {
		memcpy(p->sgid, ipv4_mapped, 12);
		memcpy(p->dgid, ipv4_mapped, 12);
		memcpy(p->sgid + 12, headers.key.src_ip, 4);
		memcpy(p->dgid + 12, headers.key.dst_ip, 4);
	} else {
		memcpy(p->sgid, headers.key.src_ip, 16);
		memcpy(p->dgid, headers.key.dst_ip, 16);
	}
	return roce_read_transport(p, udp + UDP_BYTES, udp + udp_bytes) ? ROCE_IS_GOOD : ROCE_IS_BAD;
}

static bool roce_path_is_ipv4(const struct roce_path *path)
{
	return path->version == ROCE_V2 && !memcmp(path->dgid, ipv4_mapped, 12);
}

static uint32_t roce_l3_bytes(const struct roce_path *path)
{
	return path->version == ROCE_V1 ? ROCE_GRH_BYTES
	                                : (roce_path_is_ipv4(path) ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;
}

/* The bytes from BTH to CRC. */
static uint32_t roce_transport_bytes(const struct roce_packet *p)
{
	return BTH_BYTES + roce_extension_bytes(roce_traits(p->opcode)) + ((p->bytes + 3) & ~3u) + CRC_BYTES;
}

static uint8_t *roce_write_ipv4(uint8_t *at, const struct roce_path *path, uint32_t bytes)
{
	uint16_t sum;

	roce_store32(at, 0x45000000u | (uint32_t)path->tclass << 16 | (IPV4_BYTES + UDP_BYTES + bytes));
	roce_store32(at + 4, 0x4000); /* do not fragment */
	at[8] = path->hop_limit ? path->hop_limit : HOP_LIMIT;
	at[9] = IPPROTO_UDP;
	memset(at + 10, 0, 2);
	memcpy(at + 12, path->sgid + 12, 4);
	memcpy(at + 16, path->dgid + 12, 4);
	sum = (uint16_t)~packet_sum(at, IPV4_BYTES);
	memcpy(at + 10, &sum, 2);
	return at + IPV4_BYTES;
}

/* A GRH has the form of an IPv6 header. */
static uint8_t *roce_write_ipv6(uint8_t *at, const struct roce_path *path, uint8_t next_header, uint32_t bytes)
{
	roce_store32(at, 6u << 28 | (uint32_t)path->tclass << 20 | (path->flow_label & 0xfffff));
	roce_store32(at + 4,
	             bytes << 16 | (uint32_t)next_header << 8 | (path->hop_limit ? path->hop_limit : HOP_LIMIT));
	memcpy(at + 8, path->sgid, 16);
	memcpy(at + 24, path->dgid, 16);
	return at + IPV6_BYTES;
}

static uint8_t *roce_write_l3(uint8_t *at, const struct roce_path *path, uint32_t bytes)
{
	if (path->version == ROCE_V1)
		return roce_write_ipv6(at, path, NEXT_HEADER_IB, bytes);
	at = roce_path_is_ipv4(path) ? roce_write_ipv4(at, path, bytes)
	                             : roce_write_ipv6(at, path, IPPROTO_UDP, UDP_BYTES + bytes);
	roce_store32(at, (uint32_t)path->udp_sport << 16 | ROCE_UDP_PORT);
	return roce_store32(at + 4, (UDP_BYTES + bytes) << 16); /* annex A17.4.5: no checksum */
}

static uint8_t *roce_write_extensions(uint8_t *at, const struct roce_packet *p, uint32_t traits)
{
	if (traits & ROCE_DETH)
		at = roce_store32(roce_store32(at, p->qkey), p->src_qpn);
	if (traits & (ROCE_RETH | ROCE_ATOMIC_ETH))
		at = roce_store32(roce_store64(at, p->va), p->rkey);
	if (traits & ROCE_RETH)
		at = roce_store32(at, p->dma_bytes);
	if (traits & ROCE_ATOMIC_ETH)
		at = roce_store64(roce_store64(at, p->swap_add), p->compare);
	if (traits & ROCE_AETH)
		at = roce_store32(at, (uint32_t)p->syndrome << 24 | (p->msn & 0xffffff));
	if (traits & ROCE_ATOMIC_ACK_ETH)
		at = roce_store64(at, p->atomic_result);
	if (traits & ROCE_IMM)
		at = roce_store32(at, be32toh(p->imm_be));
	return at;
}

uint8_t *roce_packet_begin(uint8_t *frame, const struct roce_packet *p, const struct roce_path *path,
                           const uint8_t smac[6])
{
	uint32_t bytes = roce_transport_bytes(p), pad = -p->bytes & 3;
	uint16_t type = path->version == ROCE_V1 ? ETH_P_ROCE : roce_path_is_ipv4(path) ? ETH_P_IP : ETH_P_IPV6;
	uint8_t *at;

	memcpy(frame, path->dmac, 6);
	memcpy(frame + 6, smac, 6);
	frame[12] = (uint8_t)(type >> 8);
	frame[13] = (uint8_t)type;
	at = roce_write_l3(frame + ETH_HLEN, path, bytes);
	/* The MigReq bit is set as long as there is no alternate path (IBTA 17.2.8). */
	roce_store32(at,
	             (uint32_t)p->opcode << 24 | (uint32_t)p->solicited << 23 | 1u << 22 | pad << 20 | DEFAULT_PKEY);
	roce_store32(at + 4, p->dest_qpn & 0xffffff);
	roce_store32(at + 8, (uint32_t)p->ack_request << 31 | (p->psn & 0xffffff));
	return roce_write_extensions(at + BTH_BYTES, p, roce_traits(p->opcode));
}

uint32_t roce_packet_end(uint8_t *frame, const struct roce_packet *p, const struct roce_path *path)
{
	uint32_t l3_bytes = roce_l3_bytes(path), bytes = roce_transport_bytes(p), crc;
	uint8_t *l3 = frame + ETH_HLEN, *bth = l3 + l3_bytes, *end = bth + bytes;

	memset(end - CRC_BYTES - (-p->bytes & 3), 0, -p->bytes & 3);
	crc = icrc_of(l3, l3_bytes, roce_path_is_ipv4(path), bth, bytes - CRC_BYTES);
	memcpy(end - CRC_BYTES, &crc, CRC_BYTES);
	return (uint32_t)(end - frame);
}

void roce_packet_init(void)
{
	icrc_init();
}

void roce_packet_grh(const struct roce_packet *p, uint8_t grh[ROCE_GRH_BYTES])
{
	memset(grh, 0, ROCE_GRH_BYTES);
	if (p->ipv4)
		memcpy(grh + ROCE_GRH_BYTES - IPV4_BYTES, p->l3, IPV4_BYTES);
	else
		memcpy(grh, p->l3, ROCE_GRH_BYTES);
}
