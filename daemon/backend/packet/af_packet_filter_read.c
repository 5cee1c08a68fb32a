// SPDX-License-Identifier: Apache-2.0
/*
 * The part of a classic BPF filter that reads the headers of a frame, as the BPF programs do
 * (daemon/backend/bpf/flow_key.h). The kernel takes the outer VLAN tag out of a frame before the filter runs; an inner
 * one stays. On an interface without Ethernet headers the IP header is where the kernel found it.
 */
#include "daemon/backend/packet/af_packet_filter.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#define ETHERTYPE_AT  12
#define TAG_BYTES     4
#define IPV4_BYTES    20
#define IPV4_FRAGMENT 6
#define IPV6_BYTES    40
#define OFFSET_MASK   0x1fff
#define MORE_MASK     0x2000

#define UNIT_BYTES          8 /* of extension headers */
#define IPV6_FRAGMENT_BYTES 8
#define IPV6_OFFSET_MASK    0xfff8
#define IPV6_MORE_MASK      0x0001

#define VLAN_ID_MASK 0x0fff

#define FIELDS_OF_PORTS (1U << FIELD_SOURCE_PORT | 1U << FIELD_TARGET_PORT)
#define FIELDS_OF_IP    (~0U << FIELD_VERSION)

/* ---- instructions -------------------------------------------------------------------------------- */

/* Jumps to an instruction that comes later. */
struct filter_exits {
	uint32_t at[16];
	uint32_t n;
};

/* Leave, or go on if the last value loaded compares so with k. */
static void filter_stay_if(struct filter_writer *writer, uint16_t compare, uint32_t k, struct filter_exits *exits)
{
	filter_put(writer, BPF_JMP | compare | BPF_K, 1, 0, k);
	exits->at[exits->n++] = writer->n;
	filter_put(writer, BPF_JMP | BPF_JA, 0, 0, 0);
}

static void filter_leave_if(struct filter_writer *writer, uint16_t compare, uint32_t k, struct filter_exits *exits)
{
	filter_put(writer, BPF_JMP | compare | BPF_K, 0, 1, k);
	exits->at[exits->n++] = writer->n;
	filter_put(writer, BPF_JMP | BPF_JA, 0, 0, 0);
}

static void filter_leave(struct filter_writer *writer, struct filter_exits *exits)
{
	exits->at[exits->n++] = writer->n;
	filter_put(writer, BPF_JMP | BPF_JA, 0, 0, 0);
}

static void filter_land(const struct filter_writer *writer, const struct filter_exits *exits)
{
	for (uint32_t i = 0; i < exits->n && !writer->too_long; i++)
		writer->code[exits->at[i]].k = writer->n - exits->at[i] - 1;
}

/* ---- fields -------------------------------------------------------------------------------------- */

static bool filter_needs(const struct filter_writer *writer, uint32_t fields)
{
	for (uint32_t field = 0; field < N_FIELDS; field++)
		if (fields & 1U << field && writer->use[field] != USE_NONE)
			return true;
	return false;
}

/* The field is the last value loaded. */
static void filter_take_field(struct filter_writer *writer, enum filter_field field)
{
	if (writer->use[field] == USE_WORD) {
		filter_put(writer, BPF_ST, 0, 0, writer->word[field]);
	} else if (writer->use[field] == USE_COMMON) {
		if (!writer->is_whole[field])
			filter_put(writer, BPF_ALU | BPF_AND | BPF_K, 0, 0, writer->mask[field]);
		filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, writer->value[field]);
		filter_refuse(writer);
	}
}

static void filter_load_field(struct filter_writer *writer, uint16_t load, uint32_t at, enum filter_field field)
{
	if (writer->use[field] == USE_NONE)
		return;
	filter_put(writer, BPF_LD | load, 0, 0, at);
	filter_take_field(writer, field);
}

/* A frame may lack fields of IP: 0. */
static void filter_clear_words(struct filter_writer *writer)
{
	bool is_loaded = false;

	for (uint32_t field = FIELD_VERSION; field < N_FIELDS; field++) {
		if (writer->use[field] != USE_WORD)
			continue;
		if (!is_loaded)
			filter_put(writer, BPF_LD | BPF_IMM, 0, 0, 0);
		is_loaded = true;
		filter_put(writer, BPF_ST, 0, 0, writer->word[field]);
	}
}

/* ---- headers ------------------------------------------------------------------------------------- */

/* The offset to load byte `at` of the Ethernet header from, which may be before the data. */
static uint32_t filter_ethernet_at(const struct filter_writer *writer, uint32_t at)
{
	return writer->data_at ? (uint32_t)SKF_LL_OFF + at : at;
}

/* The outer tag, which the kernel took out of the frame, if its type is that of a VLAN. */
static void filter_read_vlan(struct filter_writer *writer)
{
	if (writer->use[FIELD_VLAN] == USE_NONE)
		return;
	filter_put(writer, BPF_LD | BPF_B | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT));
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, 1);
	filter_put(writer, BPF_LD | BPF_H | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TPID));
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, ETH_P_8021Q);
	filter_put(writer, BPF_LD | BPF_H | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG));
	filter_put(writer, BPF_ALU | BPF_AND | BPF_K, 0, 0, VLAN_ID_MASK);
	filter_put(writer, BPF_JMP | BPF_JA, 0, 0, 1);
	filter_put(writer, BPF_LD | BPF_IMM, 0, 0, 0);
	filter_take_field(writer, FIELD_VLAN);
}

static void filter_read_ethernet(struct filter_writer *writer)
{
	filter_load_field(writer, BPF_W | BPF_ABS, filter_ethernet_at(writer, 0), FIELD_MAC);
	filter_load_field(writer, BPF_H | BPF_ABS, filter_ethernet_at(writer, 4), FIELD_MAC_TAIL);
	filter_load_field(writer, BPF_W | BPF_ABS, filter_ethernet_at(writer, 6), FIELD_SOURCE_MAC);
	filter_load_field(writer, BPF_H | BPF_ABS, filter_ethernet_at(writer, 10), FIELD_SOURCE_MAC_TAIL);
	/* X becomes the length of an inner tag, which is whole. */
	filter_put(writer, BPF_LD | BPF_H | BPF_ABS, 0, 0, filter_ethernet_at(writer, ETHERTYPE_AT));
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 3, 0, ETH_P_8021Q);
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, ETH_P_8021AD);
	filter_put(writer, BPF_LDX | BPF_IMM, 0, 0, 0);
	filter_put(writer, BPF_JMP | BPF_JA, 0, 0, 4);
	filter_put(writer, BPF_LD | BPF_W | BPF_LEN, 0, 0, 0);
	filter_put(writer, BPF_JMP | BPF_JGE | BPF_K, 1, 0, ETH_HLEN - writer->data_at + TAG_BYTES);
	filter_refuse(writer);
	filter_put(writer, BPF_LDX | BPF_IMM, 0, 0, TAG_BYTES);
	filter_load_field(writer, BPF_H | BPF_IND, filter_ethernet_at(writer, ETHERTYPE_AT), FIELD_ETHER_TYPE);
}

/* Where the IP header begins, but for X. */
static uint32_t filter_ip_at(const struct filter_writer *writer)
{
	return writer->has_ethernet ? ETH_HLEN - writer->data_at : (uint32_t)SKF_NET_OFF;
}

/* A load from behind the end of the frame ends the filter, but another condition may hold for such a frame. */
static void filter_check_length(struct filter_writer *writer, uint32_t bytes, struct filter_exits *exits)
{
	if (!writer->has_ethernet)
		return;
	filter_put(writer, BPF_LD | BPF_W | BPF_LEN, 0, 0, 0);
	filter_put(writer, BPF_ALU | BPF_SUB | BPF_X, 0, 0, 0);
	filter_put(writer, BPF_JMP | BPF_JSET | BPF_K, 1, 0, UINT32_C(1) << 31); /* X is behind the end */
	filter_stay_if(writer, BPF_JGE, ETH_HLEN - writer->data_at + bytes, exits);
}

static bool filter_knows_ports(const struct filter_writer *writer)
{
	return writer->use[FIELD_PROTOCOL] == USE_COMMON && writer->mask[FIELD_PROTOCOL] == UINT8_MAX &&
	       (writer->value[FIELD_PROTOCOL] == IPPROTO_UDP || writer->value[FIELD_PROTOCOL] == IPPROTO_TCP);
}

/* The next value loaded is FLOW_KEY_FRAGMENT if the last one has a bit of the mask, else 0. */
static void filter_take_fragment(struct filter_writer *writer, uint32_t mask)
{
	filter_put(writer, BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 0);
	filter_put(writer, BPF_LD | BPF_IMM, 0, 0, FLOW_KEY_FRAGMENT);
	filter_put(writer, BPF_JMP | BPF_JA, 0, 0, 1);
	filter_put(writer, BPF_LD | BPF_IMM, 0, 0, 0);
	filter_take_field(writer, FIELD_FRAGMENT);
}

/* Leave if the protocol, which is at `at`, has no ports. */
static void filter_stay_with_ports(struct filter_writer *writer, uint16_t load, uint32_t at,
                                   struct filter_exits *without)
{
	if (filter_knows_ports(writer))
		return;
	filter_put(writer, BPF_LD | load, 0, 0, at);
	filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, IPPROTO_UDP);
	filter_stay_if(writer, BPF_JEQ, IPPROTO_TCP, without);
}

/* With ports: X becomes the distance from the end of the Ethernet header to the ports. */
static void filter_read_ipv4_protocol(struct filter_writer *writer, bool has_ports, struct filter_exits *without)
{
	uint32_t ip_at = filter_ip_at(writer);

	filter_load_field(writer, BPF_B | BPF_IND, ip_at + 9, FIELD_PROTOCOL);
	if (writer->use[FIELD_FRAGMENT] != USE_NONE) {
		filter_put(writer, BPF_LD | BPF_H | BPF_IND, 0, 0, ip_at + IPV4_FRAGMENT);
		filter_take_fragment(writer, OFFSET_MASK | MORE_MASK);
	}
	if (!has_ports)
		return;
	filter_stay_with_ports(writer, BPF_B | BPF_IND, ip_at + 9, without);
	filter_put(writer, BPF_LD | BPF_H | BPF_IND, 0, 0, ip_at + IPV4_FRAGMENT);
	filter_leave_if(writer, BPF_JSET, OFFSET_MASK, without);
	filter_put(writer, BPF_LD | BPF_B | BPF_IND, 0, 0, ip_at);
	filter_put(writer, BPF_ALU | BPF_AND | BPF_K, 0, 0, 15);
	filter_put(writer, BPF_ALU | BPF_LSH | BPF_K, 0, 0, 2);
	filter_put(writer, BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0);
	filter_put(writer, BPF_MISC | BPF_TAX, 0, 0, 0);
}

static void filter_read_ipv6_fragment(struct filter_writer *writer, bool has_ports, struct filter_exits *without)
{
	uint32_t header_at = filter_ip_at(writer) + IPV6_BYTES;

	filter_load_field(writer, BPF_B | BPF_IND, header_at, FIELD_PROTOCOL);
	if (writer->use[FIELD_FRAGMENT] != USE_NONE) {
		filter_put(writer, BPF_LD | BPF_H | BPF_IND, 0, 0, header_at + 2);
		filter_take_fragment(writer, IPV6_OFFSET_MASK | IPV6_MORE_MASK);
	}
	if (!has_ports)
		return;
	filter_stay_with_ports(writer, BPF_B | BPF_IND, header_at, without);
	filter_put(writer, BPF_LD | BPF_H | BPF_IND, 0, 0, header_at + 2);
	filter_leave_if(writer, BPF_JSET, IPV6_OFFSET_MASK, without);
	filter_put(writer, BPF_MISC | BPF_TXA, 0, 0, 0);
	filter_put(writer, BPF_ALU | BPF_ADD | BPF_K, 0, 0, IPV6_FRAGMENT_BYTES);
	filter_put(writer, BPF_MISC | BPF_TAX, 0, 0, 0);
}

/*
 * X goes on by headers of options and routing, and the last value loaded, which is in next_word too, becomes the next
 * header behind them. A jump of the kernel goes forward only, so the code is there for each header.
 */
static void filter_skip_ipv6_options(struct filter_writer *writer)
{
	uint32_t ip_at = filter_ip_at(writer), header_at = ip_at + IPV6_BYTES;
	struct filter_exits end = {.n = 0};

	filter_put(writer, BPF_LD | BPF_B | BPF_IND, 0, 0, ip_at + 6);
	filter_put(writer, BPF_ST, 0, 0, writer->next_word);
	for (uint32_t i = 0; i < FLOW_KEY_OPTIONS_MAX; i++) {
		filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 3, 0, FLOW_KEY_HOP_BY_HOP);
		filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, FLOW_KEY_ROUTING);
		filter_stay_if(writer, BPF_JEQ, FLOW_KEY_DESTINATION_OPTIONS, &end);
		filter_check_length(writer, IPV6_BYTES + UNIT_BYTES, &end);
		filter_put(writer, BPF_LD | BPF_B | BPF_IND, 0, 0, header_at);
		filter_put(writer, BPF_ST, 0, 0, writer->next_word);
		filter_put(writer, BPF_LD | BPF_B | BPF_IND, 0, 0, header_at + 1);
		filter_put(writer, BPF_ALU | BPF_ADD | BPF_K, 0, 0, 1);
		filter_put(writer, BPF_ALU | BPF_LSH | BPF_K, 0, 0, 3);
		filter_put(writer, BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0);
		filter_put(writer, BPF_MISC | BPF_TAX, 0, 0, 0);
		filter_put(writer, BPF_LD | BPF_W | BPF_MEM, 0, 0, writer->next_word);
	}
	filter_land(writer, &end);
}

/* With ports: X becomes the distance from the end of the IPv6 header to the ports. */
static void filter_read_ipv6_protocol(struct filter_writer *writer, bool has_ports, struct filter_exits *without)
{
	struct filter_exits plain = {.n = 0}, end = {.n = 0};

	if (!has_ports && !filter_needs(writer, 1U << FIELD_PROTOCOL | 1U << FIELD_FRAGMENT))
		return;
	filter_skip_ipv6_options(writer);
	/* X has the length of an inner tag, too. */
	filter_put(writer, BPF_MISC | BPF_TXA, 0, 0, 0);
	filter_leave_if(writer, BPF_JGT, FLOW_KEY_OPTION_UNITS * UNIT_BYTES + TAG_BYTES, &plain);
	filter_put(writer, BPF_LD | BPF_W | BPF_MEM, 0, 0, writer->next_word);
	filter_stay_if(writer, BPF_JEQ, IPPROTO_FRAGMENT, &plain);
	filter_check_length(writer, IPV6_BYTES + IPV6_FRAGMENT_BYTES, &plain);
	filter_read_ipv6_fragment(writer, has_ports, without);
	filter_leave(writer, &end);
	filter_land(writer, &plain);
	filter_load_field(writer, BPF_IMM, 0, FIELD_FRAGMENT);
	filter_load_field(writer, BPF_W | BPF_MEM, writer->next_word, FIELD_PROTOCOL);
	if (has_ports) {
		filter_stay_with_ports(writer, BPF_W | BPF_MEM, writer->next_word, without);
		filter_put(writer, BPF_MISC | BPF_TXA, 0, 0, 0);
		filter_leave_if(writer, BPF_JGT, FLOW_KEY_OPTION_UNITS * UNIT_BYTES + TAG_BYTES, without);
	}
	filter_land(writer, &end);
}

static void filter_read_ports(struct filter_writer *writer, bool ipv6, struct filter_exits *without,
                              struct filter_exits *end)
{
	uint32_t ports_at = ipv6 ? IPV6_BYTES : 0;

	filter_check_length(writer, ports_at + 4, without);
	filter_load_field(writer, BPF_H | BPF_IND, filter_ip_at(writer) + ports_at, FIELD_SOURCE_PORT);
	filter_load_field(writer, BPF_H | BPF_IND, filter_ip_at(writer) + ports_at + 2, FIELD_TARGET_PORT);
	if (without->n == 0)
		return;
	filter_leave(writer, end);
	filter_land(writer, without);
	if (writer->use[FIELD_SOURCE_PORT] == USE_COMMON || writer->use[FIELD_TARGET_PORT] == USE_COMMON)
		filter_refuse(writer);
}

static void filter_read_ip(struct filter_writer *writer, bool ipv6, struct filter_exits *no_ip,
                           struct filter_exits *end)
{
	uint32_t ip_at = filter_ip_at(writer);
	bool has_ports = filter_needs(writer, FIELDS_OF_PORTS);
	struct filter_exits without = {.n = 0};

	filter_check_length(writer, ipv6 ? IPV6_BYTES : IPV4_BYTES, no_ip);
	filter_put(writer, BPF_LD | BPF_B | BPF_IND, 0, 0, ip_at);
	filter_stay_if(writer, BPF_JGE, ipv6 ? 0x60 : 0x45, no_ip);
	filter_leave_if(writer, BPF_JGT, ipv6 ? 0x6f : 0x4f, no_ip);
	if (writer->use[FIELD_VERSION] == USE_WORD) /* else filter_read_frame() has looked at it */
		filter_load_field(writer, BPF_IMM, ipv6 ? 6 : 4, FIELD_VERSION);
	if (ipv6 && writer->use[FIELD_TRAFFIC_CLASS] != USE_NONE) {
		filter_put(writer, BPF_LD | BPF_H | BPF_IND, 0, 0, ip_at);
		filter_put(writer, BPF_ALU | BPF_RSH | BPF_K, 0, 0, 4);
		filter_put(writer, BPF_ALU | BPF_AND | BPF_K, 0, 0, UINT8_MAX);
		filter_take_field(writer, FIELD_TRAFFIC_CLASS);
	} else if (!ipv6) {
		filter_load_field(writer, BPF_B | BPF_IND, ip_at + 1, FIELD_TRAFFIC_CLASS);
	}
	for (uint32_t i = 0; i < (ipv6 ? 4 : 1); i++) {
		filter_load_field(writer, BPF_W | BPF_IND, ip_at + (ipv6 ? 24 : 16) + 4 * i, FIELD_TARGET + i);
		filter_load_field(writer, BPF_W | BPF_IND, ip_at + (ipv6 ? 8 : 12) + 4 * i, FIELD_SOURCE + i);
	}
	if (ipv6)
		filter_read_ipv6_protocol(writer, has_ports, &without);
	else
		filter_read_ipv4_protocol(writer, has_ports, &without);
	if (has_ports)
		filter_read_ports(writer, ipv6, &without, end);
}

/* Compares the fields that have one value in all rules, and stores the others in the scratch words. */
void filter_read_frame(struct filter_writer *writer)
{
	struct filter_exits no_ip = {.n = 0}, end = {.n = 0};
	uint16_t type_load = writer->has_ethernet ? BPF_H | BPF_IND : BPF_H | BPF_ABS;
	uint32_t type_at = writer->has_ethernet ? filter_ethernet_at(writer, ETHERTYPE_AT)
	                                        : (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL);

	filter_clear_words(writer);
	filter_read_vlan(writer);
	if (writer->has_ethernet)
		filter_read_ethernet(writer);
	else
		filter_put(writer, BPF_LDX | BPF_IMM, 0, 0, 0);
	if (!filter_needs(writer, FIELDS_OF_IP))
		return;
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		struct filter_exits other = {.n = 0};

		if (!writer->takes_version[ipv6])
			continue;
		filter_put(writer, BPF_LD | type_load, 0, 0, type_at);
		filter_stay_if(writer, BPF_JEQ, ipv6 ? ETH_P_IPV6 : ETH_P_IP, &other);
		filter_read_ip(writer, ipv6, &no_ip, &end);
		filter_leave(writer, &end);
		filter_land(writer, &other);
	}
	filter_land(writer, &no_ip);
	if (!writer->takes_others)
		filter_refuse(writer);
	filter_land(writer, &end);
}
