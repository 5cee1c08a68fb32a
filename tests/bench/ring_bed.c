// SPDX-License-Identifier: Apache-2.0
/*
 * The way of a packet from a device to a ring, without a daemon: a backend with its memory and queue, a ring, a worker
 * that has no thread, and a flow; and packets that come to the queue when the bench wants them.
 */
#include "tests/bench/ring_bed.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/net/net.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"
#include "tests/bench/ring_behaviours.h"
#include "tests/support/consumers.h"
#include "tests/support/flows.h"
#include "tests/support/scripted_backend.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#define WIRE_BURST       2048u
#define AIM_POLLS        50   /* one each ms */
#define GENERATOR_US     2000 /* in which it fills the queue, many times over */
#define SOURCE_PORT      1000u
#define DESTINATION_PORT 2000u

void bench_die(const char *what, const char *why)
{
	fprintf(stderr, "bench_ring: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

/* What scripts/bench tries again. */
void bench_lost(const char *where)
{
	fprintf(stderr, "bench_ring: packets were lost on the emulated wire, %s: this machine had no time for them\n",
	        where);
	exit(EX_TEMPFAIL);
}

/* ---- the packets --------------------------------------------------------------------------------- */

/* The frame every slot gets: 10.0.0.2:1000 → 10.0.0.1:2000. */
static void build_frame(struct ring_bed *bed, const uint8_t *destination_mac)
{
	const struct frame_options options = {.payload_bytes = bed->payload_bytes};

	bed->frame_bytes = frame_build(&options, 0, bed->frame);
	memcpy(bed->frame, destination_mac, 6);
	memcpy(bed->frame + 26, &(uint32_t){htonl(0x0a000002)}, 4);
	memcpy(bed->frame + 30, &(uint32_t){htonl(0x0a000001)}, 4);
	if (bed->option->verifies)
		frame_sum(bed->frame, bed->frame_bytes);
}

/* scripted_complete() writes no memory: every header row holds the frame's headers from the start. */
static void prefill_headers(struct ring_bed *bed)
{
	uint8_t *row = bed->ring.headers.address;

	for (uint32_t i = 0; i < bed->ring.n_blocks * bed->ring.slots_per_block && bed->ring.header_bytes;
	     i++, row += bed->ring.header_stride)
		memcpy(row, bed->frame, bed->ring.header_bytes);
}

static void open_sender(struct ring_bed *bed)
{
	struct net_interface peer;
	struct failure failure = {0};
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = 0};

	if (net_interface_read(bed->peer, &peer, &failure) < 0)
		bench_die("peer", failure.text);
	bed->sender = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	address.sll_ifindex = (int)peer.index;
	if (bed->sender < 0 || bind(bed->sender, (struct sockaddr *)&address, sizeof(address)) < 0)
		bench_die("AF_PACKET sender", strerror(errno));
}

static uint64_t read_matched(const struct ring_bed *bed)
{
	struct backend_queue *const queues[] = {bed->queue, bed->other, bed->group};
	uint64_t sum = 0, matched;

	for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
		if (!queues[i])
			continue;
		if (bed->ops->read_matched(queues[i], &matched) < 0)
			bench_die("flow counter", "cannot be read");
		sum += matched;
	}
	return sum;
}

static void wait_matched(const struct ring_bed *bed, uint64_t target)
{
	for (uint64_t give_up = time_monotonic_ns() + 5000000000u; time_monotonic_ns() < give_up;
	     usleep(bed->has_small_batches ? 10 : 1000))
		if (read_matched(bed) >= target)
			return;
	bench_lost("before they were steered");
}

uint32_t ring_bed_let_in(struct ring_bed *bed, uint32_t n)
{
	uint64_t before;

	if (!bed->interface)
		return scripted_complete(bed->queue, n, bed->frame_bytes);
	if (!bed->peer) {
		if (!bed->is_live)
			usleep(GENERATOR_US);
		return n;
	}
	before = read_matched(bed);
	for (uint32_t sent = 0; sent < n;) {
		for (uint32_t end = sent + WIRE_BURST < n ? sent + WIRE_BURST : n; sent < end; sent++) {
			bed->frame[17] ^= bed->option->length_change; /* of the IP header, and of the UDP header */
			bed->frame[39] ^= bed->option->length_change;
			if (send(bed->sender, bed->frame, bed->frame_bytes, 0) < 0)
				bench_die("send", strerror(errno));
		}
		wait_matched(bed, before + sent);
	}
	return n;
}

/* ---- the queue ----------------------------------------------------------------------------------- */

static void open_backend(struct ring_bed *bed)
{
	struct net_interface interface = {.mac = {2, 0, 0, 0, 0, 1}};
	const char *name = bed->backend_name ? bed->backend_name : "verbs";
	struct failure failure = {0};

	bed->ops = bed->interface ? backend_find(name) : &scripted_backend_ops;
	if (!bed->ops)
		bench_die(name, "not in this build");
	if (bed->interface && net_interface_read(bed->interface, &interface, &failure) < 0)
		bench_die(bed->interface, failure.text);
	const struct backend_open_options options = {
		.interface = bed->interface, .slots = {QUEUE_SLOTS}, .direct = !bed->by_library};

	if (bed->ops->open(&options, &bed->backend, &failure) < 0)
		bench_die("open", failure.text);
	build_frame(bed, interface.mac);
}

static void create_ring(struct ring_bed *bed)
{
	/* With consumers, blocks of the default size: leases are looked at once a block. */
	uint32_t slots_per_block = bed->payload_bytes > 2048 || bed->n_consumers ? 256 : 4096;
	const struct ring_option *option = bed->option;
	uint32_t network_bytes = option->flags & IBVCAP_RING_FLAG_FRAMES ? 0 : 42;
	uint32_t slot_bytes = bed->frame_bytes - network_bytes - option->application_header_bytes + option->empty_bytes;
	const struct rx_ring_options ring = {
		.stream = "bench",
		.epoch = 1,
		.slot_bytes = slot_bytes,
		.row_stride = slot_bytes + option->gap_bytes,
		.slots_per_block = slots_per_block,
		.header_bytes = network_bytes + option->application_header_bytes,
		.application_header_bytes = option->application_header_bytes,
		.flags = option->flags,
		.history_blocks = QUEUE_SLOTS / slots_per_block,
		.posted_slots = QUEUE_SLOTS,
		.spare_blocks = bed->n_consumers * QUOTA,
		.lease_blocks_max = QUOTA,
		.page_bytes = 2u << 20,
		.n_queues = option->in_group ? 2 : 1,
		.sequence = {.bytes = option->has_sequence ? 8 : 0},
	};
	struct failure failure = {0};

	if (rx_ring_init(&bed->ring, &ring, &failure) < 0)
		bench_die("ring", failure.text);
	if (bed->ops->register_memory(bed->backend, bed->ring.payload.address, bed->ring.payload.bytes, &bed->payload,
	                              &failure) < 0 ||
	    bed->ops->register_memory(bed->backend, bed->ring.headers.address, bed->ring.headers.bytes, &bed->headers,
	                              &failure) < 0)
		bench_die("register memory", failure.text);
}

/* The other queue of a group gets no slots: its packets are lost. */
static void create_queues(struct ring_bed *bed)
{
	const struct backend_queue_options options = {
		.payload = bed->payload,
		.headers = bed->headers,
		.slots = QUEUE_SLOTS,
		.header_bytes = bed->ring.header_bytes,
		.header_stride = bed->ring.header_stride,
		.slot_bytes = bed->ring.slot_bytes,
		.row_stride = bed->ring.row_stride,
		.flow_tags = bed->option->flags & IBVCAP_RING_FLAG_FLOWS,
		.checksums = bed->option->verifies,
		.in_group = bed->option->in_group,
		.timestamps = true,
	};
	struct backend_queue *members[2];
	const struct backend_group_options group = {
		.queues = members,
		.n_queues = 2,
		.fields = BACKEND_HASH_SOURCE | BACKEND_HASH_DESTINATION | BACKEND_HASH_PORTS,
	};
	struct failure failure = {0};

	if (bed->ops->create_queue(bed->backend, &options, &bed->queue, &failure) < 0)
		bench_die("queue", failure.text);
	if (!bed->option->in_group)
		return;
	if (!bed->ops->create_group)
		bench_die("group", "the backend has none");
	if (bed->ops->create_queue(bed->backend, &options, &bed->other, &failure) < 0)
		bench_die("queue", failure.text);
	members[0] = bed->queue;
	members[1] = bed->other;
	if (bed->ops->create_group(bed->backend, &group, &bed->group, &failure) < 0)
		bench_die("group", failure.text);
}

static void create_worker(struct ring_bed *bed)
{
	const struct rx_worker_options worker = {.worker.name = "bench",
	                                         .queue = bed->queue,
	                                         .ring = &bed->ring,
	                                         .worker.cpu = -1,
	                                         .device_timestamps = true,
	                                         .verify_checksums = bed->option->verifies,
	                                         .losses = &bed->losses.queues[0]};

	losses_init(&bed->losses, 1, QUEUE_SLOTS, false, false, LOSSES_DRAIN_NS_MIN);
	if (rx_worker_new(&bed->worker, &worker) < 0)
		bench_die("worker", "cannot be made");
}

static void add_flow(struct ring_bed *bed)
{
	struct config_flow flow = {.destination_port = DESTINATION_PORT, FLOW_DEFAULTS};
	bool is_of_group = bed->group && !bed->option->is_flow_of_queue;
	struct flow_rule rule;
	struct failure failure = {0};

	flow_set_destination(&flow, "10.0.0.1");
	if (bed->option->set_flow)
		bed->option->set_flow(&flow);
	flow_resolve(&flow, bed->frame, &rule);
	if (bed->ops->add_flow(is_of_group ? bed->group : bed->queue, &rule, &bed->flow, &failure) < 0)
		bench_die("flow", failure.text);
}

/* The hash gives all packets of one source port to one queue: find a port of the queue that is measured. */
static void aim_at_queue(struct ring_bed *bed)
{
	for (uint16_t port = SOURCE_PORT; bed->ring.head == 0; port++) {
		memcpy(bed->frame + 34, &(uint16_t){htons(port)}, 2);
		ring_bed_let_in(bed, RX_RING_CHUNK_SLOTS); /* so many slots are posted again at once */
		for (int i = 0; i < AIM_POLLS && bed->ring.head < RX_RING_CHUNK_SLOTS; i++, usleep(1000))
			if (rx_worker_do_work(bed->worker) < 0)
				bench_die("aim", "the queue failed");
	}
}

static void start(struct ring_bed *bed)
{
	const struct mail clock = {.type = MAIL_CLOCK, .clock = {.mult = 1u << 24, .shift = 24, .mask = UINT64_MAX}};

	mailbox_send(bed->worker->inbox, &clock);
	if (rx_worker_prime(bed->worker) < 0 || bed->queue->ops->start(bed->queue) < 0)
		bench_die("start", "the queue did not take its slots");
	if (bed->other && bed->other->ops->start(bed->other) < 0)
		bench_die("start", "the other queue does not start");
	if (behaviours_add(&bed->ring, bed->consumers, bed->n_consumers) < 0)
		bench_die("consumers", strerror(ENOMEM));
	add_flow(bed);
	prefill_headers(bed);
	if (bed->peer)
		open_sender(bed);
	if (bed->group)
		aim_at_queue(bed);
}

void ring_bed_deinit(struct ring_bed *bed)
{
	rx_worker_free(bed->worker);
	for (uint32_t i = 0; i < bed->n_consumers; i++)
		test_consumer_deinit(&bed->consumers[i]);
	bed->ops->remove_flow(bed->flow);
	if (bed->group) {
		bed->group->ops->destroy_queue(bed->group);
		bed->other->ops->destroy_queue(bed->other);
	}
	bed->queue->ops->destroy_queue(bed->queue);
	bed->ops->unregister_memory(bed->payload);
	bed->ops->unregister_memory(bed->headers);
	bed->ops->close(bed->backend);
	rx_ring_deinit(&bed->ring);
	if (bed->sender >= 0)
		close(bed->sender);
}

void ring_bed_init(struct ring_bed *bed)
{
	bed->sender = -1;
	open_backend(bed);
	create_ring(bed);
	create_queues(bed);
	create_worker(bed);
	start(bed);
}
