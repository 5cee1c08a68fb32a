// SPDX-License-Identifier: Apache-2.0
/* Makes a queue and a flow with the daemon's own backend: if the device refuses them here, it refuses the daemon's. */
#include "tools/doctor/read.h"

#include "daemon/backend/choice/backends.h"
#include "lib/base/size.h"
#include "lib/base/time.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <unistd.h>

#define SLOTS        64
#define ROW_BYTES    64
#define MEMORY_BYTES (SLOTS * ROW_BYTES)
#define HEADER_BYTES 42
#define DISCARD_PORT 9

static int probe_flow(const struct backend_ops *ops, struct backend_queue *queue, struct failure *failure)
{
	/* 0.0.0.1 is no valid destination (RFC 1122, 3.2.1.3), so no packet matches and no program misses one. */
	struct flow_rule rule = {
		.family = AF_INET,
		.value = {.destination = {[3] = 1},
	                  .protocol = IPPROTO_UDP,
	                  .destination_port_be = htons(DISCARD_PORT)},
		.mask = FLOW_MASK_UDP_IPV4,
	};
	struct backend_flow *flow;
	int r = ops->start(queue);

	if (r < 0)
		return failure_set(failure, EX_UNAVAILABLE, -r, "the queue does not start: %s", strerror(-r));
	r = ops->add_flow(queue, &rule, &flow, failure);
	if (r == 0)
		ops->remove_flow(flow);
	return r;
}

static int probe_queue(const struct backend_ops *ops, struct backend *backend, struct backend_memory *memory,
                       const struct backend_capabilities *capabilities, struct failure *failure)
{
	const struct backend_queue_options options = {
		.payload = memory,
		.headers = memory,
		.slots = SLOTS,
		.header_bytes = HEADER_BYTES,
		.header_stride = ROW_BYTES,
		.slot_bytes = ROW_BYTES,
		.row_stride = ROW_BYTES,
		.oversize_sink = capabilities->oversize_sink,
		.timestamps = capabilities->timestamps,
		.completion_events = true,
	};
	struct backend_queue *queue;
	int r = ops->create_queue(backend, &options, &queue, failure);

	if (r < 0)
		return r;
	r = probe_flow(ops, queue, failure);
	ops->destroy_queue(queue);
	return r;
}

static int probe_memory(const struct backend_ops *ops, struct backend *backend,
                        const struct backend_capabilities *capabilities, struct failure *failure)
{
	void *bytes = aligned_alloc(SMALL_PAGE_BYTES, MEMORY_BYTES);
	struct backend_memory *memory;
	int r;

	if (!bytes)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	r = ops->register_memory(backend, bytes, MEMORY_BYTES, &memory, failure);
	if (r == 0) {
		r = probe_queue(ops, backend, memory, capabilities, failure);
		ops->unregister_memory(memory);
	}
	free(bytes);
	return r;
}

static void probe_clock(const struct backend_ops *ops, struct backend *backend, struct doctor_probe *probe)
{
	struct backend_clock_reading now;

	if (!probe->clock_hz || ops->read_clock(backend, &now) < 0)
		return;
	probe->clock_raw = now.raw;
	probe->clock_at_ns = time_utc_ns();
	probe->has_clock = true;
}

static void probe_interface(const char *interface, struct doctor_probe *probe)
{
	const struct backend_ops *ops = backend_find("verbs");
	const struct backend_open_options options = {.interface = interface};
	struct backend_capabilities capabilities;
	struct failure failure = {.exit_code = EX_SOFTWARE};
	struct backend *backend;
	int r = ops->open(&options, &backend, &failure);

	if (r == 0) {
		ops->capabilities(backend, &capabilities);
		probe->max_queue_slots = capabilities.max_queue_slots;
		probe->max_send_slots = capabilities.max_send_slots;
		probe->max_moderation_us = capabilities.max_moderation_us;
		probe->delay_drop = capabilities.delay_drop;
		probe->clock_hz = capabilities.clock_hz;
		probe_clock(ops, backend, probe);
		r = probe_memory(ops, backend, &capabilities, &failure);
		ops->close(backend);
	}
	probe->result = r == 0                           ? DOCTOR_PROBE_PASSED
	                : failure.exit_code == EX_NOPERM ? DOCTOR_PROBE_DENIED
	                                                 : DOCTOR_PROBE_FAILED;
	if (r < 0)
		snprintf(probe->reason, sizeof(probe->reason), "%.1000s", failure.text);
}

/* Probe the ports that have an Ethernet interface, until one fails. */
static void probe_device(struct doctor_device *device)
{
	for (unsigned int i = 0; i < device->n_ports; i++)
		if (*device->ports[i].netdev && strcmp(device->ports[i].link_layer, "Ethernet") == 0 &&
		    (device->probe.result == DOCTOR_NOT_PROBED || device->probe.result == DOCTOR_PROBE_PASSED))
			probe_interface(device->ports[i].netdev, &device->probe);
}

static bool has_net_raw(void)
{
	cap_flag_value_t value = CAP_CLEAR;
	cap_t capabilities = cap_get_proc();

	if (capabilities)
		cap_get_flag(capabilities, CAP_NET_RAW, CAP_EFFECTIVE, &value);
	cap_free(capabilities);
	return value == CAP_SET;
}

void doctor_probe_queues(struct doctor_facts *facts)
{
	bool may = has_net_raw();
	/* Only root sees whether processes of other users have a device open. */
	bool may_run = facts->process.kind == DOCTOR_DAEMON || facts->control.error == EACCES;
	bool is_hidden = may_run && geteuid() != 0;

	for (unsigned int i = 0; i < facts->n_devices; i++) {
		struct doctor_device *device = &facts->devices[i];

		if (device->n_users || is_hidden)
			device->probe.result = DOCTOR_PROBE_IN_USE;
		else if (!device->open_error && !may) {
			device->probe.result = DOCTOR_PROBE_DENIED;
			snprintf(device->probe.reason, sizeof(device->probe.reason), "not tried: it needs CAP_NET_RAW");
		} else if (!device->open_error)
			probe_device(device);
	}
}
