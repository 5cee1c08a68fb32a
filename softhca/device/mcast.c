// SPDX-License-Identifier: Apache-2.0
/*
 * The netdev's multicast groups, MAC address and flags, read from the kernel and kept for a
 * while because each frame asks for them.
 */
#include "mcast.h"

#include "../wire/link.h"
#include "clock.h"

#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFRESH_NS 50000000ull
#define MAX_GROUPS 1024

struct mcast_filter {
	char netdev[IFNAMSIZ];
	struct link_facts link;
	uint64_t refreshed_ns;
	size_t n;
	uint8_t macs[MAX_GROUPS][6];
};

static void mcast_read_groups(struct mcast_filter *f)
{
	char buf[65536];
	size_t n = 0;
	ssize_t r;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/net/dev_mcast", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	while (n < sizeof(buf) - 1 && (r = syscall(SYS_read, fd, buf + n, sizeof(buf) - 1 - n)) > 0)
		n += (size_t)r;
	syscall(SYS_close, fd);
	buf[n] = 0;
	f->n = 0;
	for (char *line = buf, *end; (end = strchr(line, '\n')); line = end + 1) {
		char name[IFNAMSIZ], hex[65];
		uint8_t *m;

		*end = 0;
		m = f->macs[f->n];
		/* A line of /proc/net/dev_mcast: ifindex, name, users, global users, address in hex. */
		if (sscanf(line, "%*d %15s %*d %*d %64s", name, hex) == 2 && !strcmp(name, f->netdev) &&
		    f->n < MAX_GROUPS &&
		    sscanf(hex, "%2hhx%2hhx%2hhx%2hhx%2hhx%2hhx", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) == 6)
			f->n++;
	}
}

static void mcast_read(struct mcast_filter *f)
{
	f->refreshed_ns = clock_raw_ns();
	if (link_read(f->netdev, &f->link))
		f->link.flags = 0;
	mcast_read_groups(f);
}

struct mcast_filter *mcast_new(const char *netdev)
{
	struct mcast_filter *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	strncpy(f->netdev, netdev, IFNAMSIZ - 1);
	mcast_read(f);
	return f;
}

void mcast_free(struct mcast_filter *f)
{
	free(f);
}

const uint8_t *mcast_own_mac(const struct mcast_filter *f)
{
	return f->link.mac;
}

void mcast_refresh(struct mcast_filter *f, uint64_t now_ns)
{
	if (now_ns > f->refreshed_ns + REFRESH_NS)
		mcast_read(f);
}

bool mcast_promiscuous(const struct mcast_filter *f)
{
	return f->link.flags & IFF_PROMISC;
}

static bool mcast_all_multicast(const struct mcast_filter *f)
{
	return f->link.flags & (IFF_PROMISC | IFF_ALLMULTI);
}

static bool mcast_find(const struct mcast_filter *f, const uint8_t mac[6])
{
	for (size_t i = 0; i < f->n; i++)
		if (!memcmp(f->macs[i], mac, 6))
			return true;
	return false;
}

/* The last reading answers for a frame that came before it. So a burst causes one reading. */
bool mcast_joined(struct mcast_filter *f, const uint8_t mac[6], uint64_t arrival_ns)
{
	if (mcast_all_multicast(f) || mcast_find(f, mac))
		return true;
	if (arrival_ns < f->refreshed_ns)
		return false;
	mcast_read(f);
	return mcast_all_multicast(f) || mcast_find(f, mac);
}
