// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel which port of an RDMA device has an interface, as `rdma link` does (RDMA netlink). */
#include "daemon/net/rdma_link.h"

#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <string.h>

#define REQUEST_BYTES 256

struct rdma_link_search {
	const char *device;
	unsigned interface_index;
	uint32_t device_index;
	uint32_t port;
	bool has_device;
	bool has_port;
};

/* An attribute of the message with at least so many bytes; NULL: there is none. */
static const struct nlattr *rdma_link_find(const struct nlmsghdr *message, uint16_t type, size_t bytes)
{
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, 0)
	{
		if (mnl_attr_get_type(attribute) == type)
			return mnl_attr_get_payload_len(attribute) >= bytes ? attribute : NULL;
	}
	return NULL;
}

bool rdma_link_read_device(const struct nlmsghdr *message, const char *name, uint32_t *index)
{
	const struct nlattr *number = rdma_link_find(message, RDMA_NLDEV_ATTR_DEV_INDEX, sizeof(uint32_t));
	const struct nlattr *text = rdma_link_find(message, RDMA_NLDEV_ATTR_DEV_NAME, strlen(name) + 1);

	if (!number || !text || strncmp(mnl_attr_get_str(text), name, mnl_attr_get_payload_len(text)) != 0)
		return false;
	*index = mnl_attr_get_u32(number);
	return true;
}

bool rdma_link_read_port(const struct nlmsghdr *message, unsigned interface_index, uint32_t *port)
{
	const struct nlattr *number = rdma_link_find(message, RDMA_NLDEV_ATTR_PORT_INDEX, sizeof(uint32_t));
	const struct nlattr *interface = rdma_link_find(message, RDMA_NLDEV_ATTR_NDEV_INDEX, sizeof(uint32_t));

	if (!number || !interface || mnl_attr_get_u32(interface) != interface_index)
		return false;
	*port = mnl_attr_get_u32(number);
	return true;
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
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);

	request->nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	if (search->has_device)
		mnl_attr_put_u32(request, RDMA_NLDEV_ATTR_DEV_INDEX, search->device_index);
	return rtnl_ask_all(socket, request, NLM_F_DUMP, take, search);
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
