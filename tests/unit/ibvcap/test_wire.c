// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/wire.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct {
	enum wire_type type;
	size_t bytes;
} kinds[] = {
	{WIRE_ATTACH, sizeof(struct wire_attach)},     {WIRE_STATUS, sizeof(struct wire_status)},
	{WIRE_ATTACHED, sizeof(struct wire_attached)}, {WIRE_ERROR, sizeof(struct wire_error)},
	{WIRE_DAEMON, sizeof(struct wire_daemon)},     {WIRE_STREAM, sizeof(struct wire_stream)},
	{WIRE_CONSUMER, sizeof(struct wire_consumer)}, {WIRE_INTERFACE, sizeof(struct wire_interface)},
	{WIRE_END, sizeof(struct wire_header)},        {WIRE_OPEN_CHANNEL, sizeof(struct wire_open_channel)},
	{WIRE_MAPPED, sizeof(struct wire_mapped)},     {WIRE_OPENED, sizeof(struct wire_opened)},
	{WIRE_READY, sizeof(struct wire_ready)},       {WIRE_CHANNEL, sizeof(struct wire_channel)},
	{WIRE_SENDER, sizeof(struct wire_sender)},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* A right message of that kind. */
static void make(union wire_message *message, unsigned kind)
{
	memset(message, 0, sizeof(*message));
	wire_init(&message->header, kinds[kind].type, kinds[kind].bytes);
	if (kinds[kind].type == WIRE_ATTACH)
		strcpy(message->attach.stream, "lidar");
	if (kinds[kind].type == WIRE_OPEN_CHANNEL)
		strcpy(message->open_channel.channel, "lidar");
	if (kinds[kind].type == WIRE_ERROR)
		message->error.error = -EACCES;
}

Test(wire_check, right_messages_pass)
{
	union wire_message message;

	for (unsigned i = 0; i < N_KINDS; i++) {
		make(&message, i);
		cr_expect_eq(wire_check(&message, kinds[i].bytes), 0, "type %u", kinds[i].type);
	}
}

Test(wire_check, every_other_size_is_refused)
{
	union wire_message message;

	for (unsigned i = 0; i < N_KINDS; i++) {
		make(&message, i);
		for (size_t n = 0; n <= WIRE_BYTES_MAX; n++) {
			if (n == kinds[i].bytes)
				continue;
			message.header.bytes = (uint32_t)kinds[i].bytes;
			cr_assert_eq(wire_check(&message, n), -EPROTO, "type %u, %zu bytes came", kinds[i].type, n);
			message.header.bytes = (uint32_t)n;
			cr_assert_eq(wire_check(&message, n), -EPROTO, "type %u of %zu bytes", kinds[i].type, n);
		}
	}
}

Test(wire_check, another_magic_version_or_type_is_refused)
{
	union wire_message message;

	for (unsigned i = 0; i < N_KINDS; i++) {
		make(&message, i);
		message.header.magic ^= 1;
		cr_expect_eq(wire_check(&message, kinds[i].bytes), -EPROTO);
		make(&message, i);
		message.header.version++;
		cr_expect_eq(wire_check(&message, kinds[i].bytes), -EPROTO);
	}
	for (unsigned type = 0; type <= UINT16_MAX; type++) {
		bool known = false;

		for (unsigned i = 0; i < N_KINDS; i++)
			known |= kinds[i].type == type;
		if (known)
			continue;
		wire_init(&message.header, (enum wire_type)type, sizeof(struct wire_header));
		cr_assert_eq(wire_check(&message, sizeof(struct wire_header)), -EPROTO, "type %u", type);
	}
}

static void expect_unterminated(unsigned kind, size_t offset, size_t bytes)
{
	union wire_message message;

	make(&message, kind);
	memset(message.bytes + offset, 'x', bytes);
	cr_expect_eq(wire_check(&message, kinds[kind].bytes), -EPROTO, "type %u, string at %zu", kinds[kind].type,
	             offset);
	message.bytes[offset + bytes - 1] = '\0';
	cr_expect_eq(wire_check(&message, kinds[kind].bytes), 0, "type %u, string at %zu", kinds[kind].type, offset);
}

Test(wire_check, strings_are_terminated)
{
	expect_unterminated(0, offsetof(struct wire_attach, stream), IBVCAP_STREAM_NAME_MAX);
	expect_unterminated(3, offsetof(struct wire_error, text), WIRE_TEXT_MAX);
	expect_unterminated(4, offsetof(struct wire_daemon, version), 32);
	expect_unterminated(5, offsetof(struct wire_stream, name), IBVCAP_STREAM_NAME_MAX);
	expect_unterminated(5, offsetof(struct wire_stream, interface), 16);
	expect_unterminated(5, offsetof(struct wire_stream, device), 64);
	expect_unterminated(5, offsetof(struct wire_stream, backend), 16);
	expect_unterminated(5, offsetof(struct wire_stream, state), 16);
	expect_unterminated(6, offsetof(struct wire_consumer, stream), IBVCAP_STREAM_NAME_MAX);
	expect_unterminated(7, offsetof(struct wire_interface, interface), 16);
	expect_unterminated(7, offsetof(struct wire_interface, device), 64);
	expect_unterminated(9, offsetof(struct wire_open_channel, channel), IBVCAP_CHANNEL_NAME_MAX);
	expect_unterminated(13, offsetof(struct wire_channel, name), IBVCAP_CHANNEL_NAME_MAX);
	expect_unterminated(13, offsetof(struct wire_channel, interface), 16);
	expect_unterminated(13, offsetof(struct wire_channel, device), 64);
	expect_unterminated(13, offsetof(struct wire_channel, backend), 16);
	expect_unterminated(13, offsetof(struct wire_channel, state), 16);
	expect_unterminated(14, offsetof(struct wire_sender, channel), IBVCAP_CHANNEL_NAME_MAX);
}

Test(wire_check, counts_have_room_in_the_message)
{
	union wire_message message;

	make(&message, 5);
	message.stream.n_counters = WIRE_COUNTERS_MAX;
	cr_expect_eq(wire_check(&message, sizeof(message.stream)), 0);
	message.stream.n_counters++;
	cr_expect_eq(wire_check(&message, sizeof(message.stream)), -EPROTO);
	make(&message, 6);
	message.consumer.n_counters = WIRE_COUNTERS_MAX + 1;
	cr_expect_eq(wire_check(&message, sizeof(message.consumer)), -EPROTO);
	make(&message, 7);
	message.interface.n_counters = UINT32_MAX;
	cr_expect_eq(wire_check(&message, sizeof(message.interface)), -EPROTO);
	make(&message, 13);
	message.channel.n_counters = WIRE_COUNTERS_MAX + 1;
	cr_expect_eq(wire_check(&message, sizeof(message.channel)), -EPROTO);
	make(&message, 14);
	message.sender.n_counters = WIRE_COUNTERS_MAX + 1;
	cr_expect_eq(wire_check(&message, sizeof(message.sender)), -EPROTO);
}

Test(wire_check, an_error_is_one_and_a_stream_has_a_name)
{
	union wire_message message;
	const int32_t wrong[] = {0, 1, INT32_MAX, INT32_MIN, -4096};

	for (unsigned i = 0; i < 5; i++) {
		make(&message, 3);
		message.error.error = wrong[i];
		cr_expect_eq(wire_check(&message, sizeof(message.error)), -EPROTO, "error %d", wrong[i]);
	}
	make(&message, 0);
	message.attach.stream[0] = '\0';
	cr_expect_eq(wire_check(&message, sizeof(message.attach)), -EPROTO);
}

/* ---- the socket ---------------------------------------------------------------------------------- */

static int ends[2];

static void open_ends(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int send_with(unsigned n_fds)
{
	struct wire_attached message = {.epoch = 7};
	int fds[WIRE_FDS_MAX] = {0, 0, 0, 0, 0, 0};

	wire_init(&message.header, WIRE_ATTACHED, sizeof(message));
	return wire_send(ends[0], &message.header, fds, n_fds);
}

Test(wire, a_message_and_its_descriptors_arrive, .init = open_ends)
{
	union wire_message message;
	int fds[WIRE_FDS_MAX];
	unsigned n = WIRE_FDS_MAX;
	unsigned before = count_fds();

	cr_assert_eq(send_with(6), 0);
	cr_assert_eq(wire_recv(ends[1], &message, fds, &n), 1);
	cr_assert_eq(n, 6);
	cr_assert_eq(message.attached.epoch, 7);
	cr_assert_eq(count_fds(), before + 6);
	for (unsigned i = 0; i < n; i++) {
		cr_expect(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		close(fds[i]);
	}
}

Test(wire, descriptors_nobody_has_room_for_are_refused_and_closed, .init = open_ends)
{
	union wire_message message;
	int fds[WIRE_FDS_MAX];
	unsigned before = count_fds();

	for (unsigned room = 0; room < WIRE_FDS_MAX; room++) {
		unsigned n = room;

		cr_assert_eq(send_with(room + 1), 0);
		cr_expect_eq(wire_recv(ends[1], &message, fds, &n), -EPROTO, "room for %u", room);
		cr_expect_eq(n, 0);
		cr_expect_eq(count_fds(), before);
	}
	cr_assert_eq(send_with(1), 0);
	cr_expect_eq(wire_recv(ends[1], &message, NULL, NULL), -EPROTO);
	cr_expect_eq(count_fds(), before);
	cr_expect_eq(send_with(7), -EINVAL);
}

Test(wire, a_process_that_has_room_for_no_more_descriptors_is_told_so, .init = open_ends)
{
	struct rlimit limit;
	union wire_message message;
	int fds[WIRE_FDS_MAX], first_free = dup(0);
	unsigned n = WIRE_FDS_MAX, before;

	close(first_free);
	before = count_fds();
	getrlimit(RLIMIT_NOFILE, &limit);
	cr_assert_eq(send_with(6), 0);
	limit.rlim_cur = (rlim_t)first_free + 2;
	setrlimit(RLIMIT_NOFILE, &limit);
	cr_expect_eq(wire_recv(ends[1], &message, fds, &n), -EMFILE);
	cr_expect_eq(n, 0);
	cr_expect_eq(count_fds(), before);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

Test(wire, descriptors_of_a_malformed_message_are_closed, .init = open_ends)
{
	union wire_message message;
	struct wire_attached wrong = {0};
	int fds[WIRE_FDS_MAX] = {0};
	unsigned n = WIRE_FDS_MAX, before = count_fds();

	wire_init(&wrong.header, WIRE_STATUS, sizeof(wrong));
	cr_assert_eq(wire_send(ends[0], &wrong.header, fds, 3), 0);
	cr_expect_eq(wire_recv(ends[1], &message, fds, &n), -EPROTO);
	cr_expect_eq(n, 0);
	cr_expect_eq(count_fds(), before);
}

Test(wire, a_datagram_longer_than_any_message_is_refused, .init = open_ends)
{
	union wire_message message;
	uint8_t *bytes = calloc(1, WIRE_BYTES_MAX + 1);

	cr_assert_eq(send(ends[0], bytes, WIRE_BYTES_MAX + 1, 0), WIRE_BYTES_MAX + 1);
	cr_expect_eq(wire_recv(ends[1], &message, NULL, NULL), -EPROTO);
	free(bytes);
}

Test(wire, an_empty_socket_and_a_closed_one_are_told_apart, .init = open_ends)
{
	union wire_message message;

	cr_expect_eq(wire_recv(ends[1], &message, NULL, NULL), -EAGAIN);
	close(ends[0]);
	cr_expect_eq(wire_recv(ends[1], &message, NULL, NULL), 0);
	ends[0] = ends[1];
	cr_expect_eq(send_with(0), -EPIPE, "and no SIGPIPE");
}
