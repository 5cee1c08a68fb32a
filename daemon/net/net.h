// SPDX-License-Identifier: Apache-2.0
/*
 * Network interfaces as the kernel knows them: their state, their statistics, and multicast memberships, which the
 * daemon holds through ordinary sockets so that the kernel sends IGMP and MLD reports. Declares driver.c, etf.c,
 * membership.c, net_address.c, net_interface.c, precision_clock.c, rdma_link.c, rtnl.c, stamp_delay.c, sysfs.c,
 * xdp_features.c.
 */
#ifndef DAEMON_NET_NET_H
#define DAEMON_NET_NET_H

#include "daemon/flow/flow.h"
#include "lib/base/failure.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct net_interface {
	unsigned index;
	uint32_t mtu;
	uint8_t mac[6];
	bool up;      /* administratively */
	bool running; /* carrier */
	bool is_promiscuous;
	bool has_all_groups; /* takes packets to all groups, joined or not */
};

/** -ENODEV: there is no such interface, and failure lists those there are. */
int net_interface_read(const char *name, struct net_interface *interface, struct failure *failure);

/** The socket address of an IPv4 or IPv6 address. interface_index: of a link-local one. Returns its length. */
socklen_t net_socket_address(sa_family_t family, const uint8_t address[16], uint16_t port_be, unsigned interface_index,
                             struct sockaddr_storage *storage);

/** Is it an address of this machine? A link-local address has to be one of this interface. */
bool net_has_address(unsigned interface_index, const struct config_address *address);

struct net_address_location {
	bool is_here;        /* on any interface of this machine: by default the kernel answers for it at each */
	bool is_broadcast;   /* the broadcast address of a subnet of the interface */
	char addresses[128]; /* the interface's, of that family: "10.0.0.1, 10.0.0.2"; "": none */
};

/** Has this machine the address? 0, or -errno: the kernel does not say. */
int net_find_address(const struct config_address *address, const char *interface,
                     struct net_address_location *location);

/**
 * Sum of the driver's statistics (ethtool -S) whose names match one of the patterns of fnmatch(3); NULL ends them.
 * -ENOTSUP: it has none of these. Blocks until the driver answers.
 */
int net_sum_statistics(const char *interface, const char *const patterns[], uint64_t *sum);

/** Is the feature (ethtool -k) on? Blocks until the driver answers. */
bool net_has_feature(const char *interface, const char *name);

/**
 * Is /sys/class/net/INTERFACE this interface? It has the same number and address. In a container with the host's /sys
 * that entry may be another interface of the same name. Then read nothing of it.
 */
bool net_is_in_sysfs(const char *interface);

/**
 * By how much the settings of the interface let the kernel's timestamp of a packet be behind its arrival at the card,
 * in ns. Not a bound, because the kernel may be busy. UINT64_MAX: the driver does not say, or adapts it to the traffic.
 * Blocks until the driver answers.
 */
uint64_t net_stamp_delay_ns(const char *interface);

/** Does the driver hold interrupts back for a time that can be set (rx-usecs of ethtool -C)? Blocks as well. */
bool net_has_rx_usecs(const char *interface);

/** Packets that the port dropped before steering: mlx5's rx_discards_phy. -ENOTSUP: the driver has no such count. */
int net_port_discards(const char *interface, uint64_t *discards);

struct net_driver {
	char name[32];   /* "mlx5_core", "veth"; "": it does not say */
	bool has_device; /* on a bus: a card, or one that a hypervisor emulates */
	/*
	 * The device is not known to be a whole card (net_is_whole_card), or this is a virtual machine: the card or the
	 * hypervisor may drop packets that no counter of the device has. A machine without x86's word for it is taken
	 * for a virtual one.
	 */
	bool is_part;
};

/** -EOPNOTSUPP: the interface has no driver that says its name, as lo. */
int net_driver_read(const char *interface, struct net_driver *driver);

/**
 * Is the device whose name a driver tells a function of PCI, and no virtual one? A subfunction is on another bus.
 * sysfs: its path, "/sys".
 */
bool net_is_whole_card(const char *sysfs, const char *bus_info);

/* From enum netdev_xdp_act in <linux/netdev.h>. */
#define NET_XDP_BASIC    UINT64_C(1)
#define NET_XDP_REDIRECT UINT64_C(2)

/** Read the driver's features for native XDP. -ENOTSUP: a kernel before Linux 6.3, which does not report them. */
int net_xdp_features(unsigned interface_index, uint64_t *features);

/** ID of the XDP program that is attached to the interface; 0: none, or not known. */
uint32_t net_xdp_program(unsigned interface_index);

#define NET_QUEUEING_BYTES 16

/** The kind of the interface's queueing discipline (tc-qdisc): "mq", "fq_codel", "noqueue"; 0 or -errno. */
int net_queueing_discipline(unsigned interface_index, char kind[NET_QUEUEING_BYTES]);

#define NET_PRIORITIES 16 /* of packets (SO_PRIORITY), that a discipline with classes tells apart */

enum net_etf_flag {
	NET_ETF_THERE = 1 << 0,
	NET_ETF_PARTIAL = 1 << 1,  /* only some of the queues that the packets may take have it */
	NET_ETF_OFFLOAD = 1 << 2,  /* the card keeps the times */
	NET_ETF_DEADLINE = 1 << 3, /* deadline_mode: packets leave before their times */
};

/* The queueing discipline tc-etf(8). It drops each packet that has no time of its clock, CLOCK_TAI. */
struct net_etf {
	uint32_t delta_ns; /* so much before its time a packet leaves the discipline */
	uint32_t flags;    /* enum net_etf_flag; 0: there is none */
};

/** The discipline that packets of each priority pass, as the root or below tc-mqprio(8). 0 or -errno. */
int net_etf_read(unsigned interface_index, struct net_etf etf[NET_PRIORITIES]);

/** Does the driver report when a packet that it sends leaves (ethtool -T: software-transmit)? */
bool net_reports_sends(const char *interface);

#define NET_CLOCK_PATH_BYTES 32

/**
 * Open the precision clock /dev/ptpN of the interface's card. The driver says N; sysfs does not for bonds, nor for
 * clocks that several mlx5 devices share, nor if it is of another network namespace. A descriptor, or -errno; -ENOENT:
 * there is none, and the path is "".
 */
int net_precision_clock_open(const char *interface, char path[NET_CLOCK_PATH_BYTES]);

struct net_clock_reading {
	uint64_t ns;
	/* CLOCK_REALTIME, which the driver read before and after; both 0: the driver does not do that. */
	uint64_t utc_before_ns;
	uint64_t utc_after_ns;
};

/** 0 or -errno; -ENODEV: the card has gone. */
int net_precision_clock_read(int fd, struct net_clock_reading *reading);

enum net_stamping {
	NET_STAMPING_NONE, /* the card can stamp no received packet, or only those of PTP */
	NET_STAMPING_OFF,  /* it can stamp all packets, and does not */
	NET_STAMPING_ALL,  /* it stamps all packets */
};

#define NET_STAMPING_NONE_WHY "its card does not stamp all packets" /* of NET_STAMPING_NONE */

/** Which received packets the interface's card stamps with its precision clock. */
enum net_stamping net_stamping_read(const char *interface);
/**
 * Let the card stamp all received packets, and packets to be sent as before. Programs that asked for the stamps of PTP
 * packets get them still. 0 or -errno. -ERANGE: the card cannot, and stamps the same packets as before.
 */
int net_stamping_switch_on(const char *interface);

/**
 * The port of an RDMA device that has the interface, by RDMA netlink, which knows it without any GID. -ENOENT: none of
 * its ports has. Other errors: this kernel does not say.
 */
int net_rdma_port(const char *device, unsigned interface_index, uint32_t *port);

/** Sockets that keep the IGMP/MLD memberships of one stream; the kernel allows about 20 groups a socket. */
struct membership;

int membership_new(struct membership **membership);

#define MEMBERSHIP_UNTAGGED 1

/**
 * Join the rule's group (with its source, if it has one) on an interface, or, if the rule has a VLAN, on the
 * interface of that VLAN. MEMBERSHIP_UNTAGGED: the VLAN has no interface, so the group was joined on the interface
 * itself. 0 without effect if the rule is not multicast.
 */
int membership_join(struct membership *membership, unsigned interface_index, const struct flow_rule *rule,
                    struct failure *failure);
/** Was a group joined on this interface? If it is deleted, the kernel leaves the group. */
bool membership_uses(const struct membership *membership, unsigned interface_index);
/** Its socket i, from 0; the membership keeps owning it. -1: it has fewer sockets. */
int membership_fd(const struct membership *membership, uint32_t i);
/** Leaves every group. */
void membership_free(struct membership *membership);

#endif
