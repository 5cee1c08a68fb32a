// SPDX-License-Identifier: Apache-2.0
/*
 * A stream from its configuration to its last packet: checks, memory, registration, queue and worker. Flows and
 * groups are in stream_flows.c, log lines about losses in stream_losses.c.
 */
#include "daemon/stream/stream.h"

#include "daemon/base/log.h"
#include "daemon/base/size.h"
#include "daemon/base/time.h"
#include "daemon/flow/flow.h"
#include "daemon/stream/geometry.h"
#include "lib/ibvcap/counters.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IPV4_UDP_BYTES 28
#define IPV6_UDP_BYTES 48

/* ---- what the configuration asks for ------------------------------------------------------------- */

static bool stream_is_ipv6(const struct config_stream *config)
{
	return config->flows[0].destination.family == AF_INET6;
}

int stream_check_mtu(const struct config_stream *config, uint32_t mtu, struct failure *failure)
{
	uint32_t headers = stream_is_ipv6(config) ? IPV6_UDP_BYTES : IPV4_UDP_BYTES;

	if (config->payload_size + headers <= mtu)
		return 0;
	return failure_set(
		failure, EX_CONFIG, EMSGSIZE,
		"%s:%d: stream '%s': payload_size %u with %u bytes of IP and UDP headers is over the MTU %u of "
		"interface %s; set payload_size to at most %u, or: ip link set dev %s mtu %u",
		config->file, config->line, config->name, config->payload_size, headers, mtu, config->interface,
		mtu > headers ? mtu - headers : 0, config->interface, config->payload_size + headers);
}

int stream_init(struct stream *stream, const struct config_stream *config, struct interface *interface,
                struct failure *failure)
{
	*stream = (struct stream)STREAM_INIT;
	stream->service.name = config->name;
	stream->config = config;
	stream->interface = interface;
	return stream_check_mtu(config, interface->net.mtu, failure);
}

uint64_t stream_ring_bytes(const struct stream *stream)
{
	return geometry_ring_bytes(stream->config);
}

/* ---- preparing ----------------------------------------------------------------------------------- */

int stream_fit(struct stream *stream, struct failure *failure)
{
	const struct config_stream *wanted = stream->config;
	const struct backend_capabilities *device = &stream->interface->capabilities;

	if (wanted->receive_queue_slots > device->max_queue_slots)
		return failure_set(
			failure, EX_CONFIG, EINVAL,
			"%s:%d: stream '%s': receive_queue_slots %u is more than device %s takes: at most %u",
			wanted->file, wanted->line, wanted->name, wanted->receive_queue_slots, device->device,
			device->max_queue_slots);
	stream->oversize_sink = wanted->oversize_sink && device->oversize_sink;
	if (wanted->oversize_sink && !device->oversize_sink)
		log_message(
			LOG_WARNING, &(struct log_about){.stream = wanted->name, .interface = wanted->interface},
			"stream '%s': device %s has no oversize sink: packets longer than payload_size will be errors, "
			"not truncated rows",
			wanted->name, device->device);
	stream->device_timestamps = wanted->timestamps && stream->interface->has_clock;
	if (wanted->timestamps && !stream->device_timestamps)
		log_message(LOG_WARNING, &(struct log_about){.stream = wanted->name, .interface = wanted->interface},
		            "stream '%s': device %s has no clock to read: timestamps are taken when packets are polled",
		            wanted->name, device->device);
	return 0;
}

static int stream_register_ring(struct stream *stream, struct failure *failure)
{
	const struct backend_ops *ops = stream->interface->ops;
	struct backend *backend = stream->interface->backend;
	struct rx_ring *ring = &stream->ring;
	int r = ops->register_memory(backend, ring->payload.address, ring->payload.bytes, &stream->payload, failure);

	if (r < 0)
		return r;
	r = ops->register_memory(backend, ring->headers.address, ring->headers.bytes, &stream->headers, failure);
	if (r < 0)
		return r;
	return rx_ring_seal(ring, failure);
}

static int stream_create_queue(struct stream *stream, struct failure *failure)
{
	const struct config_stream *config = stream->config;
	const struct backend_queue_options options = {
		.payload = stream->payload,
		.headers = stream->headers,
		.slots = config->receive_queue_slots,
		.header_bytes = stream->ring.header_bytes,
		.header_stride = stream->ring.header_stride,
		.slot_bytes = config->payload_size,
		.oversize_sink = stream->oversize_sink,
		.timestamps = stream->device_timestamps,
		.completion_events = config->poll != CONFIG_POLL_BUSY,
	};

	return stream->interface->ops->create_queue(stream->interface->backend, &options, &stream->queue, failure);
}

static uint64_t stream_spin_ns(const struct stream *stream)
{
	const struct config_stream *config = stream->config;

	if (stream->interface->capabilities.in_blocks && config->poll == CONFIG_POLL_ADAPTIVE)
		return 0;
	return config_spin_ns(config->poll, config->spin_us);
}

static int stream_create_worker(struct stream *stream, struct failure *failure)
{
	const struct config_stream *config = stream->config;
	const struct rx_worker_options options = {
		.name = config->name,
		.queue = stream->queue,
		.ring = &stream->ring,
		.receive_queue_slots = config->receive_queue_slots,
		.spin_ns = stream_spin_ns(stream),
		.cpu = config->cpu,
		.device_timestamps = stream->device_timestamps,
		.settle_ns = stream->interface->capabilities.settle_ns,
		.counts_drops = stream->interface->capabilities.counts_drops,
	};
	int r = rx_worker_new(&stream->worker, &options);

	if (r == 0)
		r = rx_worker_prime(stream->worker);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "stream '%s': its worker cannot be made ready: %s",
		                   config->name, strerror(-r));
	return 0;
}

static void stream_log_ring(const struct stream *stream)
{
	const struct config_stream *config = stream->config;
	const struct rx_ring *ring = &stream->ring;

	log_message(
		LOG_INFO, &(struct log_about){.stream = config->name, .interface = config->interface},
		"stream '%s': interface %s, device %s: %u blocks of %u slots of %u bytes in %u kB pages (%llu MiB), "
		"receive queue %u",
		config->name, config->interface, stream->interface->capabilities.device, ring->n_blocks,
		ring->slots_per_block, ring->slot_bytes, config->page_bytes / 1024,
		(unsigned long long)((ring->payload.bytes + ring->headers.bytes) >> 20), config->receive_queue_slots);
	if (config->page_bytes == SMALL_PAGE_BYTES)
		log_message(
			LOG_WARNING, &(struct log_about){.stream = config->name},
			"stream '%s': its ring is in 4 kB pages (page_size): expect the device to be slower than with "
			"2 MB pages",
			config->name);
}

/* The reverse of stream_prepare(), in any state of it. */
static void stream_release(struct stream *stream)
{
	rx_worker_free(stream->worker);
	stream->worker = NULL;
	if (stream->queue)
		stream->queue->ops->destroy_queue(stream->queue);
	stream->queue = NULL;
	if (stream->headers)
		stream->interface->ops->unregister_memory(stream->headers);
	stream->headers = NULL;
	if (stream->payload)
		stream->interface->ops->unregister_memory(stream->payload);
	stream->payload = NULL;
	rx_ring_deinit(&stream->ring);
}

int stream_prepare(struct stream *stream, uint64_t epoch, struct failure *failure)
{
	const struct rx_ring_options options = geometry_of_ring(stream->config, epoch);
	int r = rx_ring_init(&stream->ring, &options, failure);

	if (r == 0)
		r = stream_register_ring(stream, failure);
	if (r == 0)
		r = stream_create_queue(stream, failure);
	if (r == 0)
		r = stream_create_worker(stream, failure);
	if (r == 0)
		stream_log_ring(stream);
	else
		stream_release(stream);
	return r;
}

/* ---- starting ------------------------------------------------------------------------------------ */

void stream_set_clock(struct stream *stream)
{
	struct mail mail = {.type = MAIL_CLOCK, .clock = stream->interface->line};
	uint64_t error_ns = mail.clock.error_ns, before_ns = stream->clock_error_ns;

	if (!stream->device_timestamps) {
		daemon_store_clock(stream->ring.ring, IBVCAP_CLOCK_SOURCE_SOFTWARE, 0);
		return;
	}
	/*
	 * The worker takes the line up a little later, and not before the next renewal if the mailbox is full: a bound
	 * that is smaller is published one renewal later.
	 */
	if (mailbox_send(rx_worker_inbox(stream->worker), &mail) == 0)
		stream->clock_error_ns = error_ns;
	daemon_store_clock(stream->ring.ring,
	                   stream->interface->capabilities.clock_is_utc ? IBVCAP_CLOCK_SOURCE_KERNEL
	                                                                : IBVCAP_CLOCK_SOURCE_DEVICE,
	                   error_ns > before_ns ? error_ns : before_ns);
}

int stream_start(struct stream *stream, struct failure *failure)
{
	const char *name = stream->config->name;
	int r = stream->queue->ops->start(stream->queue);

	if (r < 0)
		return failure_set(failure, EX_UNAVAILABLE, -r, "stream '%s': device %s does not start its queue: %s",
		                   name, stream->interface->capabilities.device, strerror(-r));
	stream_set_clock(stream);
	r = rx_worker_start(stream->worker);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "stream '%s': no thread for its worker (cpu = %d): %s", name,
		                   stream->config->cpu, strerror(-r));
	stream->worker_runs = true;
	return 0;
}

/* ---- stopping ------------------------------------------------------------------------------------ */

void stream_stop(struct stream *stream)
{
	struct mail matched = {.type = MAIL_MATCHED, .at_ns = time_utc_ns()};
	struct mail stop = {.type = MAIL_STOP};

	if (!stream->worker_runs || stream->stopping)
		return;
	stream->stopping = true;
	reading_close(&stream->matched, NULL, NULL); /* the next one is the newest that the worker gets */
	if (stream->interface->is_abandoned)
		stop.error = -EIO;
	else if (stream_read_matched(stream, &matched.matched) == 0)
		mailbox_send_last(rx_worker_inbox(stream->worker), &matched);
	mailbox_send_last(rx_worker_inbox(stream->worker), &stop);
}

static void stream_log_sum(const struct stream *stream)
{
	static const enum ibvcap_rx_counter told[] = {IBVCAP_RX_COUNTER_MATCHED, IBVCAP_RX_COUNTER_PUBLISHED,
	                                              IBVCAP_RX_COUNTER_NO_BUFFER, IBVCAP_RX_COUNTER_ERRORED};
	struct log_counter sum[sizeof(told) / sizeof(told[0])];
	const struct log_about about = {.event = LOG_EVENT_STREAM_ENDED,
	                                .stream = stream->config->name,
	                                .interface = stream->config->interface,
	                                .counters = sum,
	                                .n_counters = sizeof(told) / sizeof(told[0])};

	for (unsigned i = 0; i < about.n_counters; i++)
		sum[i] = (struct log_counter){rx_counter_labels[told[i]],
		                              counter_get(&stream->ring.ring->counters[told[i]])};
	log_message(LOG_INFO, &about,
	            "stream '%s': ended: matched %" PRIu64 " = published %" PRIu64 " + no_buffer %" PRIu64
	            " + errored %" PRIu64,
	            stream->config->name, sum[0].value, sum[1].value, sum[2].value, sum[3].value);
}

void stream_join(struct stream *stream)
{
	if (!stream->worker_runs)
		return;
	rx_worker_join(stream->worker);
	stream->worker_runs = false;
	stream_log_sum(stream);
}

void stream_deinit(struct stream *stream)
{
	stream_leave(stream);
	stream_release(stream);
}

int stream_read_matched(void *context, uint64_t *packets)
{
	const struct stream *stream = context;

	return stream->queue->ops->read_matched(stream->queue, packets);
}
