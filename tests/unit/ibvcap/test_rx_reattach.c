// SPDX-License-Identifier: Apache-2.0
/* Going on after a daemon's end. The next daemon is played by the test: it accepts, reads the request and answers. */
#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char directory[] = "/tmp/ibvcap-next-XXXXXX";
static char path[64];
static int listener = -1;
static struct attached a, b;
static struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

static void listen_again(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(address.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert(eq(int, bind(listener, (struct sockaddr *)&address, sizeof(address)), 0));
	cr_assert(eq(int, listen(listener, 8), 0));
}

static void set_up(void)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = 20000};
	int fds[PROTOCOL_FD_N], socket;

	cr_assert(mkdtemp(directory) != NULL);
	snprintf(path, sizeof(path), "%s/s", directory);
	b.epoch = EPOCH + 1;
	attached_prepare(&a, fds, &socket);
	cr_assert(eq(int, attached_open(&a.rx, socket, fds, EPOCH, path, &options), 0));
}

static void tear_down(void)
{
	attached_deinit(&a);
	if (listener >= 0)
		close(listener);
	unlink(path);
	rmdir(directory);
}

TestSuite(rx_reattach, .init = set_up, .fini = tear_down, .timeout = 30);

/* The request of who connected, which is b's daemon's then. */
static int accept_request(void)
{
	union protocol_message request;
	int fd = accept(listener, NULL, NULL);

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, protocol_recv(fd, &request, NULL, NULL), 1));
	cr_assert(eq(u16, request.header.type, PROTOCOL_ATTACH));
	cr_expect(eq(str, (char *)request.attach.stream, (char *)"test"));
	cr_expect(eq(u32, request.attach.start, IBVCAP_START_OLDEST));
	return fd;
}

static void send_attached(int fd, uint64_t epoch, const int *fds, unsigned n)
{
	struct protocol_attached message = {.epoch = epoch};

	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	cr_assert(eq(int, protocol_send(fd, &message.header, fds, n), 0));
	while (n > 0)
		close(fds[--n]);
}

static void answer(int fd)
{
	int fds[PROTOCOL_FD_N], unused;

	attached_prepare(&b, fds, &unused);
	close(unused);
	close(b.daemon_socket);
	b.daemon_socket = fd;
	send_attached(fd, b.epoch, fds, PROTOCOL_FD_N);
}

static void refuse(int fd, int error)
{
	struct protocol_error message = {.error = error, .text = "refused by the test"};

	protocol_init(&message.header, PROTOCOL_ERROR, sizeof(message));
	cr_assert(eq(int, protocol_send(fd, &message.header, NULL, 0), 0));
	close(fd);
}

static void close_b(void)
{
	close(b.daemon_socket);
	close(b.daemon_wake);
	shm_deinit(&b.consumer.state_shm);
	shm_deinit(&b.consumer.page_shm);
	rx_ring_deinit(&b.ring);
}

static int acquire(int timeout_ms)
{
	return ibvcap_rx_acquire(a.rx, &batch, UINT32_MAX, 1, timeout_ms);
}

static bool is_readable(int fd, int ms)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms) == 1;
}

Test(rx_reattach, what_was_published_is_delivered_then_the_next_begins_with_an_unknown_gap)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	listen_again();
	attached_publish(&a, 5);
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, acquire(0), 5));
	cr_expect(eq(u32, batch.flags, 0));
	cr_assert(eq(int, acquire(0), -ENOBUFS), "a batch of the old epoch is out");
	cr_assert(eq(int, ibvcap_rx_release(a.rx, &batch), 0));
	cr_assert(eq(int, acquire(0), 0));
	cr_assert(eq(int, ibvcap_rx_counts(a.rx, &counts), 0), "between two epochs, too");
	cr_expect(eq(u64, counts.delivered, 5));
	answer(accept_request());
	attached_publish(&b, 3);
	cr_assert(eq(int, acquire(1000), 3));
	cr_expect(eq(u32, batch.flags, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN));
	cr_expect(eq(u64, batch.sequence, 0));
	cr_expect(eq(u64, attached_number(&batch, 2), 2));
	attached_publish(&b, 1);
	cr_assert(eq(int, acquire(1000), 1));
	cr_expect(eq(u32, batch.flags, 0), "told once");
	ibvcap_rx_counts(a.rx, &counts);
	cr_expect(eq(u64, counts.published, 9));
	cr_expect(eq(u64, counts.delivered, 9));
	cr_expect(eq(u64, counts.epochs, 1));
	close_b();
}

Test(rx_reattach, a_packet_that_is_copied_says_that_it_is_the_first_of_the_next_epoch)
{
	uint8_t row[SLOT_BYTES];
	struct ibvcap_meta meta;
	size_t length;

	listen_again();
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, ibvcap_rx_recv(a.rx, row, sizeof(row), &length, &meta, 0), 0));
	answer(accept_request());
	attached_publish(&b, 2);
	cr_assert(eq(int, ibvcap_rx_recv(a.rx, row, sizeof(row), &length, &meta, 1000), 1));
	cr_expect(eq(u16, meta.flags, IBVCAP_PACKET_FLAG_GAP_UNKNOWN));
	cr_assert(eq(int, ibvcap_rx_recv(a.rx, row, sizeof(row), &length, &meta, 1000), 1));
	cr_expect(eq(u16, meta.flags, 0));
	close_b();
}

Test(rx_reattach, a_daemon_that_was_killed_is_a_daemon_that_ended)
{
	listen_again();
	attached_publish(&a, 1);
	close(a.daemon_socket);
	a.daemon_socket = dup(0);
	cr_assert(eq(int, acquire(1000), 1));
	ibvcap_rx_release(a.rx, &batch);
	cr_assert(eq(int, acquire(300), 0));
	answer(accept_request());
	attached_publish(&b, 2);
	cr_expect(eq(int, acquire(1000), 2));
	close_b();
}

/* However long the pauses before: the reader goes on until it has asked. */
static int next_request(void)
{
	while (!is_readable(listener, 0))
		cr_assert(eq(int, acquire(20), 0));
	return accept_request();
}

Test(rx_reattach, there_is_no_socket_for_a_while_and_it_is_tried_again)
{
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, acquire(50), 0));
	cr_expect(eq(int, acquire(0), 0));
	listen_again();
	refuse(next_request(), -EAGAIN);
	answer(next_request());
	attached_publish(&b, 1);
	cr_expect(eq(int, acquire(1000), 1));
	close_b();
}

Test(rx_reattach, when_none_comes_in_time_that_is_the_end)
{
	a.rx->parts[0]->reattach.options.reattach_ms = 100;
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, acquire(-1), -ESHUTDOWN));
	cr_expect(strstr(ibvcap_error_text(), "systemctl start") != NULL);
	cr_expect(strstr(ibvcap_error_text(), "does not exist") != NULL, "and why the last attempt failed");
	cr_expect(eq(int, acquire(-1), -ESHUTDOWN));
}

/* The service manager's fd store keeps the socket of a daemon that failed for good. */
Test(rx_reattach, a_listener_that_never_answers_is_given_up_and_the_descriptor_says_so)
{
	int fd = ibvcap_rx_fd(a.rx), turns = 0, r;

	listen_again();
	a.rx->parts[0]->reattach.options.reattach_ms = 300;
	cr_assert(eq(int, acquire(0), 0));
	close(a.daemon_wake);
	a.daemon_wake = dup(0);
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	do {
		cr_assert(is_readable(fd, 20000), "nobody was woken");
		r = acquire(0);
		turns++;
	} while (r == 0);
	cr_expect(eq(int, r, -ESHUTDOWN));
	cr_expect(strstr(ibvcap_error_text(), "does not answer") != NULL, "%s", ibvcap_error_text());
	cr_expect(lt(int, turns, 10), "it slept");
	cr_expect(is_readable(listener, 0), "it had asked");
}

Test(rx_reattach, who_does_not_want_one_is_told_at_once)
{
	a.rx->parts[0]->reattach.options.reattach_ms = IBVCAP_NO_REATTACH;
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, acquire(-1), -ESHUTDOWN));
}

Test(rx_reattach, a_stream_that_was_removed_or_is_no_more_has_none)
{
	daemon_disconnect(&a.consumer.state->link, IBVCAP_DISCONNECT_REMOVED);
	attached_publish(&a, 2);
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, acquire(0), 2), "what was published is delivered");
	ibvcap_rx_release(a.rx, &batch);
	cr_expect(eq(int, acquire(-1), -ENODEV));
}

Test(rx_reattach, a_daemon_that_refuses_has_the_last_word)
{
	listen_again();
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, acquire(0), 0));
	refuse(accept_request(), -EACCES);
	cr_expect(eq(int, acquire(1000), -EACCES));
	cr_expect(strstr(ibvcap_error_text(), "refused by the test") != NULL);
	cr_expect(eq(int, acquire(0), -EACCES));
}

Test(rx_reattach, the_descriptor_is_the_same_and_becomes_readable_on_every_step)
{
	int fd = ibvcap_rx_fd(a.rx);

	cr_assert(ge(int, fd, 0));
	cr_expect(eq(int, acquire(0), 0));
	cr_expect(not(is_readable(fd, 0)));
	close(a.daemon_wake);
	a.daemon_wake = dup(0);
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	cr_expect(is_readable(fd, 1000), "the daemon is gone");
	cr_expect(eq(int, acquire(0), 0), "tried, and there is none");
	cr_expect(is_readable(fd, 1000), "time to try again");
	listen_again();
	while (poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, 0) == 0) {
		cr_assert(is_readable(fd, 1000));
		cr_assert(eq(int, acquire(0), 0));
	}
	cr_expect(not(is_readable(fd, 0)), "asked, and not answered");
	answer(accept_request());
	cr_expect(is_readable(fd, 1000), "answered");
	cr_expect(eq(int, acquire(0), 0));
	cr_expect(eq(int, ibvcap_rx_fd(a.rx), fd));
	cr_expect(not(is_readable(fd, 0)));
	cr_expect(eq(int, (int)write(b.daemon_wake, "", 1), 1));
	cr_expect(is_readable(fd, 1000));
	close_b();
}

/* ---- the daemon of before ------------------------------------------------------------------------- */

/* What a's daemon gives a tap, from its ring as it is; the session of before has ended. */
static void give_tap(int fds[PROTOCOL_FD_TAP_N])
{
	fds[PROTOCOL_FD_PAYLOAD] = shm_reopen_readonly(&a.ring.payload);
	fds[PROTOCOL_FD_HEADERS] = shm_reopen_readonly(&a.ring.headers);
	fds[PROTOCOL_FD_RING] = shm_reopen_readonly(&a.ring.ring_shm);
}

static void become_tap(void)
{
	const struct ibvcap_rx_options options = {
		.size = sizeof(options), .reattach_ms = 20000, .policy = IBVCAP_POLICY_TAP};
	int fds[PROTOCOL_FD_N], ends[2];

	ibvcap_rx_close(a.rx);
	close(a.daemon_socket);
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0));
	a.daemon_socket = ends[0];
	give_tap(fds);
	for (int i = PROTOCOL_FD_TAP_N; i < PROTOCOL_FD_N; i++)
		fds[i] = -1;
	cr_assert(eq(int, attached_open(&a.rx, ends[1], fds, EPOCH, path, &options), 0));
}

/* The number of the next row; -1: none came; -errno. */
static int64_t receive(int timeout_ms)
{
	uint64_t number;
	size_t length;
	int r = ibvcap_rx_recv(a.rx, &number, sizeof(number), &length, NULL, timeout_ms);

	return r == 1 ? (int64_t)number : r ? r : -1;
}

static void hang_up_and_answer_tap(void)
{
	int fds[PROTOCOL_FD_TAP_N], fd;

	close(a.daemon_socket);
	while (!is_readable(listener, 0))
		cr_assert(eq(i64, receive(20), -1));
	fd = accept_request();
	a.daemon_socket = fd;
	give_tap(fds);
	send_attached(fd, EPOCH, fds, PROTOCOL_FD_TAP_N);
}

Test(rx_reattach, a_tap_whose_session_alone_ended_goes_on_where_it_was)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	int64_t number;

	listen_again();
	become_tap();
	attached_publish(&a, 5);
	for (int64_t i = 0; i < 5; i++)
		cr_assert(eq(i64, receive(0), i));
	hang_up_and_answer_tap();
	attached_publish(&a, 1);
	cr_expect(eq(i64, receive(1000), 5), "nothing twice, and nothing lost");
	hang_up_and_answer_tap();
	attached_publish(&a, 1000 * N);
	number = receive(1000);
	cr_expect(eq(i64, number, (int64_t)consumer_load_floor(a.ring.ring) * N));
	ibvcap_rx_counts(a.rx, &counts);
	cr_expect(eq(u64, counts.published, 6 + 1000 * N));
	cr_expect(eq(u64, counts.skipped, (uint64_t)number - 6), "counted, and not unknown");
	cr_expect(eq(u64, counts.delivered, 7));
	cr_expect(eq(u64, counts.epochs, 0));
}

Test(rx_reattach, a_tap_begins_the_next_epoch_at_its_oldest)
{
	int fds[PROTOCOL_FD_N], unused, fd;

	listen_again();
	become_tap();
	attached_publish(&a, 5);
	cr_assert(eq(i64, receive(0), 0));
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	for (int64_t i = 1; i < 5; i++)
		cr_assert(eq(i64, receive(0), i));
	while (!is_readable(listener, 0))
		cr_assert(eq(i64, receive(20), -1));
	fd = accept_request();
	attached_prepare(&b, fds, &unused);
	close(unused);
	attached_publish(&b, 2);
	for (int i = PROTOCOL_FD_TAP_N; i < PROTOCOL_FD_N; i++)
		close(fds[i]);
	send_attached(fd, b.epoch, fds, PROTOCOL_FD_TAP_N);
	cr_expect(eq(i64, receive(1000), 0));
	cr_expect(eq(i64, receive(1000), 1));
	close(fd);
	close_b();
}

Test(rx_reattach, a_reader_whose_daemon_goes_on_without_it_is_told_and_gets_nothing_twice)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	listen_again();
	b.epoch = EPOCH;
	attached_publish(&a, 2);
	cr_assert(eq(int, acquire(0), 2));
	ibvcap_rx_release(a.rx, &batch);
	close(a.daemon_socket);
	a.daemon_socket = dup(0);
	answer(next_request());
	attached_publish(&b, 3);
	cr_expect(eq(int, acquire(1000), -ECONNABORTED));
	cr_expect(strstr(ibvcap_error_text(), "attach again") != NULL);
	cr_expect(eq(int, acquire(0), -ECONNABORTED));
	ibvcap_rx_counts(a.rx, &counts);
	cr_expect(eq(u64, counts.delivered, 2));
	close_b();
}

Test(rx_reattach, a_daemon_that_is_about_to_end_is_not_the_next)
{
	listen_again();
	b.epoch = EPOCH;
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	answer(next_request());
	rx_ring_close(&b.ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, acquire(20), 0));
	close_b();
	b.epoch = EPOCH + 1;
	answer(next_request());
	attached_publish(&b, 1);
	cr_expect(eq(int, acquire(1000), 1));
	close_b();
}
