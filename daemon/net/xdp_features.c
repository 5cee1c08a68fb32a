// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel what an interface's driver can do for XDP (generic netlink, family "netdev", Linux 6.3 and later). */
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>

/* From <linux/netdev.h>, which Debian 12 does not have. */
#define NETDEV_FAMILY       "netdev"
#define NETDEV_DEV_GET      1
#define NETDEV_IFINDEX      1
#define NETDEV_XDP_FEATURES 3

static int xdp_features_take_family(const struct nlmsghdr *message, void *into)
{
	const struct nlattr *family = rtnl_read_attributes(message, sizeof(struct genlmsghdr)).of[CTRL_ATTR_FAMILY_ID];

	if (family && mnl_attr_get_payload_len(family) >= sizeof(uint16_t))
		*(uint16_t *)into = mnl_attr_get_u16(family);
	return MNL_CB_OK;
}

struct xdp_features_answer {
	uint64_t features;
	bool has_features;
};

static int xdp_features_take(const struct nlmsghdr *message, void *into)
{
	const struct nlattr *features =
		rtnl_read_attributes(message, sizeof(struct genlmsghdr)).of[NETDEV_XDP_FEATURES];
	struct xdp_features_answer *answer = into;

	if (features && mnl_attr_get_payload_len(features) >= sizeof(uint64_t)) {
		answer->features = mnl_attr_get_u64(features);
		answer->has_features = true;
	}
	return MNL_CB_OK;
}

static int xdp_features_ask(struct mnl_socket *socket, unsigned interface_index, struct xdp_features_answer *answer)
{
	struct rtnl_request request;
	struct genlmsghdr *generic = rtnl_request_init(&request, GENL_ID_CTRL, sizeof(*generic));
	uint16_t family = 0;
	int r;

	*generic = (struct genlmsghdr){.cmd = CTRL_CMD_GETFAMILY, .version = 1};
	mnl_attr_put_strz(&request.message, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY);
	r = rtnl_ask(socket, &request, NLM_F_ACK, xdp_features_take_family, &family);
	if (r < 0 || !family)
		return -ENOTSUP;
	generic = rtnl_request_init(&request, family, sizeof(*generic));
	*generic = (struct genlmsghdr){.cmd = NETDEV_DEV_GET, .version = 1};
	mnl_attr_put_u32(&request.message, NETDEV_IFINDEX, interface_index);
	r = rtnl_ask(socket, &request, NLM_F_ACK, xdp_features_take, answer);
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
