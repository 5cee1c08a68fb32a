// SPDX-License-Identifier: Apache-2.0
/* Finds network devices by any of their names, by rtnetlink(7): the calls of <net/if.h> take 15 characters at most. */
#include "softhca_interfaces.h"
#include "wire/complain.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME_BYTES   128 /* ALTIFNAMSIZ of the kernel */
#define ANSWER_BYTES 32768

struct name_request {
	struct nlmsghdr header;
	struct ifinfomsg link;
	struct rtattr attribute;
	char name[NAME_BYTES];
};

static bool interface_read_name(const struct nlmsghdr *answer, ssize_t n, char name[IFNAMSIZ])
{
	int left = (int)IFLA_PAYLOAD(answer);

	if (n < (ssize_t)sizeof(*answer) || answer->nlmsg_len > (size_t)n || answer->nlmsg_type != RTM_NEWLINK)
		return false;
	for (struct rtattr *at = IFLA_RTA(NLMSG_DATA(answer)); RTA_OK(at, left); at = RTA_NEXT(at, left))
		if (at->rta_type == IFLA_IFNAME && RTA_PAYLOAD(at) <= IFNAMSIZ) {
			memcpy(name, RTA_DATA(at), RTA_PAYLOAD(at));
			return true;
		}
	return false;
}

static bool interface_find(const char *given, char name[IFNAMSIZ])
{
	union {
		struct nlmsghdr header;
		char bytes[ANSWER_BYTES];
	} answer;
	size_t length = strlen(given) + 1;
	struct name_request request = {
		.header = {.nlmsg_len = (uint32_t)(offsetof(struct name_request, name) + RTA_ALIGN(length)),
	                   .nlmsg_type = RTM_GETLINK,
	                   .nlmsg_flags = NLM_F_REQUEST},
		.attribute = {.rta_len = (unsigned short)RTA_LENGTH(length), .rta_type = IFLA_ALT_IFNAME},
	};
	ssize_t n = -1;
	int fd;

	if (length > sizeof(request.name))
		return false;
	memcpy(request.name, given, length);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd >= 0 && send(fd, &request, request.header.nlmsg_len, 0) >= 0)
		n = recv(fd, &answer, sizeof(answer), 0);
	if (fd >= 0)
		close(fd);
	return interface_read_name(&answer.header, n, name);
}

/* An empty name stays, and is refused with the settings. */
static bool interface_resolve(char *given, char *names)
{
	const char *name;

	if (!*given) {
		complain("-i needs the name of a network device");
		return false;
	}
	while ((name = strsep(&given, ","))) {
		if (*name && !interface_find(name, names)) {
			complain("no network device called %s; see: ip -br link", name);
			return false;
		}
		names += strlen(names);
		if (given)
			*names++ = ',';
	}
	return true;
}

char *softhca_resolve_interfaces(const char *list)
{
	char *copy = strdup(list), *names = calloc(strlen(list) + 1, IFNAMSIZ);

	if (!copy || !names || !interface_resolve(copy, names)) {
		free(names);
		names = NULL;
	}
	free(copy);
	return names;
}
