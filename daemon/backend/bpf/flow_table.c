// SPDX-License-Identifier: Apache-2.0
/*
 * Puts flow rules into the maps of a BPF program. The program looks a frame up once for each combination of optional
 * fields in the settings, and compares it with each condition. The table keeps the settings up to date.
 */
#include "daemon/backend/bpf/flow_table.h"

#include "daemon/backend/bpf/bpf_load.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

/* From the lowest on; 0 is no rule. Packets for the kernel itself rank above the leftover packets. */
enum flow_rank { RANK_OF_DEFAULT = 1, RANK_OF_KERNEL, RANK_OF_RULES };

bool flow_table_is_exact(const struct flow_rule *rule)
{
	return rule->match == CONFIG_MATCH_RULE && rule->priority == 0 && !flow_rule_key_beyond_udp(rule);
}

/* The fields of value or mask that a key has, whatever the rule. */
static struct flow_headers flow_table_headers(const struct flow_fields *fields, bool has_ethernet)
{
	struct flow_headers headers = {
		.key = {.source_port_be = fields->source_port_be,
	                .destination_port_be = fields->destination_port_be,
	                .protocol = fields->protocol,
	                .traffic_class = fields->traffic_class},
	};

	memcpy(headers.key.destination, fields->destination, sizeof(headers.key.destination));
	memcpy(headers.key.source, fields->source, sizeof(headers.key.source));
	if (!has_ethernet)
		return headers;
	headers.key.vlan_be = fields->vlan_be;
	memcpy(headers.key.destination_mac, fields->destination_mac, sizeof(headers.key.destination_mac));
	memcpy(headers.source_mac, fields->source_mac, sizeof(headers.source_mac));
	headers.ether_type_be = fields->ether_type_be;
	return headers;
}

struct flow_key flow_table_key(const struct flow_rule *rule, bool has_ethernet)
{
	struct flow_key key = flow_table_headers(&rule->value, has_ethernet).key;

	key.ip_version = rule->family == AF_INET6 ? 6 : 4;
	flow_key_keep(&key, (__u8)((flow_rule_has_source(rule) ? FLOW_KEY_SOURCE : 0) |
	                           (rule->mask.source_port_be ? FLOW_KEY_SOURCE_PORT : 0) |
	                           (rule->mask.vlan_be ? FLOW_KEY_VLAN : 0)));
	return key;
}

/* An address has a family. */
static bool flow_table_is_ip(const struct flow_fields *mask)
{
	return mask->protocol || mask->traffic_class || mask->destination_port_be || mask->source_port_be;
}

struct flow_condition flow_table_condition(const struct flow_rule *rule, bool has_ethernet)
{
	struct flow_condition condition = {
		.value = flow_table_headers(&rule->value, has_ethernet),
		.mask = flow_table_headers(&rule->mask, has_ethernet),
	};

	if (rule->fragments)
		condition.value.key.fields = condition.mask.key.fields = FLOW_KEY_FRAGMENT;
	if (rule->family != AF_UNSPEC) {
		condition.value.key.ip_version = rule->family == AF_INET6 ? 6 : 4;
		condition.mask.key.ip_version = 0xff;
	} else if (flow_table_is_ip(&rule->mask)) {
		condition.value.key.ip_version = condition.mask.key.ip_version = FLOW_IP_VERSION_BIT;
	}
	return condition;
}

int flow_table_size(const struct bpf_object *object, uint32_t n_queues)
{
	int r = bpf_code_size_map(object, "flows", FLOW_TABLE_MAX);

	return r < 0 ? r : bpf_code_size_map(object, "groups", n_queues);
}

int flow_table_init(struct flow_table *table, const struct bpf_object *object, const char *interface,
                    const struct flow_settings *settings)
{
	*table = (struct flow_table){
		.interface = interface,
		.flows_fd = bpf_object__find_map_fd_by_name(object, "flows"),
		.conditions_fd = bpf_object__find_map_fd_by_name(object, "conditions"),
		.settings_fd = bpf_object__find_map_fd_by_name(object, "settings"),
		.fragments_fd = bpf_object__find_map_fd_by_name(object, "fragments"),
		.groups_fd = bpf_object__find_map_fd_by_name(object, "groups"),
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
			"interface %s: no room for the flow %s: the streams of an interface may have %d flows to one "
			"address and port of UDP, and %d others: remove some",
			table->interface, text, FLOW_TABLE_MAX, FLOW_CONDITIONS_MAX);
	return failure_set(failure, EX_OSERR, error, "interface %s: cannot give the flow %s to the BPF program: %s",
	                   table->interface, text, strerror(error));
}

/* ---- exact rules --------------------------------------------------------------------------------- */

/* Drop a combination that no rule has any more: it would cost each frame a look-up. */
static void flow_table_forget(struct flow_table *table, uint8_t fields)
{
	if (table->n_with[fields] > 0)
		return;
	table->settings.combinations &= ~(1U << fields);
	flow_table_apply(table);
}

/* The program gets the combination before its first rule, and loses it after its last one. 0 or -errno. */
static int flow_table_add_key(struct flow_table *table, const struct flow_key *key, const struct flow_target *target)
{
	int r;

	table->settings.combinations |= 1U << key->fields;
	r = flow_table_apply(table);
	if (r == 0)
		r = bpf_map_update_elem(table->flows_fd, key, target, BPF_NOEXIST);
	if (r == 0)
		table->n_with[key->fields]++;
	else
		flow_table_forget(table, key->fields);
	return r;
}

static void flow_table_remove_key(struct flow_table *table, const struct flow_key *key)
{
	if (bpf_map_delete_elem(table->flows_fd, key) < 0)
		return;
	table->has_removed = true;
	table->n_with[key->fields]--;
	flow_table_forget(table, key->fields);
}

/* ---- conditions ---------------------------------------------------------------------------------- */

/* The index, or -ENOENT. */
static int flow_table_find_condition(const struct flow_table *table, const struct flow_condition *condition,
                                     uint32_t rank)
{
	for (int i = 0; i < FLOW_CONDITIONS_MAX; i++)
		if (table->conditions[i].target.rank == rank &&
		    memcmp(&table->conditions[i].condition, condition, sizeof(*condition)) == 0)
			return i;
	return -ENOENT;
}

/* The index of one that is free, or -E2BIG. */
static int flow_table_find_free(const struct flow_table *table)
{
	for (int i = 0; i < FLOW_CONDITIONS_MAX; i++)
		if (table->conditions[i].target.rank == 0)
			return i;
	return -E2BIG;
}

static int flow_table_write_condition(const struct flow_table *table, uint32_t i)
{
	return bpf_map_update_elem(table->conditions_fd, &i, &table->conditions[i], BPF_ANY);
}

/* The program looks at conditions up to the last one in use. */
static int flow_table_count_conditions(struct flow_table *table)
{
	uint32_t n = FLOW_CONDITIONS_MAX;

	while (n > 0 && table->conditions[n - 1].target.rank == 0)
		n--;
	table->settings.n_conditions = n;
	return flow_table_apply(table);
}

static void flow_table_clear_condition(struct flow_table *table, uint32_t i)
{
	table->has_removed = true;
	table->conditions[i].target.rank = 0;
	flow_table_write_condition(table, i);
	flow_table_count_conditions(table);
}

/*
 * The program reads the map word by word while it changes. A rank makes the entry valid, so the rank is written last. 0
 * or -errno.
 */
static int flow_table_add_condition(struct flow_table *table, const struct flow_condition *condition,
                                    const struct flow_target *target)
{
	int i = flow_table_find_free(table), r;
	struct flow_conditional *one;

	if (flow_table_find_condition(table, condition, target->rank) >= 0)
		return -EEXIST;
	if (i < 0)
		return i;
	one = &table->conditions[i];
	*one = (struct flow_conditional){.condition = *condition, .target = *target};
	one->target.rank = 0;
	r = flow_table_write_condition(table, (uint32_t)i);
	one->target.rank = target->rank;
	if (r == 0)
		r = flow_table_write_condition(table, (uint32_t)i);
	if (r == 0)
		r = flow_table_count_conditions(table);
	if (r < 0)
		flow_table_clear_condition(table, (uint32_t)i);
	return r;
}

/* Datagrams of a flow that is removed: fragments of others may have their identification. */
static void flow_table_forget_datagrams(const struct flow_table *table)
{
	struct flow_datagram datagram;

	for (int i = 0; i < FLOW_DATAGRAMS_MAX && bpf_map_get_next_key(table->fragments_fd, NULL, &datagram) == 0; i++)
		bpf_map_delete_elem(table->fragments_fd, &datagram);
}

/* ---- rules --------------------------------------------------------------------------------------- */

/*
 * The kernel reuses the memory of a removed rule at once, in the array and in the hash table. A frame that found the
 * removed rule may still have to read its target, and would read the target of the new rule. One wait serves all
 * removed rules: a reload adds its rules before it removes others.
 */
static void flow_table_reclaim(struct flow_table *table)
{
	if (table->has_removed)
		frame_wait();
	table->has_removed = false;
}

uint32_t flow_table_rank(const struct flow_rule *rule)
{
	if (rule->match == CONFIG_MATCH_DEFAULT)
		return rule->mask.destination_mac[0] ? RANK_OF_KERNEL : RANK_OF_DEFAULT;
	return RANK_OF_RULES + rule->priority;
}

static struct flow_target flow_table_target(const struct flow_rule *rule, const struct flow_target *target)
{
	struct flow_target ranked = *target;

	ranked.rank = flow_table_rank(rule);
	ranked.reassembles = rule->reassembles;
	return ranked;
}

int flow_table_add(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target,
                   struct failure *failure)
{
	const struct flow_target ranked = flow_table_target(rule, target);
	bool has_ethernet = !table->settings.no_ethernet;
	int r;

	flow_table_reclaim(table);
	if (flow_table_is_exact(rule)) {
		struct flow_key key = flow_table_key(rule, has_ethernet);

		r = flow_table_add_key(table, &key, &ranked);
	} else {
		struct flow_condition condition = flow_table_condition(rule, has_ethernet);

		r = flow_table_add_condition(table, &condition, &ranked);
	}
	if (r < 0)
		return flow_table_failed(table, rule, -r, failure);
	table->settings.n_reassemble += rule->reassembles;
	return flow_table_apply(table);
}

/* 0 or -errno. *old: the rule's target until now. */
static int flow_table_swap(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target,
                           struct flow_target *old)
{
	bool has_ethernet = !table->settings.no_ethernet;
	struct flow_condition condition;
	int i;

	if (flow_table_is_exact(rule)) {
		struct flow_key key = flow_table_key(rule, has_ethernet);
		int r = bpf_map_lookup_elem(table->flows_fd, &key, old);

		return r < 0 ? r : bpf_map_update_elem(table->flows_fd, &key, target, BPF_EXIST);
	}
	condition = flow_table_condition(rule, has_ethernet);
	i = flow_table_find_condition(table, &condition, target->rank);
	if (i < 0)
		return i;
	*old = table->conditions[i].target;
	table->conditions[i].target = *target;
	return flow_table_write_condition(table, (uint32_t)i);
}

int flow_table_replace(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target)
{
	const struct flow_target ranked = flow_table_target(rule, target);
	struct flow_target old;
	int r = flow_table_swap(table, rule, &ranked, &old);

	if (r < 0)
		return r;
	table->settings.n_reassemble += ranked.reassembles - old.reassembles;
	return flow_table_apply(table);
}

void flow_table_remove(struct flow_table *table, const struct flow_rule *rule)
{
	bool has_ethernet = !table->settings.no_ethernet;

	if (flow_table_is_exact(rule)) {
		struct flow_key key = flow_table_key(rule, has_ethernet);

		flow_table_remove_key(table, &key);
	} else {
		struct flow_condition condition = flow_table_condition(rule, has_ethernet);
		int i = flow_table_find_condition(table, &condition, flow_table_rank(rule));

		if (i >= 0)
			flow_table_clear_condition(table, (uint32_t)i);
	}
	if (!rule->reassembles)
		return;
	table->settings.n_reassemble--;
	flow_table_apply(table);
	flow_table_forget_datagrams(table);
}

/* ---- groups -------------------------------------------------------------------------------------- */

int flow_table_set_group(const struct flow_table *table, const uint32_t *queues, uint32_t n, bool ports)
{
	struct flow_group group = {.n_members = n, .has_ports = ports};

	if (n == 0 || n > FLOW_GROUP_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (queues[i] > UINT8_MAX)
			return -ERANGE;
		group.member_bytes[i / 8] |= (uint64_t)queues[i] << i % 8 * 8;
	}
	return bpf_map_update_elem(table->groups_fd, &queues[0], &group, BPF_ANY);
}
