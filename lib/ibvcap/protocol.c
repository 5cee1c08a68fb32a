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

static size_t protocol_message_bytes(uint16_t type)
{
	switch (type) {
	case PROTOCOL_ATTACH:
		return sizeof(struct protocol_attach);
	case PROTOCOL_STATUS:
		return sizeof(struct protocol_status);
	case PROTOCOL_RECONFIGURE:
		return sizeof(struct protocol_reconfigure);
	case PROTOCOL_DONE:
		return sizeof(struct protocol_done);
	case PROTOCOL_OPEN_CHANNEL:
		return sizeof(struct protocol_open_channel);
	case PROTOCOL_MAPPED:
		return sizeof(struct protocol_mapped);
	case PROTOCOL_OPENED:
		return sizeof(struct protocol_opened);
	case PROTOCOL_READY:
		return sizeof(struct protocol_ready);
	case PROTOCOL_ATTACHED:
		return sizeof(struct protocol_attached);
	case PROTOCOL_JOINED:
		return sizeof(struct protocol_joined);
	case PROTOCOL_RECALLED:
		return sizeof(struct protocol_recalled);
	case PROTOCOL_ERROR:
		return sizeof(struct protocol_error);
	case PROTOCOL_DAEMON:
		return sizeof(struct protocol_daemon);
	case PROTOCOL_STREAM:
		return sizeof(struct protocol_stream);
	case PROTOCOL_FLOW:
		return sizeof(struct protocol_flow);
	case PROTOCOL_CONSUMER:
		return sizeof(struct protocol_consumer);
	case PROTOCOL_CHANNEL:
		return sizeof(struct protocol_channel);
	case PROTOCOL_SENDER:
		return sizeof(struct protocol_sender);
	case PROTOCOL_INTERFACE:
		return sizeof(struct protocol_interface);
	case PROTOCOL_END:
		return sizeof(struct protocol_header);
	}
	return 0;
}

#define IS_STRING(array) (memchr((array), '\0', sizeof(array)) != NULL)

static bool protocol_is_stream_sound(const struct protocol_stream *stream)
{
	return IS_STRING(stream->name) && IS_STRING(stream->interface) && IS_STRING(stream->device) &&
	       IS_STRING(stream->backend) && IS_STRING(stream->state) && stream->n_counters <= PROTOCOL_COUNTERS_MAX;
}

static bool protocol_is_channel_sound(const struct protocol_channel *channel)
{
	return IS_STRING(channel->name) && IS_STRING(channel->interface) && IS_STRING(channel->device) &&
	       IS_STRING(channel->backend) && IS_STRING(channel->state) && channel->n_counters <= PROTOCOL_COUNTERS_MAX;
}

static bool protocol_is_interface_sound(const struct protocol_interface *interface)
{
	return IS_STRING(interface->interface) && IS_STRING(interface->device) && IS_STRING(interface->backend) &&
	       IS_STRING(interface->backend_why) && IS_STRING(interface->backend_how) &&
	       IS_STRING(interface->backend_better) && IS_STRING(interface->backend_command) &&
	       interface->n_counters <= PROTOCOL_COUNTERS_MAX;
}

static bool protocol_is_body_sound(const union protocol_message *message)
{
	switch (message->header.type) {
	case PROTOCOL_ATTACH:
		return IS_STRING(message->attach.stream) && message->attach.stream[0] &&
		       IS_STRING(message->attach.group);
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
	case PROTOCOL_DAEMON:
		return IS_STRING(message->daemon.version);
	case PROTOCOL_STREAM:
		return protocol_is_stream_sound(&message->stream);
	case PROTOCOL_FLOW:
		return IS_STRING(message->flow.stream) && IS_STRING(message->flow.destination) &&
		       IS_STRING(message->flow.source) && IS_STRING(message->flow.text);
	case PROTOCOL_CONSUMER:
		return IS_STRING(message->consumer.stream) && IS_STRING(message->consumer.group) &&
		       message->consumer.n_counters <= PROTOCOL_COUNTERS_MAX;
	case PROTOCOL_CHANNEL:
		return protocol_is_channel_sound(&message->channel);
	case PROTOCOL_SENDER:
		return IS_STRING(message->sender.channel) && message->sender.n_counters <= PROTOCOL_COUNTERS_MAX;
	case PROTOCOL_INTERFACE:
		return protocol_is_interface_sound(&message->interface);
	}
	return true;
}

int protocol_check(const union protocol_message *message, size_t n)
{
	const struct protocol_header *header = &message->header;

	if (n < sizeof(*header) || header->magic != PROTOCOL_MAGIC || header->version != PROTOCOL_VERSION)
		return -EPROTO;
	if (header->bytes != n || protocol_message_bytes(header->type) != n)
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
