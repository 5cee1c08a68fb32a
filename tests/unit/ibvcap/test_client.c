// SPDX-License-Identifier: Apache-2.0
/* The library against a daemon that is a script in this process: what it says, and what becomes of it. */
#include "lib/base/time.h"
#include "lib/ibvcap/client/client.h"
#include "lib/status/counters.h"
#include "tests/support/status_part.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], path[96];
static int listener;
static pthread_t thread;
static int (*script)(int socket, const union protocol_message *request);
static struct ibvcap_rx *rx;
static struct ibvcap_status *status;

static void listen_there(int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(directory, "/tmp/ibvcap-test-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/control.sock", directory);
	memcpy(address.sun_path, path, strlen(path) + 1);
	listener = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 1), 0);
}

static void init(void)
{
	listen_there(SOCK_SEQPACKET);
	rx = NULL;
	status = NULL;
}

static void deinit(void)
{
	close(listener);
	unlink(path);
	rmdir(directory);
}

TestSuite(client, .init = init, .fini = deinit, .timeout = 30);

static void *serve(void *argument)
{
	union protocol_message request;
	int socket = accept(listener, NULL, NULL);

	if (protocol_recv(socket, &request, NULL, NULL) == 1 && script(socket, &request) == 0)
		protocol_recv(socket, &request, NULL, NULL); /* until the client hangs up */
	close(socket);
	return argument;
}

static int attach_to(int (*daemon)(int, const union protocol_message *), uint32_t timeout_ms)
{
	const struct ibvcap_rx_options options = {
		.size = sizeof(options),
		.timeout_ms = timeout_ms,
		.lease_blocks = 2,
		.start = IBVCAP_START_OLDEST,
	};
	int r;

	script = daemon;
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	r = ibvcap_rx_open(path, "lidar", &options, &rx);
	if (r < 0) {
		cr_expect_null(rx);
		cr_expect_gt(strlen(ibvcap_error_text()), 10);
		pthread_join(thread, NULL);
	}
	return r;
}

static int say_error(int socket, const union protocol_message *request)
{
	struct protocol_error message = {.error = -ESRCH, .text = "no stream 'lidar'"};

	cr_assert_eq(request->header.type, PROTOCOL_ATTACH);
	cr_expect_str_eq(request->attach.stream, "lidar");
	cr_expect_eq(request->attach.lease_blocks, 2);
	cr_expect_eq(request->attach.start, IBVCAP_START_OLDEST);
	cr_expect_eq(request->attach.abi_major, IBVCAP_ABI_MAJOR);
	protocol_init(&message.header, PROTOCOL_ERROR, sizeof(message));
	protocol_send(socket, &message.header, NULL, 0);
	return -1;
}

Test(client, a_refusal_is_passed_on_with_the_daemons_words)
{
	cr_expect_eq(attach_to(say_error, 0), -ESRCH);
	cr_expect_str_eq(ibvcap_error_text(), "no stream 'lidar'");
}

static int hang_up(int socket, const union protocol_message *request)
{
	(void)socket;
	(void)request;
	return -1;
}

Test(client, a_daemon_that_hangs_up_refused)
{
	cr_expect_eq(attach_to(hang_up, 0), -ECONNREFUSED);
}

static int say_nothing(int socket, const union protocol_message *request)
{
	(void)socket;
	(void)request;
	return 0;
}

Test(client, silence_times_out)
{
	uint64_t start = time_monotonic_ns();

	cr_expect_eq(attach_to(say_nothing, 150), -ETIMEDOUT);
	cr_expect_geq(time_monotonic_ns() - start, 150000000);
}

Test(client, a_daemon_that_does_not_answer_yet_is_starting_or_hangs)
{
	cr_expect_eq(attach_to(say_nothing, 50), -ETIMEDOUT);
	cr_expect_not_null(strstr(ibvcap_error_text(), "the daemon is starting, or hangs"), "%s", ibvcap_error_text());
}

Test(client, a_daemon_that_is_stopped_is_named)
{
	char expected[64];
	pid_t pid = fork();

	if (pid == 0) {
		listen(listener, 1); /* the kernel names the process that did this last */
		raise(SIGSTOP);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, NULL, WUNTRACED), pid);
	cr_expect_eq(ibvcap_status(path, 50, &status), -ETIMEDOUT);
	snprintf(expected, sizeof(expected), "process %d is stopped (kill -CONT %d ", (int)pid, (int)pid);
	cr_expect_not_null(strstr(ibvcap_error_text(), expected), "%s", ibvcap_error_text());
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(client, a_user_who_is_not_in_the_sockets_group_is_told_how_to_become_a_member)
{
	if (geteuid() != 0)
		cr_skip_test("becoming another user needs root");
	cr_assert_eq(chmod(directory, 0755), 0);
	cr_assert_eq(chown(path, 0, 1), 0); /* on every Debian system 1 is daemon, and 65534 is nobody */
	cr_assert_eq(chmod(path, 0660), 0);
	cr_assert_eq(setgroups(0, NULL), 0);
	cr_assert_eq(setegid(65534), 0);
	cr_assert_eq(seteuid(65534), 0);
	cr_expect_eq(ibvcap_status(path, 50, &status), -EACCES);
	cr_expect_not_null(strstr(ibvcap_error_text(), "nobody is not in group daemon: sudo usermod -aG daemon nobody, "
	                                               "then log in again"),
	                   "%s", ibvcap_error_text());
	cr_assert_eq(seteuid(0), 0);
	for (mode_t mode = 0600; mode <= 0660; mode += 060) { /* no group may; root's group, which is for nobody */
		cr_assert_eq(chown(path, 0, mode == 0600), 0);
		cr_assert_eq(chmod(path, mode), 0);
		cr_assert_eq(seteuid(65534), 0);
		cr_expect_eq(ibvcap_status(path, 50, &status), -EACCES);
		cr_expect_not_null(strstr(ibvcap_error_text(), "not for nobody; the daemon's configuration (control)"),
		                   "%s", ibvcap_error_text());
		cr_assert_eq(seteuid(0), 0);
	}
	cr_assert_eq(chmod(directory, 0700), 0);
	cr_assert_eq(seteuid(65534), 0);
	cr_expect_eq(ibvcap_status(path, 50, &status), -EACCES);
	cr_expect_not_null(
		strstr(ibvcap_error_text(), "a directory of this path is closed to nobody: find it by 'namei"), "%s",
		ibvcap_error_text());
	cr_assert_eq(seteuid(0), 0);
	cr_assert_eq(setegid(0), 0);
}

static void on_timer(int number)
{
	(void)number;
}

/* A signal each 5 ms that ends a system call, as of a program that profiles itself. */
static void interrupt_often(void)
{
	const struct sigaction action = {.sa_handler = on_timer};
	const struct itimerval often = {.it_interval = {.tv_usec = 5000}, .it_value = {.tv_usec = 5000}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

Test(client, a_full_backlog_times_out_though_signals_come)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .timeout_ms = 100};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fds[8];

	strcpy(address.sun_path, path);
	for (unsigned i = 0; i < 8; i++) {
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(fds[i], (struct sockaddr *)&address, sizeof(address));
	}
	interrupt_often();
	cr_expect_eq(ibvcap_rx_open(path, "lidar", &options, &rx), -ETIMEDOUT);
	for (unsigned i = 0; i < 8; i++)
		close(fds[i]);
}

Test(client, silence_times_out_though_signals_come)
{
	interrupt_often();
	cr_expect_eq(attach_to(say_nothing, 100), -ETIMEDOUT);
}

static int say_nonsense(int socket, const union protocol_message *request)
{
	(void)request;
	send(socket, "nonsense", 8, MSG_NOSIGNAL);
	return 0;
}

Test(client, nonsense_is_another_protocol)
{
	cr_expect_eq(attach_to(say_nonsense, 0), -EPROTO);
}

static int attach_without_descriptors(int socket, const union protocol_message *request)
{
	struct protocol_attached message = {.epoch = EPOCH};
	int fds[] = {0, 0, 0, 0, 0};

	(void)request;
	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	return protocol_send(socket, &message.header, fds, 5);
}

Test(client, five_of_six_descriptors_are_no_ring)
{
	cr_expect_eq(attach_to(attach_without_descriptors, 0), -EPROTO);
}

static struct attached a;

static int attach_to_a_ring(int socket, const union protocol_message *request)
{
	struct protocol_attached message = {.epoch = EPOCH};
	int fds[PROTOCOL_FD_N], other;

	(void)request;
	attached_prepare(&a, fds, &other);
	close(other);
	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	protocol_send(socket, &message.header, fds, PROTOCOL_FD_N);
	for (unsigned i = 0; i < PROTOCOL_FD_N; i++)
		close(fds[i]);
	return 0;
}

Test(client, a_ring_is_attached_and_read)
{
	uint64_t number;
	size_t length;

	cr_assert_eq(attach_to(attach_to_a_ring, 0), 0, "%s", ibvcap_error_text());
	attached_publish(&a, 1);
	cr_expect_eq(ibvcap_rx_recv(rx, &number, sizeof(number), &length, NULL, 1000), 1);
	cr_expect_eq(number, 0);
	ibvcap_rx_close(rx);
	pthread_join(thread, NULL);
	attached_deinit(&a);
}

/* ---- who is not there ---------------------------------------------------------------------------- */

Test(client, nobody_there)
{
	char other[128];

	snprintf(other, sizeof(other), "%s/none", directory);
	cr_expect_eq(ibvcap_rx_open(other, "lidar", NULL, &rx), -ENOENT);
	cr_expect_not_null(strstr(ibvcap_error_text(), other), "%s", ibvcap_error_text());
	close(listener);
	cr_expect_eq(ibvcap_rx_open(path, "lidar", NULL, &rx), -ECONNREFUSED);
	cr_expect_eq(ibvcap_status(path, 0, &status), -ECONNREFUSED);
	cr_expect_null(status);
}

Test(client, the_environment_names_the_socket)
{
	setenv("IBVCAP_SOCKET", "/nonexistent/by-environment", 1);
	cr_expect_eq(ibvcap_rx_open(NULL, "lidar", NULL, &rx), -ENOENT);
	cr_expect_not_null(strstr(ibvcap_error_text(), "/nonexistent/by-environment"));
}

Test(client, impossible_names_are_refused_without_asking)
{
	char name[200];

	memset(name, 'x', sizeof(name));
	name[IBVCAP_STREAM_NAME_MAX] = '\0';
	cr_expect_eq(ibvcap_rx_open(path, name, NULL, &rx), -EINVAL);
	cr_expect_eq(ibvcap_rx_open(path, "", NULL, &rx), -EINVAL);
	name[IBVCAP_STREAM_NAME_MAX] = 'x';
	name[199] = '\0';
	cr_expect_eq(ibvcap_rx_open(name, "lidar", NULL, &rx), -EINVAL);
}

Test(client, a_socket_of_another_kind)
{
	deinit();
	listen_there(SOCK_STREAM);
	cr_expect_eq(ibvcap_rx_open(path, "lidar", NULL, &rx), -EPROTO);
}

/* ---- status -------------------------------------------------------------------------------------- */

#define N_STREAMS 9

static int say_part(int socket, enum status_kind_of_part kind, const void *part, const uint64_t *counters,
                    uint32_t n_counters)
{
	struct protocol_part message;

	status_part_build(&message, kind, part, counters, n_counters);
	return protocol_send(socket, &message.header, NULL, 0);
}

static int say_end(int socket)
{
	struct protocol_header end;

	protocol_init(&end, PROTOCOL_END, sizeof(end));
	return protocol_send(socket, &end, NULL, 0);
}

static int say_status(int socket, const union protocol_message *request)
{
	struct ibvcap_status_daemon daemon = {.size = sizeof(daemon), .pid = 4711, .version = "0.1.0"};
	struct ibvcap_status_flow flow = {.size = sizeof(flow),
	                                  .stream = "s0",
	                                  .destination = "239.1.2.3",
	                                  .destination_port = 7502,
	                                  .vlan = -1,
	                                  .text = "239.1.2.3:7502"};
	struct ibvcap_status_consumer consumer = {
		.size = sizeof(consumer), .stream = "s0", .pid = 12, .uid = 1000, .n_counters = STATUS_COUNTERS_MAX};
	struct ibvcap_status_channel channel = {.size = sizeof(channel),
	                                        .name = "out",
	                                        .rate_bps = 5,
	                                        .n_unresolved = 1,
	                                        .n_counters = STATUS_COUNTERS_MAX};
	struct ibvcap_status_sender sender = {.size = sizeof(sender),
	                                      .channel = "out",
	                                      .pid = 13,
	                                      .uid = 1001,
	                                      .n_counters = CHANNEL_COUNTER_PENDING + 1};
	struct ibvcap_status_interface interface = {.size = sizeof(interface),
	                                            .interface = "eth0",
	                                            .backend = "packet",
	                                            .backend_why = "because",
	                                            .backend_how = "with care",
	                                            .backend_better = "a card",
	                                            .backend_command = "buy one",
	                                            .is_second_best = 1,
	                                            .is_auto = 1};
	uint64_t counters[STATUS_COUNTERS_MAX] = {0};

	cr_assert_eq(request->header.type, PROTOCOL_STATUS);
	say_part(socket, STATUS_DAEMON, &daemon, NULL, 0);
	for (unsigned i = 0; i < N_STREAMS; i++) {
		struct ibvcap_status_stream stream = {
			.size = sizeof(stream), .interface = "eth0", .queue = i, .n_counters = STREAM_COUNTER_N};

		snprintf(stream.name, sizeof(stream.name), "s%u", i);
		for (unsigned c = 0; c < stream.n_counters; c++)
			counters[c] = 100 * i + c;
		say_part(socket, STATUS_STREAM, &stream, counters, stream.n_counters);
	}
	say_part(socket, STATUS_FLOW, &flow, NULL, 0);
	counters[CONSUMER_COUNTER_LAG] = 5;
	counters[CONSUMER_COUNTER_GONE] = COUNTER_ABSENT;
	say_part(socket, STATUS_CONSUMER, &consumer, counters, consumer.n_counters);
	counters[CONSUMER_COUNTER_GONE] = 0;
	counters[CHANNEL_COUNTER_PENDING] = 6;
	say_part(socket, STATUS_CHANNEL, &channel, counters, channel.n_counters);
	say_part(socket, STATUS_SENDER, &sender, counters, sender.n_counters);
	say_part(socket, STATUS_INTERFACE, &interface, NULL, 0);
	return say_end(socket);
}

static int status_of(int (*daemon)(int, const union protocol_message *))
{
	int r;

	script = daemon;
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	r = ibvcap_status(path, 2000, &status);
	pthread_join(thread, NULL);
	return r;
}

Test(client, a_status_has_all_parts_with_their_labels)
{
	struct ibvcap_status_daemon daemon = IBVCAP_INIT(struct ibvcap_status_daemon);
	struct ibvcap_status_stream stream = IBVCAP_INIT(struct ibvcap_status_stream);
	struct ibvcap_status_flow flow = IBVCAP_INIT(struct ibvcap_status_flow);
	struct ibvcap_status_consumer consumer = IBVCAP_INIT(struct ibvcap_status_consumer);
	struct ibvcap_status_channel channel = IBVCAP_INIT(struct ibvcap_status_channel);
	struct ibvcap_status_sender sender = IBVCAP_INIT(struct ibvcap_status_sender);
	struct ibvcap_status_interface interface = IBVCAP_INIT(struct ibvcap_status_interface);

	cr_assert_eq(status_of(say_status), 0, "%s", ibvcap_error_text());
	cr_assert_eq(ibvcap_status_daemon(status, &daemon), 0);
	cr_expect_str_eq(daemon.version, "0.1.0");
	cr_expect_eq(daemon.pid, 4711);
	cr_expect_eq(daemon.n_streams, N_STREAMS);
	cr_expect_eq(daemon.n_consumers + daemon.n_channels + daemon.n_senders + daemon.n_interfaces, 4);
	for (unsigned i = 0; i < N_STREAMS; i++) {
		cr_assert_eq(ibvcap_status_stream(status, i, &stream), 1);
		cr_expect_eq(stream.queue, i);
		cr_assert_eq(stream.n_counters, IBVCAP_RX_COUNTER_N + STREAM_COUNTER_N - COUNTERS_ADDED);
		cr_expect_str_eq(stream.counters[0].label, "matched");
		cr_expect_str_eq(stream.counters[IBVCAP_RX_COUNTER_N].label, "in_flight");
		cr_expect_eq(stream.counters[IBVCAP_RX_COUNTER_N].value, 100 * i + STREAM_COUNTER_IN_FLIGHT);
	}
	cr_expect_eq(ibvcap_status_stream(status, N_STREAMS, &stream), 0, "there are no more");
	cr_expect_eq(daemon.n_flows, 1);
	cr_assert_eq(ibvcap_status_flow(status, 0, &flow), 1);
	cr_expect_str_eq(flow.stream, "s0");
	cr_expect_str_eq(flow.destination, "239.1.2.3");
	cr_expect_str_eq(flow.source, "");
	cr_expect_str_eq(flow.text, "239.1.2.3:7502");
	cr_expect(flow.destination_port == 7502 && flow.source_port == 0 && flow.vlan == -1);
	cr_assert_eq(ibvcap_status_consumer(status, 0, &consumer), 1);
	cr_expect_eq(consumer.uid, 1000);
	cr_assert_eq(consumer.n_counters, CONSUMER_COUNTER_N - 1, "those without a name or a value are left out");
	cr_expect_str_eq(consumer.counters[CONSUMER_COUNTER_LAG].label, "lag");
	cr_expect_eq(consumer.counters[CONSUMER_COUNTER_LAG].value, 5);
	cr_assert_eq(ibvcap_status_channel(status, 0, &channel), 1);
	cr_expect_str_eq(channel.name, "out");
	cr_expect_eq(channel.rate_bps, 5);
	cr_expect_eq(channel.n_unresolved, 1);
	cr_assert_eq(channel.n_counters, IBVCAP_TX_COUNTER_N + CHANNEL_COUNTER_N - COUNTERS_ADDED,
	             "those without a name are left out");
	cr_expect_str_eq(channel.counters[IBVCAP_TX_COUNTER_SUBMITTED].label, "submitted");
	cr_expect_str_eq(channel.counters[IBVCAP_TX_COUNTER_N].label, "pending");
	cr_expect_eq(channel.counters[IBVCAP_TX_COUNTER_N].value, 6);
	cr_assert_eq(ibvcap_status_sender(status, 0, &sender), 1);
	cr_expect_eq(sender.uid, 1001);
	cr_assert_eq(sender.n_counters, IBVCAP_TX_COUNTER_N + 1);
	cr_expect_str_eq(sender.counters[IBVCAP_TX_COUNTER_N].label, "pending");
	cr_expect_eq(sender.counters[IBVCAP_TX_COUNTER_N].value, 6);
	cr_assert_eq(ibvcap_status_interface(status, 0, &interface), 1);
	cr_expect_eq(interface.n_counters, 0);
	cr_expect_str_eq(interface.backend, "packet");
	cr_expect_str_eq(interface.backend_why, "because");
	cr_expect_str_eq(interface.backend_how, "with care");
	cr_expect_str_eq(interface.backend_better, "a card");
	cr_expect_str_eq(interface.backend_command, "buy one");
	cr_expect_eq(interface.is_second_best, 1);
	cr_expect_eq(interface.is_auto, 1);
	interface.size = 0;
	cr_expect_eq(ibvcap_status_interface(status, 0, &interface), -EINVAL);
	ibvcap_status_free(status);
}

/* A daemon whose structs are longer, and one whose structs are shorter. */
static int say_other_sizes(int socket, const union protocol_message *request)
{
	struct {
		struct ibvcap_status_daemon daemon;
		uint64_t added;
	} longer = {{.size = sizeof(longer), .pid = 5, .version = "9"}, UINT64_MAX};
	struct ibvcap_status_stream shorter = {
		.size = offsetof(struct ibvcap_status_stream, stall_pid), .name = "s0", .n_counters = 2, .n_queues = 7};
	const uint64_t counters[] = {40, 30};

	(void)request;
	say_part(socket, STATUS_DAEMON, &longer, NULL, 0);
	say_part(socket, STATUS_STREAM, &shorter, counters, 2);
	return say_end(socket);
}

Test(client, a_daemon_may_know_more_fields_or_fewer)
{
	struct ibvcap_status_daemon daemon = IBVCAP_INIT(struct ibvcap_status_daemon);
	struct ibvcap_status_stream stream = IBVCAP_INIT(struct ibvcap_status_stream);

	cr_assert_eq(status_of(say_other_sizes), 0, "%s", ibvcap_error_text());
	ibvcap_status_daemon(status, &daemon);
	cr_expect(daemon.pid == 5 && daemon.n_streams == 1 && daemon.size == sizeof(daemon));
	cr_assert_eq(ibvcap_status_stream(status, 0, &stream), 1);
	cr_expect(stream.n_counters == 2 && stream.counters[1].value == 30 && stream.n_queues == 0);
	ibvcap_status_free(status);
}

static int say_half(int socket, const union protocol_message *request)
{
	struct ibvcap_status_daemon daemon = {.size = sizeof(daemon), .pid = 1};

	(void)request;
	say_part(socket, STATUS_DAEMON, &daemon, NULL, 0);
	return -1;
}

Test(client, half_a_status_is_none)
{
	cr_expect_eq(status_of(say_half), -ECONNREFUSED);
	cr_expect_null(status);
}

static int say_in_older_words(int socket, const union protocol_message *request)
{
	struct ibvcap_status_daemon daemon = {.size = sizeof(daemon)};
	struct protocol_part message;

	(void)request;
	status_part_build(&message, STATUS_DAEMON, &daemon, NULL, 0);
	message.header.version--;
	return protocol_send(socket, &message.header, NULL, 0);
}

Test(client, a_daemon_of_another_version_is_told_as_that)
{
	cr_expect_eq(status_of(say_in_older_words), -EPROTO);
	cr_expect_not_null(strstr(ibvcap_error_text(), "library and daemon are of different versions"));
	cr_expect_not_null(strstr(ibvcap_error_text(), "systemctl restart ibvcapd"));
}

static int say_without_end(int socket, const union protocol_message *request)
{
	struct ibvcap_status_interface interface = {.size = sizeof(interface), .interface = "eth0"};

	(void)request;
	while (say_part(socket, STATUS_INTERFACE, &interface, NULL, 0) == 0)
		;
	return -1;
}

Test(client, a_status_without_end_ends)
{
	int r = status_of(say_without_end);

	cr_expect(r == -EPROTO || r == -ETIMEDOUT, "%d", r);
}
