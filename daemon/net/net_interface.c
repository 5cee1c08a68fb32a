// SPDX-License-Identifier: Apache-2.0
/* Reads the state of an interface through ioctl(2), and asks the kernel which addresses are local. */
#include "daemon/net/net.h"
#include "lib/base/nearest.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* "eth0, eth1": as many as fit, and an ellipsis if not all do. */
static void net_list_interfaces(const struct if_nameindex *interfaces, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (const struct if_nameindex *i = interfaces; i && i->if_index; i++) {
		int n = snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", i->if_name);

		if (n < 0 || (size_t)n >= bytes - used) {
			/* This overwrites the name that was cut, or the end of the last one that fitted. */
			memcpy(text + bytes - sizeof(", …"), ", …", sizeof(", …"));
			break;
		}
		used += (size_t)n;
	}
}

static int net_failure_no_interface(const char *name, struct failure *failure)
{
	struct nearest nearest = {.word = name};
	struct if_nameindex *interfaces;
	char list[512];

	if (!failure)
		return -ENODEV;
	interfaces = if_nameindex();
	net_list_interfaces(interfaces, list, sizeof(list));
	for (const struct if_nameindex *i = interfaces; i && i->if_index; i++)
		nearest_offer(&nearest, i->if_name);
	failure_set(failure, EX_UNAVAILABLE, ENODEV,
	            "interface %.64s: this network namespace has none of that name%s%s%s it has %s", name,
	            nearest.best ? ": did you mean '" : "", nearest.best ? nearest.best : "", nearest.best ? "'?" : ";",
	            list[0] ? list : "no interface at all");
	if (interfaces)
		if_freenameindex(interfaces);
	return -ENODEV;
}

static int net_read_interface(int socket, const char *name, struct net_interface *interface)
{
	struct ifreq request = {0};

	strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
	if (ioctl(socket, SIOCGIFINDEX, &request) < 0)
		return -errno;
	interface->index = (unsigned)request.ifr_ifindex;
	if (ioctl(socket, SIOCGIFMTU, &request) < 0)
		return -errno;
	interface->mtu = (uint32_t)request.ifr_mtu;
	if (ioctl(socket, SIOCGIFHWADDR, &request) < 0)
		return -errno;
	memcpy(interface->mac, request.ifr_hwaddr.sa_data, sizeof(interface->mac));
	if (ioctl(socket, SIOCGIFFLAGS, &request) < 0)
		return -errno;
	interface->up = request.ifr_flags & IFF_UP;
	interface->running = request.ifr_flags & IFF_RUNNING;
	interface->is_promiscuous = request.ifr_flags & IFF_PROMISC;
	interface->has_all_groups = request.ifr_flags & (IFF_PROMISC | IFF_ALLMULTI);
	return 0;
}

int net_interface_read(const char *name, struct net_interface *interface, struct failure *failure)
{
	struct net_interface found = {0};
	int fd, r;

	if (strlen(name) >= IFNAMSIZ)
		return net_failure_no_interface(name, failure);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return failure_set(failure, EX_OSERR, errno, "interface %s: cannot be read: %s", name, strerror(errno));
	r = net_read_interface(fd, name, &found);
	close(fd);
	if (r == -ENODEV)
		return net_failure_no_interface(name, failure);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "interface %s: cannot be read: %s", name, strerror(-r));
	*interface = found;
	return 0;
}

socklen_t net_socket_address(sa_family_t family, const uint8_t address[16], uint16_t port_be, unsigned interface_index,
                             struct sockaddr_storage *storage)
{
	struct sockaddr_in *ipv4 = (struct sockaddr_in *)storage;
	struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)storage;

	*storage = (struct sockaddr_storage){.ss_family = family};
	if (family == AF_INET) {
		ipv4->sin_port = port_be;
		memcpy(&ipv4->sin_addr, address, sizeof(ipv4->sin_addr));
		return sizeof(*ipv4);
	}
	ipv6->sin6_port = port_be;
	memcpy(&ipv6->sin6_addr, address, sizeof(ipv6->sin6_addr));
	ipv6->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr) ? interface_index : 0;
	return sizeof(*ipv6);
}

bool net_has_address(unsigned interface_index, const struct config_address *address)
{
	struct sockaddr_storage storage;
	socklen_t bytes = net_socket_address(address->family, address->address, 0, interface_index, &storage);
	int fd = socket(address->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return false;
	r = bind(fd, (const struct sockaddr *)&storage, bytes);
	close(fd);
	return r == 0;
}
