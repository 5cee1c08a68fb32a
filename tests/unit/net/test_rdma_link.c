// SPDX-License-Identifier: Apache-2.0
/* Answers of RDMA netlink: which of them are about the device and the interface that are looked for. */
#include "daemon/net/net.h"
#include "daemon/net/rdma_link.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <rdma/rdma_netlink.h>

static char buffer[1024];

static struct nlmsghdr *make_device(uint32_t index, const char *name)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);

	mnl_attr_put_u32(message, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	mnl_attr_put_strz(message, RDMA_NLDEV_ATTR_DEV_NAME, name);
	return message;
}

static struct nlmsghdr *make_port(uint32_t port, uint32_t interface)
{
	struct nlmsghdr *message = make_device(3, "mlx5_1");

	mnl_attr_put_u32(message, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	if (interface)
		mnl_attr_put_u32(message, RDMA_NLDEV_ATTR_NDEV_INDEX, interface);
	return message;
}

Test(rdma_link, a_device_is_found_by_its_whole_name)
{
	uint32_t index = 0;

	cr_expect(rdma_link_read_device(make_device(3, "mlx5_1"), "mlx5_1", &index));
	cr_expect(eq(u32, index, 3));
	cr_expect(not(rdma_link_read_device(make_device(4, "mlx5_10"), "mlx5_1", &index)));
	cr_expect(not(rdma_link_read_device(make_device(4, "mlx5_1"), "mlx5_10", &index)));
	cr_expect(not(rdma_link_read_device(mnl_nlmsg_put_header(buffer), "mlx5_1", &index)));
	cr_expect(eq(u32, index, 3));
}

Test(rdma_link, a_port_is_found_by_its_interface)
{
	uint32_t port = 0;

	cr_expect(not(rdma_link_read_port(make_port(1, 0), 17, &port))); /* the PF's own port in switchdev mode */
	cr_expect(not(rdma_link_read_port(make_port(1, 16), 17, &port)));
	cr_expect(rdma_link_read_port(make_port(300, 17), 17, &port));
	cr_expect(eq(u32, port, 300));
}

Test(rdma_link, an_attribute_that_is_too_short_is_none)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	uint32_t port = 0;

	mnl_attr_put_u16(message, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	mnl_attr_put_u32(message, RDMA_NLDEV_ATTR_NDEV_INDEX, 17);
	cr_expect(not(rdma_link_read_port(message, 17, &port)));
}

Test(rdma_link, a_kernel_without_the_device_says_so)
{
	uint32_t port;

	cr_expect(lt(int, net_rdma_port("no such device", 1, &port), 0));
}
