// SPDX-License-Identifier: Apache-2.0
/*
 * Asks the kernel what an interface's driver can do for XDP (generic netlink, family "netdev", Linux 6.3 and later) and
 * which XDP program it has.
 */
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define REQUEST_BYTES 256
#define ANSWER_BYTES  32768

/* Of <linux/netdev.h>, which Debian 12 does not have. */
#define NETDEV_FAMILY       "netdev"
#define NETDEV_DEV_GET      1
#define NETDEV_IFINDEX      1
#define NETDEV_XDP_FEATURES 3

struct xdp_features_answer {
	uint16_t family;
	uint64_t features;
	bool has_family;
	bool has_features;
};

static int xdp_features_take(const struct nlmsghdr *message, void *into)
{
	struct xdp_features_answer *answer = into;
	const struct nlattr *attribute;
	bool is_family = message->nlmsg_type == GENL_ID_CTRL;

	mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr))
	{
		uint16_t type = mnl_attr_get_type(attribute), bytes = mnl_attr_get_payload_len(attribute);

		if (is_family && type == CTRL_ATTR_FAMILY_ID && bytes >= sizeof(uint16_t)) {
			answer->family = mnl_attr_get_u16(attribute);
			answer->has_family = true;
		} else if (!is_family && type == NETDEV_XDP_FEATURES && bytes >= sizeof(uint64_t)) {
			answer->features = mnl_attr_get_u64(attribute);
			answer->has_features = true;
		}
	}
	return MNL_CB_OK;
}

static struct nlmsghdr *xdp_features_request(char request[REQUEST_BYTES], uint16_t type, uint8_t command)
{
	struct nlmsghdr *header = mnl_nlmsg_put_header(request);
	struct genlmsghdr *generic;

	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	generic = mnl_nlmsg_put_extra_header(header, sizeof(*generic));
	generic->cmd = command;
	generic->version = 1;
	return header;
}

/* Until the acknowledgement, which is an error of 0. */
static int xdp_features_exchange(struct mnl_socket *socket, const struct nlmsghdr *request,
                                 struct xdp_features_answer *answer)
{
	char buffer[ANSWER_BYTES];
	int r = MNL_CB_OK;

	if (mnl_socket_sendto(socket, request, request->nlmsg_len) < 0)
		return -errno;
	while (r > MNL_CB_STOP) {
		ssize_t n = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));

		if (n < 0)
			return -errno;
		r = mnl_cb_run(buffer, (size_t)n, 0, mnl_socket_get_portid(socket), xdp_features_take, answer);
	}
	return r < 0 ? -errno : 0;
}

static int xdp_features_ask(struct mnl_socket *socket, unsigned interface_index, struct xdp_features_answer *answer)
{
	char bytes[REQUEST_BYTES];
	struct nlmsghdr *request = xdp_features_request(bytes, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	int r;

	mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY);
	r = xdp_features_exchange(socket, request, answer);
	if (r < 0 || !answer->has_family)
		return -ENOTSUP;
	request = xdp_features_request(bytes, answer->family, NETDEV_DEV_GET);
	mnl_attr_put_u32(request, NETDEV_IFINDEX, interface_index);
	r = xdp_features_exchange(socket, request, answer);
	return r < 0 ? r : answer->has_features ? 0 : -ENOTSUP;
}

int net_xdp_features(unsigned interface_index, uint64_t *features)
{
	const struct timeval second = {.tv_sec = 1};
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	struct xdp_features_answer answer = {0};
	int r;

	*features = 0;
	if (!socket)
		return -errno;
	setsockopt(mnl_socket_get_fd(socket), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	r = mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno
	                                                       : xdp_features_ask(socket, interface_index, &answer);
	mnl_socket_close(socket);
	*features = answer.features;
	return r;
}

uint32_t net_xdp_program(unsigned interface_index)
{
	struct mnl_socket *socket;
	struct rtnl_link link = {0};

	if (rtnl_open(&socket) < 0)
		return 0;
	if (rtnl_get_link(socket, interface_index, &link) < 0)
		link.xdp_program = 0;
	mnl_socket_close(socket);
	return link.xdp_program;
}
