// SPDX-License-Identifier: Apache-2.0
/* Network interfaces as the kernel has them: pause frames, loopback, and what multicast groups need. */
#include "tools/doctor/checks.h"

#include "daemon/flow/flow.h"

#include <string.h>

#define RP_FILTER_STRICT 1

static void check_interface_pause(const struct doctor_interface *interface, struct findings *findings)
{
	struct finding *finding;

	if (!interface->has_pause)
		return;
	finding = finding_add(findings, "pause", "%s", interface->name);
	finding_write(finding->found, "pause frames: %s obeyed, %s sent", interface->rx_pause ? "are" : "not",
	              interface->tx_pause ? "are" : "not");
	if (!interface->rx_pause && !interface->tx_pause)
		return;
	finding_fail(finding, FINDING_WARNING,
	             "if the port pauses the switch, the switch drops packets, also those of other ports, and no "
	             "counter here shows it; if the switch pauses the port, packets leave late",
	             "neither");
	finding_write(finding->fix, "ethtool -A %s autoneg off rx off tx off", interface->name);
}

static void check_interface_loopback(const struct doctor_interface *interface, const struct doctor_device *device,
                                     struct findings *findings)
{
	struct finding *finding;

	if (strcmp(interface->name, "lo") == 0) /* always loops back */
		return;
	finding = finding_add(findings, "loopback", "%s", interface->name);
	if (interface->loopback) {
		finding_write(finding->found, "the port sends its packets back to itself, and none to the wire");
		finding_fail(finding, FINDING_ERROR,
		             "this mode is for tests of the card: no packets arrive from outside", "off");
		finding_write(finding->fix, "ethtool -K %s loopback off", interface->name);
		return;
	}
	finding_write(finding->found, "off");
	if (!device || device->n_users < 2)
		return;
	/* The driver enables this loopback for the second context and later ones: mlx5_ib_enable_lb(). */
	finding_write(finding->found, "%u processes have %s open: %s (pid %d), %s (pid %d)%s", device->n_users,
	              device->name, device->users[0].name, (int)device->users[0].pid, device->users[1].name,
	              (int)device->users[1].pid, device->n_users > 2 ? ", …" : "");
	finding_fail(finding, FINDING_WARNING,
	             "with a second process a ConnectX also receives the multicast packets that it "
	             "sends, and the flows of two programs may take each other's packets",
	             "one");
	finding_write(finding->fix,
	              "rdma resource show qp link %s/1   # lists their queues; end the programs that are not needed",
	              device->name);
}

/* ---- multicast ------------------------------------------------------------------------------------- */

/* The multicast groups that the configuration joins on one interface. */
struct groups {
	bool has_sources;
	bool has_ipv4;
};

static struct groups count_wanted_groups(const struct doctor_facts *facts, const char *interface)
{
	struct groups groups = {0};

	for (uint32_t i = 0; facts->config && i < facts->config->n_streams; i++) {
		const struct config_stream *stream = &facts->config->streams[i];

		for (uint32_t j = 0; j < stream->n_flows; j++) {
			const struct config_flow *flow = &stream->flows[j];

			/* Groups in a VLAN are joined on the VLAN's own interface. */
			if (strcmp(stream->interface, interface) != 0 || !stream->join || flow->vlan > 0 ||
			    !config_is_multicast(&flow->destination) || !flow_has_whole_destination(flow))
				continue;
			groups.has_ipv4 |= flow->destination.family == AF_INET;
			groups.has_sources |= flow->source.family == AF_INET;
		}
	}
	return groups;
}

static void check_interface_igmp(const struct doctor_interface *interface, const struct groups *groups,
                                 struct findings *findings)
{
	struct finding *finding;

	if (!interface->igmp_version || !groups->has_ipv4)
		return;
	finding = finding_add(findings, "igmp", "%s", interface->name);
	finding_write(finding->found, "IGMP version %u", interface->igmp_version);
	if (!groups->has_sources || interface->igmp_version >= 3)
		return;
	finding_fail(finding, FINDING_WARNING,
	             "older versions join a group without a source: packets of other sources arrive "
	             "too, and none of a source-specific group",
	             "version 3, because flows name their sources");
	finding_write(finding->fix,
	              "sysctl -w net/ipv4/conf/%s/force_igmp_version=0   # if that does not help, the switch's querier "
	              "speaks an older version",
	              interface->name);
}

static void check_interface_rp_filter(const struct doctor_interface *interface, const struct groups *groups,
                                      struct findings *findings)
{
	struct finding *finding = finding_add(findings, "rp_filter", "%s", interface->name);

	finding_write(finding->found, "%d", interface->rp_filter);
	if (interface->rp_filter != RP_FILTER_STRICT || !groups->has_ipv4)
		return;
	finding_fail(finding, FINDING_WARNING,
	             "the kernel drops queries from an address that it would not route to this "
	             "interface, so the groups end a few minutes after they were joined",
	             "2 (loose) or 0 (off)");
	finding_fix(finding, FIX_LASTS,
	            "echo 'net/ipv4/conf/%s/rp_filter = 2' > /etc/sysctl.d/81-ibvcap-%s.conf && "
	            "sysctl -p /etc/sysctl.d/81-ibvcap-%s.conf",
	            interface->name, interface->name, interface->name);
}

static void check_interface_function(const struct doctor_interface *interface, struct findings *findings)
{
	struct finding *finding;

	if (!interface->is_virtual_function)
		return;
	finding = finding_add(findings, "virtual_function", "%s", interface->name);
	finding_write(finding->found,
	              "the host's switch gives it packets for its own MAC and for groups that its kernel has joined; "
	              "the host may set a VLAN, whose tags do not arrive here, a rate and a spoof check (ip link)");
}

void check_netdevs(const struct doctor_facts *facts, struct findings *findings)
{
	for (unsigned int i = 0; i < facts->n_interfaces; i++) {
		const struct doctor_interface *interface = &facts->interfaces[i];
		struct groups groups;

		if (!interface->exists)
			continue;
		groups = count_wanted_groups(facts, interface->name);
		check_interface_function(interface, findings);
		check_interface_pause(interface, findings);
		check_interface_loopback(interface, facts_find_device(facts, interface->name), findings);
		check_interface_igmp(interface, &groups, findings);
		check_interface_rp_filter(interface, &groups, findings);
	}
}
