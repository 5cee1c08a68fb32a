// SPDX-License-Identifier: Apache-2.0
/*
 * RDMA devices: do they exist, can they be opened, are their ports up, and do they accept a queue and a flow? And PCI
 * Express and the IOMMU, through which they read and write memory.
 */
#include "tools/doctor/checks.h"

#include <errno.h>
#include <string.h>

/* Does a stream or channel of the configuration have this backend? If it is not known, they have auto, the default. */
static bool is_configured(const struct doctor_facts *facts, enum config_backend backend)
{
	struct doctor_service service;

	for (uint32_t i = 0; facts_service(facts, i, &service); i++)
		if (service.backend == backend)
			return true;
	return !facts->config && backend == CONFIG_BACKEND_AUTO;
}

/* Does the daemon that runs have a device? */
static bool is_verbs_taken(const struct doctor_facts *facts, bool is_configured_so)
{
	if (facts->process.kind == DOCTOR_DAEMON && facts->process.has_config && is_configured_so)
		return true;
	for (unsigned int i = 0; i < facts->n_taken; i++)
		if (strcmp(facts->taken[i].backend, "verbs") == 0)
			return true;
	return false;
}

static void report_no_device(const struct doctor_facts *facts, struct findings *findings)
{
	struct finding *finding = finding_add(findings, "device", "RDMA devices");
	bool is_needed = is_configured(facts, CONFIG_BACKEND_VERBS);

	if (is_verbs_taken(facts, is_needed)) {
		finding_write(finding->found,
		              "none that this process sees, but ibvcapd (pid %d) has one: softhca's, or in another "
		              "container",
		              (int)facts->process.pid);
		return;
	}
	if (!is_needed && !(facts->mellanox_pci && is_configured(facts, CONFIG_BACKEND_AUTO))) {
		finding_write(finding->found, "none, and %s needs none",
		              facts->config ? "the configuration" : "backend = \"auto\", the default,");
		return;
	}
	finding_fail(finding, is_needed ? FINDING_ERROR : FINDING_WARNING,
	             "the verbs backend takes packets from an RDMA device", "one, with an Ethernet port");
	if (facts->mellanox_pci) {
		finding_write(finding->found, "none, but there is a ConnectX on the PCI bus");
		finding_fix(finding, FIX_LASTS | FIX_ON_HOST,
		            "echo mlx5_ib > /etc/modules-load.d/ibvcap-mlx5_ib.conf && modprobe mlx5_ib");
	} else {
		finding_write(finding->found, "none, and no ConnectX on the PCI bus");
		finding_write(finding->advice,
		              "set backend = \"auto\" in the streams and channels, to capture on any interface; to try "
		              "verbs: softhca -i NETDEV -- ibvcapd --config FILE");
	}
}

static void check_device_netdev(const struct doctor_interface *interface, struct findings *findings)
{
	struct finding *finding = finding_add(findings, "interface", "%s", interface->name);

	finding_write(finding->found, "%s, MTU %u",
	              !interface->up       ? "down"
	              : interface->running ? "up"
	                                   : "up, no carrier",
	              interface->mtu);
	if (interface->up && interface->running)
		return;
	finding_fail(finding, FINDING_WARNING, "no packets arrive, and multicast groups cannot be joined",
	             "up, with a link");
	if (interface->up)
		finding_write(finding->fix, "ethtool %s   # cable, transceiver, the switch's port", interface->name);
	else
		finding_write(finding->fix, "ip link set %s up", interface->name);
}

static void check_device_port(const struct doctor_facts *facts, const struct doctor_device *device,
                              const struct doctor_port *port, struct findings *findings)
{
	const struct doctor_interface *interface = facts_find_interface(facts, port->netdev);
	struct finding *finding = finding_add(findings, "port", "%s port %u", device->name, port->number);

	finding_write(finding->found, "%s, %s, %s", port->state, port->link_layer, port->rate);
	/* Append ", eth2, PCI 0000:3b:00.0, NUMA node 1". */
	finding_append(finding->found, ", %s", *port->netdev ? port->netdev : "no network interface");
	if (*device->pci.address)
		finding_append(finding->found, ", PCI %s", device->pci.address);
	if (device->pci.node >= 0)
		finding_append(finding->found, ", NUMA node %d", device->pci.node);
	if (strcmp(port->link_layer, "Ethernet") != 0) {
		finding_fail(finding, FINDING_WARNING, "RAW_PACKET queue pairs take Ethernet frames",
		             "link layer Ethernet");
		finding_fix(finding, FIX_LASTS | FIX_ON_HOST, "mlxconfig -d %s set LINK_TYPE_P%u=2   # then reboot",
		            *device->pci.address ? device->pci.address : device->name, port->number);
	} else if (!strstr(port->state, "ACTIVE") && (!interface || interface->running)) {
		finding_fail(finding, FINDING_WARNING, "no packets arrive at a port that is not active", "ACTIVE");
		finding_write(finding->fix,
		              "rdma link show %s/%u   # shows its interface; then: ip link set INTERFACE up",
		              device->name, port->number);
	}
	if (interface)
		check_device_netdev(interface, findings);
}

static void check_device_probe(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_probe *probe = &device->probe;
	struct finding *finding;

	if (probe->result == DOCTOR_NOT_PROBED)
		return;
	finding = finding_add(findings, "probe", "a queue and a flow on %s", device->name);
	if (probe->result == DOCTOR_PROBE_PASSED) {
		finding_write(finding->found,
		              "made and taken away again; queues up to %u slots to receive, %u to send; moderation_us "
		              "up to %u, %s",
		              probe->max_queue_slots, probe->max_send_slots, probe->max_moderation_us,
		              probe->delay_drop ? "delay_drop" : "no delay_drop");
		return;
	}
	if (probe->result == DOCTOR_PROBE_IN_USE) {
		finding_write(finding->found, "not tried beside %s",
		              device->n_users ? "the processes that have it open: "
		                              : "an ibvcapd that may have it open");
		for (unsigned int i = 0; i < device->n_users; i++)
			finding_append(finding->found, "%s%s (pid %d)", i ? ", " : "", device->users[i].name,
			               (int)device->users[i].pid);
		return;
	}
	finding_write(finding->found, "%s", probe->reason);
	finding_fail(finding, probe->result == DOCTOR_PROBE_DENIED ? FINDING_WARNING : FINDING_ERROR,
	             "ibvcapd creates both for each stream", "both can be created");
	finding_write(finding->fix,
	              probe->result == DOCTOR_PROBE_DENIED
	                      ? "sudo ibvcap doctor   # this user has no right to create them"
	                      : "dmesg | grep -i mlx5   # the driver's reason; then update rdma-core and the firmware");
}

static void check_device(const struct doctor_facts *facts, const struct doctor_device *device,
                         struct findings *findings)
{
	struct finding *finding =
		finding_add(findings, "device", "%s (/dev/infiniband/%s)", device->name, device->uverbs);

	if (device->open_error) {
		finding_write(finding->found, "cannot be opened: %s", strerror(device->open_error));
		finding_fail(finding, FINDING_ERROR, "every verbs call goes through it",
		             "open for reading and writing");
		finding->fix_survives_reboot = finding->fix_is_host = true;
		if (device->open_error == ENOENT)
			finding_write(
				finding->fix,
				"echo ib_uverbs > /etc/modules-load.d/ibvcap-ib_uverbs.conf && modprobe ib_uverbs");
		else if (device->open_error == EPERM && *facts->limits.container)
			finding_write(finding->advice, "give the container /dev/infiniband/%s (DeviceAllow=, --device)",
			              device->uverbs);
		else
			finding_write(
				finding->fix,
				"echo 'KERNEL==\"uverbs*\", MODE=\"0666\"' > /etc/udev/rules.d/90-ibvcap.rules && "
				"udevadm control --reload && udevadm trigger --subsystem-match=infiniband_verbs");
	} else {
		finding_write(finding->found, "can be opened");
	}
	for (unsigned int i = 0; i < device->n_ports; i++)
		check_device_port(facts, device, &device->ports[i], findings);
	check_device_probe(device, findings);
}

void check_devices(const struct doctor_facts *facts, struct findings *findings)
{
	if (!facts->n_devices)
		report_no_device(facts, findings);
	for (unsigned int i = 0; i < facts->n_devices; i++)
		check_device(facts, &facts->devices[i], findings);
}

/* ---- PCI Express and the IOMMU ------------------------------------------------------------------- */

#define READ_REQUEST_MIN_BYTES 512

static void check_pci_link(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_pci *pci = &device->pci;
	struct finding *finding;

	if (!pci->width || !pci->width_max)
		return;
	finding = finding_add(findings, "pcie_link", "%s at PCI %s", device->name, pci->address);
	finding_write(finding->found, "x%u, %s", pci->width, pci->speed);
	if (pci->width >= pci->width_max && strcmp(pci->speed, pci->speed_max) == 0)
		return;
	finding_fail(finding, FINDING_WARNING,
	             "packets wait in the card for the bus; it drops them when its buffer is full",
	             "the maximum of the card: x%u, %s", pci->width_max, pci->speed_max);
	finding_fix(finding, FIX_LASTS | FIX_ON_HOST,
	            "lspci -s %s -vv | grep -E 'LnkCap|LnkSta'   # then use another slot, or change its setting in "
	            "the BIOS",
	            pci->address);
}

static void check_pci_read_request(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_pci *pci = &device->pci;
	struct finding *finding;

	if (!pci->read_request_bytes)
		return;
	finding = finding_add(findings, "pcie_read_request", "%s at PCI %s", device->name, pci->address);
	finding_write(finding->found, "%u bytes a read request at most", pci->read_request_bytes);
	if (pci->read_request_bytes >= READ_REQUEST_MIN_BYTES)
		return;
	finding_fail(finding, FINDING_WARNING,
	             "the card reads payloads and descriptors of free rows in many small requests", "at least %u",
	             READ_REQUEST_MIN_BYTES);
	/* 5 in bits 12 to 14 of Device Control stands for 4096 bytes. */
	finding_fix(finding, FIX_ON_HOST, "setpci -s %s CAP_EXP+8.w=5000:7000", pci->address);
}

static void check_pci_ordering(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_pci *pci = &device->pci;
	struct finding *finding;

	if (!pci->has_ordering)
		return;
	finding = finding_add(findings, "pcie_ordering", "%s at PCI %s", device->name, pci->address);
	finding_write(finding->found, "%s", pci->relaxed_ordering ? "relaxed" : "strict");
	if (pci->relaxed_ordering)
		return;
	finding_fail(
		finding, FINDING_WARNING,
		"relaxed_ordering of ibvcapd.conf(5) has no effect: each write of the card waits for those before it",
		"relaxed");
	/* pci_configure_relaxed_ordering(): some root ports get it wrong, and the kernel knows them. */
	finding_fix(finding, FIX_LASTS | FIX_ON_HOST,
	            "dmesg | grep 'Relaxed Ordering disabled'   # if the kernel has not disabled it, the BIOS does");
}

/* An IOMMU costs time only if it translates addresses: type DMA or DMA-FQ, not identity. */
static void check_pci_iommu(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_pci *pci = &device->pci;
	struct finding *finding;

	if (!*pci->address)
		return;
	finding = finding_add(findings, "iommu", "%s at PCI %s", device->name, pci->address);
	finding_write(finding->found, "%s", *pci->iommu ? pci->iommu : "none");
	if (strncmp(pci->iommu, "DMA", 3) != 0)
		return;
	finding_fail(finding, FINDING_WARNING,
	             "the IOMMU translates each address that the card writes to, and caches only a few of them",
	             "identity");
	finding_fix(finding, FIX_LASTS | FIX_ON_HOST,
	            "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub && update-grub   # then reboot");
}

void check_pci(const struct doctor_facts *facts, struct findings *findings)
{
	for (unsigned int i = 0; i < facts->n_devices; i++) {
		check_pci_link(&facts->devices[i], findings);
		check_pci_read_request(&facts->devices[i], findings);
		check_pci_ordering(&facts->devices[i], findings);
		check_pci_iommu(&facts->devices[i], findings);
	}
}
