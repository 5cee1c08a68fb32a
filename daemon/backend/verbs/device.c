// SPDX-License-Identifier: Apache-2.0
/* Opens the device behind a network interface and reads its capabilities. */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/base/log.h"
#include "daemon/net/net.h"
#include "lib/base/files.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSFS "/sys"
#define NODES "/dev/infiniband"

/* The last entry of a directory; "": there is none. */
static void find_entry(const char *directory, char name[64])
{
	struct files_list entries;

	name[0] = '\0';
	files_list(&entries, "%s", directory);
	while (files_next(&entries))
		files_copy_name(name, 64, entries.name);
}

/* libibverbs leaves out a device whose node it cannot stat(). */
int verbs_check_node(const struct verbs_sysfs *sysfs, const char *nodes, const char *interface, struct failure *failure)
{
	char directory[PATH_MAX], uverbs[64], node[PATH_MAX];

	snprintf(directory, sizeof(directory), "%s/class/net/%s/device/infiniband_verbs", sysfs->root, interface);
	find_entry(directory, uverbs);
	snprintf(node, sizeof(node), "%s/%s", nodes, uverbs);
	if (!uverbs[0] || access(node, F_OK) == 0)
		return 0;
	if (errno == ENOENT)
		return failure_set(failure, EX_UNAVAILABLE, ENODEV,
		                   "the kernel has an RDMA device behind %s, but its node %s is not here: give it to "
		                   "the container or unit (--device, DeviceAllow=)",
		                   interface, node);
	return failure_set(failure, EX_UNAVAILABLE, errno,
	                   "the kernel has an RDMA device behind %s, but this process cannot reach its node %s: %s",
	                   interface, node, strerror(errno));
}

/* libibverbs lists no device. */
static int explain_no_devices(const char *interface, struct failure *failure)
{
	char name[64];

	find_entry(SYSFS "/class/infiniband", name);
	if (name[0])
		return failure_set(
			failure, EX_UNAVAILABLE, ENODEV,
			"no usable RDMA device behind %s: the kernel has %s, but libibverbs has no driver for it ('apt "
			"install ibverbs-providers', 'modprobe ib_uverbs'), or its node in " NODES " is not here",
			interface, name);
	return failure_set(
		failure, EX_UNAVAILABLE, ENODEV,
		"no RDMA device behind %s: there is none on this machine: 'modprobe mlx5_ib' and 'apt install "
		"rdma-core ibverbs-providers' for a ConnectX; 'ibv_devinfo' must list it; if 'rdma system' says netns "
		"exclusive, 'rdma dev set DEVICE netns NAME' moves a device to a network namespace",
		interface);
}

/* The kernel's own answer, which needs no GIDs: devices in switchdev mode and those with RoCE off have none. */
static int verbs_ask_for_port(const struct verbs_sysfs *sysfs, const char *interface, struct verbs_match *match)
{
	unsigned index = if_nametoindex(interface);
	uint32_t port;

	for (int i = 0; i < sysfs->n_devices; i++) {
		const char *name = strrchr(sysfs->devices[i], '/');

		if (!name || net_rdma_port(name + 1, index, &port) < 0 || port > UINT8_MAX)
			continue;
		*match = (struct verbs_match){.device = i, .port = (uint8_t)port};
		return 0;
	}
	return -ENODEV;
}

/* Finds the device and its port. */
static int verbs_match_device(const struct verbs_backend *backend, struct ibv_device **devices, int n,
                              struct verbs_match *match, struct failure *failure)
{
	const char **paths = calloc((size_t)n, sizeof(*paths));
	struct verbs_sysfs sysfs = {.root = SYSFS, .devices = paths, .n_devices = n};
	char text[512];
	int error;

	if (!paths)
		return failure_no_memory(failure);
	for (int i = 0; i < n; i++)
		paths[i] = devices[i]->ibdev_path;
	error = verbs_ask_for_port(&sysfs, backend->interface, match);
	if (error && net_is_in_sysfs(backend->interface))
		error = verbs_match(&sysfs, backend->interface, match);
	if (error && verbs_check_node(&sysfs, NODES, backend->interface, failure) == 0)
		failure_set(
			failure, EX_UNAVAILABLE, -error,
			"no RDMA device behind %s; there are: %s: name one of those interfaces, or check that 'rdma "
			"link' lists %s",
			backend->interface, verbs_describe_devices(&sysfs, text, sizeof(text)), backend->interface);
	free(paths);
	return error;
}

static int verbs_open_device(struct verbs_backend *backend, struct ibv_device *device, struct failure *failure)
{
	int error;

	backend->context = ibv_open_device(device);
	if (backend->context)
		return 0;
	error = errno;
	if (error == EACCES || error == EPERM)
		return failure_set(failure, EX_NOPERM, error,
		                   "cannot open %s, the device behind %s: %s: this user needs read and write access to "
		                   "/dev/infiniband/%s",
		                   ibv_get_device_name(device), backend->interface, strerror(error), device->dev_name);
	return failure_set(failure, EX_UNAVAILABLE, error, "cannot open %s, the device behind %s: %s%s",
	                   ibv_get_device_name(device), backend->interface, strerror(error),
	                   verbs_explain_limit(error));
}

/* *stacking: enum verbs_stacking. devices are to be freed by the caller in any case; NULL: there are none. */
static int verbs_find_device(const struct verbs_backend *backend, struct ibv_device ***devices,
                             struct verbs_match *match, int *stacking, struct failure *failure)
{
	const struct verbs_sysfs sysfs = {.root = SYSFS};
	int n = 0, error;

	*devices = NULL;
	if (!if_nametoindex(backend->interface))
		return failure_set(failure, EX_UNAVAILABLE, ENODEV, "there is no interface %s: 'ip link' lists them",
		                   backend->interface);
	*stacking = net_is_in_sysfs(backend->interface) ? verbs_check_stacking(&sysfs, backend->interface, failure) : 0;
	if (*stacking < 0)
		return *stacking;
	*devices = ibv_get_device_list(&n);
	if (!*devices && errno != ENOSYS)
		return failure_set(failure, EX_OSERR, errno, "cannot list RDMA devices: %s", strerror(errno));
	if (n > 0)
		return verbs_match_device(backend, *devices, n, match, failure);
	error = verbs_check_node(&sysfs, NODES, backend->interface, failure);
	return error == 0 ? explain_no_devices(backend->interface, failure) : error;
}

static int verbs_find(const char *interface, struct failure *failure)
{
	struct verbs_backend backend = {0};
	struct ibv_device **devices;
	struct verbs_match match = {0};
	int error, stacking;

	snprintf(backend.interface, sizeof(backend.interface), "%s", interface);
	error = verbs_find_device(&backend, &devices, &match, &stacking, failure);
	if (devices)
		ibv_free_device_list(devices);
	return error;
}

static int verbs_find_and_open(struct verbs_backend *backend, struct failure *failure)
{
	struct ibv_device **devices;
	struct verbs_match match = {0};
	int stacking = 0;
	int error = verbs_find_device(backend, &devices, &match, &stacking, failure);

	if (!error && devices) {
		backend->port = match.port;
		error = verbs_open_device(backend, devices[match.device], failure);
	}
	if (!error && stacking == VERBS_STACKING_LAG)
		log_warning(
			"interface %s: device %s is the only one of this bond, and should receive what comes in at any "
			"of its ports; if packets of one port are missing: 'dmesg | grep -i lag' must show the ports' "
			"lag map, and 'devlink dev param show' enable_rdma true for each of them; else configure a "
			"stream for each port, without a bond",
			backend->interface, verbs_device_name(backend));
	if (devices)
		ibv_free_device_list(devices);
	return error;
}

static int verbs_query_device(struct verbs_backend *backend, struct failure *failure)
{
	struct ibv_port_attr port;
	const char *device = verbs_device_name(backend);
	int error;

	error = ibv_query_device_ex(backend->context, NULL, &backend->attr);
	if (!error)
		error = ibv_query_port(backend->context, backend->port, &port);
	if (error)
		return failure_set(failure, EX_UNAVAILABLE, error, "cannot query port %u of %s: %s%s", backend->port,
		                   device, strerror(error), verbs_explain_limit(error));
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return failure_set(
			failure, EX_UNAVAILABLE, EPROTONOSUPPORT,
			"port %u of %s, behind %s, is not Ethernet: 'mlxconfig -d DEVICE set LINK_TYPE_P%u=2' and a "
			"reboot change that on cards that can do both",
			backend->port, device, backend->interface, backend->port);
	return 0;
}

static int verbs_set_up_device(struct verbs_backend *backend, struct failure *failure)
{
	const char *device = verbs_device_name(backend);

	if (fcntl(backend->context->async_fd, F_SETFL, O_NONBLOCK) < 0)
		return failure_set(failure, EX_OSERR, errno, "cannot set up the event descriptor of %s: %s", device,
		                   strerror(errno));
	backend->pd = ibv_alloc_pd(backend->context);
	if (!backend->pd)
		return failure_set(failure, EX_UNAVAILABLE, errno, "cannot allocate a protection domain on %s: %s%s",
		                   device, strerror(errno), verbs_explain_limit(errno));
	backend->sink = ibv_alloc_null_mr(backend->pd); /* NULL: not every device has one */
	verbs_timestamps_init(backend);
	verbs_statistics_init(backend);
	return 0;
}

static void verbs_choose_path(struct verbs_backend *backend, bool may_be_direct)
{
	char why_not[BACKEND_HOW_BYTES] = "direct = false";

	backend->direct = may_be_direct && verbs_direct_works(backend, why_not);
	if (backend->direct)
		snprintf(backend->how, sizeof(backend->how),
		         "direct: workers read completions and fill receive queues without libmlx5");
	else
		snprintf(backend->how, sizeof(backend->how), "not direct, but through libibverbs: %.160s", why_not);
	if (backend->strict_ordering)
		strcat(backend->how, "; no relaxed ordering: relaxed_ordering = false");
}

static void verbs_close(struct backend *base)
{
	struct verbs_backend *backend = verbs_backend(base);

	if (!backend)
		return;
	verbs_timestamps_deinit(backend);
	if (backend->sink)
		ibv_dereg_mr(backend->sink);
	if (backend->pd)
		ibv_dealloc_pd(backend->pd);
	if (backend->context)
		ibv_close_device(backend->context);
	free(backend);
}

static int verbs_open(const struct backend_open_options *options, struct backend **out, struct failure *failure)
{
	struct verbs_backend *backend;
	int error;

	backend = calloc(1, sizeof(*backend));
	if (!backend)
		return failure_no_memory(failure);
	backend->base.ops = &verbs_backend_ops;
	backend->ptp_fd = -1;
	backend->strict_ordering = options->strict_ordering;
	snprintf(backend->interface, sizeof(backend->interface), "%s", options->interface);
	error = verbs_find_and_open(backend, failure);
	if (!error)
		error = verbs_query_device(backend, failure);
	if (!error)
		error = verbs_set_up_device(backend, failure);
	if (!error)
		verbs_choose_path(backend, options->direct);
	if (error)
		verbs_close(&backend->base);
	else
		*out = &backend->base;
	return error;
}

static void verbs_capabilities(const struct backend *base, struct backend_capabilities *capabilities)
{
	const struct verbs_backend *backend = verbs_backend(base);
	uint32_t max_slots = (uint32_t)backend->attr.orig_attr.max_qp_wr;
	const struct ibv_packet_pacing_caps *pacing = &backend->attr.packet_pacing_caps;
	bool is_real_time = backend->timestamps == VERBS_TIMESTAMPS_REAL_TIME;
	bool paces = pacing->supported_qpts & (1u << IBV_QPT_RAW_PACKET);

	*capabilities = (struct backend_capabilities){
		.max_queue_slots = max_slots / VERBS_CHAIN * VERBS_CHAIN,
		.max_group_queues = verbs_max_group_queues(backend),
		.toeplitz = true,
		.hashes_addresses = true,
		.oversize_sink = backend->sink != NULL,
		.flow_tags = true,
		.timestamps = backend->timestamps != VERBS_TIMESTAMPS_NONE,
		.clock_hz = is_real_time ? TIME_SECOND_NS : backend->attr.hca_core_clock * 1000, /* kHz */
		.clock_mask = is_real_time ? UINT64_MAX : backend->attr.completion_timestamp_mask,
		.clock_can_step = is_real_time,
		/* In blocks of 64 bytes, as mlx5 counts: with two SGEs a packet takes two. */
		.max_send_slots = max_slots / 2,
		.max_moderation_us =
			backend->attr.cq_mod_caps.max_cq_count ? backend->attr.cq_mod_caps.max_cq_period : 0,
		.delay_drop = backend->attr.raw_packet_caps & IBV_RAW_PACKET_CAP_DELAY_DROP,
		.send_checksums = backend->attr.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM,
		.min_rate_bps = paces ? pacing->qp_rate_limit_min * 1000ull : 0,
		.max_rate_bps = paces ? pacing->qp_rate_limit_max * 1000ull : 0,
	};
	snprintf(capabilities->device, sizeof(capabilities->device), "%s", verbs_device_name(backend));
	memcpy(capabilities->how, backend->how, sizeof(capabilities->how));
}

static const struct backend_privilege verbs_privileges[] = {
	{CAP_NET_RAW, .required = true, .purpose = "to make raw packet queues"},
	{CAP_IPC_LOCK, .at_start = true, .purpose = "to lock more memory than RLIMIT_MEMLOCK allows"},
	{0},
};

const struct backend_ops verbs_backend_ops = {
	.name = "verbs",
	.privileges = verbs_privileges,
	.pins_memory = true,
	.find = verbs_find,
	.open = verbs_open,
	.close = verbs_close,
	.capabilities = verbs_capabilities,
	.register_memory = verbs_register_memory,
	.unregister_memory = verbs_unregister_memory,
	.register_dmabuf = verbs_register_dmabuf,
	.create_queue = verbs_create_queue,
	.create_group = verbs_create_group,
	.destroy_queue = verbs_destroy_queue,
	.start = verbs_start,
	.post = verbs_post,
	.poll = verbs_poll,
	.fd = verbs_fd,
	.arm = verbs_arm,
	.clear = verbs_clear,
	.reset = verbs_reset,
	.create_send_queue = verbs_create_send_queue,
	.send_post = verbs_send_post,
	.send_post_summed = verbs_send_post_summed,
	.send_reap = verbs_send_reap,
	.add_flow = verbs_add_flow,
	.remove_flow = verbs_remove_flow,
	.read_matched = verbs_read_matched,
	.read_port = verbs_read_port,
	.read_clock = verbs_read_clock,
	.notice_fd = verbs_notice_fd,
	.read_notice = verbs_read_notice,
};
