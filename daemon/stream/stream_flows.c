// SPDX-License-Identifier: Apache-2.0
/*
 * Makes packets come to a stream, by flow rules on the device and group memberships in the kernel, and changes these
 * while the stream runs.
 */
#include "daemon/stream/stream.h"

#include "daemon/base/log.h"
#include "daemon/flow/flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The broadcast address of a subnet is known by the interface's addresses alone. */
static void stream_resolve(const struct stream *stream, const struct config_flow *flow, struct flow_rule *rule)
{
	static const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct net_address_location location = {.is_broadcast = false};

	if (flow->destination.family == AF_INET && flow_has_whole_destination(flow) && !flow_reaches_groups(flow))
		net_find_address(&flow->destination, stream->config->interface, &location);
	flow_resolve(flow, location.is_broadcast ? all : stream->interface->net.mac, rule);
}

static void stream_log_flow(const struct stream *stream, const struct config_flow *config, const char *what)
{
	struct flow_rule rule;
	char text[FLOW_TEXT_MAX];

	stream_resolve(stream, config, &rule);
	log_debug("stream '%s': flow %s %s", stream->config->name, flow_format(&rule, text, sizeof(text)), what);
}

/* No error, because an address may be added later, or move between machines. */
void stream_check_destination(const struct config_stream *config, const struct config_flow *flow)
{
	char address[INET6_ADDRSTRLEN] = "";
	struct net_address_location location;

	if (flow->destination.family == AF_UNSPEC || flow_reaches_groups(flow) || flow_is_to_all(flow) ||
	    !flow_has_whole_destination(flow) ||
	    net_find_address(&flow->destination, config->interface, &location) < 0 || location.is_here ||
	    location.is_broadcast)
		return;
	inet_ntop(flow->destination.family, flow->destination.address, address, sizeof(address));
	log_message(LOG_WARNING, &(struct log_about){.stream = config->name, .interface = config->interface},
	            "%s:%d: stream '%s': destination %s is not an address of %s (%s), nor of another interface: no "
	            "packets to it come until this machine has it",
	            flow->file, flow->line, config->name, address, config->interface,
	            location.addresses[0] ? location.addresses : "it has none");
}

/* A flow does not open the filter of a card: what that drops, nobody counts. */
static void stream_tell_filter(const struct stream *stream, const struct config_flow *flow)
{
	const struct net_interface *net = &stream->interface->net;
	bool wants_all = flow->match == CONFIG_MATCH_ALL ||
	                 (flow->ether_type != CONFIG_ANY && flow->destination.family == AF_UNSPEC);

	if (wants_all ? net->is_promiscuous : flow->match != CONFIG_MATCH_MULTICAST || net->has_all_groups)
		return;
	log_message(
		LOG_INFO, &(struct log_about){.stream = stream->config->name, .interface = stream->config->interface},
		"%s:%d: stream '%s': a card takes packets to its own Ethernet address, to all stations and to groups "
		"that are joined, and no others, as those of PTP or LLDP: to have all: ip link set %s %s on",
		flow->file, flow->line, stream->config->name, stream->config->interface,
		wants_all ? "promisc" : "allmulticast");
}

/* The ports whose datagrams have rows. A flow without a port has all. */
static void stream_show_ports(const struct stream *stream)
{
	uint64_t ports[REASSEMBLY_N_PORTS / 64] = {0};

	if (!stream->reassembles)
		return;
	for (uint32_t i = 0; i < stream->n_flows; i++) {
		uint16_t port = stream->flows[i].config.destination_port;

		if (port)
			ports[port / 64] |= UINT64_C(1) << port % 64;
		else
			memset(ports, 0xff, sizeof(ports));
	}
	for (uint32_t i = 0; i < stream->n_queues; i++)
		reassembly_set_ports(stream->queues[i].reassembly, ports);
}

static void stream_remove_flow(struct stream *stream, uint32_t i)
{
	stream_log_flow(stream, &stream->flows[i].config, "removed");
	if (stream->flows[i].fragments)
		stream->interface->ops->remove_flow(stream->flows[i].fragments);
	stream->interface->ops->remove_flow(stream->flows[i].flow);
	stream->flows[i] = stream->flows[--stream->n_flows];
	stream_show_ports(stream);
}

/* Later fragments have no ports: they need a rule of their own. Another flow to the same address may have it. */
static int stream_add_fragments(const struct stream *stream, struct backend_queue *target, const struct flow_rule *rule,
                                struct stream_flow *flow, struct failure *failure)
{
	struct flow_rule fragments;
	int r;

	if (!stream->reassembles || !flow_fragments_rule(rule, &fragments))
		return 0;
	r = stream->interface->ops->add_flow(target, &fragments, &flow->fragments, failure);
	return r == -EEXIST ? 0 : r;
}

/* The flow of that number in config, which is the stream's or the one to come. */
static int stream_add_flow(struct stream *stream, const struct config_stream *config, uint32_t number,
                           struct failure *failure)
{
	struct interface *interface = stream->interface;
	const struct config_flow *flow = &config->flows[number];
	struct stream_flow *flows = reallocarray(stream->flows, stream->n_flows + 1, sizeof(*flows));
	struct backend_queue *target;
	struct flow_rule rule;
	int r;

	if (!flows)
		return failure_set(failure, EX_OSERR, ENOMEM, "stream '%s': out of memory", stream->config->name);
	stream->flows = flows;
	stream_check_destination(stream->config, flow);
	stream_tell_filter(stream, flow);
	stream_resolve(stream, flow, &rule);
	rule.tag = config->flow_numbers ? number : 0;
	rule.reassembles = stream->reassembles;
	target = flow->queue < 0 && stream->group ? stream->group
	                                          : stream->queues[flow->queue < 0 ? 0 : flow->queue].queue;
	flows[stream->n_flows] = (struct stream_flow){.config = *flow};
	flows[stream->n_flows].config.file = NULL; /* the configuration's */
	r = interface->ops->add_flow(target, &rule, &flows[stream->n_flows].flow, failure);
	if (r < 0)
		return r;
	stream->n_flows++;
	stream_show_ports(stream);
	r = stream_add_fragments(stream, target, &rule, &flows[stream->n_flows - 1], failure);
	if (r < 0) {
		stream_remove_flow(stream, stream->n_flows - 1);
		return r;
	}
	stream_log_flow(stream, flow, "added");
	return 0;
}

/* The command proposes a name for a VLAN interface; a name has 15 bytes at most. */
static void stream_warn_untagged(const struct config_stream *config, int vlan)
{
	const char *interface = config->interface;
	char name[32];

	if (snprintf(name, sizeof(name), "%s.%d", interface, vlan) >= IF_NAMESIZE)
		snprintf(name, sizeof(name), "vlan%d", vlan);
	log_message(
		LOG_WARNING, &(struct log_about){.stream = config->name, .interface = interface},
		"stream '%s': its group in VLAN %d is joined on %s without a tag: no interface has that VLAN; where "
		"its switch wants to hear of the group: ip link add link %s name %s type vlan id %d && ip link set "
		"%s up; the daemon then joins the group there",
		config->name, vlan, interface, interface, name, vlan, name);
}

static void stream_warn_prefix(const struct config_stream *config, const struct config_flow *flow)
{
	char text[FLOW_TEXT_MAX];

	log_message(LOG_WARNING, &(struct log_about){.stream = config->name, .interface = config->interface},
	            "%s:%d: stream '%s': the groups of %s are not joined, because a join names one group: a switch "
	            "that knows their members by IGMP or MLD sends no packets of them here; for each group that is "
	            "needed: a flow of its own with a higher priority, or ip address add GROUP dev %s autojoin",
	            flow->file, flow->line, config->name, flow_describe(flow, text, sizeof(text)), config->interface);
}

static int stream_join_groups(const struct stream *stream, const struct config_stream *config,
                              struct membership **membership, struct failure *failure)
{
	int r = membership_new(membership);

	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "stream '%s': no socket for its groups: %s", config->name,
		                   strerror(-r));
	for (uint32_t i = 0; i < config->n_flows && r >= 0; i++) {
		struct flow_rule rule;

		if (config_is_multicast(&config->flows[i].destination) &&
		    !flow_has_whole_destination(&config->flows[i]))
			stream_warn_prefix(config, &config->flows[i]);
		stream_resolve(stream, &config->flows[i], &rule);
		r = membership_join(*membership, stream->interface->net.index, &rule, failure);
		if (r == MEMBERSHIP_UNTAGGED)
			stream_warn_untagged(config, flow_rule_vlan(&rule));
	}
	if (r < 0) {
		membership_free(*membership);
		*membership = NULL;
	}
	return r < 0 ? r : 0;
}

int stream_capture(struct stream *stream, struct failure *failure)
{
	int r = 0;

	for (uint32_t i = 0; i < stream->config->n_flows && r == 0; i++)
		r = stream_add_flow(stream, stream->config, i, failure);
	if (r == 0 && stream->config->join)
		r = stream_join_groups(stream, stream->config, &stream->membership, failure);
	return r;
}

/* ---- interfaces that come and go ------------------------------------------------------------------- */

void stream_note_link_change(struct stream *stream, const struct link_change *change)
{
	bool is_used;

	if (!stream->membership)
		return;
	is_used = membership_uses(stream->membership, change->index);
	if (change->index == 0 || (change->is_gone && is_used))
		stream->rejoin_due = true;
	if (change->is_gone || is_used || change->vlan < 0 || change->lower_index != stream->interface->net.index)
		return;
	for (uint32_t i = 0; i < stream->config->n_flows; i++)
		stream->rejoin_due |= stream->config->flows[i].vlan == change->vlan;
}

int stream_rejoin(struct stream *stream, struct failure *failure)
{
	struct membership *membership;
	int r = stream_join_groups(stream, stream->config, &membership, failure);

	if (r < 0)
		return r;
	membership_free(stream->membership);
	stream->membership = membership;
	stream->rejoin_due = stream->rejoin_failed = false;
	return 0;
}

void stream_leave(struct stream *stream)
{
	if (!stream->interface || stream->interface->is_abandoned) /* NULL: not even stream_init() was called */
		return;
	interface_note_rules(stream->interface);
	membership_free(stream->membership);
	stream->membership = NULL;
	stream->rejoin_due = false;
	while (stream->n_flows > 0)
		stream_remove_flow(stream, stream->n_flows - 1);
	free(stream->flows);
	stream->flows = NULL;
}

/* ---- other flows while it runs -------------------------------------------------------------------- */

static bool stream_config_has_flow(const struct config_stream *config, const struct config_flow *flow)
{
	for (uint32_t i = 0; i < config->n_flows; i++)
		if (flow_is_same(&config->flows[i], flow))
			return true;
	return false;
}

static bool stream_has_flow(const struct stream *stream, const struct config_flow *flow)
{
	for (uint32_t i = 0; i < stream->n_flows; i++)
		if (flow_is_same(&stream->flows[i].config, flow))
			return true;
	return false;
}

void stream_plan_change(struct stream *stream, const struct config_stream *config)
{
	struct stream_change *change = &stream->change;

	*change = (struct stream_change){.config = config, .n_flows_before = stream->n_flows};
	change->has_changed = config && stream->n_flows != config->n_flows;
	for (uint32_t i = 0; config && i < config->n_flows; i++)
		change->has_changed |= !stream_has_flow(stream, &config->flows[i]);
}

int stream_join_changed(struct stream *stream, struct failure *failure)
{
	struct stream_change *change = &stream->change;
	int r = change->has_changed ? interface_check_answers(stream->interface, failure) : 0;

	if (r == 0 && change->has_changed && change->config->join)
		r = stream_join_groups(stream, change->config, &change->membership, failure);
	return r;
}

/* A device may have the rule of a flow once only: it cannot be added for one queue before another one loses it. */
static int stream_check_flow_queues(const struct stream *stream, const struct config_stream *config,
                                    struct failure *failure)
{
	for (uint32_t i = 0; config && i < config->n_flows; i++)
		for (uint32_t k = 0; k < stream->n_flows; k++)
			if (flow_is_same(&stream->flows[k].config, &config->flows[i]) &&
			    stream->flows[k].config.queue != config->flows[i].queue)
				return failure_set(failure, EX_CONFIG, EBUSY,
				                   "%s:%d: stream '%s': queue = %d of a flow is %d while the stream "
				                   "runs: remove the flow, reload, and add it again",
				                   config->flows[i].file, config->flows[i].line, config->name,
				                   config->flows[i].queue, stream->flows[k].config.queue);
	return 0;
}

int stream_add_changed(struct stream *stream, struct failure *failure)
{
	const struct stream_change *change = &stream->change;
	int r = stream_check_flow_queues(stream, change->config, failure);

	for (uint32_t i = 0; change->has_changed && i < change->config->n_flows && r == 0; i++)
		if (!stream_has_flow(stream, &change->config->flows[i]))
			r = stream_add_flow(stream, change->config, i, failure);
	return r;
}

void stream_undo_change(struct stream *stream)
{
	while (stream->change.has_changed && stream->n_flows > stream->change.n_flows_before)
		stream_remove_flow(stream, stream->n_flows - 1);
	membership_free(stream->change.membership);
	stream->change = (struct stream_change){.config = NULL};
}

bool stream_commit_change(struct stream *stream)
{
	const struct stream_change change = stream->change;

	for (uint32_t i = stream->n_flows; i > 0; i--)
		if (!stream_config_has_flow(change.config, &stream->flows[i - 1].config))
			stream_remove_flow(stream, i - 1);
	/* The new sockets are in all groups that stay: closing the old ones leaves the others. */
	if (change.has_changed) {
		interface_note_rules(stream->interface);
		membership_free(stream->membership);
		stream->membership = change.membership;
		stream->rejoin_due = false;
	}
	stream->config = change.config;
	stream->control.config = change.config;
	stream->service.name = change.config->name;
	stream->change = (struct stream_change){.config = NULL};
	return change.has_changed;
}
