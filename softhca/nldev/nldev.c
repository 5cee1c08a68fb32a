// SPDX-License-Identifier: Apache-2.0
/* Takes requests of RDMA netlink apart and answers those of devices, ports, statistics and character devices. */
#include "nldev.h"

#include "../device/injection.h"
#include "../device/netdev.h"
#include "../uverbs/uverbs.h"
#include "nldev_message.h"

#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_cm.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

/* fill_dev_info */
static void nldev_send_device(const struct nldev_request *r, const struct device *d, uint16_t flags)
{
	struct ib_uverbs_query_device_resp q;
	struct nldev_message m;
	char text[32];

	uverbs_fill_device(d, &q);
	nldev_begin(&m, r, flags);
	nldev_put_handle(&m, d);
	nldev_put_u32(&m, RDMA_NLDEV_ATTR_PORT_INDEX, device_port(d));
	nldev_put_u64(&m, RDMA_NLDEV_ATTR_CAP_FLAGS, q.device_cap_flags);
	snprintf(text, sizeof(text), "%hu.%hu.%04hu", (unsigned short)(q.fw_ver >> 32),
	         (unsigned short)(q.fw_ver >> 16), (unsigned short)q.fw_ver);
	nldev_put_text(&m, RDMA_NLDEV_ATTR_FW_VERSION, text);
	nldev_put_u64(&m, RDMA_NLDEV_ATTR_NODE_GUID, be64toh(q.node_guid));
	nldev_put_u64(&m, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, be64toh(q.sys_image_guid));
	nldev_put_u8(&m, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, RDMA_NODE_IB_CA);
	nldev_put_u8(&m, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	/* mlx5_ib: without RoCE the port has no protocol but raw packets. */
	if (d->config.roce)
		nldev_put_text(&m, RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
	nldev_send(&m);
}

static int nldev_get(const struct nldev_request *r)
{
	const struct device *d = nldev_request_device(r);

	if (!d)
		return -EINVAL;
	nldev_send_device(r, d, 0);
	return 0;
}

static int nldev_dump(const struct nldev_request *r)
{
	for (unsigned int i = 0; i < r->nldev->n_devices; i++)
		nldev_send_device(r, &r->nldev->devices[i], NLM_F_MULTI);
	return 0;
}

/* fill_port_info. The driver asks the firmware for the port's state. */
static int nldev_send_port(const struct nldev_request *r, const struct device *d, uint32_t port, uint16_t flags)
{
	const char *netdev = device_port_netdev(d);
	struct nldev_message m;
	bool ours = port == device_port(d), up;
	int e = injection_command(d);

	if (e)
		return e;
	up = ours && netdev_link_up(netdev);
	nldev_begin(&m, r, flags);
	nldev_put_handle(&m, d);
	nldev_put_u32(&m, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	nldev_put_u8(&m, RDMA_NLDEV_ATTR_PORT_STATE, up ? PORT_STATE_ACTIVE : PORT_STATE_DOWN);
	nldev_put_u8(&m, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, up ? PORT_PHYS_LINK_UP : PORT_PHYS_DISABLED);
	if (ours && if_nametoindex(netdev)) {
		nldev_put_u32(&m, RDMA_NLDEV_ATTR_NDEV_INDEX, if_nametoindex(netdev));
		nldev_put_text(&m, RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
	}
	nldev_send(&m);
	return 0;
}

static int nldev_port_get(const struct nldev_request *r)
{
	struct device *d;
	uint32_t port;
	int e = nldev_request_port(r, &d, &port);

	return e ? e : nldev_send_port(r, d, port, 0);
}

static int nldev_port_dump(const struct nldev_request *r)
{
	const struct device *d = nldev_request_device(r);

	if (!d)
		return -EINVAL;
	for (uint32_t port = 1; port <= device_port(d) && !nldev_send_port(r, d, port, NLM_F_MULTI); port++)
		;
	return 0;
}

/* Network namespaces share the devices (nldev_sys_get_doit). */
static int nldev_sys_get(const struct nldev_request *r)
{
	struct nldev_message m;

	nldev_begin(&m, r, 0);
	nldev_put_u8(&m, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);
	nldev_put_u8(&m, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, r->nldev->devices[0].config.copies_on_fork);
	nldev_send(&m);
	return 0;
}

static int nldev_get_chardev(const struct nldev_request *r)
{
	const struct device *d = nldev_request_device(r);
	struct nldev_message m;
	char name[32];

	if (!r->attrs[RDMA_NLDEV_ATTR_CHARDEV_TYPE] || (!d && r->attrs[RDMA_NLDEV_ATTR_DEV_INDEX]) ||
	    (!d && r->attrs[RDMA_NLDEV_ATTR_PORT_INDEX]))
		return -EINVAL;
	nldev_begin(&m, r, 0);
	/* ib_get_client_nl_info: rdma_cm has one for all devices. */
	if (!d && nldev_request_is_text(r, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "rdma_cm")) {
		nldev_put_u64(&m, RDMA_NLDEV_ATTR_CHARDEV, makedev(CM_MAJOR, CM_MINOR));
		nldev_put_u64(&m, RDMA_NLDEV_ATTR_CHARDEV_ABI, RDMA_USER_CM_ABI_VERSION);
		nldev_put_text(&m, RDMA_NLDEV_ATTR_CHARDEV_NAME, "rdma_cm");
	} else if (d && nldev_request_is_text(r, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs")) {
		snprintf(name, sizeof(name), "uverbs%u", d->index);
		nldev_put_u32(&m, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, RDMA_DRIVER_MLX5);
		nldev_put_u64(&m, RDMA_NLDEV_ATTR_CHARDEV, makedev(UVERBS_MAJOR, UVERBS_FIRST_MINOR + d->index));
		nldev_put_u64(&m, RDMA_NLDEV_ATTR_CHARDEV_ABI, MLX5_IB_UVERBS_ABI_VERSION);
		nldev_put_text(&m, RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
	} else {
		return -EOPNOTSUPP;
	}
	nldev_send(&m);
	return 0;
}

/* The hw_counters of a port, as in sysfs. In switchdev mode they are the device's, and the port has none, but for
 * firmware that counts for other vports (mlx5_ib: mlx5_ib_alloc_hw_port_stats). */
static unsigned int nldev_port_counters(struct device *d, const char *names[N_HW_COUNTERS],
                                        uint64_t values[N_HW_COUNTERS])
{
	struct device_counters c;

	names[0] = "vport_out_of_buffer";
	names[1] = "vport_out_of_sequence";
	values[0] = values[1] = 0;
	if (d->config.eswitch != ESWITCH_LEGACY)
		return d->config.eswitch == ESWITCH_SWITCHDEV ? 0 : 2;
	device_read_counters(d, &c);
	for (unsigned int i = 0; i < N_HW_COUNTERS; i++) {
		names[i] = hw_counters[i].name;
		values[i] = hw_counter_value(&c, i);
	}
	return N_HW_COUNTERS;
}

/* stat_get_doit_default_counter: the values; and nldev_stat_get_counter_status_doit: the numbers of the counters, none
 * of which can be switched off. */
static int nldev_stat_get_port(const struct nldev_request *r)
{
	bool values_wanted = RDMA_NL_GET_OP(r->head.nlmsg_type) == RDMA_NLDEV_CMD_STAT_GET;
	const char *names[N_HW_COUNTERS];
	uint64_t values[N_HW_COUNTERS];
	struct nldev_message m;
	struct device *d;
	uint32_t port;
	unsigned int n;
	size_t table;

	if (nldev_request_port(r, &d, &port) || injection_command(d))
		return -EINVAL;
	n = nldev_port_counters(d, names, values);
	if (!n)
		return -EINVAL;
	nldev_begin(&m, r, 0);
	nldev_put_handle(&m, d);
	nldev_put_u32(&m, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	table = nldev_nest(&m, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (unsigned int i = 0; i < n; i++) {
		size_t entry = nldev_nest(&m, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);

		nldev_put_text(&m, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, names[i]);
		if (values_wanted)
			nldev_put_u64(&m, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, values[i]);
		else
			nldev_put_u32(&m, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, i);
		nldev_end(&m, entry);
	}
	nldev_end(&m, table);
	nldev_send(&m);
	return 0;
}

/* Queue pairs have no counters of their own: none is bound, and the mode is "none" (rdma_counter_get_mode). */
static int nldev_stat_get(const struct nldev_request *r)
{
	struct nldev_message m;
	struct device *d;
	uint32_t resource, port;

	if (!nldev_request_u32(r, RDMA_NLDEV_ATTR_STAT_RES, &resource))
		return nldev_stat_get_port(r);
	if (resource != RDMA_NLDEV_ATTR_RES_QP || !r->attrs[RDMA_NLDEV_ATTR_STAT_MODE] ||
	    nldev_request_port(r, &d, &port))
		return -EINVAL;
	nldev_begin(&m, r, 0);
	nldev_put_handle(&m, d);
	nldev_put_u32(&m, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	nldev_put_u32(&m, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_NONE);
	nldev_send(&m);
	return 0;
}

static int nldev_stat_dump(const struct nldev_request *r)
{
	uint32_t resource;

	return nldev_request_u32(r, RDMA_NLDEV_ATTR_STAT_RES, &resource) && resource == RDMA_NLDEV_ATTR_RES_QP
	               ? 0
	               : -EINVAL;
}

/* What would change a device, or shows the hardware's own memory. */
static int nldev_refuse(const struct nldev_request *r)
{
	(void)r;
	return -EOPNOTSUPP;
}

static const struct {
	nldev_handler *get, *dump;
} nldev_operations[RDMA_NLDEV_NUM_OPS] = {
	[RDMA_NLDEV_CMD_GET] = {nldev_get, nldev_dump},
	[RDMA_NLDEV_CMD_SET] = {nldev_refuse, NULL},
	[RDMA_NLDEV_CMD_NEWLINK] = {nldev_refuse, NULL},
	[RDMA_NLDEV_CMD_DELLINK] = {nldev_refuse, NULL},
	[RDMA_NLDEV_CMD_PORT_GET] = {nldev_port_get, nldev_port_dump},
	[RDMA_NLDEV_CMD_SYS_GET] = {nldev_sys_get, NULL},
	[RDMA_NLDEV_CMD_SYS_SET] = {nldev_refuse, NULL},
	[RDMA_NLDEV_CMD_RES_GET] = {nldev_resource_summary, nldev_resource_summary},
	[RDMA_NLDEV_CMD_RES_QP_GET] = {nldev_resource_get, nldev_resource_dump},
	[RDMA_NLDEV_CMD_RES_CM_ID_GET] = {nldev_resource_get, nldev_resource_dump},
	[RDMA_NLDEV_CMD_RES_CQ_GET] = {nldev_resource_get, nldev_resource_dump},
	[RDMA_NLDEV_CMD_RES_MR_GET] = {nldev_resource_get, nldev_resource_dump},
	[RDMA_NLDEV_CMD_RES_PD_GET] = {nldev_resource_get, nldev_resource_dump},
	[RDMA_NLDEV_CMD_GET_CHARDEV] = {nldev_get_chardev, NULL},
	[RDMA_NLDEV_CMD_STAT_SET] = {nldev_refuse, NULL},
	[RDMA_NLDEV_CMD_STAT_GET] = {nldev_stat_get, nldev_stat_dump},
	[RDMA_NLDEV_CMD_STAT_DEL] = {nldev_refuse, NULL},
	[RDMA_NLDEV_CMD_RES_QP_GET_RAW] = {nldev_refuse, nldev_refuse},
	[RDMA_NLDEV_CMD_RES_CQ_GET_RAW] = {nldev_refuse, nldev_refuse},
	[RDMA_NLDEV_CMD_RES_MR_GET_RAW] = {nldev_refuse, nldev_refuse},
	[RDMA_NLDEV_CMD_RES_CTX_GET] = {nldev_resource_get, nldev_resource_dump},
	[RDMA_NLDEV_CMD_RES_SRQ_GET] = {nldev_resource_get, nldev_resource_dump},
	[RDMA_NLDEV_CMD_STAT_GET_STATUS] = {nldev_stat_get_port, NULL},
};

/* rdma_nl_rcv_msg. Of the kernel's netlink clients only nldev is there. */
static void nldev_run(struct nldev_request *r, const uint8_t *attrs, size_t bytes)
{
	unsigned int type = r->head.nlmsg_type, op = RDMA_NL_GET_OP(type);
	bool valid = RDMA_NL_GET_CLIENT(type) == RDMA_NL_NLDEV && op < RDMA_NLDEV_NUM_OPS;
	bool dumps = valid && (r->head.nlmsg_flags & NLM_F_DUMP) && nldev_operations[op].dump;
	int e = !valid || nldev_request_parse(r, attrs, bytes) ? -EINVAL : 0;

	if (dumps) {
		nldev_send_status(r, NLMSG_DONE, e ? e : nldev_operations[op].dump(r));
		return;
	}
	/* The kernel takes a number without an operation for a request that is done. */
	if (!e && nldev_operations[op].get)
		e = nldev_operations[op].get(r);
	if (e || (r->head.nlmsg_flags & NLM_F_ACK))
		nldev_send_status(r, NLMSG_ERROR, e);
}

/* netlink_rcv_skb: a message that does not fit ends the datagram; what is no request is only acknowledged. */
void nldev_answer(const struct nldev *n, const void *datagram, size_t bytes)
{
	const uint8_t *at = datagram;

	while (bytes >= sizeof(struct nlmsghdr)) {
		struct nldev_request r = {.nldev = n};
		size_t step;

		memcpy(&r.head, at, sizeof(r.head));
		if (r.head.nlmsg_len < sizeof(r.head) || r.head.nlmsg_len > bytes)
			return;
		if ((r.head.nlmsg_flags & NLM_F_REQUEST) && r.head.nlmsg_type >= NLMSG_MIN_TYPE)
			nldev_run(&r, at + sizeof(r.head), r.head.nlmsg_len - sizeof(r.head));
		else if (r.head.nlmsg_flags & NLM_F_ACK)
			nldev_send_status(&r, NLMSG_ERROR, 0);
		step = NLMSG_ALIGN((size_t)r.head.nlmsg_len);
		at += step;
		bytes -= step < bytes ? step : bytes;
	}
}
