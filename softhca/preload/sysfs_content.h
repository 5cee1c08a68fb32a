// SPDX-License-Identifier: Apache-2.0
/* The content of the emulated files: text as the kernel formats it. */
#ifndef SOFTHCA_PRELOAD_SYSFS_CONTENT_H
#define SOFTHCA_PRELOAD_SYSFS_CONTENT_H

#include "../device/device.h"

#include <stddef.h>

#define PCI_ROOT "/sys/devices/pci0000:fe"
#define PCI_NAME "0000:fe:%02x.0"

/* Returns the length, or negative errno. */
typedef int content_fn(struct device *d, unsigned int index, char *buf, size_t size);

content_fn content_guid, content_node_desc, content_fw_ver, content_hca_type, content_board_id, content_state,
	content_phys_state, content_cap_mask, content_gid, content_gid_ndev, content_gid_type, content_hw_counter,
	content_rcv_packets, content_rcv_data, content_xmit_packets, content_xmit_data, content_abi_version,
	content_ibdev, content_dev, content_driver_abi, content_modalias, content_vendor, content_pci_device,
	content_uevent, content_cm_abi, content_cm_dev, content_config, content_resource, content_attribute;

/* Attributes of a netdev (Documentation/ABI/testing/sysfs-class-net) that the RDMA device's directory shows, too. */
extern const char *const netdev_attributes[];
extern const unsigned int n_netdev_attributes;

#endif
