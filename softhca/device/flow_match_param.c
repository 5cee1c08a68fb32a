// SPDX-License-Identifier: Apache-2.0
/*
 * Turns a matcher's mask and a flow's value into a rule. Sources: mlx5_core (check_valid_spec), mlx5_ib
 * (raw_fs_is_multicast, _get_flow_table), and for the layout the PRM (fte_match_param).
 */
#include "flow_match_param.h"

#include "refuse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

#define SECTION_BYTES 64u

/* Places in fte_match_set_lyr_2_4. A word of flags holds cvlan_tag, ip_version and others. */
enum {
	AT_DMAC = 8,
	AT_FLAGS = 18,
	AT_TCP_SPORT = 20,
	AT_TCP_DPORT = 22,
	AT_TTL = 27,
	AT_UDP_SPORT = 28,
	AT_UDP_DPORT = 30,
	AT_SRC_IP = 32,
	AT_DST_IP = 48,
	AT_IPV4 = 12, /* in the field of an address */
	AT_FLOW_LABEL = SECTION_BYTES + 28,
};
#define FLAG_CVLAN         0x8000u
#define FLAG_FRAG          0x2000u
#define FLAGS_OF_TCP       0x01ffu
#define FLAGS_IP_VERSION   0x1e00u
#define IP_VERSION_SHIFT   9
#define IP_VERSION_OF_ADDR 0xf

/* Mask and value of one match. What is taken from the mask becomes 0 there, so that the rest shows. */
struct params {
	uint8_t mask[MATCH_PARAM_BYTES];
	const uint8_t *value;
	struct flow_rule *rule;
};

static uint16_t params_load16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* Copies a field to its place in the key. */
static void params_take(struct params *p, size_t at, size_t bytes, size_t to)
{
	uint8_t *mask = (uint8_t *)&p->rule->mask + to, *value = (uint8_t *)&p->rule->value + to;

	for (size_t i = 0; i < bytes; i++) {
		mask[i] |= p->mask[at + i];
		value[i] |= p->value[at + i] & p->mask[at + i];
	}
	memset(p->mask + at, 0, bytes);
}

#define TAKE(p, at, field) params_take((p), (at), sizeof((p)->rule->mask.field), offsetof(struct packet_key, field))

static bool params_has(const struct params *p, size_t at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p->mask[at + i])
			return true;
	return false;
}

static int params_take_flags(struct params *p)
{
	struct packet_key *mask = &p->rule->mask, *value = &p->rule->value;
	uint16_t which = params_load16(p->mask + AT_FLAGS), flags = params_load16(p->value + AT_FLAGS);
	uint8_t version = (flags & FLAGS_IP_VERSION) >> IP_VERSION_SHIFT;

	if (which & FLAG_CVLAN) {
		mask->cvlan = 1;
		value->cvlan = flags & FLAG_CVLAN ? 1 : 0;
	}
	if (which & FLAGS_IP_VERSION) {
		if ((which & FLAGS_IP_VERSION) != FLAGS_IP_VERSION || (version != 4 && version != 6))
			return refuse(EOPNOTSUPP, "ip_version", "neither 4 nor 6, or only some of its bits",
			              "softhca: params_take_flags");
		mask->ip_version = IP_VERSION_OF_ADDR;
		value->ip_version = version;
	}
	if (which & FLAG_FRAG) {
		mask->fragment = 1;
		value->fragment = flags & FLAG_FRAG ? 1 : 0;
	}
	mask->tcp_flags = htons(which & FLAGS_OF_TCP);
	value->tcp_flags = htons(flags & which & FLAGS_OF_TCP);
	which &= ~(FLAG_CVLAN | FLAG_FRAG | FLAGS_IP_VERSION | FLAGS_OF_TCP);
	p->mask[AT_FLAGS] = (uint8_t)(which >> 8);
	p->mask[AT_FLAGS + 1] = (uint8_t)which;
	return 0;
}

/* An Ethertype says the IP version, too. */
static void params_version_of_ethertype(struct flow_rule *r)
{
	if (r->mask.ip_version || r->mask.ether_type != 0xffff)
		return;
	if (r->value.ether_type == htons(ETH_P_IP) || r->value.ether_type == htons(ETH_P_IPV6)) {
		r->mask.ip_version = IP_VERSION_OF_ADDR;
		r->value.ip_version = r->value.ether_type == htons(ETH_P_IP) ? 4 : 6;
	}
}

static int params_take_network(struct params *p)
{
	const struct packet_key *mask = &p->rule->mask;

	if (!params_has(p, AT_SRC_IP, 32) && !params_has(p, AT_FLOW_LABEL, 4) && !mask->tos && !mask->ttl &&
	    !mask->fragment)
		return 0;
	params_version_of_ethertype(p->rule);
	if (!p->rule->mask.ip_version)
		return refuse(EOPNOTSUPP, "src_ip, dst_ip, tos, ttl, frag",
		              "neither ip_version nor ethertype says of which IP version",
		              "softhca: params_take_network");
	if (p->rule->value.ip_version == 6) {
		TAKE(p, AT_SRC_IP, src_ip);
		TAKE(p, AT_DST_IP, dst_ip);
		TAKE(p, AT_FLOW_LABEL, flow_label);
	} else {
		params_take(p, AT_SRC_IP + AT_IPV4, 4, offsetof(struct packet_key, src_ip));
		params_take(p, AT_DST_IP + AT_IPV4, 4, offsetof(struct packet_key, dst_ip));
	}
	return 0;
}

/* The ports and flags of a protocol are those of its packets only. */
static int params_imply_protocol(struct params *p, uint8_t protocol)
{
	struct flow_rule *r = p->rule;

	if (r->mask.ip_proto && (r->mask.ip_proto != 0xff || r->value.ip_proto != protocol))
		return refuse(EOPNOTSUPP, "tcp_dport, udp_dport, tcp_flags",
		              "ports or flags of another protocol than ip_protocol", "softhca: params_imply_protocol");
	r->mask.ip_proto = 0xff;
	r->value.ip_proto = protocol;
	return 0;
}

static int params_take_ports(struct params *p, uint8_t protocol, size_t sport, size_t dport)
{
	int r = params_has(p, sport, 4) ? params_imply_protocol(p, protocol) : 0;

	if (r)
		return r;
	TAKE(p, sport, src_port);
	TAKE(p, dport, dst_port);
	return 0;
}

/* raw_fs_is_multicast: unlike with specs, both mask and value decide. */
static bool params_are_multicast(const struct flow_matcher *m, const uint8_t *value)
{
	uint32_t ip_mask, ip;

	if (!(m->criteria & 1 << MATCH_OUTER))
		return false;
	memcpy(&ip_mask, m->mask + AT_DST_IP + AT_IPV4, 4);
	memcpy(&ip, value + AT_DST_IP + AT_IPV4, 4);
	return (m->mask[AT_DMAC] & value[AT_DMAC] & 1) || (IN_MULTICAST(ntohl(ip)) && IN_MULTICAST(ntohl(ip_mask)));
}

static int params_take_all(struct params *p)
{
	int r;

	TAKE(p, 0, src_mac);
	TAKE(p, 6, ether_type);
	TAKE(p, AT_DMAC, dst_mac);
	TAKE(p, 14, vlan_tci);
	TAKE(p, 16, ip_proto);
	TAKE(p, 17, tos);
	TAKE(p, AT_TTL, ttl);
	if ((r = params_take_flags(p)) || (r = params_take_network(p)) ||
	    (r = p->rule->mask.tcp_flags ? params_imply_protocol(p, IPPROTO_TCP) : 0) ||
	    (r = params_take_ports(p, IPPROTO_TCP, AT_TCP_SPORT, AT_TCP_DPORT)) ||
	    (r = params_take_ports(p, IPPROTO_UDP, AT_UDP_SPORT, AT_UDP_DPORT)))
		return r;
	return params_has(p, 0, sizeof(p->mask))
	               ? refuse(EOPNOTSUPP, "match_mask", "a field that softhca does not read",
	                        "softhca: params_take_all")
	               : 0;
}

int flow_match_param(struct flow_rule *rule, const struct flow_matcher *m, const uint8_t value[MATCH_PARAM_BYTES])
{
	struct params p = {.value = value, .rule = rule};

	for (size_t i = 0; i < MATCH_PARAM_BYTES; i++)
		if (value[i] & ~m->mask[i])
			return refuse(EINVAL, "match_value", "it has bits outside of the matcher's mask",
			              "mlx5_core: check_valid_spec");
	for (size_t i = 0; i < MATCH_PARAM_BYTES; i += SECTION_BYTES)
		if (m->criteria >> i / SECTION_BYTES & 1)
			memcpy(p.mask + i, m->mask + i, SECTION_BYTES);
	rule->table = params_are_multicast(m, value) ? FLOW_TABLE_MULTICAST : m->priority * 2u + 1;
	return params_take_all(&p);
}
