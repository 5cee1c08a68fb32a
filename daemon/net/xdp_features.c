// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel what an interface's driver can do for XDP (generic netlink, family "netdev", Linux 6.3 and later). */
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>

#define REQUEST_BYTES 256

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
	generic = mnl_nlmsg_put_extra_header(header, sizeof(*generic));
	generic->cmd = command;
	generic->version = 1;
	return header;
}

static int xdp_features_ask(struct mnl_socket *socket, unsigned interface_index, struct xdp_features_answer *answer)
{
	char bytes[REQUEST_BYTES];
	struct nlmsghdr *request = xdp_features_request(bytes, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	int r;

	mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY);
	r = rtnl_ask_all(socket, request, NLM_F_ACK, xdp_features_take, answer);
	if (r < 0 || !answer->has_family)
		return -ENOTSUP;
	request = xdp_features_request(bytes, answer->family, NETDEV_DEV_GET);
	mnl_attr_put_u32(request, NETDEV_IFINDEX, interface_index);
	r = rtnl_ask_all(socket, request, NLM_F_ACK, xdp_features_take, answer);
	return r < 0 ? r : answer->has_features ? 0 : -ENOTSUP;
}

int net_xdp_features(unsigned interface_index, uint64_t *features)
{
	struct xdp_features_answer answer = {0};
	struct mnl_socket *socket;
	int r = rtnl_open(&socket, NETLINK_GENERIC);

	*features = 0;
	if (r < 0)
		return r;
	r = xdp_features_ask(socket, interface_index, &answer);
	mnl_socket_close(socket);
	*features = answer.features;
	return r;
}
