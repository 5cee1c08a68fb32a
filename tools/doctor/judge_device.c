// SPDX-License-Identifier: Apache-2.0
/* RDMA devices: are they there, can they be opened, are their ports up, do they take a queue and a flow? */
#include "tools/doctor/judge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void judge_no_device(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "device");

	finding->level = DOCTOR_ERROR;
	judge_say(finding->subject, "RDMA devices");
	judge_say(finding->wanted, "one, with an Ethernet port");
	judge_say(finding->why, "the verbs backend takes packets from an RDMA device");
	if (facts->mellanox_pci) {
		judge_say(finding->found, "none, but there is a ConnectX on the PCI bus");
		judge_say(finding->fix, "echo mlx5_ib > /etc/modules-load.d/ibvcap-mlx5_ib.conf && modprobe mlx5_ib");
		finding->fix_survives_reboot = true;
	} else {
		judge_say(finding->found, "none, and no ConnectX on the PCI bus");
		judge_say(finding->fix, "softhca -i NETDEV -- ibvcapd --config FILE   # to try it without one");
	}
}

static void judge_link(const struct doctor_interface *interface, struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "interface");

	judge_say(finding->subject, "%s", interface->name);
	judge_say(finding->found, "%s, MTU %u",
	          !interface->up       ? "down"
	          : interface->running ? "up"
	                               : "up, no carrier",
	          interface->mtu);
	if (interface->up && interface->running)
		return;
	finding->level = DOCTOR_WARNING;
	judge_say(finding->wanted, "up, with a link");
	judge_say(finding->why, "nothing arrives, and multicast groups can't be joined");
	if (interface->up)
		judge_say(finding->fix, "ethtool %s   # cable, transceiver, the switch's port", interface->name);
	else
		judge_say(finding->fix, "ip link set %s up", interface->name);
}

/* "mlx5_0 port 1 - eth2 - 0000:3b:00.0 - NUMA node 1" */
static void name_place(const struct doctor_device *device, const struct doctor_port *port, char text[DOCTOR_TEXT_BYTES])
{
	judge_append(text, ", %s", *port->netdev ? port->netdev : "no network interface");
	if (*device->pci.address)
		judge_append(text, ", PCI %s", device->pci.address);
	if (device->pci.node >= 0)
		judge_append(text, ", NUMA node %d", device->pci.node);
}

static void judge_port(const struct doctor_facts *facts, const struct doctor_device *device,
                       const struct doctor_port *port, struct doctor_findings *findings)
{
	const struct doctor_interface *interface = judge_find_interface(facts, port->netdev);
	struct doctor_finding *finding = judge_add(findings, "port");

	judge_say(finding->subject, "%s port %u", device->name, port->number);
	judge_say(finding->found, "%s, %s, %s, %u GIDs", port->state, port->link_layer, port->rate, port->n_gids);
	name_place(device, port, finding->found);
	if (strcmp(port->link_layer, "Ethernet") != 0) {
		finding->level = DOCTOR_WARNING;
		judge_say(finding->wanted, "link layer Ethernet");
		judge_say(finding->why, "RAW_PACKET queue pairs take Ethernet frames");
		judge_say(finding->fix, "mlxconfig -d %s set LINK_TYPE_P%u=2 && reboot",
		          *device->pci.address ? device->pci.address : device->name, port->number);
		finding->fix_survives_reboot = true;
	} else if (!strstr(port->state, "ACTIVE") && (!interface || interface->running)) {
		finding->level = DOCTOR_WARNING;
		judge_say(finding->wanted, "ACTIVE");
		judge_say(finding->why, "nothing arrives at a port that is not");
		judge_say(finding->fix, "rdma link show %s/%u   # which interface is behind it, then ip link set it up",
		          device->name, port->number);
	}
	if (interface)
		judge_link(interface, findings);
}

static void name_users(const struct doctor_device *device, char text[DOCTOR_TEXT_BYTES])
{
	for (unsigned int i = 0; i < device->n_users; i++)
		judge_append(text, "%s%s (pid %d)", i ? ", " : "", device->users[i].name, (int)device->users[i].pid);
}

static void judge_trial(const struct doctor_device *device, struct doctor_findings *findings)
{
	const struct doctor_trial *trial = &device->trial;
	struct doctor_finding *finding;

	if (trial->result == DOCTOR_UNTRIED)
		return;
	finding = judge_add(findings, "trial");
	judge_say(finding->subject, "a queue and a flow on %s", device->name);
	if (trial->result == DOCTOR_PASSED) {
		judge_say(finding->found, "made and taken away again; queues up to %u slots to receive, %u to send",
		          trial->max_queue_slots, trial->max_send_slots);
		return;
	}
	if (trial->result == DOCTOR_IN_USE) {
		judge_say(finding->found, "not tried beside %s",
		          device->n_users ? "who has it open: " : "an ibvcapd that may have it open");
		name_users(device, finding->found);
		return;
	}
	judge_say(finding->found, "%s", trial->said);
	judge_say(finding->wanted, "both can be made");
	judge_say(finding->why, "ibvcapd makes one of each for every stream");
	if (trial->result == DOCTOR_NO_RIGHT) {
		finding->level = DOCTOR_WARNING;
		judge_say(finding->fix,
		          "sudo ibvcap doctor   # you may not make one; root sees whether it can be made");
		return;
	}
	finding->level = DOCTOR_ERROR;
	judge_say(finding->fix, "dmesg | grep -i mlx5   # the driver's reason; then rdma-core and firmware up to date");
}

static void judge_device(const struct doctor_facts *facts, const struct doctor_device *device,
                         struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "device");

	judge_say(finding->subject, "%s (/dev/infiniband/%s)", device->name, device->uverbs);
	if (device->open_error) {
		finding->level = DOCTOR_ERROR;
		judge_say(finding->found, "cannot be opened: %s", strerror(device->open_error));
		judge_say(finding->wanted, "open for reading and writing");
		judge_say(finding->why, "every verbs call goes through it");
		if (device->open_error == ENOENT)
			judge_say(finding->fix,
			          "echo ib_uverbs > /etc/modules-load.d/ibvcap-ib_uverbs.conf && modprobe ib_uverbs");
		else if (device->open_error == EPERM && *facts->limits.container)
			judge_say(finding->fix,
			          "# outside: give the container /dev/infiniband/%s (DeviceAllow=, --device)",
			          device->uverbs);
		else
			judge_say(finding->fix,
			          "echo 'KERNEL==\"uverbs*\", MODE=\"0666\"' > /etc/udev/rules.d/90-ibvcap.rules && "
			          "udevadm control --reload && udevadm trigger --subsystem-match=infiniband_verbs");
		finding->fix_survives_reboot = true;
	} else {
		judge_say(finding->found, "can be opened");
	}
	for (unsigned int i = 0; i < device->n_ports; i++)
		judge_port(facts, device, &device->ports[i], findings);
	judge_trial(device, findings);
}

void judge_devices(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	if (!facts->n_devices)
		judge_no_device(facts, findings);
	for (unsigned int i = 0; i < facts->n_devices; i++)
		judge_device(facts, &facts->devices[i], findings);
}
