// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/protocol.h"
#include "tests/support/status_part.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ibvcap/ibvcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct {
	enum protocol_type type;
	size_t bytes;
} kinds[] = {
	{PROTOCOL_ATTACH, sizeof(struct protocol_attach)},
	{PROTOCOL_STATUS, sizeof(struct protocol_bare)},
	{PROTOCOL_ATTACHED, sizeof(struct protocol_attached)},
	{PROTOCOL_ERROR, sizeof(struct protocol_error)},
	{PROTOCOL_END, sizeof(struct protocol_header)},
	{PROTOCOL_OPEN_CHANNEL, sizeof(struct protocol_open_channel)},
	{PROTOCOL_MAPPED, sizeof(struct protocol_bare)},
	{PROTOCOL_LENT, sizeof(struct protocol_lent)},
	{PROTOCOL_LEND, sizeof(struct protocol_lend)},
	{PROTOCOL_OPENED, sizeof(struct protocol_opened)},
	{PROTOCOL_READY, sizeof(struct protocol_bare)},
	{PROTOCOL_JOINED, sizeof(struct protocol_joined)},
	{PROTOCOL_RECALLED, sizeof(struct protocol_bare)},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* A right message of that kind. */
static void make(union protocol_message *message, unsigned kind)
{
	memset(message, 0, sizeof(*message));
	protocol_init(&message->header, kinds[kind].type, kinds[kind].bytes);
	if (kinds[kind].type == PROTOCOL_ATTACH)
		strcpy(message->attach.stream, "lidar");
	if (kinds[kind].type == PROTOCOL_OPEN_CHANNEL)
		strcpy(message->open_channel.channel, "lidar");
	if (kinds[kind].type == PROTOCOL_ERROR)
		message->error.error = -EACCES;
}

Test(protocol_check, right_messages_pass)
{
	union protocol_message message;

	for (unsigned i = 0; i < N_KINDS; i++) {
		make(&message, i);
		cr_expect_eq(protocol_check(&message, kinds[i].bytes), 0, "type %u", kinds[i].type);
	}
}

Test(protocol_check, every_other_size_is_refused)
{
	union protocol_message message;

	for (unsigned i = 0; i < N_KINDS; i++) {
		make(&message, i);
		for (size_t n = 0; n <= PROTOCOL_BYTES_MAX; n++) {
			if (n == kinds[i].bytes)
				continue;
			message.header.bytes = (uint32_t)kinds[i].bytes;
			cr_assert_eq(protocol_check(&message, n), -EPROTO, "type %u, %zu bytes came", kinds[i].type, n);
			message.header.bytes = (uint32_t)n;
			cr_assert_eq(protocol_check(&message, n), -EPROTO, "type %u of %zu bytes", kinds[i].type, n);
		}
	}
}

Test(protocol_check, another_magic_version_or_type_is_refused)
{
	union protocol_message message;

	for (unsigned i = 0; i < N_KINDS; i++) {
		make(&message, i);
		message.header.magic ^= 1;
		cr_expect_eq(protocol_check(&message, kinds[i].bytes), -EPROTO);
		make(&message, i);
		message.header.version++;
		cr_expect_eq(protocol_check(&message, kinds[i].bytes), -EPROTO);
	}
	for (unsigned type = 0; type <= UINT16_MAX; type++) {
		bool known = false;

		for (unsigned i = 0; i < N_KINDS; i++)
			known |= kinds[i].type == type;
		if (known)
			continue;
		protocol_init(&message.header, (enum protocol_type)type, sizeof(struct protocol_header));
		cr_assert_eq(protocol_check(&message, sizeof(struct protocol_header)), -EPROTO, "type %u", type);
	}
}

static void expect_unterminated(unsigned kind, size_t offset, size_t bytes)
{
	union protocol_message message;

	make(&message, kind);
	memset(message.bytes + offset, 'x', bytes);
	cr_expect_eq(protocol_check(&message, kinds[kind].bytes), -EPROTO, "type %u, string at %zu", kinds[kind].type,
	             offset);
	message.bytes[offset + bytes - 1] = '\0';
	cr_expect_eq(protocol_check(&message, kinds[kind].bytes), 0, "type %u, string at %zu", kinds[kind].type,
	             offset);
}

Test(protocol_check, strings_are_terminated)
{
	expect_unterminated(0, offsetof(struct protocol_attach, stream), IBVCAP_STREAM_NAME_MAX);
	expect_unterminated(0, offsetof(struct protocol_attach, group), IBVCAP_GROUP_NAME_MAX);
	expect_unterminated(3, offsetof(struct protocol_error, text), PROTOCOL_TEXT_MAX);
	expect_unterminated(5, offsetof(struct protocol_open_channel, channel), IBVCAP_CHANNEL_NAME_MAX);
}

/* test_status has what a part may not be. */
Test(protocol_check, a_client_lends_or_does_not)
{
	union protocol_message message;

	make(&message, 0);
	message.attach.lends = 1;
	cr_expect_eq(protocol_check(&message, sizeof(message.attach)), 0);
	message.attach.lends = 2;
	cr_expect_eq(protocol_check(&message, sizeof(message.attach)), -EPROTO);
}

Test(protocol_check, a_part_has_a_header_and_is_sound)
{
	struct ibvcap_status_daemon daemon = {.size = sizeof(daemon), .version = "1"};
	union protocol_message message;

	status_part_build(&message.part, STATUS_DAEMON, &daemon, NULL, 0);
	cr_expect_eq(protocol_check(&message, PROTOCOL_PART_BYTES(sizeof(daemon))), 0);
	message.part.kind = STATUS_N_PARTS;
	cr_expect_eq(protocol_check(&message, PROTOCOL_PART_BYTES(sizeof(daemon))), -EPROTO);
	for (size_t n = 0; n < PROTOCOL_PART_BYTES(sizeof(daemon)); n++) {
		status_part_build(&message.part, STATUS_DAEMON, &daemon, NULL, 0);
		cr_expect_eq(protocol_check(&message, n), -EPROTO, "%zu bytes", n);
		message.header.bytes = (uint32_t)n;
		cr_expect_eq(protocol_check(&message, n), -EPROTO, "%zu bytes", n);
	}
}

Test(protocol_check, an_error_is_one_and_a_stream_has_a_name)
{
	union protocol_message message;
	const int32_t wrong[] = {0, 1, INT32_MAX, INT32_MIN, -4096};

	for (unsigned i = 0; i < 5; i++) {
		make(&message, 3);
		message.error.error = wrong[i];
		cr_expect_eq(protocol_check(&message, sizeof(message.error)), -EPROTO, "error %d", wrong[i]);
	}
	make(&message, 0);
	message.attach.stream[0] = '\0';
	cr_expect_eq(protocol_check(&message, sizeof(message.attach)), -EPROTO);
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
	struct protocol_attached message = {.epoch = 7};
	int fds[PROTOCOL_FDS_MAX] = {0, 0, 0, 0, 0, 0};

	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	return protocol_send(ends[0], &message.header, fds, n_fds);
}

Test(protocol, a_message_and_its_descriptors_arrive, .init = open_ends)
{
	union protocol_message message;
	int fds[PROTOCOL_FDS_MAX];
	unsigned n = PROTOCOL_FDS_MAX;
	unsigned before = count_fds();

	cr_assert_eq(send_with(6), 0);
	cr_assert_eq(protocol_recv(ends[1], &message, fds, &n), 1);
	cr_assert_eq(n, 6);
	cr_assert_eq(message.attached.epoch, 7);
	cr_assert_eq(count_fds(), before + 6);
	for (unsigned i = 0; i < n; i++) {
		cr_expect(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		close(fds[i]);
	}
}

Test(protocol, descriptors_nobody_has_room_for_are_refused_and_closed, .init = open_ends)
{
	union protocol_message message;
	int fds[PROTOCOL_FDS_MAX];
	unsigned before = count_fds();

	for (unsigned room = 0; room < PROTOCOL_FDS_MAX; room++) {
		unsigned n = room;

		cr_assert_eq(send_with(room + 1), 0);
		cr_expect_eq(protocol_recv(ends[1], &message, fds, &n), -EPROTO, "room for %u", room);
		cr_expect_eq(n, 0);
		cr_expect_eq(count_fds(), before);
	}
	cr_assert_eq(send_with(1), 0);
	cr_expect_eq(protocol_recv(ends[1], &message, NULL, NULL), -EPROTO);
	cr_expect_eq(count_fds(), before);
	cr_expect_eq(send_with(7), -EINVAL);
}

Test(protocol, a_process_that_has_room_for_no_more_descriptors_is_told_so, .init = open_ends)
{
	struct rlimit limit;
	union protocol_message message;
	int fds[PROTOCOL_FDS_MAX], first_free = dup(0);
	unsigned n = PROTOCOL_FDS_MAX, before;

	close(first_free);
	before = count_fds();
	getrlimit(RLIMIT_NOFILE, &limit);
	cr_assert_eq(send_with(6), 0);
	limit.rlim_cur = (rlim_t)first_free + 2;
	setrlimit(RLIMIT_NOFILE, &limit);
	cr_expect_eq(protocol_recv(ends[1], &message, fds, &n), -EMFILE);
	cr_expect_eq(n, 0);
	cr_expect_eq(count_fds(), before);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

Test(protocol, descriptors_of_a_malformed_message_are_closed, .init = open_ends)
{
	union protocol_message message;
	struct protocol_attached wrong = {0};
	int fds[PROTOCOL_FDS_MAX] = {0};
	unsigned n = PROTOCOL_FDS_MAX, before = count_fds();

	protocol_init(&wrong.header, PROTOCOL_STATUS, sizeof(wrong));
	cr_assert_eq(protocol_send(ends[0], &wrong.header, fds, 3), 0);
	cr_expect_eq(protocol_recv(ends[1], &message, fds, &n), -EPROTO);
	cr_expect_eq(n, 0);
	cr_expect_eq(count_fds(), before);
}

Test(protocol, a_datagram_longer_than_any_message_is_refused, .init = open_ends)
{
	union protocol_message message;
	uint8_t *bytes = calloc(1, PROTOCOL_BYTES_MAX + 1);

	cr_assert_eq(send(ends[0], bytes, PROTOCOL_BYTES_MAX + 1, 0), PROTOCOL_BYTES_MAX + 1);
	cr_expect_eq(protocol_recv(ends[1], &message, NULL, NULL), -EPROTO);
	free(bytes);
}

Test(protocol, an_empty_socket_and_a_closed_one_are_told_apart, .init = open_ends)
{
	union protocol_message message;

	cr_expect_eq(protocol_recv(ends[1], &message, NULL, NULL), -EAGAIN);
	close(ends[0]);
	cr_expect_eq(protocol_recv(ends[1], &message, NULL, NULL), 0);
	ends[0] = ends[1];
	cr_expect_eq(send_with(0), -EPIPE, "and no SIGPIPE");
}
