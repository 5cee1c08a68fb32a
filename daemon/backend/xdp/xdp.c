// SPDX-License-Identifier: Apache-2.0
/* The xdp backend's device: an interface whose driver runs our program. */
#include "daemon/backend/xdp/xdp.h"

#include "daemon/base/log.h"
#include "lib/base/time.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_QUEUE_SLOTS 65536
/*
 * Packets that wait for the worker: this many; more if the configuration asks for a deeper queue; fewer if a packet
 * takes several descriptors.
 */
#define RING_DESCRIPTORS       2048
#define RING_DESCRIPTORS_LARGE 4096
#define MTU_LARGE              16384

/* Powers of two. */
static int xdp_plan_depths(struct xdp_backend *backend, const struct backend_open_options *options)
{
	backend->depths = calloc(backend->n_queues, sizeof(*backend->depths));
	if (!backend->depths)
		return -ENOMEM;
	for (uint32_t i = 0; i < backend->n_queues; i++) {
		uint32_t n = backend->interface.mtu > MTU_LARGE ? RING_DESCRIPTORS_LARGE : RING_DESCRIPTORS;

		while (i < BACKEND_QUEUES_MAX && n < options->slots[i])
			n *= 2;
		backend->depths[i] = n;
	}
	return 0;
}

/* ---- open ------------------------------------------------------------------------------------------ */

static void xdp_close(struct backend *base)
{
	struct xdp_backend *backend = xdp_backend(base);

	xdp_program_free(backend->program);
	for (uint32_t i = 0; backend->card_queues && i < backend->interface.max_card_queues; i++)
		xdp_close_card_queue(backend, i);
	pthread_mutex_destroy(&backend->changing);
	free(backend->sockets);
	free(backend->card_queues);
	free(backend->queues);
	free(backend->depths);
	free(backend);
}

static int xdp_open_card_queues(struct xdp_backend *backend, struct failure *failure)
{
	uint32_t n_card_queues = backend->interface.n_card_queues, max_card_queues = backend->interface.max_card_queues;
	int r = 0;

	backend->n_card_queues_seen = n_card_queues;
	backend->sockets = calloc((size_t)backend->n_queues * max_card_queues, sizeof(*backend->sockets));
	if (!backend->sockets)
		return failure_no_memory(failure);
	backend->card_queues = calloc(max_card_queues, sizeof(*backend->card_queues));
	backend->queues = calloc(backend->n_queues, sizeof(struct xdp_receive *));
	if (!backend->card_queues || !backend->queues)
		return failure_no_memory(failure);
	for (uint32_t i = 0; i < n_card_queues && r == 0; i++)
		r = xdp_open_card_queue(backend, i, failure);
	if (r < 0)
		return r;
	r = xdp_program_set_card_queues(backend->program, n_card_queues);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "interface %s: cannot set up the program's queues: %s",
	                            backend->interface.name, strerror(-r));
}

static void xdp_log_open(const struct xdp_backend *backend)
{
	const struct xdp_interface *interface = &backend->interface;
	const struct xdp_card_queue *card_queue = &backend->card_queues[0];
	uint64_t bytes = (uint64_t)card_queue->n_frames * card_queue->frame_bytes;

	log_message(LOG_INFO, &(struct log_about){.interface = interface->name},
	            "interface %s: XDP in %s mode on %u receive queues, with %llu MiB for each: room for %u queues of "
	            "streams; "
	            "some drivers stop the link for a moment when a program comes or goes",
	            interface->name, backend->zero_copy ? "zero-copy" : "copy", interface->n_card_queues,
	            (unsigned long long)(bytes >> 20), backend->n_queues);
}

static int xdp_set_up(struct xdp_backend *backend, struct failure *failure)
{
	struct xdp_interface *interface = &backend->interface;
	int r = xdp_program_load(interface->name, backend->n_queues, interface->max_card_queues, &backend->program,
	                         failure);

	if (r == 0)
		r = xdp_open_card_queues(backend, failure);
	if (r == 0)
		r = xdp_program_attach(backend->program, interface->index, failure);
	return r;
}

static int xdp_open(const struct backend_open_options *options, struct backend **out, struct failure *failure)
{
	struct xdp_backend *backend = calloc(1, sizeof(*backend));
	int r;

	if (!backend)
		return failure_no_memory(failure);
	backend->base.ops = &xdp_backend_ops;
	pthread_mutex_init(&backend->changing, NULL);
	backend->mode = options->xdp_mode;
	backend->n_queues = options->queues ? options->queues : 1;
	if (backend->n_queues > XDP_QUEUES_MAX)
		backend->n_queues = XDP_QUEUES_MAX;
	r = xdp_interface_read(&backend->interface, options->interface, failure);
	if (r == 0) {
		r = xdp_plan_depths(backend, options);
		r = r < 0 ? failure_no_memory(failure) : xdp_set_up(backend, failure);
	}
	if (r < 0) {
		xdp_close(&backend->base);
		return r;
	}
	xdp_log_open(backend);
	*out = &backend->base;
	return 0;
}

static uint64_t xdp_locked_bytes(const struct backend *base)
{
	const struct xdp_backend *backend = xdp_backend(base);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < backend->interface.n_card_queues; i++)
		bytes += (uint64_t)backend->card_queues[i].n_frames * backend->card_queues[i].frame_bytes;
	return bytes;
}

static void xdp_capabilities(const struct backend *base, struct backend_capabilities *capabilities)
{
	*capabilities = (struct backend_capabilities){
		.max_queue_slots = MAX_QUEUE_SLOTS,
		.max_group_queues = XDP_GROUP_MAX,
		.hashes_addresses = true,
		.oversize_sink = true,
		.counts_drops = true,
		.flow_tags = true,
		.naps = true,
		.max_send_slots = MAX_QUEUE_SLOTS,
		.send_priorities = true,
		.send_checksums = true,
		.timestamps = true,
		.clock_is_utc = true,
		.no_device_time = "AF_XDP gives packets the kernel's time of arrival: set backend = \"packet\", which "
				  "gives the card's if the card stamps all packets",
	};
	snprintf(capabilities->device, sizeof(capabilities->device), "%s", xdp_backend(base)->interface.name);
}

/* ---- a queue --------------------------------------------------------------------------------------- */

static int xdp_fd(const struct backend_queue *base)
{
	int fd = xdp_receive(base)->wake_fd;

	return fd >= 0 ? fd : -ENOTSUP;
}

static int xdp_reset(struct backend_queue *base)
{
	posted_rows_forget(&xdp_receive(base)->rows);
	backend_use_reset(&base->use);
	return 0;
}

static int xdp_create_send_queue(struct backend *base, const struct backend_send_options *options,
                                 struct backend_queue **queue, struct failure *failure)
{
	struct xdp_backend *backend = xdp_backend(base);
	const struct socket_send_device device = {.interface = backend->interface.name,
	                                          .index = (int)backend->interface.index,
	                                          .has_ethernet = true,
	                                          .discipline = &backend->discipline};

	return socket_send_new(&device, options, queue, failure);
}

/* ---- readings -------------------------------------------------------------------------------------- */

static int xdp_read_port(struct backend *base, struct backend_port_statistics *statistics)
{
	struct xdp_backend *backend = xdp_backend(base);

	xdp_follow_mtu(backend);
	xdp_follow_card_queues(backend);
	socket_discipline_follow(&backend->discipline, backend->interface.name, (int)backend->interface.index);
	/* The interface's own state says whether there is a link. */
	*statistics = (struct backend_port_statistics){.port_active = true};
	return 0;
}

static int xdp_read_clock(struct backend *, struct backend_clock_reading *reading)
{
	*reading = (struct backend_clock_reading){.raw = time_utc_ns()};
	return 0;
}

static const struct backend_privilege xdp_privileges[] = {
	{CAP_NET_RAW, .required = true, .purpose = "to open AF_XDP sockets"},
	{CAP_NET_ADMIN, .required = true, .at_start = true, .purpose = "to make an XDP program"},
	{CAP_BPF, .required = true, .at_start = true, .purpose = "to make an XDP program"},
	/* Without it the kernel puts barriers against speculation into a program. */
	{CAP_PERFMON, .at_start = true, .purpose = "to look at packets in half the time"},
	{CAP_IPC_LOCK, .at_start = true, .purpose = "to lock more memory than RLIMIT_MEMLOCK allows"},
	{0},
};

const struct backend_ops xdp_backend_ops = {
	.name = "xdp",
	.privileges = xdp_privileges,
	.check_send_time = socket_check_send_time,
	.keeps_program = xdp_program_is_kept,
	.open = xdp_open,
	.close = xdp_close,
	.locked_bytes = xdp_locked_bytes,
	.capabilities = xdp_capabilities,
	.register_memory = kernel_path_register_memory,
	.unregister_memory = kernel_path_unregister_memory,
	.create_queue = xdp_create_queue,
	.destroy_queue = xdp_destroy_queue,
	.start = kernel_path_start,
	.post = xdp_post,
	.poll = xdp_poll,
	.fd = xdp_fd,
	.arm = xdp_arm,
	.clear = xdp_clear,
	.reset = xdp_reset,
	.create_send_queue = xdp_create_send_queue,
	.create_group = xdp_create_group,
	.add_flow = xdp_add_flow,
	.remove_flow = xdp_remove_flow,
	.read_matched = xdp_read_matched,
	.read_port = xdp_read_port,
	.read_refused = xdp_read_refused,
	.may_lose_uncounted = xdp_may_lose_uncounted,
	.read_clock = xdp_read_clock,
};
