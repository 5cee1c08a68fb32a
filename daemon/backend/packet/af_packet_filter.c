// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a classic BPF filter from flow rules. It answers as the steering of a ConnectX and the BPF programs do
 * (daemon/backend/bpf/flow_key.h). The kernel takes the outer VLAN tag out of a frame before the filter runs; an inner
 * one stays. On an interface without Ethernet headers the IP header is where the kernel found it, and no MAC is
 * compared.
 */
#include "daemon/backend/packet/af_packet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define ETHERTYPE_AT   12
#define ETHERNET_BYTES 14
#define TAG_BYTES      4
/* From the start of the IP header. */
#define IPV4_FRAGMENT 6
#define IPV4_PROTOCOL 9
#define IPV4_SOURCE   12
#define IPV4_TARGET   16
#define IPV6_NEXT     6
#define IPV6_SOURCE   8
#define IPV6_TARGET   24
#define IPV6_BYTES    40
#define OFFSET_MASK   0x1fff
#define VLAN_ID_MASK  0x0fff
#define NO_VLAN       0xffff
#define WHOLE_FRAME   0x40000
#define UNRESOLVED    0xff

/* The filter's scratch words, of which there are BPF_MEMWORDS. */
enum filter_word {
	WORD_TARGET_PORT,
	WORD_SOURCE_PORT,
	WORD_MAC,
	WORD_MAC_TAIL,
	WORD_TARGET,
	WORD_SOURCE = WORD_TARGET + 4,
	WORD_VLAN = WORD_SOURCE + 4,
};

struct filter_writer {
	struct sock_filter *code;
	uint32_t n;
	uint32_t rule_at; /* the first instruction of the rule being written */
	bool has_ethernet;
	bool too_long;
};

static void filter_put(struct filter_writer *writer, uint16_t code, uint8_t jump_true, uint8_t jump_false, uint32_t k)
{
	if (writer->n == AF_PACKET_FILTER_MAX) {
		writer->too_long = true;
		return;
	}
	writer->code[writer->n++] = (struct sock_filter){code, jump_true, jump_false, k};
}

/* Go on if the loaded value is k; the rule does not match otherwise. */
static void filter_expect(struct filter_writer *writer, uint32_t k)
{
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 0, UNRESOLVED, k);
}

/* Copy a field of the frame to a scratch word of the filter. */
static void filter_keep(struct filter_writer *writer, uint16_t load, uint32_t at, enum filter_word word)
{
	filter_put(writer, BPF_LD | load, 0, 0, at);
	filter_put(writer, BPF_ST, 0, 0, word);
}

static void filter_match(struct filter_writer *writer, enum filter_word word, uint32_t value)
{
	filter_put(writer, BPF_LD | BPF_W | BPF_MEM, 0, 0, word);
	filter_expect(writer, value);
}

static void filter_match_words(struct filter_writer *writer, enum filter_word word, const uint8_t *bytes,
                               uint32_t n_words)
{
	for (uint32_t i = 0; i < n_words; i++) {
		uint32_t word_be;

		memcpy(&word_be, bytes + 4 * (size_t)i, 4);
		filter_match(writer, word + i, ntohl(word_be));
	}
}

static void filter_match_mac(struct filter_writer *writer, const uint8_t mac[6])
{
	uint16_t tail_be;

	memcpy(&tail_be, mac + 4, 2);
	filter_match_words(writer, WORD_MAC, mac, 1);
	filter_match(writer, WORD_MAC_TAIL, ntohs(tail_be));
}

/* All jumps to UNRESOLVED since rule_at lead to the next instruction. */
static void filter_end_rule(struct filter_writer *writer)
{
	for (uint32_t i = writer->rule_at; i < writer->n; i++) {
		struct sock_filter *one = &writer->code[i];
		uint8_t distance = (uint8_t)(writer->n - i - 1);

		if (one->code == (BPF_JMP | BPF_JEQ | BPF_K) && one->jf == UNRESOLVED)
			one->jf = distance;
	}
	writer->rule_at = writer->n;
}

/*
 * The kernel turns a load from the frame into some ten instructions, and one from a scratch word into one. The result
 * counts against net.core.optmem_max, the old and the new filter together while they are exchanged.
 */
static void filter_keep_fields(struct filter_writer *writer, bool ipv6, uint32_t ip_at)
{
	uint16_t port = BPF_H | (ipv6 ? BPF_ABS : BPF_IND); /* IND: X is added */
	uint32_t udp_at = ip_at + (ipv6 ? IPV6_BYTES : 0);

	filter_keep(writer, port, udp_at, WORD_SOURCE_PORT);
	filter_keep(writer, port, udp_at + 2, WORD_TARGET_PORT);
	if (writer->has_ethernet) {
		filter_keep(writer, BPF_W | BPF_ABS, 0, WORD_MAC);
		filter_keep(writer, BPF_H | BPF_ABS, 4, WORD_MAC_TAIL);
	}
	for (uint32_t i = 0; i < (ipv6 ? 4 : 1); i++) {
		filter_keep(writer, BPF_W | BPF_ABS, ip_at + (ipv6 ? IPV6_TARGET : IPV4_TARGET) + 4 * i,
		            WORD_TARGET + i);
		filter_keep(writer, BPF_W | BPF_ABS, ip_at + (ipv6 ? IPV6_SOURCE : IPV4_SOURCE) + 4 * i,
		            WORD_SOURCE + i);
	}
}

/* Take no frame unless the last value loaded is k. */
static void filter_require(struct filter_writer *writer, uint32_t k)
{
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, k);
	filter_put(writer, BPF_RET | BPF_K, 0, 0, 0);
}

/* The headers from the ethertype on. X becomes the length of the IP header of IPv4. */
static void filter_read_headers(struct filter_writer *writer, bool ipv6, uint32_t type_at, uint32_t ip_at)
{
	filter_put(writer, BPF_LD | BPF_H | BPF_ABS, 0, 0, type_at);
	filter_require(writer, ipv6 ? 0x86dd : 0x0800);
	filter_put(writer, BPF_LD | BPF_B | BPF_ABS, 0, 0, ip_at + (ipv6 ? IPV6_NEXT : IPV4_PROTOCOL));
	filter_require(writer, IPPROTO_UDP);
	filter_put(writer, BPF_LD | BPF_B | BPF_ABS, 0, 0, ip_at);
	if (!ipv6) {
		/* The version is 4, and the header has 5 words at least. */
		filter_put(writer, BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x45);
		filter_put(writer, BPF_JMP | BPF_JGT | BPF_K, 0, 1, 0x4f);
		filter_put(writer, BPF_RET | BPF_K, 0, 0, 0);
		filter_put(writer, BPF_LD | BPF_H | BPF_ABS, 0, 0, ip_at + IPV4_FRAGMENT);
		filter_put(writer, BPF_JMP | BPF_JSET | BPF_K, 0, 1, OFFSET_MASK);
		filter_put(writer, BPF_RET | BPF_K, 0, 0, 0);
		filter_put(writer, BPF_LDX | BPF_B | BPF_MSH, 0, 0, ip_at);
	} else {
		filter_put(writer, BPF_ALU | BPF_RSH | BPF_K, 0, 0, 4);
		filter_require(writer, 6);
	}
	filter_keep_fields(writer, ipv6, ip_at);
}

/* The outer tag, which the kernel took out of the frame, if its type is that of a VLAN. */
static void filter_read_vlan(struct filter_writer *writer)
{
	filter_put(writer, BPF_LD | BPF_B | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT));
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, 1);
	filter_put(writer, BPF_LD | BPF_H | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TPID));
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0x8100);
	filter_put(writer, BPF_LD | BPF_H | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG));
	filter_put(writer, BPF_ALU | BPF_AND | BPF_K, 0, 0, VLAN_ID_MASK);
	filter_put(writer, BPF_JMP | BPF_JA, 0, 0, 1);
	filter_put(writer, BPF_LD | BPF_IMM, 0, 0, NO_VLAN);
	filter_put(writer, BPF_ST, 0, 0, WORD_VLAN);
}

/* What all rules have in common: the fields go to the scratch words, for a frame with an inner tag from behind it. */
static void filter_begin(struct filter_writer *writer, bool ipv6)
{
	uint32_t not_tagged, tagged_end;

	if (!writer->has_ethernet) {
		filter_read_headers(writer, ipv6, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL), (uint32_t)SKF_NET_OFF);
		return;
	}
	filter_put(writer, BPF_LD | BPF_H | BPF_ABS, 0, 0, ETHERTYPE_AT);
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0x8100);
	not_tagged = writer->n;
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 0x88a8);
	filter_read_headers(writer, ipv6, ETHERTYPE_AT + TAG_BYTES, ETHERNET_BYTES + TAG_BYTES);
	tagged_end = writer->n;
	filter_put(writer, BPF_JMP | BPF_JA, 0, 0, 0);
	writer->code[not_tagged].jf = (uint8_t)(writer->n - not_tagged - 1);
	filter_read_headers(writer, ipv6, ETHERTYPE_AT, ETHERNET_BYTES);
	writer->code[tagged_end].k = writer->n - tagged_end - 1;
}

static void filter_put_rule(struct filter_writer *writer, const struct flow_rule *rule)
{
	uint32_t n_words = rule->family == AF_INET6 ? 4 : 1;

	filter_match(writer, WORD_TARGET_PORT, ntohs(rule->value.destination_port_be));
	filter_match_words(writer, WORD_TARGET, rule->value.destination, n_words);
	if (flow_rule_has_source(rule))
		filter_match_words(writer, WORD_SOURCE, rule->value.source, n_words);
	if (rule->mask.source_port_be)
		filter_match(writer, WORD_SOURCE_PORT, ntohs(rule->value.source_port_be));
	if (writer->has_ethernet)
		filter_match_mac(writer, rule->value.destination_mac);
	if (rule->mask.vlan_be)
		filter_match(writer, WORD_VLAN, (uint32_t)flow_rule_vlan(rule));
	filter_put(writer, BPF_RET | BPF_K, 0, 0, WHOLE_FRAME);
	filter_end_rule(writer);
}

int af_packet_filter_build(const struct flow_rule *rules, uint32_t n, bool has_ethernet,
                           struct sock_filter code[AF_PACKET_FILTER_MAX])
{
	struct filter_writer writer = {.code = code, .has_ethernet = has_ethernet};
	bool with_vlan = false;

	for (uint32_t i = 0; i < n; i++)
		with_vlan |= rules[i].mask.vlan_be != 0;
	if (with_vlan)
		filter_read_vlan(&writer);
	if (n > 0)
		filter_begin(&writer, rules[0].family == AF_INET6);
	writer.rule_at = writer.n;
	for (uint32_t i = 0; i < n; i++)
		filter_put_rule(&writer, &rules[i]);
	filter_put(&writer, BPF_RET | BPF_K, 0, 0, 0);
	return writer.too_long ? -E2BIG : (int)writer.n;
}
