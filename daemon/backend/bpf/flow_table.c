// SPDX-License-Identifier: Apache-2.0
/*
 * Puts flow rules into the map of a BPF program. The program looks a frame up once for each combination of optional
 * fields that some rule has; the table tells it which these are.
 */
#include "daemon/backend/bpf/flow_table.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

struct flow_key flow_table_key(const struct flow_rule *rule, bool has_ethernet)
{
	struct flow_key key = {
		.destination_port_be = rule->value.destination_port_be,
		.ip_version = rule->family == AF_INET6 ? 6 : 4,
		.fields = (__u8)((flow_rule_has_source(rule) ? FLOW_KEY_SOURCE : 0) |
	                         (rule->mask.source_port_be ? FLOW_KEY_SOURCE_PORT : 0) |
	                         (rule->mask.vlan_be ? FLOW_KEY_VLAN : 0)),
		.source_port_be = rule->value.source_port_be,
		.vlan = rule->mask.vlan_be ? (__u16)flow_rule_vlan(rule) : 0,
	};
	size_t address_bytes = rule->family == AF_INET6 ? 16 : 4;

	memcpy(key.destination, rule->value.destination, address_bytes);
	memcpy(key.source, rule->value.source, address_bytes);
	if (has_ethernet)
		memcpy(key.destination_mac, rule->value.destination_mac, sizeof(key.destination_mac));
	flow_key_keep(&key, key.fields);
	return key;
}

int flow_table_size(const struct bpf_object *object)
{
	struct bpf_map *flows = bpf_object__find_map_by_name(object, "flows");

	return flows ? bpf_map__set_max_entries(flows, FLOW_TABLE_MAX) : -ENOENT;
}

int flow_table_init(struct flow_table *table, const struct bpf_object *object, const char *interface,
                    const struct flow_settings *settings)
{
	*table = (struct flow_table){
		.interface = interface,
		.flows_fd = bpf_object__find_map_fd_by_name(object, "flows"),
		.settings_fd = bpf_object__find_map_fd_by_name(object, "settings"),
		.settings = *settings,
	};
	return flow_table_apply(table);
}

int flow_table_apply(const struct flow_table *table)
{
	uint32_t zero = 0;

	return bpf_map_update_elem(table->settings_fd, &zero, &table->settings, BPF_ANY);
}

static int flow_table_failed(const struct flow_table *table, const struct flow_rule *rule, int error,
                             struct failure *failure)
{
	char text[FLOW_TEXT_MAX];

	flow_format(rule, text, sizeof(text));
	if (error == EEXIST)
		return failure_set(failure, EX_CONFIG, EEXIST,
		                   "interface %s: another stream has the flow %s already: remove it from one of "
		                   "them",
		                   table->interface, text);
	if (error == E2BIG)
		return failure_set(
			failure, EX_CONFIG, E2BIG,
			"interface %s: no room for the flow %s: the streams of an interface may have %d flows "
			"in all: remove some",
			table->interface, text, FLOW_TABLE_MAX);
	return failure_set(failure, EX_OSERR, error, "interface %s: cannot give the flow %s to the BPF program: %s",
	                   table->interface, text, strerror(error));
}

static int flow_table_refuse(const struct flow_table *table, const struct flow_rule *rule, const char *key,
                             struct failure *failure)
{
	char text[FLOW_TEXT_MAX];

	return failure_set(failure, EX_CONFIG, EOPNOTSUPP,
	                   "interface %s: backend xdp cannot match the flow %s, because of its key '%s': accepted are "
	                   "flows of UDP to one destination and port, with source, source_port and vlan",
	                   table->interface, flow_format(rule, text, sizeof(text)), key);
}

/* A combination that no rule has any more costs each frame a look-up. */
static void flow_table_forget(struct flow_table *table, uint8_t fields)
{
	if (table->n_with[fields] > 0)
		return;
	table->settings.combinations &= ~(1U << fields);
	flow_table_apply(table);
}

/* The combination comes before its first rule, and goes after its last one. */
int flow_table_add(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target,
                   struct failure *failure)
{
	struct flow_key key = flow_table_key(rule, !table->settings.no_ethernet);
	const char *beyond = flow_rule_key_beyond_udp(rule);
	int r;

	if (beyond)
		return flow_table_refuse(table, rule, beyond, failure);

	table->settings.combinations |= 1U << key.fields;
	r = flow_table_apply(table);
	if (r == 0)
		r = bpf_map_update_elem(table->flows_fd, &key, target, BPF_NOEXIST);
	if (r < 0) {
		flow_table_forget(table, key.fields);
		return flow_table_failed(table, rule, -r, failure);
	}
	table->n_with[key.fields]++;
	return 0;
}

void flow_table_remove(struct flow_table *table, const struct flow_rule *rule)
{
	struct flow_key key = flow_table_key(rule, !table->settings.no_ethernet);

	if (bpf_map_delete_elem(table->flows_fd, &key) < 0)
		return;
	table->n_with[key.fields]--;
	flow_table_forget(table, key.fields);
}
