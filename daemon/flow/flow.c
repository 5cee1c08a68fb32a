// SPDX-License-Identifier: Apache-2.0
/* Resolves configured flows to the rules that a device is asked for, and finds flows that exclude each other. */
#include "daemon/flow/flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ETHERNET_BYTES 14
#define VLAN_BYTES     4
#define IPV4_BYTES     20
#define IPV6_BYTES     40
#define UDP_BYTES      8

void flow_group_mac(const struct config_address *group, uint8_t mac[6])
{
	if (group->family == AF_INET) {
		const uint8_t bytes[6] = {
			0x01, 0x00, 0x5e, group->address[1] & 0x7f, group->address[2], group->address[3]};

		memcpy(mac, bytes, sizeof(bytes));
		return;
	}
	mac[0] = 0x33;
	mac[1] = 0x33;
	memcpy(mac + 2, group->address + 12, 4);
}

uint32_t flow_header_bytes(const struct config_flow *flow)
{
	return ETHERNET_BYTES + (flow->vlan >= 0 ? VLAN_BYTES : 0) +
	       (flow->destination.family == AF_INET6 ? IPV6_BYTES : IPV4_BYTES) + UDP_BYTES;
}

void flow_resolve(const struct config_flow *flow, const uint8_t interface_mac[6], struct flow_rule *rule)
{
	*rule = (struct flow_rule){
		.family = flow->destination.family,
		.multicast = config_is_multicast(&flow->destination),
		.has_source = flow->source.family != AF_UNSPEC,
		.destination_port_be = htons(flow->destination_port),
		.source_port_be = htons(flow->source_port),
		.vlan = flow->vlan,
	};
	memcpy(rule->destination, flow->destination.address, sizeof(rule->destination));
	memcpy(rule->source, flow->source.address, sizeof(rule->source));
	if (rule->multicast)
		flow_group_mac(&flow->destination, rule->destination_mac);
	else
		memcpy(rule->destination_mac, interface_mac, sizeof(rule->destination_mac));
}

/* ---- flows against each other -------------------------------------------------------------------- */

/* A rule without a VLAN has no VLAN spec, and such a rule matches tagged packets, too. */
bool flow_overlaps(const struct config_flow *a, const struct config_flow *b)
{
	return config_is_same_address(&a->destination, &b->destination) && a->destination_port == b->destination_port &&
	       (a->source.family == AF_UNSPEC || b->source.family == AF_UNSPEC ||
	        config_is_same_address(&a->source, &b->source)) &&
	       (a->source_port == 0 || b->source_port == 0 || a->source_port == b->source_port) &&
	       (a->vlan < 0 || b->vlan < 0 || a->vlan == b->vlan);
}

bool flow_is_same(const struct config_flow *a, const struct config_flow *b)
{
	return config_is_same_address(&a->destination, &b->destination) &&
	       config_is_same_address(&a->source, &b->source) && a->destination_port == b->destination_port &&
	       a->source_port == b->source_port && a->vlan == b->vlan;
}

static int flow_check_layout(const struct config_stream *stream, struct failure *failure)
{
	uint32_t header_bytes = flow_header_bytes(&stream->flows[0]);

	for (uint32_t i = 1; i < stream->n_flows; i++)
		if (flow_header_bytes(&stream->flows[i]) != header_bytes)
			return failure_set(
				failure, EX_CONFIG, EINVAL,
				"%s:%d: stream '%s': this flow has %u bytes of headers and the one at %s:%d has %u, "
				"but a queue splits all packets at one place: accepted are flows that are all IPv4 or "
				"all IPv6, all with a VLAN or all without; put this flow into a stream of its own",
				stream->flows[i].file, stream->flows[i].line, stream->name,
				flow_header_bytes(&stream->flows[i]), stream->flows[0].file, stream->flows[0].line,
				header_bytes);
	return 0;
}

/* Refused because devices differ in which queue gets a packet that two rules match, or whether both get a copy. */
static int flow_check_overlap(const struct config *config, uint32_t stream, uint32_t flow, struct failure *failure)
{
	const struct config_stream *mine = &config->streams[stream];

	for (uint32_t s = 0; s <= stream; s++) {
		const struct config_stream *other = &config->streams[s];
		uint32_t n_flows = s == stream ? flow : other->n_flows;

		for (uint32_t i = 0; i < n_flows && strcmp(other->interface, mine->interface) == 0; i++)
			if (flow_overlaps(&other->flows[i], &mine->flows[flow]))
				return failure_set(
					failure, EX_CONFIG, EINVAL,
					"%s:%d: stream '%s': this flow to port %u overlaps with that of stream '%s' at "
					"%s:%d on the same interface: accepted are flows of which no packet matches "
					"two (a flow without source, source_port or vlan matches any); several "
					"consumers may attach to one stream",
					mine->flows[flow].file, mine->flows[flow].line, mine->name,
					mine->flows[flow].destination_port, other->name, other->flows[i].file,
					other->flows[i].line);
	}
	return 0;
}

int flow_check(const struct config *config, struct failure *failure)
{
	for (uint32_t s = 0; s < config->n_streams; s++) {
		int r = flow_check_layout(&config->streams[s], failure);

		for (uint32_t i = 0; i < config->streams[s].n_flows && r == 0; i++)
			r = flow_check_overlap(config, s, i, failure);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- for logs ------------------------------------------------------------------------------------ */

const char *flow_format(const struct flow_rule *rule, char *buffer, size_t bytes)
{
	char destination[INET6_ADDRSTRLEN], source[INET6_ADDRSTRLEN];
	bool ipv6 = rule->family == AF_INET6;
	int used;

	inet_ntop(rule->family, rule->destination, destination, sizeof(destination));
	inet_ntop(rule->family, rule->source, source, sizeof(source));
	used = snprintf(buffer, bytes, ipv6 ? "[%s]:%u" : "%s:%u", destination, ntohs(rule->destination_port_be));
	if (rule->has_source && (size_t)used < bytes)
		used += snprintf(buffer + used, bytes - (size_t)used, " from %s", source);
	if (rule->source_port_be && (size_t)used < bytes)
		used += snprintf(buffer + used, bytes - (size_t)used, " port %u", ntohs(rule->source_port_be));
	if (rule->vlan >= 0 && (size_t)used < bytes)
		snprintf(buffer + used, bytes - (size_t)used, " vlan %d", rule->vlan);
	return buffer;
}
