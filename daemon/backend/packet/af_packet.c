// SPDX-License-Identifier: Apache-2.0
/* The packet backend's device: any interface that carries Ethernet frames or bare IP packets, and the loopback. */
#include "daemon/backend/packet/af_packet.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_QUEUE_SLOTS 65536
/* Up to this number of queues, the filters of all cost less than the group's classic filter and the filter of one. */
#define QUEUES_WITHOUT_GROUP 2
/* The kernel counts a packet before it copies it, and a virtual machine's CPU may stand still between the two. */
#define SETTLE_NS UINT64_C(20000000)

static struct af_packet *af_packet(const struct backend *base)
{
	return (struct af_packet *)base;
}

/* A tunnel's packets begin with their IP header. Other kinds of frame (InfiniBand, radiotap, CAN) are unknown here. */
static bool af_packet_is_tunnel(unsigned type)
{
	static const unsigned types[] = {ARPHRD_NONE,    ARPHRD_RAWIP, ARPHRD_PPP,   ARPHRD_TUNNEL,
	                                 ARPHRD_TUNNEL6, ARPHRD_SIT,   ARPHRD_IPGRE, ARPHRD_IP6GRE};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i] == type)
			return true;
	return false;
}

static int af_packet_check_interface(struct af_packet *backend, int fd, struct failure *failure)
{
	struct ifreq request = {0};
	unsigned type;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", backend->interface);
	if (ioctl(fd, SIOCGIFHWADDR, &request) < 0)
		return failure_set(failure, EX_UNAVAILABLE, errno, "interface %s: %s", backend->interface,
		                   strerror(errno));
	type = request.ifr_hwaddr.sa_family;
	memcpy(backend->mac, request.ifr_hwaddr.sa_data, sizeof(backend->mac));
	backend->has_ethernet = type == ARPHRD_ETHER || type == ARPHRD_LOOPBACK;
	if (!backend->has_ethernet && !af_packet_is_tunnel(type))
		return failure_set(failure, EX_UNAVAILABLE, EPROTONOSUPPORT,
		                   "interface %s carries neither Ethernet frames nor bare IP packets (its type is %u): "
		                   "backend \"packet\" reads only those",
		                   backend->interface, type);
	if (ioctl(fd, SIOCGIFINDEX, &request) < 0)
		return failure_set(failure, EX_UNAVAILABLE, errno, "interface %s: %s", backend->interface,
		                   strerror(errno));
	backend->index = request.ifr_ifindex;
	return 0;
}

static int af_packet_open_program(struct af_packet *backend, struct failure *why)
{
	int r = packet_program_load(backend->interface, backend->has_ethernet, &backend->program, why);

	if (r < 0)
		return r;
	r = af_packet_fanout_open(backend);
	if (r < 0) {
		packet_program_free(backend->program);
		backend->program = NULL;
		return failure_set(why, EX_OSERR, -r, "%s", r == -EINVAL ? "the interface is down" : strerror(-r));
	}
	r = packet_program_attach_drop(backend->program, (unsigned)backend->index, why);
	backend->drops = r == 0;
	return r;
}

static uint32_t af_packet_count_queues(const struct backend_open_options *options)
{
	uint32_t n = 0;

	while (n < BACKEND_QUEUES_MAX && options->slots[n])
		n++;
	return n;
}

/*
 * Without the programs everything works, at the cost of the kernel's work for packets that nobody there wants. Many
 * queues are one group without them, too, if they can: a group has one filter for the flows of all.
 */
static void af_packet_open_group(struct af_packet *backend, const struct backend_open_options *options)
{
	struct failure why;
	int r = af_packet_open_program(backend, &why);

	if (!backend->program && af_packet_count_queues(options) > QUEUES_WITHOUT_GROUP)
		af_packet_fanout_open(backend);
	if (r == 0)
		snprintf(backend->how, sizeof(backend->how),
		         "the kernel does not handle the packets of flows whose port nobody else reads (tcx drop)");
	else
		snprintf(backend->how, sizeof(backend->how),
		         "the kernel handles the packets of flows, too, and counts them as UDP InErrors: %.100s; the "
		         "daemon holds the UDP ports of flows without copy = true",
		         r == -EPERM        ? "to drop them takes CAP_BPF and CAP_NET_ADMIN (ibvcap doctor)"
		         : r == -EOPNOTSUPP ? "to drop them takes Linux 6.6 or later"
		                            : why.text);
}

static int af_packet_open(const struct backend_open_options *options, struct backend **out, struct failure *failure)
{
	struct af_packet *backend = calloc(1, sizeof(*backend));
	int fd, r;

	if (!backend)
		return failure_no_memory(failure);
	backend->base.ops = &af_packet_ops;
	pthread_mutex_init(&backend->changing, NULL);
	pthread_cond_init(&backend->fanout.turned, NULL);
	snprintf(backend->interface, sizeof(backend->interface), "%s", options->interface);
	fd = kernel_path_open_socket(backend->interface, SOCK_RAW, failure);
	r = fd < 0 ? fd : af_packet_check_interface(backend, fd, failure);
	if (fd >= 0)
		close(fd);
	if (r < 0) {
		free(backend);
		return r;
	}
	af_packet_open_group(backend, options);
	device_time_open(&backend->time, options);
	*out = &backend->base;
	return 0;
}

static void af_packet_close(struct backend *base)
{
	af_packet_fanout_close(af_packet(base));
	packet_program_free(af_packet(base)->program);
	device_time_close(&af_packet(base)->time);
	pthread_cond_destroy(&af_packet(base)->fanout.turned);
	pthread_mutex_destroy(&af_packet(base)->changing);
	free(base);
}

static void af_packet_capabilities(const struct backend *base, struct backend_capabilities *capabilities)
{
	*capabilities = (struct backend_capabilities){
		.max_queue_slots = MAX_QUEUE_SLOTS,
		.max_group_queues = AF_PACKET_GROUP_MAX,
		.hashes_addresses = af_packet(base)->program != NULL,
		.oversize_sink = true,
		.flow_tags = true,
		.counts_drops = true,
		.settle_ns = SETTLE_NS,
		.naps = true,
		.max_send_slots = MAX_QUEUE_SLOTS,
		.send_priorities = true,
		.send_checksums = af_packet(base)->has_ethernet,
		.no_vlans = !af_packet(base)->has_ethernet,
	};
	device_time_describe(&af_packet(base)->time, capabilities);
	memcpy(capabilities->how, af_packet(base)->how, sizeof(capabilities->how));
	snprintf(capabilities->device, sizeof(capabilities->device), "%s", af_packet(base)->interface);
}

/* ---- queues -------------------------------------------------------------------------------------- */

static int af_packet_create_send_queue(struct backend *base, const struct backend_send_options *options,
                                       struct backend_queue **queue, struct failure *failure)
{
	struct af_packet *backend = af_packet(base);
	const struct socket_send_device device = {.interface = backend->interface,
	                                          .index = backend->index,
	                                          .has_ethernet = backend->has_ethernet,
	                                          .discipline = &backend->discipline};

	return socket_send_new(&device, options, queue, failure);
}

/* ---- readings ------------------------------------------------------------------------------------ */

static int af_packet_read_port(struct backend *base, struct backend_port_statistics *statistics)
{
	struct af_packet *backend = af_packet(base);

	device_time_follow(&backend->time);
	socket_discipline_follow(&backend->discipline, backend->interface, backend->index);
	/* The interface's own state says whether there is a link. */
	*statistics = (struct backend_port_statistics){.port_active = true};
	return 0;
}

static int af_packet_read_clock(struct backend *base, struct backend_clock_reading *reading)
{
	return device_time_read_clock(&af_packet(base)->time, reading);
}

static const struct backend_privilege af_packet_privileges[] = {
	{CAP_NET_RAW, .required = true, .purpose = "to open packet sockets"},
	{CAP_NET_ADMIN, .at_start = true, .purpose = "to keep captured packets from the kernel"},
	{CAP_BPF, .at_start = true, .purpose = "to look at a packet once for all queues"},
	{CAP_PERFMON, .at_start = true, .purpose = "to look at packets in half the time"},
	{0},
};

const struct backend_ops af_packet_ops = {
	.name = "packet",
	.privileges = af_packet_privileges,
	.kernel_bytes = af_packet_ring_bytes,
	.check_send_time = socket_check_send_time,
	.keeps_program = packet_program_is_kept,
	.open = af_packet_open,
	.close = af_packet_close,
	.capabilities = af_packet_capabilities,
	.register_memory = kernel_path_register_memory,
	.unregister_memory = kernel_path_unregister_memory,
	.create_queue = af_packet_create_queue,
	.destroy_queue = af_packet_receive_free,
	.start = kernel_path_start,
	.post = af_packet_post,
	.poll = af_packet_poll,
	.fd = af_packet_receive_fd,
	.arm = af_packet_receive_arm,
	.clear = af_packet_receive_clear,
	.reset = af_packet_receive_reset,
	.create_send_queue = af_packet_create_send_queue,
	.create_group = af_packet_create_group,
	.add_flow = af_packet_add_flow,
	.remove_flow = af_packet_remove_flow,
	.read_matched = af_packet_read_matched,
	.read_port = af_packet_read_port,
	.read_clock = af_packet_read_clock,
};
