// SPDX-License-Identifier: Apache-2.0
/* A stream's life on a device of which any call may fail: whatever was made is given back. */
#include "daemon/base/numa.h"
#include "lib/base/time.h"
#include "daemon/stream/stream.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/flows.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- where memory comes from ----------------------------------------------------------------------- */

static unsigned int n_policies[MPOL_PREFERRED + 1];

static void note_policy(void)
{
	int mode = MPOL_DEFAULT;

	syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0);
	if (mode <= MPOL_PREFERRED)
		n_policies[mode]++;
}

/* In place of libc's: a segment of shared memory gets its pages here. */
int madvise(void *address, size_t bytes, int advice)
{
	if (advice == MADV_POPULATE_WRITE)
		note_policy();
	return (int)syscall(SYS_madvise, address, bytes, advice);
}

/* ---- the scripted device, failing by countdown and counting what it has out --------------------------- */

static int calls_until_failure;
static int out; /* objects */

static bool fails(void)
{
	return calls_until_failure-- == 0;
}

static int refuse(struct failure *failure, const char *what)
{
	return failure_set(failure, EX_UNAVAILABLE, EIO, "%s failed", what);
}

static int open_device(const struct backend_open_options *options, struct backend **backend, struct failure *failure)
{
	if (fails())
		return refuse(failure, "open");
	int r = scripted_backend_ops.open(options, backend, failure);

	out += r == 0;
	return r;
}

static void close_device(struct backend *backend)
{
	out--;
	scripted_backend_ops.close(backend);
}

static int register_memory(struct backend *backend, void *address, size_t bytes, struct backend_memory **memory,
                           struct failure *failure)
{
	if (fails())
		return refuse(failure, "register_memory");
	int r = scripted_backend_ops.register_memory(backend, address, bytes, memory, failure);

	out += r == 0;
	return r;
}

static void unregister_memory(struct backend_memory *memory)
{
	out--;
	scripted_backend_ops.unregister_memory(memory);
}

static struct backend_ops failing_ops;

static int create_queue(struct backend *backend, const struct backend_queue_options *options,
                        struct backend_queue **queue, struct failure *failure)
{
	note_policy();
	if (fails())
		return refuse(failure, "create_queue");
	int r = scripted_backend_ops.create_queue(backend, options, queue, failure);

	if (r == 0)
		(*queue)->ops = &failing_ops;
	out += r == 0;
	return r;
}

static void destroy_queue(struct backend_queue *queue)
{
	out--;
	scripted_backend_ops.destroy_queue(queue);
}

static int start(struct backend_queue *queue)
{
	return fails() ? -EIO : scripted_backend_ops.start(queue);
}

static int add_flow(struct backend_queue *queue, const struct flow_rule *rule, struct backend_flow **flow,
                    struct failure *failure)
{
	if (fails())
		return refuse(failure, "add_flow");
	int r = scripted_backend_ops.add_flow(queue, rule, flow, failure);

	out += r == 0;
	return r;
}

static void remove_flow(struct backend_flow *flow)
{
	out--;
	scripted_backend_ops.remove_flow(flow);
}

static void make_failing_ops(void)
{
	failing_ops = scripted_backend_ops;
	failing_ops.open = open_device;
	failing_ops.close = close_device;
	failing_ops.register_memory = register_memory;
	failing_ops.unregister_memory = unregister_memory;
	failing_ops.create_queue = create_queue;
	failing_ops.destroy_queue = destroy_queue;
	failing_ops.start = start;
	failing_ops.add_flow = add_flow;
	failing_ops.remove_flow = remove_flow;
}

/* ---- a life -------------------------------------------------------------------------------------- */

static struct config_flow flows[2];
static struct config_stream config_stream;

static void configure(void)
{
	for (int i = 0; i < 2; i++) {
		flows[i] = (struct config_flow){
			.destination_port = (uint16_t)(7502 + i),
			FLOW_DEFAULTS,
		};
		flow_set_destination(&flows[i], "127.0.0.1");
	}
	config_stream = (struct config_stream){
		.name = "lidar",
		.interface = "lo",
		.flows = flows,
		.n_flows = 2,
		.queues = 1,
		.payload_size = 100,
		.slots_per_block = 64,
		.history_blocks = 4,
		.receive_queue_slots = 128,
		.page_bytes = 4096,
		.poll = CONFIG_POLL_EVENT,
		.cpu = -1,
		.max_consumers = 1,
		.lease_blocks = 1,
		.join = true,
		.file = "test.conf",
		.line = 7,
	};
}

static int prepare_and_start(struct stream *stream, struct interface *interface, struct failure *failure)
{
	int r = interface_open(interface, failure);

	if (r == 0)
		r = stream_init(stream, &config_stream, interface, failure);
	if (r == 0)
		r = stream_fit(stream, failure);
	if (r == 0)
		r = stream_prepare(stream, 1, failure);
	if (r == 0)
		r = stream_start(stream, failure);
	return r == 0 ? stream_capture(stream, failure) : r;
}

/* As the daemon takes a half-made stream down. */
static void take_down(struct stream *stream, struct interface *interface)
{
	stream_leave(stream);
	stream_stop(stream);
	stream_join(stream);
	stream_deinit(stream);
	interface_close(interface);
}

Test(stream, its_memory_is_near_the_device_as_far_as_that_says_where_it_is)
{
	static const int32_t nodes[] = {NUMA_ANY, 0};
	bool can = numa_begin(0);

	numa_end(can);
	if (!can)
		cr_skip_test("this kernel, or a container, admits no memory policy");
	configure();
	make_failing_ops();
	calls_until_failure = -1;
	for (uint32_t i = 0; i < 2; i++) {
		struct interface interface = {.name = "lo", .ops = &failing_ops, .numa_node = nodes[i]};
		struct stream stream = {0};
		struct failure failure = {0};

		memset(n_policies, 0, sizeof(n_policies));
		cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
		cr_assert(eq(int, prepare_and_start(&stream, &interface, &failure), 0), "%s", failure.text);
		take_down(&stream, &interface);
		cr_expect(eq(int, n_policies[MPOL_DEFAULT] > 0, nodes[i] == NUMA_ANY));
		cr_expect(eq(int, n_policies[MPOL_PREFERRED] > 0, nodes[i] != NUMA_ANY));
	}
}

/* Blocks of the ring, and slots that the device has, before it takes packets. */
static void expect_room(bool pins_memory, uint32_t lossless_deadline_ms, uint32_t n_blocks, uint32_t n_slots)
{
	struct backend_ops ops = scripted_backend_ops;
	struct interface interface = {.name = "lo", .ops = &ops};
	struct stream stream = {0};
	struct failure failure = {0};
	struct scripted_counts counts;
	uint64_t bytes;

	ops.pins_memory = pins_memory;
	config_stream.lossless_deadline_ms = lossless_deadline_ms;
	cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
	cr_assert(eq(int, interface_open(&interface, &failure), 0));
	cr_assert(eq(int, stream_init(&stream, &config_stream, &interface, &failure), 0));
	cr_assert(eq(int, stream_prepare(&stream, 1, &failure), 0), "%s", failure.text);
	scripted_counts(stream.queues[0].queue, &counts);
	cr_expect(eq(u32, stream.queues[0].ring.n_blocks, n_blocks));
	cr_expect(eq(u32, counts.free_slots, n_slots));
	bytes = stream.queues[0].ring.payload.bytes + stream.queues[0].ring.headers.bytes;
	cr_expect(eq(u64, stream_ring_bytes(&stream), bytes));
	take_down(&stream, &interface);
}

Test(stream, a_backend_that_copies_has_few_rows_at_once_unless_packets_wait_in_them)
{
	configure();
	config_stream.receive_queue_slots = 1024;
	config_stream.history_blocks = 16;
	expect_room(true, 0, 16 + 16 + 1 + 1, 1024);
	expect_room(false, 0, 16 + 2 + 1 + 1, 128);
	expect_room(false, 1, 16 + 16 + 1 + 1, 1024);
	config_stream.receive_queue_slots = 64;
	expect_room(false, 0, 16 + 1 + 1 + 1, 64);
}

Test(stream, whatever_fails_nothing_is_left_behind)
{
	int n_failures = 0;
	int r;

	configure();
	make_failing_ops();
	do {
		struct interface interface = {.name = "lo", .ops = &failing_ops};
		struct stream stream = {0};
		struct failure failure = {0};

		calls_until_failure = n_failures;
		cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
		r = prepare_and_start(&stream, &interface, &failure);
		cr_expect(eq(int, r < 0, failure.text[0] != '\0'), "a failure is explained: '%s'", failure.text);
		take_down(&stream, &interface);
		cr_expect(eq(int, out, 0), "after failure %d: '%s'", n_failures, failure.text);
		n_failures++;
	} while (r < 0 && n_failures < 100);
	cr_expect(eq(int, n_failures - 1, 7)); /* open, two registrations, queue, start, two flows */
}

/* As one that had no CPU for seconds: it has taken nothing, and cannot answer before somebody reads its answers. */
Test(stream, a_worker_that_is_up_to_its_ears_in_mail_is_stopped_all_the_same, .timeout = 60)
{
	struct interface interface = {.name = "lo", .ops = &scripted_backend_ops};
	struct stream stream = {0};
	const struct mail mail = {.type = MAIL_CLOCK};

	configure();
	cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
	cr_assert(eq(int, interface_open(&interface, NULL), 0));
	cr_assert(eq(int, stream_init(&stream, &config_stream, &interface, NULL), 0));
	cr_assert(eq(int, stream_fit(&stream, NULL), 0));
	cr_assert(eq(int, stream_prepare(&stream, 1, NULL), 0));
	while (mailbox_send(stream.queues[0].worker->outbox, &mail) == 0)
		;
	while (mailbox_send(stream.queues[0].worker->inbox, &mail) == 0)
		;
	cr_assert(eq(int, stream_start(&stream, NULL), 0));
	cr_assert(eq(int, stream_capture(&stream, NULL), 0));
	stream_stop(&stream);
	stream_join(&stream);
	cr_expect(stream.queues[0].worker->stopped);
	take_down(&stream, &interface);
}

/* ---- the clock ------------------------------------------------------------------------------------- */

static bool clock_is_gone;
static const char *no_device_time = "";

static int read_clock(struct backend *backend, struct backend_clock_reading *reading)
{
	(void)backend;
	*reading = (struct backend_clock_reading){.raw = time_utc_ns() + UINT64_C(37000000000)};
	return clock_is_gone ? -ENODEV : 0;
}

static void capabilities_of_a_card(const struct backend *backend, struct backend_capabilities *capabilities)
{
	scripted_backend_ops.capabilities(backend, capabilities);
	capabilities->kernel_times = capabilities->clock_can_step = true;
	snprintf(capabilities->no_device_time, sizeof(capabilities->no_device_time), "%s", no_device_time);
}

static struct backend_ops ops_of_a_card(void)
{
	struct backend_ops ops = scripted_backend_ops;

	ops.read_clock = read_clock;
	ops.capabilities = capabilities_of_a_card;
	return ops;
}

Test(stream, a_clock_that_goes_away_leaves_the_kernels_time)
{
	const struct backend_ops ops = ops_of_a_card();
	struct interface interface = {.name = "lo", .ops = &ops};
	const struct ibvcap_ring *ring;
	struct stream stream = {0};
	struct failure failure;

	configure();
	config_stream.timestamps = CONFIG_TIMESTAMPS_HARDWARE;
	cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
	cr_assert(eq(int, prepare_and_start(&stream, &interface, &failure), 0), "%s", failure.text);
	ring = stream.queues[0].ring.ring;
	cr_expect(eq(int, (int)ring_load_clock(ring).clock_source, IBVCAP_CLOCK_SOURCE_DEVICE));
	cr_expect(gt(u64, ring_load_clock(ring).clock_error_ns, 0));
	cr_expect(lt(u64, ring_load_clock(ring).clock_error_ns, TIME_SECOND_NS));
	cr_expect(eq(u64, ring_load_clock(ring).clock_delay_ns, IBVCAP_NOT_KNOWN));
	cr_expect(clock_reaches(&interface.line, time_utc_ns() + UINT64_C(37000000000)));
	clock_is_gone = true;
	interface_renew_clock(&interface);
	interface.stamp_delay_ns = 50000;
	stream_set_clock(&stream);
	cr_expect(eq(int, (int)ring_load_clock(ring).clock_source, IBVCAP_CLOCK_SOURCE_KERNEL));
	cr_expect(eq(u64, ring_load_clock(ring).clock_error_ns, IBVCAP_NOT_KNOWN), "nothing has measured it");
	cr_expect(eq(u64, ring_load_clock(ring).clock_delay_ns, 50000));
	cr_expect(not(clock_reaches(&interface.line, time_utc_ns() + UINT64_C(37000000000))));
	clock_is_gone = false;
	interface_renew_clock(&interface);
	cr_expect(interface.lost_clock);
	take_down(&stream, &interface);
}

Test(stream, the_ring_says_what_is_known_of_the_systems_clock)
{
	struct interface interface = {.name = "lo", .ops = &scripted_backend_ops};
	struct stream stream = {0};
	struct failure failure;
	struct status_clock clock;

	configure();
	config_stream.timestamps = CONFIG_TIMESTAMPS_SOFTWARE;
	cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
	cr_assert(eq(int, prepare_and_start(&stream, &interface, &failure), 0), "%s", failure.text);
	interface.system_clock = (struct system_clock){true, true, 1500, 37};
	stream_set_clock(&stream);
	clock = ring_load_clock(stream.queues[0].ring.ring);
	cr_expect(eq(int, (int)clock.clock_source, IBVCAP_CLOCK_SOURCE_SOFTWARE));
	cr_expect(eq(u64, clock.clock_error_ns, IBVCAP_NOT_KNOWN));
	cr_expect(eq(int, (int)clock.system_clock, IBVCAP_SYSTEM_CLOCK_SYNCHRONISED));
	cr_expect(eq(u64, clock.system_clock_error_ns, 1500000));
	cr_expect(eq(i32, clock.tai_offset_s, 37));
	interface.system_clock = (struct system_clock){true, false, 16000000, 0};
	stream_set_clock(&stream);
	clock = ring_load_clock(stream.queues[0].ring.ring);
	cr_expect(eq(int, (int)clock.system_clock, IBVCAP_SYSTEM_CLOCK_UNSYNCHRONISED));
	cr_expect(eq(u64, clock.system_clock_error_ns, IBVCAP_NOT_KNOWN), "the kernel's number is no measured one");
	cr_expect(eq(i32, clock.tai_offset_s, -1));
	interface.system_clock = (struct system_clock){0};
	stream_set_clock(&stream);
	cr_expect(eq(int, (int)ring_load_clock(stream.queues[0].ring.ring).system_clock, IBVCAP_SYSTEM_CLOCK_UNKNOWN));
	take_down(&stream, &interface);
}

Test(stream, one_that_wants_the_cards_time_is_not_made_without)
{
	const struct backend_ops ops = ops_of_a_card();
	struct interface interface = {.name = "lo", .ops = &ops};
	struct stream stream = {0};
	struct failure failure = {0};

	configure();
	no_device_time = "its card is asleep";
	config_stream.timestamps = CONFIG_TIMESTAMPS_HARDWARE;
	cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
	cr_expect(eq(int, prepare_and_start(&stream, &interface, &failure), -ENOTSUP));
	cr_expect(strstr(failure.text, "its card is asleep; or set timestamps = \"auto\"") != NULL, "%s", failure.text);
	take_down(&stream, &interface);
}

Test(stream, a_payload_over_the_mtu_names_file_and_line_and_what_would_fit)
{
	struct interface interface = {.name = "eth7", .net = {.mtu = 127}};
	struct stream stream = {0};
	struct failure failure = {0};

	configure();
	config_stream.reassemble = CONFIG_REASSEMBLE_OFF;
	cr_expect(eq(int, stream_init(&stream, &config_stream, &interface, &failure), -EMSGSIZE));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "test.conf:7: ") == failure.text, "%s", failure.text);
	cr_expect(strstr(failure.text, "at most 99") != NULL, "%s", failure.text);
	cr_expect(strstr(failure.text, "mtu 128") != NULL, "%s", failure.text);
	interface.net.mtu = 128;
	cr_expect(eq(int, stream_init(&stream, &config_stream, &interface, &failure), 0));
	free(stream.queues);
}

Test(stream, a_queue_deeper_than_the_device_takes_is_a_configuration_error)
{
	struct interface interface = {.name = "lo", .ops = &scripted_backend_ops};
	struct stream stream = {0};
	struct failure failure = {0};

	configure();
	config_stream.receive_queue_slots = 1u << 20;
	cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
	cr_assert(eq(int, interface_open(&interface, &failure), 0));
	cr_assert(eq(int, stream_init(&stream, &config_stream, &interface, &failure), 0));
	cr_expect(eq(int, stream_fit(&stream, &failure), -EINVAL));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "receive_queue_slots 1048576") != NULL, "%s", failure.text);
	take_down(&stream, &interface);
}

/* ---- interfaces that come and go -------------------------------------------------------------------- */

static bool rejoins(struct stream *stream, struct link_change change)
{
	stream->rejoin_due = false;
	stream_note_link_change(stream, &change);
	return stream->rejoin_due;
}

Test(stream, groups_are_joined_again_where_their_interface_went_or_their_vlan_came)
{
	const unsigned lo = if_nametoindex("lo"), vlan_index = lo + 100;
	const struct flow_rule rule = {.family = AF_INET, .multicast = true, .value = {.destination = {239, 1, 1, 1}}};
	struct interface interface = {.name = "lo", .net = {.index = lo}};
	struct stream stream = {.config = &config_stream, .interface = &interface};
	struct failure failure;

	configure();
	flows[1].vlan = 5;
	cr_expect(not(rejoins(&stream, (struct link_change){.index = lo, .is_gone = true, .vlan = -1})),
	          "it joins none");
	cr_assert(eq(int, membership_new(&stream.membership), 0));
	cr_assert(eq(int, membership_join(stream.membership, lo, &rule, &failure), 0));
	cr_expect(rejoins(&stream, (struct link_change){.index = lo, .is_gone = true, .vlan = -1}));
	cr_expect(not(rejoins(&stream, (struct link_change){.index = lo, .vlan = -1})), "up or down");
	cr_expect(not(rejoins(&stream, (struct link_change){.index = vlan_index, .is_gone = true, .vlan = 5})));
	cr_expect(rejoins(&stream, (struct link_change){.index = vlan_index, .lower_index = lo, .vlan = 5}));
	cr_expect(not(rejoins(&stream, (struct link_change){.index = vlan_index, .lower_index = lo, .vlan = 6})));
	cr_expect(not(rejoins(&stream, (struct link_change){.index = vlan_index, .lower_index = lo + 1, .vlan = 5})));
	cr_expect(not(rejoins(&stream, (struct link_change){.index = vlan_index, .lower_index = lo, .vlan = -1})));
	cr_expect(rejoins(&stream, (struct link_change){.index = 0, .vlan = -1}), "events were dropped");
	membership_free(stream.membership);
}

/* ---- what the log says of losses -------------------------------------------------------------------- */

#define LOG_SECOND_NS UINT64_C(1000000000)

/* What is logged when the sum has so many packets lost. */
static const char *told(struct stream *stream, uint64_t no_buffer, uint64_t at_s)
{
	static char text[1024];
	int ends[2], stderr_before = dup(STDERR_FILENO);
	ssize_t n;

	cr_assert(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
	counter_set(&stream->losses.sum.no_buffer, no_buffer);
	stream_tell_losses(stream, at_s * LOG_SECOND_NS);
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	close(ends[1]);
	n = read(ends[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	return text;
}

Test(losses, the_log_has_the_beginning_and_the_end_of_each)
{
	const struct config_stream config = {.name = "lidar", .interface = "eth0"};
	static struct stream stream;

	stream.config = &config;
	cr_expect(strcmp(told(&stream, 0, 1), "") == 0);
	cr_expect(strstr(told(&stream, 5, 2), "stream 'lidar': packets are being lost: 5 packets got no row "
	                                      "(no_buffer, 5 in all)") != NULL);
	for (uint64_t at_s = 3; at_s < 13; at_s++)
		cr_expect(strcmp(told(&stream, 5 + at_s, at_s), "") == 0, "it goes on, and is one loss");
	for (uint64_t at_s = 13; at_s < 22; at_s++)
		cr_expect(strcmp(told(&stream, 17, at_s), "") == 0, "it may go on");
	cr_expect(strstr(told(&stream, 17, 22), "stream 'lidar': no packet was lost for 10 s; in the 11 s before: 17 "
	                                        "packets got no row (no_buffer, 17 in all)") != NULL);
	cr_expect(strcmp(told(&stream, 17, 60), "") == 0);
	cr_expect(strstr(told(&stream, 18, 61), "packets are being lost: 1 packets got no row (no_buffer, 18 in "
	                                        "all)") != NULL);
}

/* ---- offloads -------------------------------------------------------------------------------------- */

static struct backend_capabilities offers;

static void capabilities_of_offers(const struct backend *backend, struct backend_capabilities *capabilities)
{
	scripted_backend_ops.capabilities(backend, capabilities);
	capabilities->max_moderation_us = offers.max_moderation_us;
	capabilities->delay_drop = offers.delay_drop;
}

static void expect_offloads(const char *refusal, const char *said)
{
	struct backend_ops ops = scripted_backend_ops;
	struct interface interface = {.name = "lo", .ops = &ops};
	struct stream stream = {0};
	struct failure failure = {0};
	int r;

	ops.capabilities = capabilities_of_offers;
	cr_assert(eq(int, net_interface_read("lo", &interface.net, NULL), 0));
	r = prepare_and_start(&stream, &interface, &failure);
	cr_expect(eq(int, r, refusal ? -ENOTSUP : 0), "%s", failure.text);
	if (refusal)
		cr_expect(ne(ptr, strstr(failure.text, refusal), NULL), "%s", failure.text);
	else
		cr_expect(eq(str, stream.offloads, (char *)said));
	take_down(&stream, &interface);
}

Test(stream, what_a_device_cannot_is_refused_with_its_reason_and_what_it_gives_is_told)
{
	configure();
	expect_offloads(NULL, "");
	config_stream.delay_drop = true;
	expect_offloads(
		"test.conf:7: stream 'lidar': delay_drop = true: device scripted0, backend scripted, cannot hold",
		NULL);
	offers.delay_drop = true;
	config_stream.moderation_us = 100;
	expect_offloads(
		"moderation_us = 100: device scripted0, backend scripted, has no events of its own that could wait: "
		"set moderation_us = 0",
		NULL);
	offers.max_moderation_us = 99;
	expect_offloads("lets an event wait for 99 us at most: accepted is that, or less", NULL);
	offers.max_moderation_us = 100;
	config_stream.verify_checksums = true;
	expect_offloads(NULL, "checksums are verified by the worker: the card tells nothing of them; "
	                      "an event waits for 32 packets or 100 us; "
	                      "delay_drop: without a free row the card holds the packets of all of its port");
}
