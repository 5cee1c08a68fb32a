// SPDX-License-Identifier: Apache-2.0
/*
 * Consumers that lend memory, up to the moment when the daemon has opened their stream: when they leave, and what they
 * are refused. tests/system/capture/test_lent.py has the rest.
 */
#include "daemon/control/server.h"
#include "lib/base/time.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LENT_BYTES UINT64_C(8192)
#define WAIT_NS    (20 * TIME_SECOND_NS)

static char directory[] = "/tmp/ibvcap-lend-XXXXXX";
static uid_t others[] = {4711};
static struct config_stream streams[2];
static struct config config;
static struct listener listener;
static struct control *control;
static sd_event *event;

static unsigned n_busy;    /* times that open_lent() is still busy */
static unsigned n_opening; /* calls that began to open a stream */
static int refusal;        /* of open_lent() */

/* In place of libc's: each memfd is a dma-buf. */
int fstatfs(int, struct statfs *filesystem)
{
	*filesystem = (struct statfs){.f_type = DMA_BUF_MAGIC};
	return 0;
}

static uint64_t lent_bytes(void *, const struct config_stream *stream)
{
	return LENT_BYTES + stream->history_blocks;
}

static int open_lent(void *, const struct config_stream *stream, int dmabuf, uint64_t offset, struct failure *failure)
{
	cr_expect(eq(u64, (uint64_t)lseek(dmabuf, 0, SEEK_END), offset + LENT_BYTES));
	if (n_busy > 0) {
		n_busy--;
		return -EBUSY;
	}
	if (refusal)
		return failure_set(failure, EX_UNAVAILABLE, -refusal, "stream '%s': no such device", stream->name);
	n_opening++;
	return 0;
}

static void set_up(void)
{
	const struct control_options options = {.listener = &listener,
	                                        .config = &config,
	                                        .event = NULL,
	                                        .lent_bytes = lent_bytes,
	                                        .open_lent = open_lent};
	struct control_options with_event = options;

	if (getuid() != 0)
		cr_skip_test("a daemon's own user is refused, unless it is root: run as root");
	cr_assert(mkdtemp(directory) != NULL && chmod(directory, 0755) == 0);
	for (int i = 0; i < 2; i++)
		streams[i] = (struct config_stream){.payload_is_lent = true, .max_consumers = 1, .file = "lend.conf"};
	strcpy(streams[0].name, "a");
	strcpy(streams[1].name, "b");
	config = (struct config){.file = "lend.conf",
	                         .streams = streams,
	                         .n_streams = 2,
	                         .max_clients = 4,
	                         .max_clients_per_user = 4,
	                         .max_messages_per_s = 1000,
	                         .max_messages_per_s_per_user = 1000,
	                         .idle_timeout_s = 60};
	snprintf(config.socket_path, sizeof(config.socket_path), "%s/s", directory);
	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, listener_open(&listener, config.socket_path, 0666, (gid_t)-1, NULL), 0));
	with_event.event = event;
	cr_assert(eq(int, control_new(&control, &with_event, NULL), 0));
}

static void tear_down(void)
{
	if (!control)
		return;
	control_free(control);
	listener_close(&listener);
	sd_event_unref(event);
	rmdir(directory);
}

TestSuite(lend, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- a client ------------------------------------------------------------------------------------ */

static void turn(void)
{
	cr_assert(ge(int, sd_event_run(event, 10000), 0));
}

static int come(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, config.socket_path);
	cr_assert(eq(int, connect(fd, (struct sockaddr *)&address, sizeof(address)), 0));
	return fd;
}

/* The answer's type, or its error. */
static int receive(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	uint64_t end_ns = time_monotonic_ns() + WAIT_NS;
	union protocol_message answer;

	while (poll(&readable, 1, 0) == 0 && time_monotonic_ns() < end_ns)
		turn();
	cr_assert(eq(int, protocol_recv(fd, &answer, NULL, NULL), 1));
	if (answer.header.type == PROTOCOL_LEND)
		cr_expect(eq(u64, answer.lend.bytes, LENT_BYTES));
	return answer.header.type == PROTOCOL_ERROR ? answer.error.error : answer.header.type;
}

static int ask(int fd, const char *stream)
{
	struct protocol_attach message = {.abi_major = IBVCAP_ABI_MAJOR, .lends = 1};

	protocol_init(&message.header, PROTOCOL_ATTACH, sizeof(message));
	strcpy(message.stream, stream);
	cr_assert(eq(int, protocol_send(fd, &message.header, NULL, 0), 0));
	return receive(fd);
}

static void lend(int fd, uint64_t offset)
{
	struct protocol_lent message = {.offset = offset};
	int memory = memfd_create("lent", MFD_CLOEXEC);

	cr_assert(eq(int, ftruncate(memory, (off_t)(offset + LENT_BYTES)), 0));
	protocol_init(&message.header, PROTOCOL_LENT, sizeof(message));
	cr_assert(eq(int, protocol_send(fd, &message.header, &memory, 1), 0));
	close(memory);
}

static void turn_until_opening(unsigned n)
{
	uint64_t end_ns = time_monotonic_ns() + WAIT_NS;

	while (n_opening < n && time_monotonic_ns() < end_ns)
		turn();
	cr_assert(eq(u32, n_opening, n));
}

static unsigned count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/* Until no session is left. */
static void turn_until_gone(void)
{
	uint64_t end_ns = time_monotonic_ns() + WAIT_NS;

	while (control->users.n_sessions && time_monotonic_ns() < end_ns)
		turn();
	cr_assert(eq(u32, control->users.n_sessions, 0));
}

/* ---- the tests ------------------------------------------------------------------------------------ */

Test(lend, memory_waits_while_the_daemon_changes_something_else)
{
	int fd = come();

	n_busy = 3;
	cr_expect(eq(int, ask(fd, "a"), PROTOCOL_LEND));
	lend(fd, 4096);
	turn_until_opening(1);
	cr_expect(eq(u32, n_busy, 0));
	control_opened_lent(control, -EIO, "refused by the device");
	cr_expect(eq(int, receive(fd), -EIO));
	cr_expect(eq(int, ask(fd, "a"), PROTOCOL_LEND), "by the same connection");
	close(fd);
}

/* One change at a time: the second begins when the first has ended. */
Test(lend, two_consumers_at_once_are_served_one_after_the_other)
{
	int first = come(), second = come();

	cr_expect(eq(int, ask(first, "a"), PROTOCOL_LEND));
	cr_expect(eq(int, ask(second, "b"), PROTOCOL_LEND));
	lend(first, 0);
	turn_until_opening(1);
	lend(second, 0);
	for (int i = 0; i < 5; i++)
		turn();
	cr_expect(eq(u32, n_opening, 1));
	control_opened_lent(control, -EIO, "refused by the device");
	cr_expect(eq(int, receive(first), -EIO));
	turn_until_opening(2);
	control_opened_lent(control, -EIO, "refused by the device");
	cr_expect(eq(int, receive(second), -EIO));
	close(first);
	close(second);
}

Test(lend, a_client_that_leaves_at_any_moment_leaves_nothing)
{
	unsigned n_before = 0;

	for (int moment = 0; moment < 5; moment++) {
		int fd = come();

		if (moment > 0)
			cr_expect(eq(int, ask(fd, "a"), PROTOCOL_LEND));
		n_busy = moment == 2 ? UINT32_MAX : 0;
		if (moment > 1)
			lend(fd, 0);
		for (int i = 0; i < 3 && moment == 2; i++)
			turn();
		if (moment > 2)
			turn_until_opening(moment - 2);
		close(fd);
		if (moment == 4) /* it has left, and control does not know that yet */
			control_opened_lent(control, -EIO, "refused by the device");
		turn_until_gone();
		if (moment == 3)
			control_opened_lent(control, 0, "");
		cr_expect(control->lending == NULL && TAILQ_EMPTY(&control->lends));
		if (moment == 1) /* its user has a thread by now, with descriptors of its own */
			n_before = count_descriptors();
		cr_expect(moment <= 1 || count_descriptors() == n_before, "moment %d", moment);
	}
}

Test(lend, what_was_allowed_when_it_asked_is_looked_at_again_when_the_memory_comes)
{
	int fd = come();

	cr_expect(eq(int, ask(fd, "a"), PROTOCOL_LEND));
	config.n_streams = 0;
	lend(fd, 0);
	cr_expect(eq(int, receive(fd), -ESRCH));
	config.n_streams = 2;
	cr_expect(eq(int, ask(fd, "a"), PROTOCOL_LEND));
	streams[0].history_blocks++;
	lend(fd, 0);
	cr_expect(eq(int, receive(fd), -EAGAIN));
	streams[0].history_blocks--;
	cr_expect(eq(int, ask(fd, "a"), PROTOCOL_LEND));
	control->listening = sd_event_source_disable_unref(control->listening);
	lend(fd, 0);
	cr_expect(eq(int, receive(fd), -EAGAIN));
	cr_expect(eq(u32, n_opening, 0));
	close(fd);
}

Test(lend, a_user_without_the_right_is_not_asked)
{
	struct protocol_attach message = {.abi_major = IBVCAP_ABI_MAJOR, .stream = "a", .lends = 1};
	int fd;

	streams[0].users = others;
	streams[0].n_users = 1;
	cr_assert(eq(int, seteuid(4712), 0));
	fd = come();
	cr_assert(eq(int, seteuid(0), 0));
	protocol_init(&message.header, PROTOCOL_ATTACH, sizeof(message));
	cr_assert(eq(int, protocol_send(fd, &message.header, NULL, 0), 0));
	cr_expect(eq(int, receive(fd), -EACCES));
	close(fd);
}

Test(lend, what_the_daemon_refuses_is_passed_on)
{
	int fd = come();

	refusal = -ENOTSUP;
	cr_expect(eq(int, ask(fd, "a"), PROTOCOL_LEND));
	lend(fd, 0);
	cr_expect(eq(int, receive(fd), -ENOTSUP));
	cr_expect(eq(int, ask(fd, "nosuch"), -ESRCH));
	close(fd);
}
