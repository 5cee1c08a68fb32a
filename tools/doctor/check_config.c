// SPDX-License-Identifier: Apache-2.0
/* The configuration file: can the daemon use it, and does the machine have what its streams and channels need? */
#include "tools/doctor/checks.h"

#include "daemon/backend/xdp/xdp_mtu.h"
#include "daemon/flow/flow.h"
#include "daemon/memory/geometry.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* A stream or a channel. */
struct configured_service {
	const char *kind;
	const char *name;
	const char *interface;
	const char *file;
	int line;
	enum config_backend backend; /* not AUTO */
	bool is_auto;                /* the configuration leaves it to the daemon */
	uint32_t packet_bytes;       /* of IP */
	bool joins_fragments;        /* what is longer than the MTU comes in fragments */
	uint32_t slots;
	uint32_t slots_max; /* 0: the device was not asked */
	const char *slots_key;
};

static void check_config_readable(const struct doctor_facts *facts, struct finding *finding)
{
	const char *user = facts->process.cannot_read, *file = facts->config_file;

	finding_append(finding->found, ", but user %s may not read it", user);
	finding_fail(finding, FINDING_ERROR, "the service ends with status 66 and is not started again",
	             "a file that user %s, as which ibvcapd.service runs, can read", user);
	finding_fix(finding, FIX_LASTS, "chgrp \"$(id -g %s)\" %s && chmod g+r %s   # and g+x of its directories", user,
	            file, file);
}

static void check_config_file(const struct doctor_facts *facts, struct findings *findings)
{
	struct finding *finding = finding_add(findings, "config", "%s", facts->config_file);

	if (facts->config) {
		finding_write(finding->found, "valid: %u streams, %u channels", facts->config->n_streams,
		              facts->config->n_channels);
		if (*facts->process.cannot_read)
			check_config_readable(facts, finding);
		return;
	}
	finding_write(finding->found, "%s", facts->config_failure.text);
	finding->fix_survives_reboot = true;
	if (facts->config_failure.exit_code == EX_NOINPUT) {
		finding_fail(finding, FINDING_ERROR, "without it the needs of streams and channels cannot be checked",
		             "a file that you and ibvcapd can read");
		finding_write(finding->fix, "editor %s   # ibvcapd.conf(5); another file: ibvcap doctor --config FILE",
		              facts->config_file);
		finding->fix_is_edit = true;
		return;
	}
	finding_fail(finding, FINDING_ERROR,
	             "ibvcapd does not start with this file, and the needs of streams and channels cannot be checked",
	             "a file that ibvcapd --check-config accepts");
	finding_write(finding->fix, "ibvcapd --check-config --config %s   # until it reports no error",
	              facts->config_file);
}

static void list_port_netdevs(const struct doctor_facts *facts, char text[FINDING_TEXT_BYTES])
{
	const char *separator = "";

	finding_write(text, "%s", "");
	for (unsigned int i = 0; i < facts->n_devices; i++)
		for (unsigned int j = 0; j < facts->devices[i].n_ports; j++)
			if (*facts->devices[i].ports[j].netdev) {
				finding_append(text, "%s%s", separator, facts->devices[i].ports[j].netdev);
				separator = ", ";
			}
}

static void fix_choice(const struct backend_choice *choice, struct finding *finding)
{
	finding_write(finding->fix, "%s", choice->command);
	if (!*choice->command)
		finding_write(finding->advice, "%s", choice->better);
	finding->fix_survives_reboot = true;
}

static void report_chosen_backend(const struct doctor_facts *facts, const struct doctor_interface *interface,
                                  struct finding *finding)
{
	struct backend_choice choice;

	facts_choose_backend(facts, interface, &choice);
	finding_write(finding->found, "backend %s, because %s", choice.backend, choice.why);
	if (!choice.is_second_best) {
		if (*choice.better)
			finding_append(finding->found, "; %s%s%s", choice.better, *choice.command ? ": " : "",
			               choice.command);
		return;
	}
	finding_fail(finding, FINDING_WARNING, "fewer packets a second, and more CPU time for each",
	             "the fastest backend of the interface");
	fix_choice(&choice, finding);
}

/* A running daemon has taken what it needs, and has given up the rights to it since. */
static void report_backend(const struct doctor_facts *facts, const struct configured_service *service,
                           const struct doctor_interface *interface, struct finding *finding)
{
	const struct backend_choice_facts known = facts_for_choice(facts, interface);
	struct backend_choice choice = {0};

	if (service->is_auto) {
		report_chosen_backend(facts, interface, finding);
		return;
	}
	finding_write(finding->found, "backend \"%s\" needs no RDMA device", config_backend_name(service->backend));
	if (service->backend != CONFIG_BACKEND_XDP || facts->process.kind == DOCTOR_DAEMON ||
	    !backend_choice_lacks_xdp(&known, &choice))
		return;
	finding_write(finding->found, "backend \"xdp\", but %s", choice.why);
	finding_fail(finding, FINDING_ERROR, "ibvcapd does not start", "what xdp needs, or backend = \"auto\"");
	if (!*choice.better) {
		finding_fix_by_edit(finding, service->file, service->line, "backend = \"auto\"");
		return;
	}
	fix_choice(&choice, finding);
}

/* packet and xdp take interfaces without an RDMA device. */
static void check_config_kernel_interface(const struct doctor_facts *facts, const struct configured_service *service,
                                          struct finding *finding)
{
	const struct doctor_interface *interface = facts_find_interface(facts, service->interface);

	if (interface) {
		report_backend(facts, service, interface, finding);
		return;
	}
	finding_write(finding->found, "there is no such interface");
	finding_fail(finding, FINDING_ERROR, "ibvcapd does not start",
	             "an interface of this network namespace (ip link)");
	finding_fix_by_edit(finding, service->file, service->line, "interface");
}

static void check_config_interface(const struct doctor_facts *facts, const struct configured_service *service,
                                   struct findings *findings)
{
	struct finding *finding =
		finding_add(findings, "config", "%s '%s' on %s", service->kind, service->name, service->interface);
	const struct doctor_interface *interface = facts_find_interface(facts, service->interface);
	char ports[FINDING_TEXT_BYTES];

	if (service->backend != CONFIG_BACKEND_VERBS || (service->is_auto && !interface)) {
		check_config_kernel_interface(facts, service, finding);
		return;
	}
	if (interface && interface->stacking.n_lower && !net_stacking_is_lag(&interface->stacking)) {
		finding_write(finding->found, "it is stacked on %s%s%s", interface->stacking.names,
		              *interface->stacking.kind ? ": a " : "", interface->stacking.kind);
		finding_fail(finding, FINDING_ERROR,
		             "ibvcapd does not start: a device gives what comes in at a port, with VLAN tags",
		             "the interface of a port");
		finding_fix_by_edit(finding, service->file, service->line,
		                    "interface: one of %s; for a VLAN, set vlan in the flows",
		                    interface->stacking.names);
		return;
	}
	if (facts_find_device(facts, service->interface)) {
		finding_write(finding->found, "%s is behind it", facts_find_device(facts, service->interface)->name);
		return;
	}
	if (interface && !facts->n_devices && facts->process.has_config) {
		finding_write(finding->found, "ibvcapd (pid %d) has its device, which this process does not see",
		              (int)facts->process.pid);
		return;
	}
	finding_write(finding->found, interface ? "no RDMA device is behind it" : "there is no such interface");
	list_port_netdevs(facts, ports);
	finding_fail(finding, FINDING_ERROR, "ibvcapd does not start: it has no device for the queue", "%s%s",
	             *ports ? "one that has: " : "an interface with an RDMA device", ports);
	finding_fix_by_edit(finding, service->file, service->line, "interface");
}

/* Linux 6.6 has both tcx and AF_XDP for packets of several frames. */
static void check_config_xdp_mtu(const struct configured_service *service, const struct doctor_interface *interface,
                                 struct finding *finding)
{
	uint32_t mtu_max = xdp_whole_mtu(XDP_FRAME_BYTES);

	if (service->backend != CONFIG_BACKEND_XDP || interface->choice.has_tcx || interface->mtu <= mtu_max)
		return;
	finding_fail(
		finding, FINDING_WARNING,
		"backend xdp refuses it; if it grew since ibvcapd started, longer packets are lost without a count",
		"%u at most, or Linux 6.6", mtu_max);
	finding_write(finding->fix, "ip link set dev %s mtu %u", service->interface, mtu_max);
}

static void check_config_mtu(const struct doctor_facts *facts, const struct configured_service *service,
                             struct findings *findings)
{
	const struct doctor_interface *interface = facts_find_interface(facts, service->interface);
	struct finding *finding;

	if (!interface)
		return;
	finding = finding_add(findings, "mtu", "%s '%s' on %s", service->kind, service->name, service->interface);
	finding_write(finding->found, "MTU %u, its packets have up to %u bytes", interface->mtu, service->packet_bytes);
	if (service->joins_fragments)
		finding_append(finding->found, ", which come in fragments, and ibvcapd joins them (reassemble)");
	if (service->packet_bytes <= interface->mtu || service->joins_fragments) {
		check_config_xdp_mtu(service, interface, finding);
		return;
	}
	finding_fail(finding, FINDING_ERROR, "ibvcapd refuses it: such packets cannot pass", "an MTU of at least %u",
	             service->packet_bytes);
	finding_write(finding->fix, "ip link set dev %s mtu %u", service->interface, service->packet_bytes);
}

static void check_config_slots(const struct configured_service *service, struct findings *findings)
{
	struct finding *finding;

	if (!service->slots_max)
		return;
	finding = finding_add(findings, "ring_size", "%s '%s' on %s", service->kind, service->name, service->interface);
	finding_write(finding->found, "%s %u, the device takes up to %u", service->slots_key, service->slots,
	              service->slots_max);
	if (service->slots <= service->slots_max)
		return;
	finding_fail(finding, FINDING_ERROR, "ibvcapd refuses it: the device has no deeper queue", "at most %u",
	             service->slots_max);
	finding_fix_by_edit(finding, service->file, service->line, "%s = %u", service->slots_key, service->slots_max);
}

static void check_config_service(const struct doctor_facts *facts, const struct configured_service *service,
                                 struct findings *findings)
{
	check_config_interface(facts, service, findings);
	check_config_mtu(facts, service, findings);
	check_config_slots(service, findings);
}

static bool is_address_here(const struct doctor_facts *facts, const struct config_address *address)
{
	for (unsigned int i = 0; i < facts->n_addresses; i++)
		if (config_is_same_address(&facts->addresses[i].address, address) ||
		    config_is_same_address(&facts->addresses[i].broadcast, address))
			return true;
	return false;
}

static void list_addresses(const struct doctor_facts *facts, const char *interface, sa_family_t family,
                           char text[FINDING_TEXT_BYTES])
{
	char address[INET6_ADDRSTRLEN];

	finding_write(text, "%s", "");
	for (unsigned int i = 0; i < facts->n_addresses; i++) {
		const struct doctor_address *at = &facts->addresses[i];

		if (at->address.family != family || strcmp(at->interface, interface) != 0)
			continue;
		inet_ntop(family, at->address.address, address, sizeof(address));
		finding_append(text, "%s%s", *text ? ", " : "", address);
	}
}

/*
 * By default the kernel answers for the addresses of all interfaces at each of them, so any address of this machine
 * will do.
 */
static void check_config_destination(const struct doctor_facts *facts, const struct config_stream *stream,
                                     const struct config_flow *flow, struct findings *findings)
{
	char address[INET6_ADDRSTRLEN], own[FINDING_TEXT_BYTES];
	struct finding *finding;

	if (!flow_has_whole_destination(flow) || config_is_multicast(&flow->destination) || flow_is_to_all(flow) ||
	    is_address_here(facts, &flow->destination))
		return;
	inet_ntop(flow->destination.family, flow->destination.address, address, sizeof(address));
	list_addresses(facts, stream->interface, flow->destination.family, own);
	finding = finding_add(findings, "destination", "stream '%s' on %s", stream->name, stream->interface);
	finding_write(finding->found, "%s is not an address of %s%s%s%s, nor of another interface", address,
	              stream->interface, *own ? " (" : "", own, *own ? ")" : "");
	finding_fail(finding, FINDING_WARNING,
	             "senders ask the network for the MAC of this address, and this machine does not answer: no packet "
	             "to it comes here, unless a sender or switch is set to send them all the same",
	             "an address of the interface, or a multicast group");
	finding_fix_by_edit(finding, flow->file, flow->line, "destination%s%s", *own ? ": " : "", own);
}

static void check_config_destinations(const struct doctor_facts *facts, const struct config_stream *stream,
                                      struct findings *findings)
{
	const struct doctor_interface *interface = facts_find_interface(facts, stream->interface);

	if (!interface || !facts->n_addresses || facts->network == DOCTOR_NETWORK_HIDDEN)
		return;
	for (uint32_t i = 0; i < stream->n_flows; i++)
		check_config_destination(facts, stream, &stream->flows[i], findings);
}

/* NULL: none, or the backend has no use for it. */
static const struct doctor_device *find_device_of(const struct doctor_facts *facts, const char *interface,
                                                  enum config_backend backend)
{
	return backend == CONFIG_BACKEND_VERBS ? facts_find_device(facts, interface) : NULL;
}

static void check_config_stream(const struct doctor_facts *facts, const struct config_stream *stream,
                                struct findings *findings)
{
	enum config_backend backend = facts_find_backend(facts, stream->interface, stream->backend);
	const struct doctor_device *device = find_device_of(facts, stream->interface, backend);
	const struct doctor_interface *interface = facts_find_interface(facts, stream->interface);
	const struct configured_service service = {
		.kind = "stream",
		.name = stream->name,
		.interface = stream->interface,
		.file = stream->file,
		.line = stream->line,
		.backend = backend,
		.is_auto = stream->backend == CONFIG_BACKEND_AUTO,
		.packet_bytes = geometry_packet_bytes(stream),
		.joins_fragments = interface && geometry_reassembles(stream, interface->mtu),
		.slots = stream->receive_queue_slots,
		.slots_max = device ? device->probe.max_queue_slots : 0,
		.slots_key = "receive_queue_slots",
	};

	check_config_service(facts, &service, findings);
	check_config_destinations(facts, stream, findings);
}

static void check_config_channel(const struct doctor_facts *facts, const struct config_channel *channel,
                                 struct findings *findings)
{
	enum config_backend backend = facts_find_backend(facts, channel->interface, channel->backend);
	const struct doctor_device *device = find_device_of(facts, channel->interface, backend);
	const struct configured_service service = {
		.kind = "channel",
		.name = channel->name,
		.interface = channel->interface,
		.file = channel->file,
		.line = channel->line,
		.backend = backend,
		.is_auto = channel->backend == CONFIG_BACKEND_AUTO,
		.packet_bytes = geometry_sent_packet_bytes(channel),
		.slots = channel->send_queue_slots,
		.slots_max = device ? device->probe.max_send_slots : 0,
		.slots_key = "send_queue_slots",
	};

	check_config_service(facts, &service, findings);
}

void check_config(const struct doctor_facts *facts, struct findings *findings)
{
	check_config_file(facts, findings);
	for (uint32_t i = 0; facts->config && i < facts->config->n_streams; i++)
		check_config_stream(facts, &facts->config->streams[i], findings);
	for (uint32_t i = 0; facts->config && i < facts->config->n_channels; i++)
		check_config_channel(facts, &facts->config->channels[i], findings);
}
