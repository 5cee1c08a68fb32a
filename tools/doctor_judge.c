// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct doctor_finding *add(struct doctor_findings *findings, const char *check)
{
	static const struct doctor_finding none;
	struct doctor_finding *finding = &findings->entries[findings->n];

	/* Bounded by the facts' own bounds; if the last entry is ever reached, it is used again. */
	if (findings->n < DOCTOR_FINDINGS_MAX - 1)
		findings->n++;
	*finding = none;
	finding->check = check;
	return finding;
}

__attribute__((format(printf, 2, 3))) static void say(char text[DOCTOR_TEXT_BYTES], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, DOCTOR_TEXT_BYTES, format, arguments);
	va_end(arguments);
}

static bool has(const struct doctor_process *process, unsigned int capability)
{
	return process->effective_capabilities >> capability & 1;
}

static void judge_pool(const struct doctor_pool *pool, struct doctor_findings *findings)
{
	struct doctor_finding *finding = add(findings, "hugepages");

	say(finding->subject, "%" PRIu64 " MiB pages on NUMA node %u", pool->page_kib / 1024, pool->node);
	say(finding->found, "%" PRIu64 " free of %" PRIu64, pool->free_pages, pool->total_pages);
}

/* One pool with free pages is enough to start; which one it must be, the config says. */
static void judge_hugepages(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	uint64_t total = 0, free_pages = 0;
	struct doctor_finding *finding;

	for (unsigned int i = 0; i < facts->n_pools; i++) {
		total += facts->pools[i].total_pages;
		free_pages += facts->pools[i].free_pages;
		if (facts->pools[i].total_pages)
			judge_pool(&facts->pools[i], findings);
	}
	if (free_pages)
		return;
	finding = add(findings, "hugepages");
	say(finding->subject, "free hugepages");
	say(finding->found, "%" PRIu64 " reserved, none free", total);
	say(finding->wanted, "as many as the rings of the config need");
	say(finding->why, "rings lie in hugepages unless their page_size is 4 KiB");
	say(finding->fix, "echo 'vm.nr_hugepages = %" PRIu64 "' > /etc/sysctl.d/80-ibvcap.conf && sysctl --system",
	    total + 512);
	finding->fix_survives_reboot = true;
	/* A running daemon may well hold all of them. */
	finding->level = total ? DOCTOR_WARNING : DOCTOR_ERROR;
}

static void name_process(const struct doctor_process *process, char text[DOCTOR_TEXT_BYTES])
{
	if (process->is_daemon)
		say(text, "ibvcapd (pid %d)", (int)process->pid);
	else
		say(text, "this process (no ibvcapd is running)");
}

static void judge_memlock(const struct doctor_process *process, struct doctor_findings *findings)
{
	struct doctor_finding *finding = add(findings, "memlock");

	name_process(process, finding->subject);
	if (has(process, CAP_IPC_LOCK)) {
		say(finding->found, "CAP_IPC_LOCK: no limit applies");
		return;
	}
	if (process->memlock_bytes == UINT64_MAX) {
		say(finding->found, "unlimited");
		return;
	}
	say(finding->found, "%" PRIu64 " KiB%s", process->memlock_bytes / 1024,
	    process->is_daemon ? "; what it needs is registered" : "");
	/* A daemon that runs has its memory registered, and has given the capability up after that. */
	if (process->is_daemon)
		return;
	finding->level = DOCTOR_WARNING;
	say(finding->wanted, "unlimited, or CAP_IPC_LOCK");
	say(finding->why, "memory a NIC writes to is locked, and the rings are larger than that");
	say(finding->fix, "start ibvcapd by systemctl start ibvcapd, or as root");
}

static void judge_capabilities(const struct doctor_process *process, struct doctor_findings *findings)
{
	struct doctor_finding *finding = add(findings, "capabilities");

	name_process(process, finding->subject);
	if (has(process, CAP_NET_RAW)) {
		say(finding->found, "CAP_NET_RAW");
		return;
	}
	say(finding->found, "no CAP_NET_RAW");
	say(finding->wanted, "CAP_NET_RAW");
	say(finding->why, "without it the kernel refuses RAW_PACKET queue pairs and flow rules");
	if (process->is_daemon)
		say(finding->fix, "systemctl edit ibvcapd   # [Service] AmbientCapabilities=CAP_NET_RAW CAP_IPC_LOCK");
	else
		say(finding->fix, "start ibvcapd by systemctl start ibvcapd, as root, or by ibv_launch ibvcapd ...");
	finding->fix_survives_reboot = process->is_daemon;
	finding->level = process->is_daemon ? DOCTOR_ERROR : DOCTOR_WARNING;
}

static void judge_no_device(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	struct doctor_finding *finding = add(findings, "device");

	finding->level = DOCTOR_ERROR;
	say(finding->subject, "RDMA devices");
	say(finding->wanted, "one, with an Ethernet port");
	say(finding->why, "the verbs backend takes packets from an RDMA device");
	if (facts->mellanox_pci) {
		say(finding->found, "none, but there is a ConnectX on the PCI bus");
		say(finding->fix, "echo mlx5_ib > /etc/modules-load.d/ibvcap.conf && modprobe mlx5_ib");
		finding->fix_survives_reboot = true;
	} else {
		say(finding->found, "none, and no ConnectX on the PCI bus");
		say(finding->fix, "to try it without one: softhca -i NETDEV -- ibvcapd --config FILE");
	}
}

static void judge_interface(const struct doctor_port *port, struct doctor_findings *findings)
{
	struct doctor_finding *finding = add(findings, "interface");

	say(finding->subject, "%s", port->netdev);
	say(finding->found, "%s, MTU %u",
	    !port->netdev_up	   ? "down"
	    : port->netdev_running ? "up"
				   : "up, no carrier",
	    port->mtu);
	if (port->netdev_up && port->netdev_running)
		return;
	finding->level = DOCTOR_WARNING;
	say(finding->wanted, "up, with a link");
	say(finding->why, "nothing arrives, and multicast groups can't be joined");
	if (port->netdev_up)
		say(finding->fix, "ethtool %s   # cable, transceiver, the switch's port", port->netdev);
	else
		say(finding->fix, "ip link set %s up", port->netdev);
}

static void judge_port(const struct doctor_device *device, const struct doctor_port *port,
		       struct doctor_findings *findings)
{
	struct doctor_finding *finding = add(findings, "port");

	say(finding->subject, "%s port %u", device->name, port->number);
	say(finding->found, "%s, %s, %s, %u GIDs, %s", port->state, port->link_layer, port->rate, port->n_gids,
	    *port->netdev ? port->netdev : "no network interface");
	if (strcmp(port->link_layer, "Ethernet") != 0) {
		finding->level = DOCTOR_WARNING;
		say(finding->wanted, "link layer Ethernet");
		say(finding->why, "RAW_PACKET queue pairs take Ethernet frames");
		say(finding->fix, "mlxconfig -d %s set LINK_TYPE_P%u=2   # then a reset", device->name, port->number);
		finding->fix_survives_reboot = true;
	} else if (!strstr(port->state, "ACTIVE") && !(*port->netdev && !port->netdev_running)) {
		finding->level = DOCTOR_WARNING;
		say(finding->wanted, "ACTIVE");
		say(finding->why, "nothing arrives at a port that is not");
		say(finding->fix, "rdma link show %s/%u   # which interface is behind it, then ip link set it up",
		    device->name, port->number);
	}
	if (*port->netdev)
		judge_interface(port, findings);
}

static void judge_device(const struct doctor_device *device, struct doctor_findings *findings)
{
	struct doctor_finding *finding = add(findings, "device");

	say(finding->subject, "%s (/dev/infiniband/%s)", device->name, device->uverbs);
	if (device->open_error) {
		finding->level = DOCTOR_ERROR;
		say(finding->found, "cannot be opened: %s", strerror(device->open_error));
		say(finding->wanted, "open for reading and writing");
		say(finding->why, "every verbs call goes through it");
		if (device->open_error == ENOENT)
			say(finding->fix, "modprobe ib_uverbs");
		else
			say(finding->fix, "chmod 0666 /dev/infiniband/%s", device->uverbs);
	} else {
		say(finding->found, "can be opened");
	}
	for (unsigned int i = 0; i < device->n_ports; i++)
		judge_port(device, &device->ports[i], findings);
}

static void judge_config(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	struct doctor_finding *finding;

	if (!facts->config_file)
		return;
	finding = add(findings, "config");
	say(finding->subject, "%s", facts->config_file);
	if (facts->config_status == 0) {
		say(finding->found, "ibvcapd accepts it");
		return;
	}
	finding->level = DOCTOR_ERROR;
	say(finding->found, "%s", facts->config_message);
	say(finding->wanted, "a file that ibvcapd --check-config accepts");
	say(finding->why, "ibvcapd does not start with it");
	say(finding->fix, "ibvcapd --check-config --config %s", facts->config_file);
	finding->fix_survives_reboot = true;
}

void doctor_judge(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	findings->n = 0;
	judge_config(facts, findings);
	if (!facts->n_devices)
		judge_no_device(facts, findings);
	for (unsigned int i = 0; i < facts->n_devices; i++)
		judge_device(&facts->devices[i], findings);
	judge_capabilities(&facts->process, findings);
	judge_memlock(&facts->process, findings);
	judge_hugepages(facts, findings);
}

enum doctor_level doctor_worst(const struct doctor_findings *findings)
{
	enum doctor_level worst = DOCTOR_OK;

	for (unsigned int i = 0; i < findings->n; i++)
		if (findings->entries[i].level > worst)
			worst = findings->entries[i].level;
	return worst;
}
