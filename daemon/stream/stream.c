// SPDX-License-Identifier: Apache-2.0
/*
 * A stream from its configuration to its last packet: checks, and the steps of all of its queues together. Flows and
 * groups are in stream_flows.c, log lines about losses in stream_losses.c.
 */
#include "daemon/stream/stream.h"

#include "daemon/base/log.h"
#include "daemon/base/numa.h"
#include "daemon/flow/flow.h"
#include "daemon/memory/geometry.h"
#include "lib/base/min.h"
#include "lib/base/size.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"
#include "lib/status/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the configuration asks for ------------------------------------------------------------- */

int stream_check_mtu(const struct config_stream *config, uint32_t mtu, struct failure *failure)
{
	uint32_t packet_bytes = geometry_packet_bytes(config), over = packet_bytes > mtu ? packet_bytes - mtu : 0;

	if (over == 0 || geometry_reassembles(config, mtu))
		return 0;
	return failure_set(
		failure, EX_CONFIG, EMSGSIZE,
		"%s:%d: stream '%s': payload_size %u makes IP packets of %u bytes, over the MTU %u of interface %s; "
		"set payload_size to at most %u, or reassemble = \"auto\" if they come in fragments, or: ip link set "
		"dev %s mtu %u",
		config->file, config->line, config->name, config->payload_size, packet_bytes, mtu, config->interface,
		config->payload_size > over ? config->payload_size - over : 0, config->interface, packet_bytes);
}

int stream_init(struct stream *stream, const struct config_stream *config, struct interface *interface,
                struct failure *failure)
{
	int r = stream_check_mtu(config, interface->net.mtu, failure);

	*stream =
		(struct stream){.service.name = config->name, .config = config, .interface = interface, .lent_fd = -1};
	if (r < 0)
		return r;
	stream->queues = calloc(config->queues, sizeof(*stream->queues));
	if (!stream->queues)
		return failure_set(failure, EX_OSERR, ENOMEM, "stream '%s': out of memory", config->name);
	stream->n_queues = config->queues;
	stream->reassembles = geometry_reassembles(config, interface->net.mtu);
	for (uint32_t i = 0; i < stream->n_queues; i++)
		stream_queue_init(&stream->queues[i], stream, i);
	return 0;
}

int stream_lend(struct stream *stream, int dmabuf, uint64_t offset)
{
	stream->lent_fd = fcntl(dmabuf, F_DUPFD_CLOEXEC, 0);
	stream->lent_offset = offset;
	return stream->lent_fd < 0 ? -errno : 0;
}

uint64_t stream_ring_bytes(const struct stream *stream)
{
	bool copies = !stream->interface->ops->pins_memory;
	uint64_t bytes = geometry_ring_bytes(stream->config, copies);
	uint32_t frame_bytes = geometry_reassembled_frame_bytes(stream->interface->net.mtu);

	if (stream->reassembles)
		bytes +=
			stream->n_queues * reassembly_bytes(geometry_posted_slots(stream->config, copies), frame_bytes);
	return bytes;
}

uint64_t stream_kernel_bytes(const struct stream *stream)
{
	const struct config_stream *config = stream->config;
	const struct backend_ops *ops = stream->interface->ops;

	if (!ops->kernel_bytes)
		return 0;
	return stream->n_queues * ops->kernel_bytes(config->receive_queue_slots,
	                                            geometry_received_bytes(config, stream->interface->net.mtu));
}

/* ---- preparing ----------------------------------------------------------------------------------- */

static int stream_refuse_clock(const struct config_stream *wanted, const char *device, const char *why,
                               struct failure *failure)
{
	return failure_set(failure, EX_CONFIG, ENOTSUP,
	                   "%s:%d: stream '%s': device %s gives packets no timestamps: %s; or set timestamps = "
	                   "\"auto\"",
	                   wanted->file, wanted->line, wanted->name, device, why);
}

int stream_check_clock_unopened(const struct config_stream *config, const struct interface *interface,
                                struct failure *failure)
{
	if (config->timestamps != CONFIG_TIMESTAMPS_HARDWARE || interface->ops->pins_memory ||
	    net_stamping_read(interface->name) != NET_STAMPING_NONE)
		return 0;
	return stream_refuse_clock(config, interface->name, NET_STAMPING_NONE_WHY, failure);
}

static int stream_check_clock(struct stream *stream, struct failure *failure)
{
	const struct config_stream *wanted = stream->config;
	const struct backend_capabilities *device = &stream->interface->capabilities;
	bool has_clock = stream->interface->has_clock;

	if (wanted->timestamps == CONFIG_TIMESTAMPS_HARDWARE && (!has_clock || device->no_device_time[0]))
		return stream_refuse_clock(wanted, device->device,
		                           has_clock ? device->no_device_time : "it has no clock to read", failure);
	stream->device_timestamps = wanted->timestamps != CONFIG_TIMESTAMPS_SOFTWARE && has_clock;
	if (wanted->timestamps == CONFIG_TIMESTAMPS_AUTO && !has_clock)
		log_message(LOG_WARNING, &(struct log_about){.stream = wanted->name, .interface = wanted->interface},
		            "stream '%s': device %s has no clock to read: timestamps are taken when packets are polled",
		            wanted->name, device->device);
	return 0;
}

static int stream_check_group(const struct config_stream *wanted, const struct backend_capabilities *device,
                              struct failure *failure)
{
	if (wanted->queues > 1 && wanted->queues > device->max_group_queues)
		return failure_set(failure, EX_CONFIG, ENOTSUP,
		                   "%s:%d: stream '%s': queues = %u: device %s shares packets out to %u at most",
		                   wanted->file, wanted->line, wanted->name, wanted->queues, device->device,
		                   device->max_group_queues ? device->max_group_queues : 1);
	if (wanted->queues > 1 && wanted->hash_fields != CONFIG_HASH_PORTS && !device->hashes_addresses)
		return failure_set(failure, EX_CONFIG, ENOTSUP,
		                   "%s:%d: stream '%s': hash_fields without ports: device %s always hashes them, too; "
		                   "set hash_fields = \"ports\"",
		                   wanted->file, wanted->line, wanted->name, device->device);
	return 0;
}

int stream_fit(struct stream *stream, struct failure *failure)
{
	const struct config_stream *wanted = stream->config;
	const struct backend_capabilities *device = &stream->interface->capabilities;
	int r;

	if (wanted->receive_queue_slots > device->max_queue_slots)
		return failure_set(
			failure, EX_CONFIG, EINVAL,
			"%s:%d: stream '%s': receive_queue_slots %u is more than device %s takes: at most %u",
			wanted->file, wanted->line, wanted->name, wanted->receive_queue_slots, device->device,
			device->max_queue_slots);
	r = stream_check_group(wanted, device, failure);
	if (r == 0)
		r = stream_check_offloads(stream, failure);
	if (r < 0)
		return r;
	if (wanted->flow_numbers && !device->flow_tags)
		return failure_set(failure, EX_CONFIG, ENOTSUP,
		                   "%s:%d: stream '%s': device %s does not say which flow a packet matched: set "
		                   "flow_numbers = false, and give each flow a stream of its own",
		                   wanted->file, wanted->line, wanted->name, device->device);
	if (!device->oversize_sink)
		log_message(
			LOG_WARNING, &(struct log_about){.stream = wanted->name, .interface = wanted->interface},
			"stream '%s': device %s has no oversize sink: packets longer than payload_size will be errors, "
			"not truncated rows",
			wanted->name, device->device);
	return stream_check_clock(stream, failure);
}

static void stream_log_ring(const struct stream *stream)
{
	const struct config_stream *config = stream->config;
	const struct rx_ring *ring = &stream->queues[0].ring;
	uint64_t kernel_bytes = stream_kernel_bytes(stream) / stream->n_queues;
	char node[32] = "", kernel[48] = "";

	if (kernel_bytes)
		snprintf(kernel, sizeof(kernel), ", and %llu MiB of the kernel",
		         (unsigned long long)(kernel_bytes >> 20));
	if (stream->interface->numa_node != NUMA_ANY)
		snprintf(node, sizeof(node), ", NUMA node %d", stream->interface->numa_node);
	log_message(LOG_INFO, &(struct log_about){.stream = config->name, .interface = config->interface},
	            "stream '%s': interface %s%s%s, device %s: %u blocks of %u slots of %u bytes in %u kB pages (%llu "
	            "MiB%s), "
	            "receive queue %u%s",
	            config->name, config->interface, config->interface_alias[0] ? ", that is " : "",
	            config->interface_alias, stream->interface->capabilities.device, ring->n_blocks,
	            ring->slots_per_block, ring->slot_bytes, config->page_bytes / 1024,
	            (unsigned long long)((ring->payload.bytes + ring->headers.bytes) >> 20), kernel,
	            config->receive_queue_slots, node);
	if (stream->n_queues > 1)
		log_message(LOG_INFO, &(struct log_about){.stream = config->name, .interface = config->interface},
		            "stream '%s': %u queues, each with such a ring and a worker", config->name,
		            stream->n_queues);
	if (stream->reassembles)
		log_message(LOG_INFO, &(struct log_about){.stream = config->name, .interface = config->interface},
		            "stream '%s': IP fragments are joined to datagrams of up to %u bytes (reassemble)",
		            config->name, config->payload_size);
	if (stream->offloads[0])
		log_message(LOG_INFO, &(struct log_about){.stream = config->name, .interface = config->interface},
		            "stream '%s': %s", config->name, stream->offloads);
	if (config->page_bytes == SMALL_PAGE_BYTES)
		log_message(
			LOG_WARNING, &(struct log_about){.stream = config->name},
			"stream '%s': its ring is in 4 kB pages (page_size): expect the device to be slower than with "
			"2 MB pages",
			config->name);
}

static int stream_create_group(struct stream *stream, struct failure *failure)
{
	static const uint32_t fields[] = {
		[CONFIG_HASH_PORTS] = BACKEND_HASH_SOURCE | BACKEND_HASH_DESTINATION | BACKEND_HASH_PORTS,
		[CONFIG_HASH_ADDRESSES] = BACKEND_HASH_SOURCE | BACKEND_HASH_DESTINATION,
		[CONFIG_HASH_SOURCE] = BACKEND_HASH_SOURCE,
		[CONFIG_HASH_DESTINATION] = BACKEND_HASH_DESTINATION,
	};
	const struct config_stream *config = stream->config;
	const struct interface *interface = stream->interface;
	struct backend_queue *queues[CONFIG_QUEUES_MAX];
	const struct backend_group_options options = {
		.queues = queues,
		.n_queues = stream->n_queues,
		.hash = config->hash == CONFIG_HASH_TOEPLITZ ? BACKEND_HASH_TOEPLITZ : BACKEND_HASH_SYMMETRIC,
		.fields = fields[config->hash_fields],
	};

	for (uint32_t i = 0; i < stream->n_queues; i++)
		queues[i] = stream->queues[i].queue;
	return interface->ops->create_group(interface->backend, &options, &stream->group, failure);
}

/* The reverse of stream_prepare(), in any state of it. */
static void stream_release(struct stream *stream)
{
	if (stream->group)
		stream->group->ops->destroy_queue(stream->group);
	stream->group = NULL;
	for (uint32_t i = 0; i < stream->n_queues; i++)
		stream_queue_release(&stream->queues[i]);
}

int stream_prepare(struct stream *stream, uint64_t epoch, struct failure *failure)
{
	int r = 0;

	losses_init(&stream->losses.sum, stream->n_queues, stream->config->receive_queue_slots,
	            stream->interface->capabilities.counts_drops, stream->reassembles,
	            u64_max(stream->interface->capabilities.settle_ns, LOSSES_DRAIN_NS_MIN));
	for (uint32_t i = 0; i < stream->n_queues && r == 0; i++)
		r = stream_queue_prepare(&stream->queues[i], epoch, failure);
	if (r == 0 && stream->n_queues > 1)
		r = stream_create_group(stream, failure);
	if (r < 0) {
		stream_release(stream);
		return r;
	}
	stream_describe_offloads(stream, stream->offloads);
	stream_log_ring(stream);
	return 0;
}

/* ---- starting ------------------------------------------------------------------------------------ */

void stream_set_clock(struct stream *stream)
{
	for (uint32_t i = 0; i < stream->n_queues; i++)
		stream_queue_set_clock(&stream->queues[i]);
}

int stream_start(struct stream *stream, struct failure *failure)
{
	int r = 0;

	for (uint32_t i = 0; i < stream->n_queues && r == 0; i++)
		r = stream_queue_start(&stream->queues[i], failure);
	return r;
}

/* ---- stopping ------------------------------------------------------------------------------------ */

void stream_stop(struct stream *stream)
{
	struct mail matched = {.type = MAIL_MATCHED, .at_ns = time_utc_ns(), .read_ns = time_monotonic_ns()};
	bool is_read;

	if (stream->stopping || !stream->n_queues || !stream->queues[0].worker_runs)
		return;
	stream->stopping = true;
	reading_close(&stream->matched, NULL, NULL); /* the next one is the newest that the workers get */
	is_read = !stream->interface->is_abandoned && stream_read_matched(stream, &matched.matched) == 0;
	for (uint32_t i = 0; i < stream->n_queues; i++)
		stream_queue_stop(&stream->queues[i], is_read ? &matched : NULL);
}

uint64_t stream_count(const struct stream *stream, enum ibvcap_rx_counter counter)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < stream->n_queues; i++)
		sum += counter_get(&stream->queues[i].ring.ring->counters[counter]);
	return sum;
}

static void stream_log_sum(const struct stream *stream)
{
	const struct log_counter sum[] = {
		{stream_counters[IBVCAP_RX_COUNTER_MATCHED].name, stream->losses.sum.matched},
		{stream_counters[IBVCAP_RX_COUNTER_PUBLISHED].name, stream_count(stream, IBVCAP_RX_COUNTER_PUBLISHED)},
		{stream_counters[IBVCAP_RX_COUNTER_NO_BUFFER].name, counter_get(&stream->losses.sum.no_buffer)},
		{stream_counters[IBVCAP_RX_COUNTER_ERRORED].name, stream_count(stream, IBVCAP_RX_COUNTER_ERRORED)},
		{stream_counters[IBVCAP_RX_COUNTER_JOINED].name, stream_count(stream, IBVCAP_RX_COUNTER_JOINED)},
		{stream_counters[IBVCAP_RX_COUNTER_AMBIGUOUS].name, stream_count(stream, IBVCAP_RX_COUNTER_AMBIGUOUS)},
	};
	char joined[80] = "";
	const struct log_about about = {.event = LOG_EVENT_STREAM_ENDED,
	                                .stream = stream->config->name,
	                                .interface = stream->config->interface,
	                                .counters = sum,
	                                .n_counters = sizeof(sum) / sizeof(sum[0])};

	if (stream->reassembles)
		snprintf(joined, sizeof(joined), " + joined %" PRIu64 " + ambiguous %" PRIu64, sum[4].value,
		         sum[5].value);
	log_message(LOG_INFO, &about,
	            "stream '%s': ended: matched %" PRIu64 " = published %" PRIu64 " + no_buffer %" PRIu64
	            " + errored %" PRIu64 "%s",
	            stream->config->name, sum[0].value, sum[1].value, sum[2].value, sum[3].value, joined);
}

void stream_join(struct stream *stream)
{
	bool ran = false;

	for (uint32_t i = 0; i < stream->n_queues; i++)
		ran |= stream_queue_join(&stream->queues[i]);
	if (!ran)
		return;
	rx_losses_update(&stream->losses);
	stream_log_sum(stream);
}

bool stream_note_ended(struct stream *stream, uint32_t queue, int error)
{
	stream->queues[queue].ended = true;
	stream->queues[queue].failed = error < 0;
	if (error < 0 && stream->n_queues > 1)
		log_message(LOG_ERR,
		            &(struct log_about){.event = LOG_EVENT_DEVICE,
		                                .stream = stream->config->name,
		                                .interface = stream->config->interface},
		            "stream '%s': queue %u on device %s failed: %s; its packets are lost, and counted as "
		            "no_buffer, until the daemon is started again: systemctl restart ibvcapd",
		            stream->config->name, queue, stream->interface->capabilities.device, strerror(-error));
	for (uint32_t i = 0; i < stream->n_queues; i++)
		if (!stream->queues[i].ended)
			return false;
	return true;
}

void stream_deinit(struct stream *stream)
{
	stream_leave(stream);
	stream_release(stream);
	if (stream->lent_fd >= 0)
		close(stream->lent_fd);
	free(stream->queues);
	stream->queues = NULL;
	stream->n_queues = 0;
}

static int stream_add_matched(struct backend_queue *target, uint64_t *packets)
{
	uint64_t matched = 0;
	int r = target->ops->read_matched(target, &matched);

	*packets += matched;
	return r;
}

int stream_read_matched(void *context, uint64_t *packets)
{
	const struct stream *stream = context;
	int r;

	*packets = 0;
	r = stream->group ? stream_add_matched(stream->group, packets) : 0;
	for (uint32_t i = 0; i < stream->n_queues && r == 0; i++)
		r = stream_add_matched(stream->queues[i].queue, packets);
	return r;
}
