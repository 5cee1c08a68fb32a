// SPDX-License-Identifier: Apache-2.0
/*
 * Makes messages of packets, and merges packets that the kernel can cut apart again (GSO). Measured: doc/transmit.md,
 * "Packet sockets".
 */
#include "daemon/backend/socket/socket_batch.h"

#include "daemon/packet/packet_plain.h"

#include <linux/if_ether.h>
#include <stddef.h>

#define IP_LENGTH_AT    2 /* in an IPv4 header; the identification follows */
#define IP_ID_AT        4 /* in an IPv4 header; the length in an IPv6 header */
#define IP_REST_AT      6
#define UDP_LENGTH_AT   4
#define UDP_CHECKSUM_AT 6
#define IP_BYTES_MAX    65535

static uint32_t batch_l3(const struct backend_packet *packet)
{
	const uint8_t vlan[2] = {ETH_P_8021Q >> 8, ETH_P_8021Q & 0xff};

	return memcmp(packet->headers + ETH_HLEN - 2, vlan, 2) == 0 ? ETH_HLEN + 4 : ETH_HLEN;
}

static uint16_t batch_read16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* Would the kernel make these headers for packet k of a message that begins with the first one? */
static bool batch_headers_follow(const struct backend_packet *first, const struct backend_packet *next, uint32_t k)
{
	const uint8_t *a = first->headers, *b = next->headers;
	uint32_t l3 = batch_l3(first), rest = l3 + IP_REST_AT;
	uint32_t udp_length = first->header_bytes - PACKET_UDP_BYTES + UDP_LENGTH_AT;

	if (memcmp(a, b, l3 + IP_LENGTH_AT) != 0 || memcmp(a + rest, b + rest, udp_length - rest) != 0)
		return false;
	if (a[l3] >> 4 == 6)
		return memcmp(a + l3 + IP_LENGTH_AT, b + l3 + IP_LENGTH_AT, 2) == 0;
	return batch_read16(b + l3 + IP_ID_AT) == (uint16_t)(batch_read16(a + l3 + IP_ID_AT) + k);
}

/* Returns how many packets, from the first one on, fit in one message: at least 1. *bytes: its payload. */
static uint32_t batch_count_merged(const struct socket_batch_rules *rules, const struct backend_packet *packets,
                                   uint32_t n, uint32_t *bytes)
{
	uint32_t each = packets[0].payload_bytes, ip_headers = packets[0].header_bytes - batch_l3(&packets[0]), k = 1;

	*bytes = each;
	if (each == 0 || ip_headers + each > rules->gso_mtu)
		return 1;
	for (; k < n && packets[k - 1].payload_bytes == each; k++) {
		const struct backend_packet *next = &packets[k];

		/* The last one may be shorter. */
		if (next->payload_bytes == 0 || next->payload_bytes > each ||
		    next->header_bytes != packets[0].header_bytes ||
		    ip_headers + *bytes + next->payload_bytes > IP_BYTES_MAX ||
		    !batch_headers_follow(&packets[0], next, k))
			break;
		*bytes += next->payload_bytes;
	}
	return k;
}

/* With its length the kernel copies the headers apart, and the payload to pages: cheaper from a page's size on. */
static struct iovec batch_head(const struct socket_batch_rules *rules, struct socket_batch_head *head,
                               const struct backend_packet *first, uint32_t n_packets, uint32_t bytes)
{
	if (rules->protocols)
		return (struct iovec){(uint8_t *)first->headers + ETH_HLEN, first->header_bytes - ETH_HLEN};
	head->offload = (struct virtio_net_hdr){.hdr_len = (uint16_t)first->header_bytes};
	memcpy(head->headers, first->headers, first->header_bytes);
	if (rules->checksums) {
		/* The kernel or the device finishes the UDP checksums. */
		packet_sum_for_kernel(head->headers, first->header_bytes, bytes);
		head->offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		head->offload.csum_start = (uint16_t)(first->header_bytes - PACKET_UDP_BYTES);
		head->offload.csum_offset = UDP_CHECKSUM_AT;
		if (n_packets > 1) {
			head->offload.gso_type = SOCKET_BATCH_GSO_UDP_L4;
			head->offload.gso_size = (uint16_t)first->payload_bytes;
		}
	}
	return (struct iovec){head, offsetof(struct socket_batch_head, headers) + first->header_bytes};
}

void socket_batch_fill(struct socket_batch *batch, const struct socket_batch_rules *rules,
                       const struct backend_packet *packets, uint32_t n)
{
	struct iovec *part = batch->parts;
	uint32_t bytes = 0;

	batch->n = 0;
	for (uint32_t i = 0, merged; i < n; i += merged) {
		struct msghdr *message = &batch->messages[batch->n].msg_hdr;
		const struct backend_packet *first = &packets[i];

		merged = batch_count_merged(rules, first, n - i, &bytes);
		*message = (struct msghdr){.msg_iov = part};
		*part++ = batch_head(rules, &batch->heads[batch->n], first, merged, bytes);
		for (uint32_t k = 0; k < merged; k++)
			if (packets[i + k].payload_bytes)
				*part++ = (struct iovec){(void *)packets[i + k].payload, packets[i + k].payload_bytes};
		message->msg_iovlen = (size_t)(part - message->msg_iov);
		if (rules->protocols) {
			message->msg_name = (void *)&rules->protocols[first->headers[ETH_HLEN] >> 4 == 6];
			message->msg_namelen = sizeof(rules->protocols[0]);
		}
		batch->n_packets[batch->n++] = (uint8_t)merged;
	}
}
