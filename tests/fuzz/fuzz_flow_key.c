// SPDX-License-Identifier: Apache-2.0
/*
 * What is on the wire, read by the header that the BPF programs share and by the classic filter of the packet backend,
 * which libpcap runs: both take the same frames. The first byte chooses the rule, whose addresses and ports are those
 * of the frame if it has any.
 */
#include "daemon/backend/bpf/flow_table.h"
#include "daemon/backend/packet/af_packet.h"
#include "tests/support/flows.h"

#include <pcap/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES_MAX 256
#define MAC_BYTES       12 /* both addresses */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_outer_tag(const uint8_t *frame, size_t n)
{
	return n >= 18 && ((frame[12] == 0x81 && frame[13] == 0) || (frame[12] == 0x88 && frame[13] == 0xa8));
}

/* By where the fields are if the headers are as they should be. A field behind the end of the frame is 0. */
static struct flow_rule rule_of(uint8_t choice, const uint8_t *frame, size_t n)
{
	struct flow_rule rule = {.family = choice & 1 ? AF_INET6 : AF_INET, .value.protocol = 17};
	bool ipv6 = rule.family == AF_INET6;
	uint8_t bytes[FRAME_BYTES_MAX + 128] = {0};
	const uint8_t *ip = bytes + 14 + 4 * (choice >> 6), *udp;

	memcpy(bytes, frame, n);
	udp = ip + (ipv6 ? 40 : (ip[0] & 15) * 4);
	rule.mask = ipv6 ? (struct flow_fields)FLOW_MASK_UDP_IPV6 : (struct flow_fields)FLOW_MASK_UDP_IPV4;
	memcpy(rule.value.destination_mac, bytes, sizeof(rule.value.destination_mac));
	memcpy(rule.value.destination, ip + (ipv6 ? 24 : 16), ipv6 ? 16 : 4);
	memcpy(&rule.value.destination_port_be, udp + 2, 2);
	if (choice & 2)
		rule_set_source(&rule, ip + (ipv6 ? 8 : 12));
	if (choice & 4) {
		memcpy(&rule.value.source_port_be, udp, 2);
		rule.mask.source_port_be = 0xffff;
	}
	if (choice & 8)
		rule.value.destination[0] ^= 1;
	return rule;
}

static bool key_takes(const struct flow_rule *rule, const uint8_t *frame, size_t n)
{
	struct flow_key wanted = flow_table_key(rule, true), key = {0};

	if (!flow_key_read_frame(frame, frame + n, 0, &key) || wanted.fields & ~key.fields)
		return false;
	flow_key_keep(&key, wanted.fields);
	return memcmp(&key, &wanted, sizeof(key)) == 0;
}

/* The kernel takes the outer tag out of the frame before the filter runs. */
static bool filter_takes(const struct flow_rule *rule, const uint8_t *frame, size_t n)
{
	static struct sock_filter code[AF_PACKET_FILTER_MAX];
	uint8_t bytes[FRAME_BYTES_MAX];
	size_t gone = has_outer_tag(frame, n) ? 4 : 0;

	if (n < 14 || af_packet_filter_build(rule, 1, true, code) < 0)
		return false;
	memcpy(bytes, frame, MAC_BYTES);
	memcpy(bytes + MAC_BYTES, frame + MAC_BYTES + gone, n - MAC_BYTES - gone);
	return bpf_filter((const struct bpf_insn *)code, bytes, (u_int)(n - gone), (u_int)(n - gone)) != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flow_rule rule;
	uint8_t *frame;
	bool by_key, by_filter;

	if (size < 1 || size > FRAME_BYTES_MAX)
		return 0;
	/* Of that size exactly, so that a read behind it is found. */
	frame = malloc(size - 1 ? size - 1 : 1);
	if (!frame)
		abort();
	memcpy(frame, data + 1, size - 1);
	rule = rule_of(data[0], frame, size - 1);
	by_key = key_takes(&rule, frame, size - 1);
	by_filter = filter_takes(&rule, frame, size - 1);
	free(frame);
	if (by_key == by_filter)
		return 0;
	fprintf(stderr, "broken: the key says %d, the classic filter %d\n", by_key, by_filter);
	abort();
}
