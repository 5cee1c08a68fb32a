// SPDX-License-Identifier: Apache-2.0
/* Finds an interface by any of its names, by rtnetlink(7): the calls of <net/if.h> take 15 characters at most. */
#include "lib/base/interface_name.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_BYTES 32768

struct name_request {
	struct nlmsghdr header;
	struct ifinfomsg link;
	struct rtattr attribute;
	char name[INTERFACE_NAME_BYTES];
};

static int take_answer(const struct nlmsghdr *answer, ssize_t n, char name[IFNAMSIZ])
{
	int left = (int)IFLA_PAYLOAD(answer);

	if (n < (ssize_t)sizeof(*answer) || answer->nlmsg_len > (size_t)n)
		return -EPROTO;
	if (answer->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(answer))->error;
	for (struct rtattr *at = IFLA_RTA(NLMSG_DATA(answer)); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		if (at->rta_type != IFLA_IFNAME)
			continue;
		memset(name, 0, IFNAMSIZ);
		memcpy(name, RTA_DATA(at), RTA_PAYLOAD(at) < IFNAMSIZ ? RTA_PAYLOAD(at) : IFNAMSIZ - 1);
		return 0;
	}
	return -EPROTO;
}

int interface_name_find(const char *given, char name[IFNAMSIZ])
{
	union {
		struct nlmsghdr header;
		char bytes[ANSWER_BYTES];
	} answer;
	const size_t length = strlen(given) + 1;
	struct name_request request = {
		.header = {.nlmsg_len = (uint32_t)(offsetof(struct name_request, name) + RTA_ALIGN(length)),
	                   .nlmsg_type = RTM_GETLINK,
	                   .nlmsg_flags = NLM_F_REQUEST},
		.attribute = {.rta_len = (unsigned short)RTA_LENGTH(length), .rta_type = IFLA_ALT_IFNAME},
	};
	ssize_t n;
	int fd, r;

	if (length > sizeof(request.name) || length == 1)
		return -ENODEV;
	memcpy(request.name, given, length);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	n = send(fd, &request, request.header.nlmsg_len, 0);
	n = n < 0 ? n : recv(fd, &answer, sizeof(answer), 0);
	r = n < 0 ? -errno : take_answer(&answer.header, n, name);
	close(fd);
	return r;
}
