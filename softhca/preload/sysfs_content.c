// SPDX-License-Identifier: Apache-2.0
/* The content of those emulated files that depend on the device or its counters, formatted as the kernel does it. */
#include "sysfs_content.h"

#include "../device/injection.h"
#include "../device/netdev.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_cm.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VENDOR   0x15b3
#define MAX_GIDS 256

/* The arguments of a content_fn. Not every content needs all of them. */
#define CONTENT_OF \
	__attribute__((unused)) struct device *d, __attribute__((unused)) unsigned int index, char *buf, size_t size
#define TEXT(...) return snprintf(buf, size, __VA_ARGS__)

int content_hca_type(CONTENT_OF)
{
	TEXT("%s\n", d->config.profile->hca_type);
}

int content_board_id(CONTENT_OF)
{
	TEXT("%s\n", d->config.profile->board_id);
}

int content_abi_version(CONTENT_OF)
{
	TEXT("%d\n", IB_USER_VERBS_ABI_VERSION);
}

int content_driver_abi(CONTENT_OF)
{
	TEXT("%d\n", MLX5_IB_UVERBS_ABI_VERSION);
}

int content_ibdev(CONTENT_OF)
{
	TEXT("%s\n", d->name);
}

int content_dev(CONTENT_OF)
{
	TEXT("%d:%u\n", UVERBS_MAJOR, UVERBS_FIRST_MINOR + d->index);
}

int content_cm_abi(CONTENT_OF)
{
	TEXT("%d\n", RDMA_USER_CM_ABI_VERSION);
}

int content_cm_dev(CONTENT_OF)
{
	TEXT("%d:%d\n", CM_MAJOR, CM_MINOR);
}

int content_vendor(CONTENT_OF)
{
	TEXT("0x%04x\n", VENDOR);
}

int content_pci_device(CONTENT_OF)
{
	TEXT("0x%04x\n", d->config.profile->pci_device);
}

int content_guid(CONTENT_OF)
{
	uint64_t g = netdev_guid(d->config.netdev);

	TEXT("%04x:%04x:%04x:%04x\n", (unsigned int)(g >> 48), (unsigned int)(g >> 32 & 0xffff),
	     (unsigned int)(g >> 16 & 0xffff), (unsigned int)(g & 0xffff));
}

int content_node_desc(CONTENT_OF)
{
	char host[65] = "";

	gethostname(host, sizeof(host) - 1);
	TEXT("%s %s\n", host, d->name);
}

int content_fw_ver(CONTENT_OF)
{
	uint64_t v = d->config.profile->fw_ver;

	TEXT("%u.%u.%04u\n", (unsigned int)(v >> 32), (unsigned int)(v >> 16 & 0xffff), (unsigned int)(v & 0xffff));
}

/* mlx5_ib asks the firmware for the state of the port and for its counters. */
int content_state(CONTENT_OF)
{
	int r = injection_command(d);

	if (r)
		return r;
	TEXT("%s\n", netdev_link_up(device_port_netdev(d)) ? "4: ACTIVE" : "1: DOWN");
}

int content_phys_state(CONTENT_OF)
{
	int r = injection_command(d);

	if (r)
		return r;
	TEXT("%s\n", netdev_link_up(device_port_netdev(d)) ? "5: LinkUp" : "3: Disabled");
}

/* IB_PORT_CM_SUP and IB_PORT_IP_BASED_GIDS. */
int content_cap_mask(CONTENT_OF)
{
	TEXT("0x%08x\n", device_n_gids(d) ? 0x04010000u : 0);
}

int content_gid(CONTENT_OF)
{
	struct gid gids[MAX_GIDS] = {};
	const uint8_t *g = gids[index].raw;
	size_t n = 0;

	netdev_gids(device_port_netdev(d), gids, MAX_GIDS);
	for (int i = 0; i < 16; i += 2)
		n += (size_t)snprintf(buf + n, size - n, "%02x%02x%c", g[i], g[i + 1], i == 14 ? '\n' : ':');
	return (int)n;
}

int content_gid_ndev(CONTENT_OF)
{
	struct gid gids[MAX_GIDS];

	if (index >= netdev_gids(device_port_netdev(d), gids, MAX_GIDS))
		return -EINVAL;
	TEXT("%s\n", device_port_netdev(d));
}

int content_gid_type(CONTENT_OF)
{
	struct gid gids[MAX_GIDS];

	if (index >= netdev_gids(device_port_netdev(d), gids, MAX_GIDS))
		return -EINVAL;
	TEXT("%s\n", gids[index].type == GID_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
}

/* A child after vfork() must not wait for its parent's locks. */
static int content_read_counters(struct device *d, struct device_counters *c)
{
	int r = injection_command(d);

	if (r)
		return r;
	if (!root_is_owner())
		return -EIO;
	device_read_counters(d, c);
	return 0;
}

int content_hw_counter(CONTENT_OF)
{
	struct device_counters c;
	int r = content_read_counters(d, &c);

	return r ? r : snprintf(buf, size, "%u\n", hw_counter_value(&c, index));
}

#define PORT_COUNTER(name, value)                                     \
	int content_##name(CONTENT_OF)                                \
	{                                                             \
		struct device_counters c;                             \
		int r = content_read_counters(d, &c);                 \
                                                                      \
		return r ? r : snprintf(buf, size, "%lu\n", c.value); \
	}
PORT_COUNTER(rcv_packets, rx_packets)
PORT_COUNTER(rcv_data, rx_bytes / 4)
PORT_COUNTER(xmit_packets, tx_packets)
PORT_COUNTER(xmit_data, tx_bytes / 4)

int content_modalias(CONTENT_OF)
{
	TEXT("pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc00i00\n", VENDOR, d->config.profile->pci_device, VENDOR,
	     d->config.profile->pci_device);
}

int content_uevent(CONTENT_OF)
{
	TEXT("DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\n"
	     "PCI_SLOT_NAME=" PCI_NAME "\n",
	     VENDOR, d->config.profile->pci_device, VENDOR, d->config.profile->pci_device, d->index);
}

/* The head of the PCI configuration: identities, class Ethernet controller (PCI Local Bus Specification, 6.1). */
int content_config(CONTENT_OF)
{
	const uint16_t config[32] = {
		[0] = VENDOR,  [1] = d->config.profile->pci_device,  [5] = 0x0200,
		[22] = VENDOR, [23] = d->config.profile->pci_device,
	};

	if (size < sizeof(config))
		return -EINVAL;
	memcpy(buf, config, sizeof(config));
	return sizeof(config);
}

/* One BAR of 32 MiB, at another address for each function; scripts tell functions of one another by it. */
int content_resource(CONTENT_OF)
{
	unsigned long start = 0xfe00000000ul + ((unsigned long)d->index << 25);
	int n = snprintf(buf, size, "0x%016lx 0x%016lx 0x000000000014220c\n", start, start + (1ul << 25) - 1);

	for (int i = 1; i < 13; i++)
		n += snprintf(buf + n, size - (size_t)n, "0x%016x 0x%016x 0x%016x\n", 0, 0, 0);
	return n;
}

const char *const netdev_attributes[] = {
	"addr_assign_type", "addr_len",         "address",      "broadcast", "carrier",      "carrier_changes",
	"dev_id",           "dormant",          "duplex",       "flags",     "ifalias",      "ifindex",
	"iflink",           "link_mode",        "mtu",          "operstate", "phys_port_id", "phys_port_name",
	"phys_switch_id",   "name_assign_type", "netdev_group", "speed",     "tx_queue_len", "type",
};
const unsigned int n_netdev_attributes = sizeof(netdev_attributes) / sizeof(netdev_attributes[0]);

int content_attribute(CONTENT_OF)
{
	char path[128];
	long fd, n;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", d->config.netdev, netdev_attributes[index]);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = syscall(SYS_read, fd, buf, size);
	if (n < 0)
		n = -errno;
	syscall(SYS_close, fd);
	return (int)n;
}
