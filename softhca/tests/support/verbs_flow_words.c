// SPDX-License-Identifier: Apache-2.0
/* The specs of a flow, in words: verbs_flow.c has the list. */
#include "verbs_flow_words.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_mac(const char *text, uint8_t *to)
{
	return sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", to, to + 1, to + 2, to + 3, to + 4, to + 5) == 6;
}

/* One value, `bytes` long in network byte order. */
static void parse_value(const char *text, uint8_t *to, size_t bytes, int base)
{
	unsigned long v;
	bool good = true;

	if (bytes == 6) {
		good = parse_mac(text, to);
	} else if (strchr(text, ':')) {
		good = bytes == 16 && inet_pton(AF_INET6, text, to) == 1;
	} else if (strchr(text, '.')) {
		good = bytes == 4 && inet_pton(AF_INET, text, to) == 1;
	} else {
		v = strtoul(text, NULL, base);
		for (size_t i = bytes; i--; v >>= 8)
			to[i] = (uint8_t)v;
	}
	if (!good)
		die("what is %s?", text);
}

/* value or value/mask */
static void set(char *text, void *value, void *mask, size_t bytes, int base)
{
	char *slash = strchr(text, '/');

	memset(mask, 0xff, bytes);
	if (slash) {
		*slash = 0;
		parse_value(slash + 1, mask, bytes, bytes == 2 ? 16 : base);
	}
	parse_value(text, value, bytes, base);
}

#define SET(spec, field, base) set(value, &(spec)->val.field, &(spec)->mask.field, sizeof((spec)->val.field), base)

static bool set_eth(struct ibv_flow_spec_eth *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_mac, 16);
	else if (!strcmp(name, "src"))
		SET(s, src_mac, 16);
	else if (!strcmp(name, "type"))
		SET(s, ether_type, 16);
	else if (!strcmp(name, "vlan"))
		SET(s, vlan_tag, 16);
	else
		return false;
	return true;
}

static bool set_ipv4(struct ibv_flow_spec_ipv4_ext *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_ip, 16);
	else if (!strcmp(name, "src"))
		SET(s, src_ip, 16);
	else if (s->size != sizeof(struct ibv_flow_spec_ipv4_ext))
		return false;
	else if (!strcmp(name, "proto"))
		SET(s, proto, 16);
	else if (!strcmp(name, "tos"))
		SET(s, tos, 16);
	else if (!strcmp(name, "ttl"))
		SET(s, ttl, 10);
	else if (!strcmp(name, "frag"))
		SET(s, flags, 10);
	else
		return false;
	return true;
}

/* The short spec has only the addresses, so its mask lies elsewhere. */
static bool set_old_ipv4(struct ibv_flow_spec_ipv4 *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_ip, 16);
	else if (!strcmp(name, "src"))
		SET(s, src_ip, 16);
	else
		return false;
	return true;
}

static bool set_ipv6(struct ibv_flow_spec_ipv6 *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_ip, 16);
	else if (!strcmp(name, "src"))
		SET(s, src_ip, 16);
	else if (!strcmp(name, "proto"))
		SET(s, next_hdr, 16);
	else if (!strcmp(name, "tos"))
		SET(s, traffic_class, 16);
	else if (!strcmp(name, "label"))
		SET(s, flow_label, 16);
	else if (!strcmp(name, "ttl"))
		SET(s, hop_limit, 10);
	else
		return false;
	/* A label has 20 bits; the rest of the word is none of it. */
	s->mask.flow_label &= htonl(0xfffff);
	return true;
}

static bool set_ports(struct ibv_flow_spec_tcp_udp *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_port, 10);
	else if (!strcmp(name, "src"))
		SET(s, src_port, 10);
	else
		return false;
	return true;
}

bool flow_set_field(struct ibv_flow_spec *s, const char *name, char *value)
{
	switch (s ? s->hdr.type : 0) {
	case IBV_FLOW_SPEC_ETH:
		return set_eth(&s->eth, name, value);
	case IBV_FLOW_SPEC_IPV4:
		return set_old_ipv4(&s->ipv4, name, value);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return set_ipv4((void *)s, name, value);
	case IBV_FLOW_SPEC_IPV6:
		return set_ipv6((void *)s, name, value);
	case IBV_FLOW_SPEC_UDP:
	case IBV_FLOW_SPEC_TCP:
		return set_ports(&s->tcp_udp, name, value);
	default:
		return false;
	}
}

struct ibv_flow_spec *flow_add_word(struct flow_rule *f, const char *name)
{
	static const struct {
		const char *name;
		enum ibv_flow_spec_type type;
		uint16_t bytes;
	} specs[] = {
		{"eth", IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth)},
		{"ip4", IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext)},
		{"ip4old", IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4)},
		{"ip6", IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6)},
		{"udp", IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp)},
		{"tcp", IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp)},
		{"tag", IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag)},
		{"drop", IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop)},
		{"count", IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action)},
	};

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		if (!strcmp(specs[i].name, name))
			return flow_add_spec(f, specs[i].type, specs[i].bytes);
	return NULL;
}
