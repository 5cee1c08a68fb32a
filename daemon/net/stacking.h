// SPDX-License-Identifier: Apache-2.0
/* VLANs, bonds, bridges and the like: interfaces that are stacked on others, by sysfs. */
#ifndef DAEMON_NET_STACKING_H
#define DAEMON_NET_STACKING_H

#include <net/if.h>
#include <stdbool.h>

#define NET_KIND_BYTES 16

struct net_stacking {
	unsigned n_lower;          /* 0: it is stacked on none */
	unsigned n_with_device;    /* of these: with an RDMA device of its own */
	unsigned n_foreign;        /* lower interfaces that have no such device and another driver than mlx5_core */
	char names[256];           /* "eth0, eth1" */
	char kind[NET_KIND_BYTES]; /* "vlan", "bond", "bridge", "macvlan"; "": the kernel does not say */
};

#define NET_LOWERS_MAX 32

struct net_lowers {
	unsigned n; /* more than NET_LOWERS_MAX: there are others */
	char names[NET_LOWERS_MAX][IFNAMSIZ];
};

/** All interfaces below one, each once: those that it is stacked on, those below these, and so on. */
void net_lowers_read(const char *sysfs, const char *interface, struct net_lowers *lowers);

/** sysfs: its path, "/sys". */
void net_stacking_read(const char *sysfs, const char *interface, struct net_stacking *stacking);

/** Is it a bond for whose ports mlx5 has made one device (RoCE LAG: mlx5_bond_0)? Pure. */
bool net_stacking_is_lag(const struct net_stacking *stacking);

/** Is upper a VLAN, bond, … on the interface, or on one that is? */
bool net_is_stacked_on(const char *sysfs, const char *upper, const char *interface);

#endif
