// SPDX-License-Identifier: Apache-2.0
/* Writes a rule for logs and messages: "239.1.2.3:7502 from 10.0.0.1 vlan 5". */
#include "daemon/flow/flow.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FLOW_ADDRESS_MAX (INET6_ADDRSTRLEN + sizeof("/128"))

static void flow_append(char *buffer, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void flow_append(char *buffer, size_t bytes, const char *format, ...)
{
	size_t used = strlen(buffer);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(buffer + used, bytes - used, format, arguments);
	va_end(arguments);
}

static unsigned count_bits(const uint8_t mask[16])
{
	unsigned n = 0;

	for (unsigned i = 0; i < 16; i++)
		n += (unsigned)__builtin_popcount(mask[i]);
	return n;
}

/* "10.1.0.0/16"; "any" without an address. */
static const char *flow_format_address(const struct flow_rule *rule, const uint8_t value[16], const uint8_t mask[16],
                                       char text[FLOW_ADDRESS_MAX])
{
	unsigned bits = count_bits(mask);

	if (bits == 0 || rule->family == AF_UNSPEC)
		return strcpy(text, "any");
	inet_ntop(rule->family, value, text, INET6_ADDRSTRLEN);
	if (bits != (rule->family == AF_INET6 ? 128 : 32))
		snprintf(text + strlen(text), sizeof("/128"), "/%u", bits & 0xff);
	return text;
}

static void flow_append_mac(char *buffer, size_t bytes, const char *what, const uint8_t value[6])
{
	flow_append(buffer, bytes, " %s %02x:%02x:%02x:%02x:%02x:%02x", what, value[0], value[1], value[2], value[3],
	            value[4], value[5]);
}

static void flow_append_ip(const struct flow_rule *rule, char *buffer, size_t bytes)
{
	char address[FLOW_ADDRESS_MAX];

	flow_format_address(rule, rule->value.destination, rule->mask.destination, address);
	flow_append(buffer, bytes, strchr(address, ':') ? "[%s]" : "%s", address);
	if (rule->mask.destination_port_be)
		flow_append(buffer, bytes, ":%u", ntohs(rule->value.destination_port_be));
	if (count_bits(rule->mask.source))
		flow_append(buffer, bytes, " from %s",
		            flow_format_address(rule, rule->value.source, rule->mask.source, address));
	if (rule->mask.source_port_be)
		flow_append(buffer, bytes, " port %u", ntohs(rule->value.source_port_be));
	if (!rule->mask.protocol)
		flow_append(buffer, bytes, " protocol any");
	else if (rule->value.protocol != IPPROTO_UDP)
		flow_append(buffer, bytes, " protocol %u", rule->value.protocol);
	if (rule->mask.traffic_class)
		flow_append(buffer, bytes, " dscp %u", rule->value.traffic_class >> 2);
}

const char *flow_format(const struct flow_rule *rule, char *buffer, size_t bytes)
{
	static const char *const kinds[] = {
		[CONFIG_MATCH_ALL] = "all packets",
		[CONFIG_MATCH_DEFAULT] = "packets that nobody else takes",
		[CONFIG_MATCH_MULTICAST] = "packets to groups",
	};
	static const uint8_t no_mac[6];

	buffer[0] = '\0';
	if (rule->match != CONFIG_MATCH_RULE)
		flow_append(buffer, bytes, "%s", kinds[rule->match]);
	else if (rule->mask.ether_type_be)
		flow_append(buffer, bytes, "ether_type 0x%04x", ntohs(rule->value.ether_type_be));
	else
		flow_append_ip(rule, buffer, bytes);
	if (rule->fragments)
		flow_append(buffer, bytes, " fragments");
	if (rule->mask.vlan_be)
		flow_append(buffer, bytes, " vlan %d", flow_rule_vlan(rule));
	if (memcmp(rule->mask.source_mac, no_mac, 6) != 0)
		flow_append_mac(buffer, bytes, "source_mac", rule->value.source_mac);
	if (rule->priority)
		flow_append(buffer, bytes, " priority %u", rule->priority);
	if (rule->copy)
		flow_append(buffer, bytes, " copy");
	return buffer;
}

const char *flow_describe(const struct config_flow *flow, char *buffer, size_t bytes)
{
	struct flow_rule rule;

	flow_resolve(flow, NULL, &rule);
	return flow_format(&rule, buffer, bytes);
}
