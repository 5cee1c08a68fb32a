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
static struct ibvcap_batch batch;

static void listen_again(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert(eq(int, bind(listener, (struct sockaddr *)&address, sizeof(address)), 0));
	cr_assert(eq(int, listen(listener, 8), 0));
}

static void set_up(void)
{
	const struct ibvcap_attach_options options = { .reattach_ms = 2000 };

	cr_assert(mkdtemp(directory) != NULL);
	snprintf(path, sizeof(path), "%s/s", directory);
	attached_init(&a);
	cr_assert(eq(int, rx_next_init(&a.rx->next_epoch, path, "test", &options), 0));
}

static void tear_down(void)
{
	attached_deinit(&a);
	if (listener >= 0)
		close(listener);
	unlink(path);
	rmdir(directory);
}

TestSuite(next_epoch, .init = set_up, .fini = tear_down, .timeout = 30);

/* The request of who connected, which is b's daemon's then. */
static int accept_request(void)
{
	union wire_message request;
	int fd = accept(listener, NULL, NULL);

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, wire_recv(fd, &request, NULL, NULL), 1));
	cr_assert(eq(u16, request.header.type, WIRE_ATTACH));
	cr_expect(eq(str, (char *)request.attach.stream, (char *)"test"));
	cr_expect(eq(u32, request.attach.start, IBVCAP_START_OLDEST));
	return fd;
}

static void answer(int fd)
{
	struct wire_attached message = { .epoch = EPOCH };
	int fds[WIRE_FD_N], unused;

	attached_prepare(&b, fds, &unused);
	close(unused);
	close(b.daemon_socket);
	b.daemon_socket = fd;
	wire_init(&message.header, WIRE_ATTACHED, sizeof(message));
	cr_assert(eq(int, wire_send(fd, &message.header, fds, WIRE_FD_N), 0));
	for (int i = 0; i < WIRE_FD_N; i++)
		close(fds[i]);
}

static void refuse(int fd, int error)
{
	struct wire_error message = { .error = error, .text = "refused by the test" };

	wire_init(&message.header, WIRE_ERROR, sizeof(message));
	cr_assert(eq(int, wire_send(fd, &message.header, NULL, 0), 0));
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
	return ibvcap_acquire(a.rx, &batch, UINT32_MAX, 1, timeout_ms);
}

static bool is_readable(int fd, int ms)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, ms) == 1;
}

Test(next_epoch, what_was_published_is_delivered_then_the_next_begins_with_an_unknown_gap)
{
	struct ibvcap_rx_counts counts;

	listen_again();
	attached_publish(&a, 5);
	rx_ring_close(&a.ring);
	cr_assert(eq(int, acquire(0), 5));
	cr_expect(eq(u32, batch.flags, 0));
	cr_assert(eq(int, acquire(0), -ENOBUFS), "a batch of the old epoch is out");
	cr_assert(eq(int, ibvcap_release(a.rx, &batch), 0));
	cr_assert(eq(int, acquire(0), 0));
	cr_assert(eq(int, ibvcap_rx_counts(a.rx, &counts), 0), "between two epochs, too");
	cr_expect(eq(u64, counts.delivered, 5));
	answer(accept_request());
	attached_publish(&b, 3);
	cr_assert(eq(int, acquire(1000), 3));
	cr_expect(eq(u32, batch.flags, IBVCAP_BATCH_GAP_UNKNOWN));
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

Test(next_epoch, a_daemon_that_was_killed_is_a_daemon_that_ended)
{
	listen_again();
	attached_publish(&a, 1);
	close(a.daemon_socket);
	a.daemon_socket = dup(0);
	cr_assert(eq(int, acquire(1000), 1));
	ibvcap_release(a.rx, &batch);
	cr_assert(eq(int, acquire(300), 0));
	answer(accept_request());
	attached_publish(&b, 2);
	cr_expect(eq(int, acquire(1000), 2));
	close_b();
}

Test(next_epoch, there_is_no_socket_for_a_while_and_it_is_tried_again)
{
	rx_ring_close(&a.ring);
	cr_expect(eq(int, acquire(50), 0));
	cr_expect(eq(int, acquire(0), 0));
	listen_again();
	cr_expect(eq(int, acquire(400), 0));
	refuse(accept_request(), -EAGAIN);
	cr_expect(eq(int, acquire(500), 0), "no place just now");
	answer(accept_request());
	attached_publish(&b, 1);
	cr_expect(eq(int, acquire(1000), 1));
	close_b();
}

Test(next_epoch, when_none_comes_in_time_that_is_the_end)
{
	a.rx->next_epoch.options.reattach_ms = 100;
	rx_ring_close(&a.ring);
	cr_expect(eq(int, acquire(-1), -ESHUTDOWN));
	cr_expect(strstr(ibvcap_error_text(), "systemctl start") != NULL);
	cr_expect(eq(int, acquire(-1), -ESHUTDOWN));
}

Test(next_epoch, who_does_not_want_one_is_told_at_once)
{
	a.rx->next_epoch.options.reattach_ms = IBVCAP_NO_REATTACH;
	rx_ring_close(&a.ring);
	cr_expect(eq(int, acquire(-1), -ESHUTDOWN));
}

Test(next_epoch, a_stream_that_was_removed_or_is_no_more_has_none)
{
	daemon_disconnect(a.consumer.state, IBVCAP_REASON_STREAM_REMOVED);
	attached_publish(&a, 2);
	rx_ring_close(&a.ring);
	cr_expect(eq(int, acquire(0), 2), "what was published is delivered");
	ibvcap_release(a.rx, &batch);
	cr_expect(eq(int, acquire(-1), -ENODEV));
}

Test(next_epoch, a_daemon_that_refuses_has_the_last_word)
{
	listen_again();
	rx_ring_close(&a.ring);
	cr_expect(eq(int, acquire(0), 0));
	refuse(accept_request(), -EACCES);
	cr_expect(eq(int, acquire(1000), -EACCES));
	cr_expect(strstr(ibvcap_error_text(), "refused by the test") != NULL);
	cr_expect(eq(int, acquire(0), -EACCES));
}

Test(next_epoch, the_descriptor_is_the_same_and_becomes_readable_on_every_step)
{
	int fd = ibvcap_fd(a.rx);

	cr_assert(ge(int, fd, 0));
	cr_expect(eq(int, acquire(0), 0));
	cr_expect(not(is_readable(fd, 0)));
	close(a.daemon_wake);
	a.daemon_wake = dup(0);
	rx_ring_close(&a.ring);
	cr_expect(is_readable(fd, 1000), "the daemon is gone");
	cr_expect(eq(int, acquire(0), 0), "tried, and there is none");
	cr_expect(is_readable(fd, 1000), "time to try again");
	listen_again();
	while (poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, 0) == 0) {
		cr_assert(is_readable(fd, 1000));
		cr_assert(eq(int, acquire(0), 0));
	}
	cr_expect(not(is_readable(fd, 0)), "asked, and not answered");
	answer(accept_request());
	cr_expect(is_readable(fd, 1000), "answered");
	cr_expect(eq(int, acquire(0), 0));
	cr_expect(eq(int, ibvcap_fd(a.rx), fd));
	cr_expect(not(is_readable(fd, 0)));
	cr_expect(eq(int, (int)write(b.daemon_wake, "", 1), 1));
	cr_expect(is_readable(fd, 1000));
	close_b();
}
