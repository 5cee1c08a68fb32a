// SPDX-License-Identifier: Apache-2.0
/* Makes, checks, sends and receives the messages of the control socket. Daemon and library use it. */
#include "lib/ibvcap/protocol.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static_assert(sizeof(union protocol_message) == PROTOCOL_BYTES_MAX, "every message fits into the union");

/* Errnos go up to 4095 (MAX_ERRNO in the kernel's include/linux/err.h). */
#define ERRNO_MAX 4095

void protocol_init(struct protocol_header *header, enum protocol_type type, size_t bytes)
{
	*header = (struct protocol_header){
		.magic = PROTOCOL_MAGIC,
		.version = PROTOCOL_VERSION,
		.type = (uint16_t)type,
		.bytes = (uint32_t)bytes,
	};
}

/* ---- checking ------------------------------------------------------------------------------------ */

/* 0: there is no such type. */
static size_t protocol_message_bytes(const struct protocol_header *header)
{
	static const uint16_t bytes[] = {
		[PROTOCOL_ATTACH] = sizeof(struct protocol_attach),
		[PROTOCOL_STATUS] = sizeof(struct protocol_bare),
		[PROTOCOL_RECONFIGURE] = sizeof(struct protocol_reconfigure),
		[PROTOCOL_OPEN_CHANNEL] = sizeof(struct protocol_open_channel),
		[PROTOCOL_MAPPED] = sizeof(struct protocol_bare),
		[PROTOCOL_LENT] = sizeof(struct protocol_lent),
		[PROTOCOL_ATTACHED] = sizeof(struct protocol_attached),
		[PROTOCOL_ERROR] = sizeof(struct protocol_error),
		[PROTOCOL_END] = sizeof(struct protocol_header),
		[PROTOCOL_DONE] = sizeof(struct protocol_done),
		[PROTOCOL_OPENED] = sizeof(struct protocol_opened),
		[PROTOCOL_READY] = sizeof(struct protocol_bare),
		[PROTOCOL_JOINED] = sizeof(struct protocol_joined),
		[PROTOCOL_RECALLED] = sizeof(struct protocol_bare),
		[PROTOCOL_LEND] = sizeof(struct protocol_lend),
	};

	if (header->type == PROTOCOL_PART)
		return header->bytes < PROTOCOL_PART_BYTES(0) ? PROTOCOL_PART_BYTES(0) : header->bytes;
	return header->type < sizeof(bytes) / sizeof(bytes[0]) ? bytes[header->type] : 0;
}

#define IS_STRING(array) (memchr((array), '\0', sizeof(array)) != NULL)

static bool protocol_is_body_sound(const union protocol_message *message)
{
	switch (message->header.type) {
	case PROTOCOL_ATTACH:
		return IS_STRING(message->attach.stream) && message->attach.stream[0] &&
		       IS_STRING(message->attach.group) && message->attach.lends <= 1;
	case PROTOCOL_OPEN_CHANNEL:
		return IS_STRING(message->open_channel.channel) && message->open_channel.channel[0];
	case PROTOCOL_RECONFIGURE:
		return IS_STRING(message->change.name) && IS_STRING(message->change.text) &&
		       message->change.what >= PROTOCOL_RECONFIGURE_RELOAD &&
		       message->change.what <= PROTOCOL_RECONFIGURE_REMOVE_STREAM;
	case PROTOCOL_DONE:
		return IS_STRING(message->done.text);
	case PROTOCOL_ERROR:
		return IS_STRING(message->error.text) && message->error.error < 0 && message->error.error >= -ERRNO_MAX;
	case PROTOCOL_PART:
		return status_is_sound(message->part.kind, message->part.body,
		                       message->header.bytes - PROTOCOL_PART_BYTES(0));
	}
	return true;
}

int protocol_check(const union protocol_message *message, size_t n)
{
	const struct protocol_header *header = &message->header;

	if (n < sizeof(*header) || header->magic != PROTOCOL_MAGIC || header->version != PROTOCOL_VERSION)
		return -EPROTO;
	if (header->bytes != n || protocol_message_bytes(header) != n)
		return -EPROTO;
	return protocol_is_body_sound(message) ? 0 : -EPROTO;
}

/* ---- the socket ---------------------------------------------------------------------------------- */

union control_buffer {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(PROTOCOL_FDS_MAX * sizeof(int))];
};

int protocol_send(int socket, const struct protocol_header *header, const int *fds, unsigned n_fds)
{
	union control_buffer control = {0};
	struct iovec data = {.iov_base = (void *)header, .iov_len = header->bytes};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
	ssize_t n;

	if (n_fds > PROTOCOL_FDS_MAX)
		return -EINVAL;
	if (n_fds > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);

		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, n_fds * sizeof(int));
	}
	do {
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Received descriptors are open in this process, so all are gathered, also of a message that is refused. */
static unsigned protocol_gather_fds(struct msghdr *message, int *fds)
{
	unsigned n = 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg; cmsg = CMSG_NXTHDR(message, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		size_t here = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		memcpy(fds + n, CMSG_DATA(cmsg), here * sizeof(int));
		n += (unsigned)here;
	}
	return n;
}

int protocol_recv(int socket, union protocol_message *message, int *fds, unsigned *n_fds)
{
	union control_buffer control;
	struct iovec data = {.iov_base = message, .iov_len = sizeof(*message)};
	unsigned room = n_fds ? *n_fds : 0;
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
	int came[PROTOCOL_FDS_MAX];
	unsigned n_came;
	ssize_t n;
	int r;

	if (room > PROTOCOL_FDS_MAX)
		return -EINVAL;
	if (n_fds)
		*n_fds = 0;
	/* The kernel drops descriptors that do not fit into msg_control, and sets MSG_CTRUNC. */
	header.msg_control = room ? control.bytes : NULL;
	header.msg_controllen = room ? CMSG_SPACE(room * sizeof(int)) : 0;
	do {
		n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	n_came = protocol_gather_fds(&header, came);
	r = n == 0 ? 0 : 1;
	if (n > 0 &&
	    (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || n_came > room || protocol_check(message, (size_t)n) < 0))
		r = header.msg_flags & MSG_CTRUNC && n_came < room ? -EMFILE : -EPROTO;
	if (r != 1) {
		while (n_came > 0)
			close(came[--n_came]);
		return r;
	}
	if (n_came > 0)
		memcpy(fds, came, n_came * sizeof(int));
	if (n_fds)
		*n_fds = n_came;
	return 1;
}
