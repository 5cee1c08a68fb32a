// SPDX-License-Identifier: Apache-2.0
/* The table of the emulated tree: directories, files and links. */
#ifndef SOFTHCA_PRELOAD_SYSFS_ENTRIES_H
#define SOFTHCA_PRELOAD_SYSFS_ENTRIES_H

#include "sysfs_content.h"

enum sysfs_dir {
	DIR_CLASS_IB = 1,
	DIR_BUS_PCI,  /* lists what is there, too */
	DIR_PCI_ROOT, /* where the PCI functions are */
	DIR_IBDEV,
	DIR_PORTS,
	DIR_PORT,
	DIR_IDLE_PORT,
	DIR_GIDS,
	DIR_GID_ATTRS,
	DIR_NDEVS,
	DIR_TYPES,
	DIR_PKEYS,
	DIR_HW_COUNTERS,
	DIR_VPORT_COUNTERS,
	DIR_COUNTERS,
	DIR_CLASS_VERBS,
	DIR_UVERBS,
	DIR_PCI,
	DIR_PCI_IB,
	DIR_PCI_VERBS,
	DIR_PCI_NET,
	DIR_PCI_DRIVER,
	DIR_PCI_SUBSYSTEM,
	DIR_NETDEV,
	DIR_DEV_IB,
	DIR_RDMA_CM,
};

/* Names that are made from the RDMA device, the character device, the netdev, the PCI function, a GID index or a
 * counter; and the attributes of the netdev, whose content is the netdev's own. */
#define NAME_IBDEV     "@ibdev"
#define NAME_UVERBS    "@uverbs"
#define NAME_NETDEV    "@netdev"
#define NAME_PCI       "@pci"
#define NAME_GID       "@gid"
#define NAME_COUNTER   "@counter"
#define NAME_ATTRIBUTE "@attribute"

struct sysfs_entry {
	enum sysfs_dir parent;
	const char *name;
	enum sysfs_dir dir;  /* of a directory */
	content_fn *content; /* of a file; else `text` is all that it contains */
	const char *text;
	bool is_link, is_cdev;
	bool is_rdma;         /* only of a PCI function that has an RDMA device */
	unsigned int eswitch; /* modes in which it is there, one bit each; 0: in all */
};

extern const struct sysfs_entry sysfs_entries[];
extern const size_t sysfs_n_entries;

#endif
