// SPDX-License-Identifier: Apache-2.0
/*
 * The control socket with real clients, a real ring and a real worker on the scripted backend. Worker
 * and control take turns on this thread, so every test says when the worker answers.
 */
#include "daemon/control/control.h"
#include "lib/base/time.h"
#include "daemon/worker/rx_worker.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/protocol.h"
#include "tests/support/consumers.h"
#include "tests/support/frames.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/small_ring.h"
#include "tests/support/status_part.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ibvcap/ibvcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

#define SLOTS 128u
#define EPOCH UINT64_C(0x1122334455667788)

static char directory[] = "/tmp/ibvcap-control-XXXXXX";
static struct config_stream stream;
static struct config config;
static struct backend *backend;
static struct backend_queue *queue;
static struct backend_flow *flow;
static struct rx_ring ring;
static struct worker *worker;
static bool worker_rests; /* it takes no turn */
static sd_event *event;
static struct listener listener;
static struct control_queue control_queue;
static struct control_stream control_stream;
static struct rx_losses ledger;
static struct control_interface port;
static struct reading matched, out_of_buffer, lost;
static uint64_t port_counters[INTERFACE_COUNTER_N];
static const bool counts_all = true;
static const uint64_t n_uncounted;
static const char *uncounted = "nothing";
static const struct losses_last last_lost = {.packets = 3, .from_utc_ns = 4, .to_utc_ns = 5};
static struct control *control;

static uid_t daemon_user; /* root */

/* In place of libc's. */
uid_t geteuid(void)
{
	return daemon_user;
}

static int read_matched(void *context, uint64_t *packets)
{
	return scripted_backend_ops.read_matched(context, packets);
}

static int read_out_of_buffer(void *context, uint64_t *packets)
{
	struct scripted_counts counts;

	scripted_counts(context, &counts);
	*packets = counts.out_of_buffer;
	return 0;
}

static void take_out_of_buffer(void *)
{
	port_counters[INTERFACE_COUNTER_OUT_OF_BUFFER] = out_of_buffer.value;
}

static int read_lost(void *, uint64_t *packets)
{
	*packets = 0;
	return 0;
}

static void worker_ended(void *context, const struct control_stream *which, uint32_t queue_index, int error)
{
	(void)context;
	(void)which;
	(void)queue_index;
	(void)error;
}

static void make_ring_of(struct rx_ring *to)
{
	struct rx_ring_options options = small_ring();

	options.stream = "lidar";
	options.epoch = EPOCH;
	options.posted_slots = SLOTS;
	options.lease_blocks_max = 2;
	cr_assert(eq(int, rx_ring_init(to, &options, NULL), 0));
	cr_assert(eq(int, rx_ring_seal(to, NULL), 0));
}

static void make_ring(void)
{
	struct backend_queue_options queue_options;
	struct rx_ring_options ring_options = small_ring();

	ring_options.posted_slots = SLOTS;
	queue_options = queue_for_ring(&ring_options);
	queue_options.oversize_sink = queue_options.completion_events = true;
	cr_assert(eq(int, scripted_backend_ops.open(NULL, &backend, NULL), 0));
	cr_assert(eq(int, scripted_backend_ops.create_queue(backend, &queue_options, &queue, NULL), 0));
	make_ring_of(&ring);
	const struct rx_worker_options options = {
		.worker.name = "test",
		.queue = queue,
		.ring = &ring,
		.worker.cpu = -1,
		.losses = &ledger.sum.queues[0],
	};

	losses_init(&ledger.sum, 1, SLOTS, false, false, LOSSES_DRAIN_NS_MIN);
	rx_losses_add_queue(&ledger, 0, ring.ring, NULL);
	cr_assert(eq(int, rx_worker_new(&worker, &options), 0));
	cr_assert(eq(int, rx_worker_prime(worker), 0));
	cr_assert(eq(int, scripted_backend_ops.start(queue), 0));
	cr_assert(eq(int, scripted_backend_ops.add_flow(queue, &(struct flow_rule){0}, &flow, NULL), 0));
}

static void make_control(void)
{
	const struct control_options options = {
		.config = &config,
		.event = event,
		.listener = &listener,
		.worker_ended = worker_ended,
	};

	control_queue = (struct control_queue){
		.ring = &ring, .inbox = worker->inbox, .outbox = worker->outbox, .state = "capturing"};
	control_stream = (struct control_stream){
		.config = &stream,
		.device = "scripted0",
		.backend = "scripted",
		.matched = &matched,
		.losses = &ledger,
		.interface_lost = &lost,
		.interface_uncounted = &n_uncounted,
		.n_queues = 1,
		.queues = {&control_queue},
	};
	port = (struct control_interface){.name = "eth7",
	                                  .device = "scripted0",
	                                  .readings = {&out_of_buffer, &lost},
	                                  .counters = port_counters,
	                                  .counts_all_losses = &counts_all,
	                                  .uncounted = &uncounted,
	                                  .lost = &last_lost};
	reading_init(&matched, read_matched, queue);
	reading_init(&out_of_buffer, read_out_of_buffer, queue);
	out_of_buffer.taken = take_out_of_buffer;
	reading_init(&lost, read_lost, NULL);
	cr_assert(eq(int, control_new(&control, &options, NULL), 0));
	cr_assert(eq(int, control_add_stream(control, &control_stream), 0));
	control_add_interface(control, &port);
}

static void set_up(void)
{
	if (getuid() != 0)
		cr_skip_test("a daemon's own user is refused, unless it is root: run as root");
	cr_assert(mkdtemp(directory) != NULL);
	stream = (struct config_stream){.name = "lidar",
	                                .interface = "eth7",
	                                .max_consumers = 2,
	                                .lease_blocks = 2,
	                                .max_consumers_per_user = 1,
	                                .max_lease_blocks_per_user = 2,
	                                .file = "test.conf",
	                                .line = 7,
	                                .receive_queue_slots = SLOTS};
	config = (struct config){.file = "test.conf",
	                         .max_clients = 4,
	                         .max_clients_per_user = 4,
	                         .max_messages_per_s = 1000,
	                         .max_messages_per_s_per_user = 1000,
	                         .idle_timeout_s = 60};
	snprintf(config.socket_path, sizeof(config.socket_path), "%s/control.sock", directory);
	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, listener_open(&listener, config.socket_path, 0666, (gid_t)-1, NULL), 0));
	make_ring();
	make_control();
}

static void tear_down(void)
{
	if (!control)
		return;
	control_free(control);
	rx_worker_free(worker);
	rx_ring_deinit(&ring);
	scripted_backend_ops.remove_flow(flow);
	scripted_backend_ops.destroy_queue(queue);
	scripted_backend_ops.close(backend);
	listener_close(&listener);
	sd_event_unref(event);
	rmdir(directory);
}

TestSuite(control, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- a client ------------------------------------------------------------------------------------ */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void turn(void)
{
	if (!worker_rests)
		cr_assert(ge(int, rx_worker_do_work(worker), 0));
	cr_assert(ge(int, sd_event_run(event, 200), 0));
}

/* Until the descriptor has something, or for so long. */
static bool turn_until_readable(int fd, uint64_t ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	uint64_t end = now_ms() + ms;

	while (poll(&poll_fd, 1, 0) == 0) {
		if (now_ms() >= end)
			return false;
		turn();
	}
	return true;
}

/* And some turns, should all that time have been others'. */
static void turn_for(uint64_t ms)
{
	uint64_t end = now_ms() + ms;

	for (int n = 0; n < 20 || now_ms() < end; n++)
		turn();
}

static int connect_client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, config.socket_path);
	cr_assert(eq(int, connect(fd, (struct sockaddr *)&address, sizeof(address)), 0));
	return fd;
}

/* Of this thread alone, hence the system calls: whom it connects as is whom the daemon asks the kernel for. */
static int connect_as_another_user(void)
{
	int client;

	cr_assert(eq(int, (int)syscall(SYS_setgroups, 0, NULL), 0));
	cr_assert(eq(int, (int)syscall(SYS_setresgid, -1, 4712, -1), 0));
	cr_assert(eq(int, (int)syscall(SYS_setresuid, -1, 4712, -1), 0));
	client = connect_client();
	cr_assert(eq(int, (int)syscall(SYS_setresuid, -1, 0, -1), 0));
	cr_assert(eq(int, (int)syscall(SYS_setresgid, -1, 0, -1), 0));
	return client;
}

static struct protocol_attach attach_message(void)
{
	struct protocol_attach message = {.stream = "lidar", .abi_major = IBVCAP_ABI_MAJOR};

	protocol_init(&message.header, PROTOCOL_ATTACH, sizeof(message));
	return message;
}

static void receive(int fd, union protocol_message *answer, int fds[PROTOCOL_FD_N], unsigned *n_fds)
{
	cr_assert(turn_until_readable(fd, 20000), "no answer");
	cr_assert(eq(int, protocol_recv(fd, answer, fds, n_fds), 1));
}

static char refusal[PROTOCOL_TEXT_MAX]; /* the last */

/* Send one attach; returns 0 or the error. Without fds, what came is closed. */
static int attach(int fd, const struct protocol_attach *message, int fds[PROTOCOL_FD_N])
{
	union protocol_message answer;
	int own[PROTOCOL_FD_N];
	unsigned n_fds = PROTOCOL_FD_N;

	cr_assert(eq(int, protocol_send(fd, &message->header, NULL, 0), 0));
	receive(fd, &answer, fds ? fds : own, &n_fds);
	if (answer.header.type == PROTOCOL_ERROR) {
		cr_expect(eq(u32, n_fds, 0));
		cr_expect(gt(int, (int)strlen(answer.error.text), 10));
		memcpy(refusal, answer.error.text, sizeof(refusal));
		return answer.error.error;
	}
	cr_assert(eq(u16, answer.header.type, PROTOCOL_ATTACHED));
	cr_expect(eq(u64, answer.attached.epoch, EPOCH));
	cr_assert(eq(u32, n_fds, PROTOCOL_FD_N));
	for (unsigned i = 0; i < n_fds && !fds; i++)
		close(own[i]);
	return 0;
}

static bool is_hung_up(int fd)
{
	char byte;
	ssize_t n;

	if (!turn_until_readable(fd, 20000))
		return false;
	n = recv(fd, &byte, 1, MSG_PEEK);
	return n == 0 || (n < 0 && errno != EAGAIN);
}

struct status {
	struct ibvcap_status_stream stream;
	uint64_t counters[STATUS_COUNTERS_MAX]; /* of the stream */
	struct ibvcap_status_consumer consumers[4];
	uint64_t consumer_counters[4][STATUS_COUNTERS_MAX];
	struct ibvcap_status_interface interface;
	uint64_t port_counters[STATUS_COUNTERS_MAX];
	unsigned n_consumers;
	bool ended;
};

static void take_status(struct status *status, const union protocol_message *answer)
{
	struct ibvcap_status_daemon daemon;

	status->ended = answer->header.type == PROTOCOL_END;
	if (status->ended)
		return;
	cr_assert(eq(u16, answer->header.type, PROTOCOL_PART));
	switch (answer->part.kind) {
	case STATUS_STREAM:
		status_part_take(&answer->part, &status->stream, status->counters);
		break;
	case STATUS_CONSUMER:
		status_part_take(&answer->part, &status->consumers[status->n_consumers],
		                 status->consumer_counters[status->n_consumers]);
		status->n_consumers++;
		break;
	case STATUS_INTERFACE:
		status_part_take(&answer->part, &status->interface, status->port_counters);
		break;
	default:
		cr_expect(eq(u32, answer->part.kind, STATUS_DAEMON));
		status_part_take(&answer->part, &daemon, NULL);
		cr_expect(eq(int, daemon.pid, getpid()));
	}
}

static struct status ask_status(int fd)
{
	struct status status = {0};
	struct protocol_bare message;
	union protocol_message answer;

	protocol_init(&message.header, PROTOCOL_STATUS, sizeof(message));
	cr_assert(eq(int, protocol_send(fd, &message.header, NULL, 0), 0));
	while (!status.ended) {
		unsigned n_fds = 0;

		receive(fd, &answer, NULL, &n_fds);
		take_status(&status, &answer);
	}
	return status;
}

static uint64_t sum_left(const uint64_t *counters)
{
	return counters[IBVCAP_RX_COUNTER_MATCHED] - counters[IBVCAP_RX_COUNTER_PUBLISHED] -
	       counters[IBVCAP_RX_COUNTER_NO_BUFFER] - counters[IBVCAP_RX_COUNTER_ERRORED];
}

static void arrive(unsigned n)
{
	const struct frame_options options = {.payload_bytes = 100};
	uint8_t frame[FRAME_BYTES_MAX];

	for (unsigned i = 0; i < n; i++)
		scripted_arrive(queue, frame, frame_build(&options, (uint8_t)i, frame));
}

/* ---- attaching ----------------------------------------------------------------------------------- */

Test(control, attach_hands_out_segments_that_only_the_page_can_be_written_of)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();
	int fds[PROTOCOL_FD_N];

	cr_assert(eq(int, attach(client, &message, fds), 0));
	for (unsigned i = 0; i <= PROTOCOL_FD_CONSUMER_PAGE; i++) {
		struct stat status;
		void *writable;

		cr_assert(eq(int, fstat(fds[i], &status), 0));
		writable = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
		cr_expect(eq(int, writable != MAP_FAILED, i == PROTOCOL_FD_CONSUMER_PAGE), "descriptor %u", i);
	}
	struct ibvcap_ring *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[PROTOCOL_FD_RING], 0);
	struct ibvcap_consumer_state *state =
		mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[PROTOCOL_FD_CONSUMER_STATE], 0);
	struct ibvcap_consumer_page *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[PROTOCOL_FD_CONSUMER_PAGE], 0);

	cr_expect(segment_is_ready(&mapped->segment));
	cr_expect(segment_is_ready(&state->segment));
	cr_expect(segment_is_ready(&page->segment));
	cr_expect(eq(u64, mapped->segment.epoch, EPOCH));
	cr_expect(eq(u64, state->segment.epoch, EPOCH));
	cr_expect(eq(u64, page->segment.magic, IBVCAP_CONSUMER_MAGIC));
	cr_expect(eq(u32, state->lease_blocks, 2));
	cr_expect(eq(u32, ring.n_consumers, 1));
	close(client);
}

Test(control, attach_is_answered_only_once_the_worker_counts_the_consumer)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();

	worker_rests = true;
	cr_assert(eq(int, protocol_send(client, &message.header, NULL, 0), 0));
	cr_expect(not(turn_until_readable(client, 300)));
	worker_rests = false;
	cr_expect(turn_until_readable(client, 20000));
	cr_expect(eq(u32, ring.n_consumers, 1));
	close(client);
}

static unsigned attach_tap(int fd)
{
	struct protocol_attach message = attach_message();
	union protocol_message answer;
	int fds[PROTOCOL_FD_N];
	unsigned n_fds = PROTOCOL_FD_N;

	message.policy = IBVCAP_POLICY_TAP;
	cr_assert(eq(int, protocol_send(fd, &message.header, NULL, 0), 0));
	receive(fd, &answer, fds, &n_fds);
	cr_assert(eq(u16, answer.header.type, PROTOCOL_ATTACHED));
	for (unsigned i = 0; i < n_fds; i++)
		close(fds[i]);
	return n_fds;
}

Test(control, a_tap_is_in_the_status_without_counters_as_long_as_it_is_connected)
{
	struct protocol_attach message = attach_message();
	int consumer = connect_client(), tap = connect_client(), observer = connect_client();
	struct status status;

	cr_assert(eq(int, attach(consumer, &message, NULL), 0));
	cr_expect(eq(u32, attach_tap(tap), PROTOCOL_FD_TAP_N));
	status = ask_status(observer);
	cr_assert(eq(u32, status.n_consumers, 2));
	cr_expect(eq(u32, status.consumers[0].policy, IBVCAP_POLICY_LOSSY));
	cr_expect(eq(u32, status.consumers[0].n_counters, CONSUMER_COUNTER_N)); /* the absent ones included */
	cr_expect(eq(u32, status.consumers[1].policy, IBVCAP_POLICY_TAP));
	cr_expect(eq(u32, status.consumers[1].n_counters, 0));
	cr_expect(eq(int, status.consumers[1].pid, getpid()));
	cr_expect(eq(str, status.consumers[1].stream, (char *)"lidar"));
	close(tap);
	turn_for(5);
	cr_expect(eq(u32, ask_status(observer).n_consumers, 1));
	close(observer);
	close(consumer);
}

Test(control, a_status_names_the_lossless_consumer_that_stopped_the_queue_last_when_it_has_left)
{
	struct protocol_attach message = attach_message();
	int client = connect_client(), observer = connect_client();
	struct status status;

	stream.lossless_deadline_ms = 3600000;
	message.policy = IBVCAP_POLICY_LOSSLESS;
	cr_assert(eq(int, attach(client, &message, NULL), 0));
	for (int i = 0; i < 100; i++) {
		arrive(10);
		turn();
	}
	status = ask_status(observer);
	cr_expect(eq(int, status.stream.stall_pid, 0), "it is in the list of consumers");
	cr_expect(gt(u64, status.counters[IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS], 0));
	cr_expect(eq(u64, status.counters[IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS],
	             status.counters[IBVCAP_RX_COUNTER_NO_BUFFER]));
	close(client);
	turn_for(5);
	status = ask_status(observer);
	cr_expect(eq(u32, status.n_consumers, 0));
	cr_expect(eq(int, status.stream.stall_pid, getpid()));
	cr_expect(eq(u32, status.stream.stall_uid, getuid()));
	cr_expect(le(u64, status.stream.stall_until_ns, time_utc_ns()));
	cr_expect(gt(u64, status.stream.stall_until_ns, time_utc_ns() - UINT64_C(60000000000)));
	close(observer);
}

/* What the log says at this second of the consumers' losses. */
static const char *told_of_skips(uint64_t at_s)
{
	static char text[1024];
	int ends[2], stderr_before = dup(STDERR_FILENO);
	ssize_t n;

	cr_assert(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
	control_tell_skips(&control_stream, at_s * TIME_SECOND_NS);
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	close(ends[1]);
	n = read(ends[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	return text;
}

Test(control, the_log_has_the_beginning_and_the_end_of_a_consumers_loss)
{
	struct protocol_attach message = attach_message();
	int client = connect_client(), observer = connect_client();
	char begins[128], ends[128];
	uint64_t gone;

	cr_assert(eq(int, attach(client, &message, NULL), 0));
	cr_expect(eq(str, (char *)told_of_skips(1), (char *)""), "all that it has not acquired is in the ring");
	for (int i = 0; i < 100; i++) {
		arrive(10);
		turn();
	}
	gone = ask_status(observer).consumer_counters[0][CONSUMER_COUNTER_GONE];
	snprintf(begins, sizeof(begins), "stream 'lidar': consumer process %d of user", (int)getpid());
	snprintf(ends, sizeof(ends), "has lost no packet for 10 s; in the 1 s before: %llu\n",
	         (unsigned long long)gone);
	cr_expect(strstr(told_of_skips(2), begins) != NULL);
	for (uint64_t at_s = 3; at_s < 12; at_s++)
		cr_expect(eq(str, (char *)told_of_skips(at_s), (char *)""), "it may go on");
	cr_expect(strstr(told_of_skips(12), ends) != NULL);
	cr_expect(eq(str, (char *)told_of_skips(60), (char *)""));
	close(client);
	turn_for(5);
	cr_expect(eq(str, (char *)told_of_skips(61), (char *)""), "it has left");
	close(observer);
}

/* The worker rests: it has not heard of the first one's end when the second asks. */
Test(control, a_users_lossless_consumers_share_one_account_that_outlives_them)
{
	struct protocol_attach message = attach_message();
	int first, second;

	stream.lossless_deadline_ms = 3600000;
	message.policy = IBVCAP_POLICY_LOSSLESS;
	for (int i = 0; i < 2; i++) {
		first = connect_client();
		cr_assert(eq(int, attach(first, &message, NULL), 0));
		struct stall_budget *budget = ring.consumers[0]->budget;

		cr_expect(eq(u64, budget->owed_ns, i * UINT64_C(1000000000000)));
		budget->owed_ns = UINT64_C(1000000000000);
		budget->updated_ns = now_ms() * 1000000;
		second = connect_client();
		cr_assert(eq(int, attach(second, &message, NULL), 0));
		cr_expect(eq(ptr, ring.consumers[1]->budget, budget), "to take turns is no way around the deadline");
		close(second);
		turn_for(5);
		worker_rests = i;
		close(first);
		turn_for(5);
	}
	second = connect_client();
	cr_assert(eq(int, protocol_send(second, &message.header, NULL, 0), 0));
	turn_for(5);
	cr_assert(eq(u32, ring.n_consumers, 1));
	worker_rests = false;
	cr_assert(turn_until_readable(second, 20000));
	cr_assert(eq(u32, ring.n_consumers, 1));
	cr_expect(eq(u64, ring.consumers[0]->budget->owed_ns, UINT64_C(1000000000000)));
	close(second);
}

Test(control, what_is_repaid_is_forgotten)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();

	stream.lossless_deadline_ms = 3600000;
	message.policy = IBVCAP_POLICY_LOSSLESS;
	cr_assert(eq(int, attach(client, &message, NULL), 0));
	ring.consumers[0]->budget->owed_ns = 2000000;
	ring.consumers[0]->budget->updated_ns = now_ms() * 1000000;
	close(client);
	turn_for(300); /* control forgets at its tick */
	client = connect_client();
	cr_assert(eq(int, attach(client, &message, NULL), 0));
	cr_expect(eq(u64, ring.consumers[0]->budget->owed_ns, 0));
	close(client);
}

Test(control, what_cannot_be_granted_is_refused_by_name_and_the_connection_lives)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();

	strcpy(message.stream, "radar");
	cr_expect(eq(int, attach(client, &message, NULL), -ESRCH));
	message = attach_message();
	message.abi_major++;
	cr_expect(eq(int, attach(client, &message, NULL), -EPROTO));
	message = attach_message();
	message.queue = 3;
	cr_expect(eq(int, attach(client, &message, NULL), -EINVAL));
	message = attach_message();
	message.policy = IBVCAP_POLICY_LOSSLESS;
	cr_expect(eq(int, attach(client, &message, NULL), -EACCES), "lossless_deadline_ms is 0");
	cr_expect(strstr(refusal, "in the stream's configuration, test.conf:7") != NULL, "%s", refusal);
	message.policy = 7;
	cr_expect(eq(int, attach(client, &message, NULL), -EINVAL));
	message = attach_message();
	message.start = IBVCAP_START_NS_BACK + 1;
	cr_expect(eq(int, attach(client, &message, NULL), -EINVAL));
	message = attach_message();
	message.lease_blocks = 3;
	cr_expect(eq(int, attach(client, &message, NULL), -EAGAIN));
	cr_expect(strstr(refusal, "to raise extra_lease_blocks in test.conf:7") != NULL, "%s", refusal);
	message = attach_message();
	cr_expect(eq(int, attach(client, &message, NULL), 0));
	cr_expect(eq(int, attach(client, &message, NULL), -EALREADY));
	cr_expect(eq(u32, ring.n_consumers, 1));
	close(client);
}

Test(control, leases_above_the_streams_are_shared)
{
	struct protocol_attach message = attach_message();
	int first = connect_client(), second;

	stream.max_consumers_per_user = stream.max_lease_blocks_per_user = 100;
	stream.extra_lease_blocks = 5;
	message.lease_blocks = 8;
	cr_expect(eq(int, attach(first, &message, NULL), -EAGAIN));
	cr_expect(strstr(refusal, "each consumer can have 2 (lease_blocks), and 5 more are left") != NULL, "%s",
	          refusal);
	message.lease_blocks = 6;
	cr_assert(eq(int, attach(first, &message, NULL), 0));
	second = connect_client();
	message.lease_blocks = 4;
	cr_expect(eq(int, attach(second, &message, NULL), -EAGAIN), "the first one has 4 of 5");
	cr_expect(strstr(refusal, "1 more are left of extra_lease_blocks = 5") != NULL, "%s", refusal);
	message.lease_blocks = 3;
	cr_expect(eq(int, attach(second, &message, NULL), 0));
	close(first);
	turn_for(20);
	first = connect_client();
	message.lease_blocks = 6;
	cr_expect(eq(int, attach(first, &message, NULL), 0), "what the first one had is free again");
	close(first);
	close(second);
}

Test(control, a_consumer_has_no_more_leases_than_its_page)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();

	stream.extra_lease_blocks = 1000;
	message.lease_blocks = IBVCAP_LEASE_SLOTS_MAX + 1;
	cr_expect(eq(int, attach(client, &message, NULL), -EINVAL));
	cr_expect(strstr(refusal, "a consumer has 64 at most") != NULL, "%s", refusal);
	close(client);
}

Test(control, a_reader_that_the_worker_refuses_is_told_and_its_place_is_free)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();
	struct ring_consumer other;

	cr_assert(eq(int, test_consumer_init(&other, 1), 0));
	while (rx_ring_add_consumer(&ring, &other) == 0)
		;
	for (int i = 0; i < 3; i++) {
		cr_expect(eq(int, attach(client, &message, NULL), -EAGAIN));
		cr_expect(ne(ptr, strstr(refusal, "'lidar': its worker cannot take another consumer"), NULL), "%s",
		          refusal);
	}
	for (int i = 0; i < RX_RING_CONSUMERS_MAX; i++)
		rx_ring_remove_consumer(&ring, &other);
	cr_expect(eq(int, attach(client, &message, NULL), 0));
	test_consumer_deinit(&other);
	close(client);
}

Test(control, a_tap_gets_the_ring_and_nothing_that_the_worker_would_know_of)
{
	struct protocol_attach message = attach_message();
	union protocol_message answer;
	int client = connect_client(), fds[PROTOCOL_FDS_MAX];
	unsigned n_fds = PROTOCOL_FDS_MAX;

	message.policy = IBVCAP_POLICY_TAP;
	cr_assert(eq(int, protocol_send(client, &message.header, NULL, 0), 0));
	cr_assert(turn_until_readable(client, 20000));
	cr_assert(eq(int, protocol_recv(client, &answer, fds, &n_fds), 1));
	cr_expect(eq(int, answer.header.type, PROTOCOL_ATTACHED));
	cr_expect(eq(u32, n_fds, PROTOCOL_FD_TAP_N));
	for (unsigned i = 0; i < n_fds; i++) {
		cr_expect(eq(int, fcntl(fds[i], F_GETFL) & O_ACCMODE, O_RDONLY));
		close(fds[i]);
	}
	cr_expect(eq(u32, ring.n_consumers, 0));
	cr_expect(eq(int, attach(client, &message, NULL), -EALREADY), "one ring a connection");
	close(client);
}

Test(control, while_the_daemon_stops_nobody_is_attached_any_more)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();

	message.queue = 3;
	cr_assert(eq(int, attach(client, &message, NULL), -EINVAL), "connected, and answered");
	control_stop_accepting(control);
	message.queue = 0;
	cr_expect(eq(int, attach(client, &message, NULL), -EAGAIN));
	cr_expect(eq(u32, ring.n_consumers, 0));
	close(client);
}

Test(control, users_that_are_not_listed_are_refused)
{
	static const uid_t users[] = {4711};
	struct protocol_attach message = attach_message();
	int status;
	pid_t pid;

	stream.users = users;
	stream.n_users = 1;
	chmod(directory, 0755);
	pid = fork();
	if (pid == 0) { /* the test's own thread takes the turns */
		union protocol_message answer;
		unsigned n_fds = 0;
		int fd;

		if (setgid(4712) < 0 || setuid(4712) < 0)
			_exit(1);
		fd = connect_client();
		fcntl(fd, F_SETFL, 0);
		protocol_send(fd, &message.header, NULL, 0);
		_exit(protocol_recv(fd, &answer, NULL, &n_fds) == 1 && answer.header.type == PROTOCOL_ERROR &&
		                      answer.error.error == -EACCES
		              ? 0
		              : 2);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		turn();
	cr_expect(eq(int, status, 0));
	cr_expect(eq(u32, ring.n_consumers, 0));
}

Test(control, the_daemons_own_user_is_refused_and_told_why)
{
	const uid_t users[] = {4712};
	struct protocol_attach message = attach_message();
	int client;

	chmod(directory, 0755);
	client = connect_as_another_user();
	stream.users = users;
	stream.n_users = 1;
	daemon_user = 4712;
	cr_expect(eq(int, attach(client, &message, NULL), -EACCES));
	cr_expect(ne(ptr, strstr(refusal, "refused to user 4712, which is the daemon's own"), NULL), "%s", refusal);
	message.policy = IBVCAP_POLICY_TAP;
	cr_expect(eq(int, attach(client, &message, NULL), -EACCES), "a tap too");
	daemon_user = 0;
	message = attach_message();
	cr_expect(eq(int, attach(client, &message, NULL), 0));
	close(client);
}

Test(control, a_consumers_place_is_free_again_once_the_worker_has_let_go)
{
	struct protocol_attach message = attach_message();
	int first = connect_client(), second = connect_client(), third = connect_client();

	cr_expect(eq(int, attach(first, &message, NULL), 0));
	cr_expect(eq(int, attach(second, &message, NULL), 0));
	cr_expect(eq(int, attach(third, &message, NULL), -EAGAIN));
	worker_rests = true;
	close(first);
	turn_for(20);
	cr_expect(eq(int, attach(third, &message, NULL), -EAGAIN));
	worker_rests = false;
	turn_for(20);
	cr_expect(eq(u32, ring.n_consumers, 1));
	cr_expect(eq(int, attach(third, &message, NULL), 0));
	close(second);
	close(third);
	turn_for(20);
	cr_expect(eq(u32, ring.n_consumers, 0));
}

/* Two places, and of the first only a mapping of its page is left: attach() closes descriptors that nobody asks for. */
Test(control, a_page_that_its_client_keeps_has_its_place_until_it_is_let_go)
{
	struct protocol_attach message = attach_message();
	int first = connect_client(), second = connect_client(), third = connect_client();
	int fds[PROTOCOL_FD_N];

	cr_assert(eq(int, attach(first, &message, fds), 0));
	cr_assert(eq(int, attach(second, &message, NULL), 0));
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[PROTOCOL_FD_CONSUMER_PAGE], 0);

	cr_assert(page != MAP_FAILED);
	for (unsigned i = 0; i < PROTOCOL_FD_N; i++)
		close(fds[i]);
	close(first);
	turn_for(250);
	cr_expect(eq(u32, ring.n_consumers, 1));
	cr_expect(eq(u32, ask_status(connect_client()).n_consumers, 1));
	cr_expect(eq(int, attach(third, &message, NULL), -EAGAIN));
	cr_expect(strstr(refusal, "1 of all have hung up, and count until no process maps their memory") != NULL, "%s",
	          refusal);
	munmap(page, 4096);
	cr_expect(eq(int, attach(third, &message, NULL), 0), "and that is seen at once");
	close(second);
	close(third);
}

Test(control, who_broke_the_rules_and_keeps_its_page_is_out_and_has_its_place)
{
	struct protocol_attach message = attach_message();
	int client = connect_client(), second = connect_client(), third = connect_client();
	int fds[PROTOCOL_FD_N];

	cr_assert(eq(int, attach(client, &message, fds), 0));
	struct ibvcap_consumer_page *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[PROTOCOL_FD_CONSUMER_PAGE], 0);

	consumer_store_lease(page, 0, 1u << 20);
	for (int i = 0; i < 20; i++) {
		arrive(64);
		turn_for(2);
	}
	cr_expect(is_hung_up(client));
	cr_expect(eq(u32, ring.n_consumers, 0));
	cr_expect(eq(int, attach(second, &message, NULL), 0));
	cr_expect(eq(int, attach(third, &message, NULL), -EAGAIN));
	cr_expect(eq(u32, ask_status(connect_client()).n_consumers, 1));
	for (unsigned i = 0; i < PROTOCOL_FD_N; i++)
		close(fds[i]);
	munmap(page, 4096);
	cr_expect(eq(int, attach(third, &message, NULL), 0));
	close(second);
	close(third);
}

Test(control, a_client_that_hangs_up_before_the_worker_answers_leaves_nothing)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();

	worker_rests = true;
	cr_assert(eq(int, protocol_send(client, &message.header, NULL, 0), 0));
	turn_for(10);
	close(client);
	turn_for(10);
	worker_rests = false;
	turn_for(20);
	cr_expect(eq(u32, ring.n_consumers, 0));
	cr_expect(eq(u32, ask_status(connect_client()).n_consumers, 0));
}

Test(control, a_dead_process_is_let_go_of_though_its_socket_lives_on)
{
	struct protocol_attach message = attach_message();
	int hold[2];
	int status;
	pid_t pid;

	cr_assert(eq(int, pipe(hold), 0));
	pid = fork();
	if (pid == 0) {
		int fd = connect_client();

		protocol_send(fd, &message.header, NULL, 0);
		poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 3000);
		if (fork() == 0) { /* inherits the socket and stays until the test is through */
			char byte;

			close(hold[1]);
			_exit(read(hold[0], &byte, 1) < 0);
		}
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		turn();
	turn_for(300); /* it is looked for every 100 ms */
	cr_expect(eq(u32, ring.n_consumers, 0));
	close(hold[1]);
}

/* ---- waking, misbehaving ------------------------------------------------------------------------- */

Test(control, a_consumer_that_asked_for_its_pipe_gets_a_byte_when_its_packets_come)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();
	int fds[PROTOCOL_FD_N];

	cr_assert(eq(int, attach(client, &message, fds), 0));
	struct ibvcap_consumer_page *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[PROTOCOL_FD_CONSUMER_PAGE], 0);

	client_request_wake(&page->wake, 2, true);
	arrive(1);
	cr_expect(not(turn_until_readable(fds[PROTOCOL_FD_WAKE_SOCKET], 50)));
	arrive(1);
	cr_expect(turn_until_readable(fds[PROTOCOL_FD_WAKE_SOCKET], 20000));
	close(client);
}

Test(control, a_consumer_whose_page_lies_is_told_and_hung_up)
{
	struct protocol_attach message = attach_message();
	int client = connect_client();
	int fds[PROTOCOL_FD_N];

	cr_assert(eq(int, attach(client, &message, fds), 0));
	struct ibvcap_consumer_page *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[PROTOCOL_FD_CONSUMER_PAGE], 0);
	struct ibvcap_consumer_state *state =
		mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[PROTOCOL_FD_CONSUMER_STATE], 0);

	consumer_store_lease(page, 0, 1u << 20);
	for (int i = 0; i < 20; i++) {
		arrive(64);
		turn_for(2);
	}
	cr_expect(is_hung_up(client));
	cr_expect(eq(int, (int)client_load_connection(&state->link), IBVCAP_CONNECTION_ENDED));
	cr_expect(eq(u32, ring.n_consumers, 0));
}

Test(control, a_malformed_message_is_answered_with_an_error_and_hung_up)
{
	static const uint8_t garbage[64] = {0xff, 1, 2, 3};
	int client = connect_client();
	union protocol_message answer;
	unsigned n_fds = 0;

	cr_assert(eq(int, (int)send(client, garbage, sizeof(garbage), 0), (int)sizeof(garbage)));
	receive(client, &answer, NULL, &n_fds);
	cr_expect(eq(u16, answer.header.type, PROTOCOL_ERROR));
	cr_expect(eq(int, answer.error.error, -EPROTO));
	cr_expect(is_hung_up(client));
}

Test(control, an_answer_is_no_request)
{
	int client = connect_client();
	struct protocol_attached message = {0};

	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	cr_assert(eq(int, protocol_send(client, &message.header, NULL, 0), 0));
	union protocol_message answer;
	unsigned n_fds = 0;

	receive(client, &answer, NULL, &n_fds);
	cr_expect(eq(int, answer.error.error, -EPROTO));
	cr_expect(is_hung_up(client));
}

static void pass_rights(int pass)
{
	if (setsockopt(listener.fd, SOL_SOCKET, SO_PASSRIGHTS, &pass, sizeof(pass)) < 0)
		cr_skip_test("SO_PASSRIGHTS: %s", strerror(errno));
}

Test(control, the_kernel_refuses_descriptors_at_the_client)
{
	struct protocol_attach message = attach_message();
	int pass = 1, client, zero = open("/dev/zero", O_RDONLY);
	socklen_t bytes = sizeof(pass);

	if (getsockopt(listener.fd, SOL_SOCKET, SO_PASSRIGHTS, &pass, &bytes) < 0)
		cr_skip_test("SO_PASSRIGHTS: %s", strerror(errno));
	cr_assert(eq(int, pass, 0));
	client = connect_client();
	cr_expect(eq(int, protocol_send(client, &message.header, &zero, 1), -EPERM));
	cr_expect(eq(int, attach(client, &message, NULL), 0), "the connection works on");
}

/* As on a kernel before 6.16. */
Test(control, descriptors_from_a_client_are_refused)
{
	struct protocol_attach message = attach_message();
	union protocol_message answer;
	int client, zero = open("/dev/zero", O_RDONLY);
	unsigned n_fds = 0;

	pass_rights(1);
	client = connect_client();
	cr_assert(eq(int, protocol_send(client, &message.header, &zero, 1), 0));
	receive(client, &answer, NULL, &n_fds);
	cr_expect(eq(int, answer.error.error, -EPROTO));
	cr_expect(is_hung_up(client));
	cr_expect(eq(u32, ring.n_consumers, 0));
}

Test(control, too_many_messages_a_second_end_the_connection)
{
	int client = connect_client();
	struct protocol_attach message = attach_message();

	config.max_messages_per_s = 5;
	strcpy(message.stream, "radar");
	for (int i = 0; i < 5; i++)
		cr_expect(eq(int, attach(client, &message, NULL), -ESRCH));
	cr_expect(eq(int, attach(client, &message, NULL), -EAGAIN));
	cr_expect(is_hung_up(client));
}

/* root has places that others do not have. */
Test(control, clients_beyond_max_clients_are_told)
{
	int clients[4 + 8 + 1];
	union protocol_message answer;
	unsigned n_fds = 0;

	for (int i = 0; i < 13; i++) {
		clients[i] = connect_client();
		turn_for(5);
	}
	receive(clients[12], &answer, NULL, &n_fds);
	cr_expect(eq(int, answer.error.error, -EAGAIN));
	cr_expect(is_hung_up(clients[12]));
	cr_expect(ask_status(clients[11]).ended);
	close(clients[0]);
	turn_for(5);
	cr_expect(ask_status(connect_client()).ended);
}

Test(control, other_users_do_not_take_the_places_of_root)
{
	union protocol_message answer;
	unsigned n_fds = 0;
	int other_user;

	chmod(directory, 0755);
	for (int i = 0; i < 4; i++) {
		connect_as_another_user();
		turn_for(5);
	}
	other_user = connect_as_another_user();
	receive(other_user, &answer, NULL, &n_fds);
	cr_expect(eq(int, answer.error.error, -EAGAIN));
	cr_expect(strstr(answer.error.text, "max_clients") != NULL, "%s", answer.error.text);
	cr_expect(ask_status(connect_client()).ended, "root is served");
}

Test(control, a_client_that_does_not_read_is_hung_up_and_delays_nobody)
{
	int deaf = connect_client(), other = connect_client();
	struct protocol_bare message;
	uint64_t start_ms;

	protocol_init(&message.header, PROTOCOL_STATUS, sizeof(message));
	for (int i = 0; i < 900; i++) {
		protocol_send(deaf, &message.header, NULL, 0);
		turn();
	}
	start_ms = now_ms();
	cr_expect(ask_status(other).ended);
	cr_expect(lt(u64, now_ms() - start_ms, 4000));
	for (start_ms = now_ms(); now_ms() - start_ms < 20000;) {
		struct pollfd poll_fd = {.fd = deaf, .events = 0};

		turn();
		if (poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLHUP))
			return;
	}
	cr_expect(false, "the client that does not read is still connected");
}

/* ---- status -------------------------------------------------------------------------------------- */

Test(control, at_rest_the_sum_is_exact_and_nothing_is_in_flight)
{
	int client = connect_client();
	struct status status;

	arrive(SLOTS + 40); /* the worker has had no turn: 40 find no slot */
	status = ask_status(client);
	cr_expect(eq(u64, status.counters[IBVCAP_RX_COUNTER_MATCHED], SLOTS + 40));
	cr_expect(eq(u64, status.counters[IBVCAP_RX_COUNTER_PUBLISHED], SLOTS));
	cr_expect(eq(u64, status.counters[IBVCAP_RX_COUNTER_NO_BUFFER], 40));
	cr_expect(eq(u64, status.counters[STREAM_COUNTER_IN_FLIGHT], 0));
	cr_expect(eq(u64, status.counters[STREAM_COUNTER_HEAD], SLOTS));
	cr_expect(eq(u64, sum_left(status.counters), 0));
	cr_expect(eq(u64, status.port_counters[INTERFACE_COUNTER_OUT_OF_BUFFER], 40));
	cr_expect(eq(str, status.stream.name, (char *)"lidar"));
	cr_expect(eq(str, status.stream.state, (char *)"capturing"));
	cr_expect(eq(str, status.interface.interface, (char *)"eth7"));
	cr_expect(eq(str, status.interface.uncounted, (char *)"nothing"));
	cr_expect(eq(u64, status.interface.loss_packets, 3));
	cr_expect(eq(u64, status.interface.loss_to_ns, 5));
}

Test(control, packets_that_come_while_it_is_asked_are_in_flight_and_the_sum_holds)
{
	int client = connect_client();
	struct status status;

	arrive(30);
	turn_for(5);
	worker_rests = true;
	arrive(20);
	status = ask_status(client);
	cr_expect(eq(u64, status.counters[IBVCAP_RX_COUNTER_MATCHED], 50));
	cr_expect(eq(u64, status.counters[IBVCAP_RX_COUNTER_PUBLISHED], 30));
	cr_expect(eq(u64, status.counters[STREAM_COUNTER_IN_FLIGHT], 20));
	cr_expect(eq(u64, sum_left(status.counters), 20));
}

Test(control, a_worker_that_does_not_answer_delays_status_by_a_moment_only)
{
	int client = connect_client();
	uint64_t start_ms;
	struct mail mail = {.type = MAIL_MATCHED};

	worker_rests = true;
	arrive(1);
	while (mailbox_send(worker->inbox, &mail) == 0)
		;
	start_ms = now_ms();
	cr_expect(ask_status(client).ended);
	cr_expect(lt(u64, now_ms() - start_ms, 5000));
}

Test(control, consumers_are_listed_with_numbers_that_add_up)
{
	struct protocol_attach message = attach_message();
	int first = connect_client(), second = connect_client();
	int fds[PROTOCOL_FD_N];
	struct status status;

	cr_assert(eq(int, attach(first, &message, fds), 0));
	arrive(10);
	turn_for(5);
	cr_assert(eq(int, attach(second, &message, NULL), 0));
	arrive(5);
	turn_for(5);
	struct ibvcap_consumer_page *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[PROTOCOL_FD_CONSUMER_PAGE], 0);

	consumer_store_lease(page, 1, 0);
	consumer_store_delivered(page, 5);
	consumer_store_skipped(page, 2);
	status = ask_status(second);
	cr_assert(eq(u32, status.n_consumers, 2));
	for (unsigned i = 0; i < 2; i++) {
		const struct ibvcap_status_consumer *c = &status.consumers[i];
		const uint64_t *counters = status.consumer_counters[i];
		bool is_first = counters[CONSUMER_COUNTER_PUBLISHED] == 15;

		cr_expect(eq(int, c->pid, getpid()));
		cr_expect(eq(str, (char *)c->stream, (char *)"lidar"));
		cr_expect(eq(u64, counters[CONSUMER_COUNTER_PUBLISHED], is_first ? 15 : 5));
		cr_expect(eq(u64, counters[CONSUMER_COUNTER_DELIVERED], is_first ? 5 : 0));
		cr_expect(eq(u64, counters[CONSUMER_COUNTER_SKIPPED], is_first ? 2 : 0));
		cr_expect(eq(u64, counters[CONSUMER_COUNTER_LAG], is_first ? 8 : 5));
		cr_expect(eq(u64, counters[CONSUMER_COUNTER_LEASED_BLOCKS], is_first ? 1 : 0));
	}
	close(first);
	close(second);
}

Test(control, many_who_ask_at_once_share_their_answers)
{
	int clients[4];
	struct protocol_bare message;

	protocol_init(&message.header, PROTOCOL_STATUS, sizeof(message));
	arrive(3);
	for (int i = 0; i < 4; i++) {
		clients[i] = connect_client();
		cr_assert(eq(int, protocol_send(clients[i], &message.header, NULL, 0), 0));
	}
	for (int i = 0; i < 4; i++) {
		struct status status = {0};

		while (!status.ended) {
			union protocol_message answer;
			unsigned n_fds = 0;

			receive(clients[i], &answer, NULL, &n_fds);
			take_status(&status, &answer);
		}
		cr_expect(eq(u64, status.counters[IBVCAP_RX_COUNTER_PUBLISHED], 3));
	}
}

/* The sum of what is shown: 1 the removed stream, 16 the one in its place, 256 a consumer. */
static int what_is_seen(int client)
{
	struct protocol_bare request;
	union protocol_message answer;
	int seen = 0;

	protocol_init(&request.header, PROTOCOL_STATUS, sizeof(request));
	cr_assert(eq(int, protocol_send(client, &request.header, NULL, 0), 0));
	do {
		unsigned n_fds = 0;

		receive(client, &answer, NULL, &n_fds);
		if (answer.header.type != PROTOCOL_PART)
			continue;
		if (answer.part.kind == STATUS_STREAM)
			seen += strcmp(((struct ibvcap_status_stream *)answer.part.body)->state, "ending") == 0 ? 1
			                                                                                        : 16;
		else if (answer.part.kind == STATUS_CONSUMER)
			seen += 256;
	} while (answer.header.type != PROTOCOL_END);
	return seen;
}

Test(control, a_removed_stream_and_the_one_in_its_place_are_shown_by_their_own_rights)
{
	const uid_t users[] = {4711};
	struct config_stream other = stream;
	struct protocol_attach message = attach_message();
	struct control_stream next = control_stream;
	struct control_queue next_queue = control_queue;
	struct rx_ring other_ring;
	int client = connect_client(), other_user;

	chmod(directory, 0755);
	other_user = connect_as_another_user();
	cr_assert(eq(int, mailbox_new(&next_queue.inbox), 0));
	cr_assert(eq(int, mailbox_new(&next_queue.outbox), 0));
	make_ring_of(&other_ring);
	next_queue.ring = &other_ring;
	next.queues[0] = &next_queue;
	next.config = &other;
	cr_assert(eq(int, attach(client, &message, NULL), 0));
	control_end_stream(&control_stream, IBVCAP_DISCONNECT_REMOVED);
	control_queue.state = "ending";
	cr_assert(eq(int, control_add_stream(control, &next), 0));
	stream.users = users;
	stream.n_users = 1;
	cr_expect(eq(int, what_is_seen(other_user), 16));
	stream.n_users = 0;
	other.users = users;
	other.n_users = 1;
	cr_expect(eq(int, what_is_seen(other_user), 1 + 256));
	other.n_users = 0;
	cr_expect(eq(int, what_is_seen(other_user), 1 + 16 + 256));
	control_remove_stream(&next);
	mailbox_free(next_queue.inbox);
	mailbox_free(next_queue.outbox);
	rx_ring_deinit(&other_ring);
	close(other_user);
	close(client);
}
