// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel which port of an RDMA device has an interface, as `rdma link` does (RDMA netlink). */
#include "daemon/net/rdma_link.h"

#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <string.h>

struct rdma_link_search {
	const char *device;
	unsigned interface_index;
	uint32_t device_index;
	uint32_t port;
	bool has_device;
	bool has_port;
};

bool rdma_link_read_device(const struct nlmsghdr *message, const char *name, uint32_t *index)
{
	const struct rtnl_attributes attributes = rtnl_read_attributes(message, 0);
	const struct nlattr *text = attributes.of[RDMA_NLDEV_ATTR_DEV_NAME];

	return text && mnl_attr_get_payload_len(text) == strlen(name) + 1 &&
	       memcmp(mnl_attr_get_payload(text), name, strlen(name) + 1) == 0 &&
	       rtnl_read_u32(attributes.of[RDMA_NLDEV_ATTR_DEV_INDEX], index);
}

bool rdma_link_read_port(const struct nlmsghdr *message, unsigned interface_index, uint32_t *port)
{
	const struct rtnl_attributes attributes = rtnl_read_attributes(message, 0);
	uint32_t interface;

	return rtnl_read_u32(attributes.of[RDMA_NLDEV_ATTR_NDEV_INDEX], &interface) && interface == interface_index &&
	       rtnl_read_u32(attributes.of[RDMA_NLDEV_ATTR_PORT_INDEX], port);
}

static int rdma_link_take_device(const struct nlmsghdr *message, void *into)
{
	struct rdma_link_search *search = into;

	search->has_device |= rdma_link_read_device(message, search->device, &search->device_index);
	return MNL_CB_OK;
}

static int rdma_link_take_port(const struct nlmsghdr *message, void *into)
{
	struct rdma_link_search *search = into;

	search->has_port |= rdma_link_read_port(message, search->interface_index, &search->port);
	return MNL_CB_OK;
}

/* Ask for a list, of the ports of a device if that is known. */
static int rdma_link_list(struct mnl_socket *socket, unsigned command, mnl_cb_t take, struct rdma_link_search *search)
{
	struct rtnl_request request;

	rtnl_request_init(&request, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), 0);
	if (search->has_device)
		mnl_attr_put_u32(&request.message, RDMA_NLDEV_ATTR_DEV_INDEX, search->device_index);
	return rtnl_ask(socket, &request, NLM_F_DUMP, take, search);
}

int net_rdma_port(const char *device, unsigned interface_index, uint32_t *port)
{
	struct rdma_link_search search = {.device = device, .interface_index = interface_index};
	struct mnl_socket *socket;
	int r = rtnl_open(&socket, NETLINK_RDMA);

	if (r < 0)
		return r;
	r = rdma_link_list(socket, RDMA_NLDEV_CMD_GET, rdma_link_take_device, &search);
	if (r == 0 && search.has_device)
		r = rdma_link_list(socket, RDMA_NLDEV_CMD_PORT_GET, rdma_link_take_port, &search);
	mnl_socket_close(socket);
	*port = search.port;
	return r < 0 ? r : search.has_port ? 0 : -ENOENT;
}
