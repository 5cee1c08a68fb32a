// SPDX-License-Identifier: Apache-2.0
/*
 * The packet backend's queues on a veth pair: each gets the frames of its flow, whichever queues came and went before,
 * and none loses a frame while others come and go.
 */
#include "daemon/backend/packet/af_packet.h"
#include "daemon/base/machine.h"
#include "tests/unit/backend/steering.h"
#include "tests/unit/net/namespace.h"

#include <arpa/inet.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define N_QUEUES    6
#define SLOTS       64u
#define SLOT_BYTES  64u
#define STRIDE      64u
#define FRAME_BYTES 60u
#define PORT        7500 /* of queue 0 */
#define MARKER_TYPE 0x88b5

struct live_queue {
	struct backend_queue *queue; /* NULL: there is none */
	struct backend_flow *flow;   /* NULL: it has none */
	uint8_t payload[SLOTS * SLOT_BYTES], headers[SLOTS * STRIDE];
};

static const struct backend_ops *const ops = &af_packet_ops;
static struct backend *backend;
static struct live_queue queues[N_QUEUES];
static struct failure failure;
static int sender, marker, control;
static unsigned n_fds;

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 512; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Frames of a veth pair stay in order on one CPU. */
static void stay_on_this_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	cr_assert(eq(int, sched_setaffinity(0, sizeof(cpus), &cpus), 0));
}

static void open_backend(void)
{
	const struct backend_open_options options = {.interface = "test0", .queues = N_QUEUES};

	cr_assert(eq(int, ops->open(&options, &backend, &failure), 0), "%s", failure.text);
	if (((struct af_packet *)backend)->fanout.n == 0)
		cr_skip_test("this kernel makes no group of packet sockets");
}

static void set_up(void)
{
	enter_namespace();
	cr_assert(system("ip link set test1 mtu 9000 up && sysctl -qw net.ipv6.conf.all.disable_ipv6=1") == 0);
	stay_on_this_cpu();
	sender = steering_open_socket("test1", MARKER_TYPE);
	marker = steering_open_socket("test0", MARKER_TYPE);
	control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert(ge(int, control, 0));
	n_fds = count_fds();
	open_backend();
}

static void take_queue_away(struct live_queue *mine)
{
	if (mine->flow)
		ops->remove_flow(mine->flow);
	if (mine->queue)
		ops->destroy_queue(mine->queue);
	mine->flow = NULL;
	mine->queue = NULL;
}

static void tear_down(void)
{
	for (int i = 0; i < N_QUEUES; i++)
		take_queue_away(&queues[i]);
	if (backend)
		ops->close(backend);
	cr_expect(eq(uint, count_fds(), n_fds));
}

TestSuite(packet_live, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- frames ----------------------------------------------------------------------------------------- */

static void make_frame(uint8_t frame[FRAME_BYTES], uint16_t port, uint32_t number)
{
	static const uint8_t begin[FRAME_BYTES] = {
		0x02, 0, 0, 0, 0x0a, 0x01, [12] = 0x08, [14] = 0x45, [23] = 17, [30] = 10, [33] = 1};

	memcpy(frame, begin, FRAME_BYTES);
	frame[36] = (uint8_t)(port >> 8);
	frame[37] = (uint8_t)port;
	memcpy(frame + 42, &number, sizeof(number));
}

static void send_number(uint16_t port, uint32_t number)
{
	uint8_t frame[FRAME_BYTES];

	make_frame(frame, port, number);
	cr_assert(send(sender, frame, sizeof(frame), 0) == (ssize_t)sizeof(frame), "%s", strerror(errno));
}

/* Within so many ms. */
static bool marker_arrives(int ms)
{
	uint8_t frame[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = MARKER_TYPE >> 8, [13] = MARKER_TYPE & 0xff};

	cr_assert(send(sender, frame, sizeof(frame), 0) == (ssize_t)sizeof(frame), "%s", strerror(errno));
	while (poll(&(struct pollfd){.fd = marker, .events = POLLIN}, 1, ms) == 1)
		if (recv(marker, frame, sizeof(frame), MSG_DONTWAIT) > 0) /* else the interface was down */
			return true;
	return false;
}

static void set_link(bool up)
{
	struct ifreq request = {.ifr_name = "test0"};
	bool passes = false;

	cr_assert(eq(int, ioctl(control, SIOCGIFFLAGS, &request), 0));
	if (up)
		request.ifr_flags |= IFF_UP;
	else
		request.ifr_flags = (short)(request.ifr_flags & ~IFF_UP);
	cr_assert(eq(int, ioctl(control, SIOCSIFFLAGS, &request), 0), "%s", strerror(errno));
	/* The peer sends as soon as the kernel's work queue has told it. */
	for (int i = 0; i < 2000 && up && !passes; i++)
		passes = marker_arrives(5);
	cr_assert(passes || !up);
	while (recv(marker, &passes, 1, MSG_DONTWAIT) > 0)
		;
}

/* ---- queues ----------------------------------------------------------------------------------------- */

static void post_all(struct live_queue *mine)
{
	const struct backend_run run = {0, SLOTS, mine->payload, mine->headers};

	cr_assert(eq(int, ops->reset(mine->queue), 0));
	cr_assert(eq(int, ops->post(mine->queue, &run), (int)SLOTS));
}

static void make_queue(struct live_queue *mine, bool copies)
{
	const struct backend_queue_options options = {.slots = SLOTS,
	                                              .header_bytes = 42,
	                                              .header_stride = STRIDE,
	                                              .slot_bytes = SLOT_BYTES,
	                                              .row_stride = SLOT_BYTES,
	                                              .oversize_sink = true,
	                                              .completion_events = true,
	                                              .copies = copies};

	cr_assert(eq(int, ops->create_queue(backend, &options, &mine->queue, &failure), 0), "%s", failure.text);
	cr_assert(eq(int, ((struct af_packet_receive *)mine->queue)->fanout_index > 0, !copies));
	post_all(mine);
}

static void add_flow_to(struct live_queue *mine, uint16_t port, bool copy)
{
	struct flow_rule rule = {
		.family = AF_INET,
		.copy = copy,
		.value = {.destination_mac = {0x02, 0, 0, 0, 0x0a, 0x01},
	                  .destination = {10, 0, 0, 1},
	                  .protocol = IPPROTO_UDP,
	                  .destination_port_be = htons(port)},
		.mask = FLOW_MASK_UDP_IPV4,
	};

	cr_assert(eq(int, ops->add_flow(mine->queue, &rule, &mine->flow, &failure), 0), "%s", failure.text);
}

static void add_flow(struct live_queue *mine)
{
	add_flow_to(mine, (uint16_t)(PORT + (mine - queues)), false);
}

static uint32_t number_of(const struct live_queue *mine, const struct backend_event *event)
{
	uint32_t number;

	memcpy(&number, mine->payload + event->slot * SLOT_BYTES, sizeof(number));
	return number;
}

/* The frame of each flow comes to its queue, and nothing else to any. */
static void expect_own_frames(uint32_t number, const char *history)
{
	struct backend_event events[8];

	for (int i = 0; i < N_QUEUES; i++)
		send_number((uint16_t)(PORT + i), number * N_QUEUES + (uint32_t)i);
	send_number(PORT + 100, 0);
	/* The frames before it have been everywhere then. */
	cr_assert(marker_arrives(10000));
	for (int i = 0; i < N_QUEUES; i++) {
		int wanted = queues[i].flow != NULL, n;

		if (!queues[i].queue)
			continue;
		n = ops->poll(queues[i].queue, events, 8);
		cr_assert(eq(int, n, wanted), "queue %d after %s", i, history);
		if (n == 1)
			cr_assert(eq(u32, number_of(&queues[i], &events[0]), number * N_QUEUES + (uint32_t)i),
			          "queue %d after %s", i, history);
		post_all(&queues[i]);
	}
}

/* ---- histories --------------------------------------------------------------------------------------- */

struct history {
	char text[400]; /* the end of it: +0 a queue comes, f0 its flow, g0 goes, -0 it goes; d, u the link */
	uint32_t seed;
	bool down;
};

static uint32_t choose(struct history *history, uint32_t n)
{
	history->seed = history->seed * 1664525 + 1013904223;
	return (history->seed >> 8) % n;
}

static void note_step(struct history *history, char what, int queue)
{
	size_t n = strlen(history->text);

	if (n > sizeof(history->text) - 8) {
		memmove(history->text, history->text + n / 2, n - n / 2 + 1);
		n = strlen(history->text);
	}
	snprintf(history->text + n, sizeof(history->text) - n, queue < 0 ? "%c " : "%c%d ", what, queue);
}

static void step_link(struct history *history)
{
	history->down = !history->down;
	note_step(history, history->down ? 'd' : 'u', -1);
	set_link(!history->down);
}

/* A queue comes or goes, or its flow. */
static void step_queue(struct history *history)
{
	int i = (int)choose(history, N_QUEUES);
	struct live_queue *mine = &queues[i];

	if (!mine->queue) {
		if (history->down && !machine_kernel_is_from(6, 13)) /* no socket joins a group on it then */
			return;
		note_step(history, '+', i);
		make_queue(mine, false);
	} else if (!mine->flow && choose(history, 4)) {
		note_step(history, 'f', i);
		add_flow(mine);
	} else if (mine->flow && !choose(history, 3)) {
		note_step(history, 'g', i);
		ops->remove_flow(mine->flow);
		mine->flow = NULL;
	} else {
		note_step(history, '-', i);
		take_queue_away(mine);
	}
}

static void live_through(uint32_t seed, uint32_t n_steps)
{
	struct history history = {.seed = seed};

	for (uint32_t step = 1; step <= n_steps; step++) {
		if (choose(&history, 8) == 0)
			step_link(&history);
		else
			step_queue(&history);
		if (!history.down)
			expect_own_frames(step, history.text);
	}
	if (history.down)
		step_link(&history);
	expect_own_frames(0, history.text);
}

/* Each begins where the one before ended. */
static void live_through_many(uint32_t seed)
{
	uint32_t n = getenv("IBVCAP_ALL") ? 40 : 2;

	for (uint32_t i = 0; i < n; i++)
		live_through(seed * n + i, 30);
}

Test(packet_live, after_any_history_each_queue_has_the_frames_of_its_flow_first_seeds)
{
	live_through_many(1);
}

Test(packet_live, after_any_history_each_queue_has_the_frames_of_its_flow_other_seeds)
{
	live_through_many(2);
}

/* ---- queues that stay -------------------------------------------------------------------------------- */

struct stayer {
	struct live_queue *mine;
	uint32_t n_sent;
	uint32_t n_seen;
	atomic_bool ends;
};

static void *send_to_stayer(void *context)
{
	struct stayer *stayer = context;

	while (!atomic_load(&stayer->ends)) {
		send_number((uint16_t)(PORT + (stayer->mine - queues)), stayer->n_sent++);
		if (stayer->n_sent % 8 == 0)
			usleep(50);
	}
	return NULL;
}

static void see_frames(struct stayer *stayer)
{
	struct backend_event events[SLOTS];
	int n;

	do {
		n = ops->poll(stayer->mine->queue, events, SLOTS);
		for (int i = 0; i < n; i++)
			cr_assert(eq(u32, number_of(stayer->mine, &events[i]), stayer->n_seen++));
		post_all(stayer->mine);
	} while (n > 0);
}

/* The ring has room for some 40,000 frames. */
static void keep_frames_of(int index_of_stayer)
{
	struct history history = {.seed = (uint32_t)index_of_stayer};
	struct stayer stayer = {.mine = &queues[0]};
	uint64_t n_matched = 0;
	pthread_t thread;

	for (int i = 1; i < index_of_stayer; i++)
		make_queue(&queues[i], false);
	make_queue(&queues[0], false);
	cr_assert(eq(u32, ((struct af_packet_receive *)queues[0].queue)->fanout_index, (uint32_t)index_of_stayer));
	add_flow(&queues[0]);
	cr_assert(eq(int, pthread_create(&thread, NULL, send_to_stayer, &stayer), 0));
	for (int step = 0; step < 25; step++) {
		int i = 1 + (int)choose(&history, N_QUEUES - 1);

		if (queues[i].queue) {
			take_queue_away(&queues[i]);
		} else {
			make_queue(&queues[i], false);
			add_flow(&queues[i]);
		}
		see_frames(&stayer);
	}
	atomic_store(&stayer.ends, true);
	cr_assert(eq(int, pthread_join(thread, NULL), 0));
	cr_assert(marker_arrives(10000));
	see_frames(&stayer);
	cr_expect(eq(u32, stayer.n_seen, stayer.n_sent));
	cr_expect(gt(u32, stayer.n_sent, 1000));
	cr_assert(eq(int, ops->read_matched(queues[0].queue, &n_matched), 0));
	cr_expect(eq(u64, n_matched, stayer.n_sent));
	for (int i = 1; i < N_QUEUES; i++)
		if (queues[i].queue)
			cr_expect(eq(int, ops->poll(queues[i].queue, &(struct backend_event){0}, 1), 0));
}

Test(packet_live, while_others_come_and_go_the_first_queue_loses_no_frame)
{
	keep_frames_of(1);
}

Test(packet_live, while_others_come_and_go_a_later_queue_loses_no_frame)
{
	keep_frames_of(4);
}

/* ---- what else the sockets of a group do ----------------------------------------------------------------- */

Test(packet_live, what_this_host_sends_is_no_queues)
{
	uint8_t frame[FRAME_BYTES];
	int out = steering_open_socket("test0", MARKER_TYPE);

	make_queue(&queues[0], false);
	add_flow(&queues[0]);
	make_frame(frame, PORT, 5);
	cr_assert(eq(int, (int)send(out, frame, sizeof(frame), 0), (int)sizeof(frame)));
	expect_own_frames(1, "a frame that this host sent");
	close(out);
}

Test(packet_live, a_tap_and_a_place_both_have_a_frame)
{
	struct backend_event events[2];

	make_queue(&queues[0], false);
	make_queue(&queues[1], true);
	add_flow(&queues[0]);
	add_flow_to(&queues[1], PORT, true);
	send_number(PORT, 7);
	cr_assert(marker_arrives(10000));
	for (int i = 0; i < 2; i++) {
		cr_assert(eq(int, ops->poll(queues[i].queue, events, 2), 1), "queue %d", i);
		cr_expect(eq(u32, number_of(&queues[i], &events[0]), 7));
	}
}

/* The kernel counts for a socket, and a member keeps its socket. */
Test(packet_live, a_queue_counts_nothing_of_the_one_that_had_its_place)
{
	uint64_t n = 99;

	for (int round = 0; round < 2; round++) {
		make_queue(&queues[0], false);
		cr_assert(eq(u32, ((struct af_packet_receive *)queues[0].queue)->fanout_index, 1));
		cr_assert(eq(int, ops->read_matched(queues[0].queue, &n), 0));
		cr_expect(eq(u64, n, 0));
		add_flow(&queues[0]);
		for (uint32_t i = 0; i < 5; i++)
			send_number(PORT, i);
		cr_assert(marker_arrives(10000));
		cr_expect(eq(int, ops->poll(queues[0].queue, (struct backend_event[8]){0}, 8), 5));
		take_queue_away(&queues[0]); /* without a reading */
	}
}

/* ---- the socket's descriptor and its errors --------------------------------------------------------------- */

static bool is_readable(const struct live_queue *mine)
{
	return poll(&(struct pollfd){.fd = ops->fd(mine->queue), .events = POLLIN}, 1, 0) == 1;
}

Test(packet_live, a_queues_descriptor_is_readable_while_a_frame_waits_or_an_error)
{
	struct backend_event events[8];

	make_queue(&queues[0], false);
	add_flow(&queues[0]);
	cr_expect(not(is_readable(&queues[0])));
	for (uint32_t i = 0; i < 3; i++)
		send_number(PORT, i);
	cr_assert(marker_arrives(10000));
	cr_expect(is_readable(&queues[0]));
	cr_expect(eq(int, ops->poll(queues[0].queue, events, 2), 2));
	cr_expect(is_readable(&queues[0]));
	cr_expect(eq(int, ops->poll(queues[0].queue, events, 2), 1));
	cr_expect(not(is_readable(&queues[0])));
	set_link(false);
	cr_expect(is_readable(&queues[0]));
	ops->clear(queues[0].queue);
	cr_expect(not(is_readable(&queues[0])));
}

/* Longer than its slot, and so in the socket's receive queue, too. */
static void send_long_number(uint32_t number)
{
	uint8_t frame[1200] = {0};

	make_frame(frame, PORT, number);
	cr_assert(send(sender, frame, sizeof(frame), 0) == (ssize_t)sizeof(frame), "%s", strerror(errno));
}

Test(packet_live, after_the_interface_was_down_long_frames_are_still_their_own)
{
	struct backend_event events[8];

	make_queue(&queues[0], false);
	add_flow(&queues[0]);
	for (uint32_t i = 0; i < 4; i++)
		send_long_number(i);
	cr_assert(marker_arrives(10000));
	set_link(false);
	cr_assert(eq(int, ops->poll(queues[0].queue, events, 8), 4));
	for (uint32_t i = 0; i < 4; i++) {
		cr_expect(eq(u32, number_of(&queues[0], &events[i]), i));
		cr_expect(eq(u32, events[i].bytes, 1200));
	}
	ops->clear(queues[0].queue);
	cr_expect(not(is_readable(&queues[0])), "nothing stays in the socket");
}
