// SPDX-License-Identifier: Apache-2.0
/* One queue of a stream: memory, registration, the device's queue, and its worker from its start to its end. */
#include "daemon/stream/stream_queue.h"

#include "daemon/base/log.h"
#include "daemon/base/numa.h"
#include "daemon/clock/sensor_time.h"
#include "daemon/memory/geometry.h"
#include "daemon/ring/rx_peek.h"
#include "daemon/stream/stream.h"
#include "daemon/worker/rx_crew.h"
#include "daemon/worker/rx_loop.h"
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A look once a second, which the control thread's timer may bring a little early. */
#define SENSOR_EARLY_NS (TIME_SECOND_NS / 10)

void stream_queue_init(struct stream_queue *queue, struct stream *stream, uint32_t index)
{
	*queue = (struct stream_queue){
		.stream = stream,
		.index = index,
		.ring = {.payload = SHM_INIT, .headers = SHM_INIT, .ring_shm = SHM_INIT},
	};
}

/* ---- preparing ----------------------------------------------------------------------------------- */

/* The registration holds the memory: no descriptor of it is kept. */
static int stream_queue_register_lent(struct stream_queue *queue, struct failure *failure)
{
	struct stream *stream = queue->stream;
	const struct backend_dmabuf dmabuf = {.fd = stream->lent_fd,
	                                      .offset = stream->lent_offset,
	                                      .address = queue->ring.payload.address,
	                                      .bytes = queue->ring.payload.bytes};
	int r = stream->interface->ops->register_dmabuf(stream->interface->backend, &dmabuf, &queue->payload, failure);

	close(stream->lent_fd);
	stream->lent_fd = -1;
	return r;
}

static int stream_queue_register_ring(struct stream_queue *queue, struct failure *failure)
{
	const struct backend_ops *ops = queue->stream->interface->ops;
	struct backend *backend = queue->stream->interface->backend;
	struct rx_ring *ring = &queue->ring;
	int r = queue->stream->config->payload_is_lent
	                ? stream_queue_register_lent(queue, failure)
	                : ops->register_memory(backend, ring->payload.address, ring->payload.bytes, &queue->payload,
	                                       failure);

	if (r < 0)
		return r;
	r = ops->register_memory(backend, ring->headers.address, ring->headers.bytes, &queue->headers, failure);
	if (r < 0)
		return r;
	return rx_ring_seal(ring, failure);
}

static int stream_queue_create_reassembly(struct stream_queue *queue, const struct backend_queue_options *rows,
                                          struct failure *failure)
{
	const struct interface *interface = queue->stream->interface;
	const struct reassembly_options options = {
		.ops = interface->ops,
		.backend = interface->backend,
		.rows = *rows,
		.n_frames = queue->ring.posted_slots,
		.frame_bytes = geometry_reassembled_frame_bytes(interface->net.mtu),
		.waits_for_rows = interface->capabilities.counts_drops,
		.counters = queue->ring.ring->counters,
	};
	int r = reassembly_new(&options, &queue->reassembly, failure);

	if (r == 0)
		queue->queue = reassembly_device_queue(queue->reassembly);
	return r;
}

static bool stream_copies(const struct config_stream *config)
{
	for (uint32_t i = 0; i < config->n_flows; i++)
		if (config->flows[i].copy)
			return true;
	return false;
}

static int stream_queue_create(struct stream_queue *queue, struct failure *failure)
{
	const struct stream *stream = queue->stream;
	const struct config_stream *config = stream->config;
	const struct backend_queue_options options = {
		.payload = queue->payload,
		.headers = queue->headers,
		.slots = config->receive_queue_slots,
		.header_bytes = queue->ring.header_bytes,
		.header_stride = queue->ring.header_stride,
		.slot_bytes = queue->ring.slot_bytes,
		.row_stride = queue->ring.row_stride,
		.flow_tags = config->flow_numbers,
		.oversize_sink = stream->interface->capabilities.oversize_sink,
		.timestamps = stream->device_timestamps,
		.completion_events = config->poll != CONFIG_POLL_BUSY,
		.in_group = stream->n_queues > 1,
		.copies = stream_copies(config),
		.checksums = config->verify_checksums,
		.moderation_us = config->moderation_us,
		.delay_drop = config->delay_drop,
	};

	if (stream->reassembles)
		return stream_queue_create_reassembly(queue, &options, failure);
	return stream->interface->ops->create_queue(stream->interface->backend, &options, &queue->queue, failure);
}

static int stream_queue_create_worker(struct stream_queue *queue, struct failure *failure)
{
	struct stream *stream = queue->stream;
	const struct config_stream *config = stream->config;
	bool naps = stream->interface->capabilities.naps && config->poll == CONFIG_POLL_ADAPTIVE;
	char name[32];
	const struct rx_worker_options options = {
		.worker.name = name,
		.queue = queue->reassembly ? reassembly_queue(queue->reassembly) : queue->queue,
		.ring = &queue->ring,
		.worker.spin_ns = naps ? 0 : config_spin_ns(config->poll, config->spin_us),
		.naps = naps,
		.worker.cpu = config_queue_cpu(config, queue->index),
		.worker.node = stream->interface->numa_node,
		.device_timestamps = stream->device_timestamps,
		.verify_checksums = config->verify_checksums,
		.kernel_times = stream->device_timestamps && stream->interface->capabilities.kernel_times,
		.losses = &stream->losses.sum.queues[queue->index],
	};
	int r;

	/* The name of a thread has 15 characters: with several queues, the number of the queue is among them. */
	if (stream->n_queues == 1)
		snprintf(name, sizeof(name), "%.15s", config->name);
	else
		snprintf(name, sizeof(name), "%.12s:%u", config->name, queue->index);
	rx_losses_add_queue(&stream->losses, queue->index, queue->ring.ring,
	                    &(queue->queue->device ? queue->queue->device : queue->queue)->n_split);
	r = rx_worker_new(&queue->worker, &options);
	if (r == 0)
		r = rx_worker_prime(queue->worker);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "stream '%s': its worker cannot be made ready: %s",
		                   config->name, strerror(-r));
	return 0;
}

/* The last pages are the first that a node has no more of. */
static void stream_queue_check_node(const struct stream_queue *queue)
{
	const struct config_stream *config = queue->stream->config;
	int32_t wanted = queue->stream->interface->numa_node;
	const struct shm *payload = &queue->ring.payload;
	int32_t node = numa_node_of_page((const uint8_t *)payload->address + payload->bytes - 1);

	if (wanted == NUMA_ANY || node == NUMA_ANY || node == wanted)
		return;
	log_message(
		LOG_WARNING, &(struct log_about){.stream = config->name, .interface = config->interface},
		"stream '%s': a part of its ring is on NUMA node %d, and its device %s on node %d, which had no more "
		"pages of %u kB: each packet crosses the link between the nodes; ibvcap doctor shows the pages of "
		"each node, and how to get more",
		config->name, node, queue->stream->interface->capabilities.device, wanted, config->page_bytes / 1024);
}

static int stream_queue_prepare_near(struct stream_queue *queue, uint64_t epoch, struct failure *failure)
{
	const struct rx_ring_options options = geometry_of_ring(
		queue->stream->config, !queue->stream->interface->ops->pins_memory, queue->index, epoch);
	int r = rx_ring_init(&queue->ring, &options, failure);

	if (r < 0)
		return r;
	stream_queue_check_node(queue);
	r = stream_queue_register_ring(queue, failure);
	if (r == 0)
		r = stream_queue_create(queue, failure);
	return r == 0 ? stream_queue_create_worker(queue, failure) : r;
}

int stream_queue_prepare(struct stream_queue *queue, uint64_t epoch, struct failure *failure)
{
	bool is_near = numa_begin(queue->stream->interface->numa_node);
	int r = stream_queue_prepare_near(queue, epoch, failure);

	numa_end(is_near);
	return r;
}

void stream_queue_release(struct stream_queue *queue)
{
	const struct backend_ops *ops = queue->stream->interface->ops;

	rx_worker_free(queue->worker);
	queue->worker = NULL;
	if (queue->reassembly)
		reassembly_free(queue->reassembly);
	else if (queue->queue)
		queue->queue->ops->destroy_queue(queue->queue);
	queue->reassembly = NULL;
	queue->queue = NULL;
	if (queue->headers)
		ops->unregister_memory(queue->headers);
	queue->headers = NULL;
	if (queue->payload)
		ops->unregister_memory(queue->payload);
	queue->payload = NULL;
	rx_ring_deinit(&queue->ring);
}

/* ---- running ------------------------------------------------------------------------------------- */

/* Of stamps that the worker takes of CLOCK_REALTIME: they are later than their packets, nobody knows how much. */
static struct status_clock stream_system_clock(const struct interface *interface)
{
	const struct system_clock *system = &interface->system_clock;

	return (struct status_clock){
		.clock_source = IBVCAP_CLOCK_SOURCE_SOFTWARE,
		.system_clock = !system->is_known         ? IBVCAP_SYSTEM_CLOCK_UNKNOWN
	                        : system->is_synchronised ? IBVCAP_SYSTEM_CLOCK_SYNCHRONISED
	                                                  : IBVCAP_SYSTEM_CLOCK_UNSYNCHRONISED,
		.clock_error_ns = IBVCAP_NOT_KNOWN,
		.clock_delay_ns = IBVCAP_NOT_KNOWN,
		.system_clock_error_ns = system->is_synchronised ? system->max_error_us * 1000 : IBVCAP_NOT_KNOWN,
		.tai_offset_s = system->tai_offset_s > 0 ? system->tai_offset_s : -1,
		.clock_drift_ppb = -1,
	};
}

static enum ibvcap_clock_source stream_clock_source(const struct interface *interface)
{
	const struct backend_capabilities *device = &interface->capabilities;

	if (device->clock_is_utc || (interface->lost_clock && device->kernel_times))
		return IBVCAP_CLOCK_SOURCE_KERNEL;
	return interface->lost_clock ? IBVCAP_CLOCK_SOURCE_SOFTWARE : IBVCAP_CLOCK_SOURCE_DEVICE;
}

/* Of packets that are spread evenly over those since the last look, and the newest. */
static void sensor_look_take(struct sensor_look *look, const struct rx_ring *ring, const struct sensor_time *time,
                             int32_t tai_offset_s)
{
	const struct rx_peek_field field = {time->offset, time->bytes};
	uint64_t head = consumer_load_head(ring->ring), n_new = head - look->head;
	uint64_t n = u64_min(n_new, SENSOR_OFFSETS_MAX), timestamp_ns;
	struct sensor_offsets offsets = {.n = 0};
	uint8_t bytes[SENSOR_TIME_BYTES_MAX];
	int64_t offset_ns;

	for (uint64_t i = 1; i <= n; i++)
		if (rx_peek(ring, look->head + n_new * i / n - 1, field, bytes, &timestamp_ns) &&
		    sensor_time_offset(time, bytes, timestamp_ns, tai_offset_s, &offset_ns))
			sensor_offsets_add(&offsets, offset_ns);
	look->head = head;
	if (offsets.n == 0)
		return;
	look->is_known = true;
	look->min_ns = offsets.ns[0];
	look->median_ns = offsets.ns[offsets.n / 2];
	look->max_ns = offsets.ns[offsets.n - 1];
}

/* -1 says that a number is not known. */
static int64_t stream_known(int64_t number)
{
	return number == -1 ? 0 : number;
}

static void stream_queue_add_sensor(struct stream_queue *queue, struct status_clock *clock)
{
	const struct sensor_time *time = &queue->stream->config->sensor_time;
	struct sensor_look *look = &queue->sensor;
	uint64_t now_ns = time_monotonic_ns();

	if (time->bytes && now_ns - look->at_ns >= TIME_SECOND_NS - SENSOR_EARLY_NS) {
		look->at_ns = now_ns;
		sensor_look_take(look, &queue->ring, time, clock->tai_offset_s);
	}
	look->is_known &= time->bytes != 0;
	clock->sensor_offset_min_ns = look->is_known ? stream_known(look->min_ns) : -1;
	clock->sensor_offset_ns = look->is_known ? stream_known(look->median_ns) : -1;
	clock->sensor_offset_max_ns = look->is_known ? stream_known(look->max_ns) : -1;
}

void stream_queue_set_clock(struct stream_queue *queue)
{
	const struct interface *interface = queue->stream->interface;
	struct mail mail = {.type = MAIL_CLOCK, .clock = interface->line};
	uint64_t error_ns = mail.clock.error_ns, before_ns = queue->clock_error_ns;
	uint64_t past_ns = interface->fit.past_error_ns; /* of the rows since the last renewal */
	struct status_clock clock = stream_system_clock(interface);
	int64_t drift_ppb;

	stream_queue_add_sensor(queue, &clock);
	if (!queue->stream->device_timestamps) {
		daemon_store_clock(queue->ring.ring, &clock);
		return;
	}
	/*
	 * The worker takes the line up a little later, and not before the next renewal if the mailbox is full: a bound
	 * that is smaller is published one renewal later.
	 */
	if (mailbox_send(queue->worker->inbox, &mail) == 0)
		queue->clock_error_ns = error_ns;
	clock.clock_source = stream_clock_source(interface);
	if (clock.clock_source == IBVCAP_CLOCK_SOURCE_DEVICE)
		clock.clock_error_ns = u64_max(past_ns, u64_max(error_ns, before_ns));
	if (clock.clock_source == IBVCAP_CLOCK_SOURCE_DEVICE && clock_fit_drift_ppb(&interface->fit, &drift_ppb))
		clock.clock_drift_ppb = (int32_t)stream_known(drift_ppb);
	if (clock.clock_source == IBVCAP_CLOCK_SOURCE_KERNEL)
		clock.clock_delay_ns = interface->stamp_delay_ns;
	daemon_store_clock(queue->ring.ring, &clock);
}

/* The queues of one stream are for several CPUs. NULL: a thread of its own. */
static struct rx_crew *stream_queue_crew(const struct stream_queue *queue)
{
	const struct stream *stream = queue->stream;

	if (!stream->interface->capabilities.naps || stream->config->poll != CONFIG_POLL_ADAPTIVE ||
	    config_queue_cpu(stream->config, queue->index) >= 0 || stream->n_queues > 1)
		return NULL;
	return interface_crew(stream->interface);
}

int stream_queue_start(struct stream_queue *queue, struct failure *failure)
{
	const struct stream *stream = queue->stream;
	const char *name = stream->config->name;
	int r = queue->queue->ops->start(queue->queue);

	if (r < 0)
		return failure_set(failure, EX_UNAVAILABLE, -r, "stream '%s': device %s does not start its queue: %s",
		                   name, stream->interface->capabilities.device, strerror(-r));
	stream_queue_set_clock(queue);
	queue->crew = stream_queue_crew(queue);
	r = queue->crew ? rx_crew_start(queue->crew, queue->worker) : rx_loop_start(queue->worker);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "stream '%s': no thread for its worker (cpu = %d): %s", name,
		                   config_queue_cpu(stream->config, queue->index), strerror(-r));
	queue->worker_runs = true;
	return 0;
}

void stream_queue_stop(struct stream_queue *queue, const struct mail *matched)
{
	const struct mail stop = {.type = MAIL_STOP, .error = queue->stream->interface->is_abandoned ? -EIO : 0};

	if (!queue->worker_runs)
		return;
	if (matched)
		mailbox_send_last(queue->worker->inbox, matched);
	mailbox_send_last(queue->worker->inbox, &stop);
}

bool stream_queue_join(struct stream_queue *queue)
{
	bool ran = queue->worker_runs;

	if (ran && queue->crew)
		rx_crew_join(queue->crew, queue->worker);
	else if (ran)
		worker_join(queue->worker);
	queue->worker_runs = false;
	return ran;
}
