// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static_assert(sizeof(union wire_message) == WIRE_BYTES_MAX, "every message fits");

/* Errnos go up to 4095 (MAX_ERRNO in the kernel's include/linux/err.h). */
#define ERRNO_MAX 4095

void wire_init(struct wire_header *header, enum wire_type type, size_t bytes)
{
	*header = (struct wire_header){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.type = (uint16_t)type,
		.bytes = (uint32_t)bytes,
	};
}

/* ---- checking ------------------------------------------------------------------------------------ */

static size_t message_bytes(uint16_t type)
{
	switch (type) {
	case WIRE_ATTACH:
		return sizeof(struct wire_attach);
	case WIRE_STATUS:
		return sizeof(struct wire_status);
	case WIRE_CHANGE:
		return sizeof(struct wire_change);
	case WIRE_DONE:
		return sizeof(struct wire_done);
	case WIRE_OPEN_CHANNEL:
		return sizeof(struct wire_open_channel);
	case WIRE_MAPPED:
		return sizeof(struct wire_mapped);
	case WIRE_OPENED:
		return sizeof(struct wire_opened);
	case WIRE_READY:
		return sizeof(struct wire_ready);
	case WIRE_ATTACHED:
		return sizeof(struct wire_attached);
	case WIRE_ERROR:
		return sizeof(struct wire_error);
	case WIRE_DAEMON:
		return sizeof(struct wire_daemon);
	case WIRE_STREAM:
		return sizeof(struct wire_stream);
	case WIRE_CONSUMER:
		return sizeof(struct wire_consumer);
	case WIRE_CHANNEL:
		return sizeof(struct wire_channel);
	case WIRE_SENDER:
		return sizeof(struct wire_sender);
	case WIRE_INTERFACE:
		return sizeof(struct wire_interface);
	case WIRE_END:
		return sizeof(struct wire_header);
	}
	return 0;
}

#define IS_STRING(array) (memchr((array), '\0', sizeof(array)) != NULL)

static bool is_stream_sound(const struct wire_stream *stream)
{
	return IS_STRING(stream->name) && IS_STRING(stream->interface) && IS_STRING(stream->device) &&
	       IS_STRING(stream->backend) && IS_STRING(stream->state) && stream->n_counters <= WIRE_COUNTERS_MAX;
}

static bool is_channel_sound(const struct wire_channel *channel)
{
	return IS_STRING(channel->name) && IS_STRING(channel->interface) && IS_STRING(channel->device) &&
	       IS_STRING(channel->backend) && IS_STRING(channel->state) && channel->n_counters <= WIRE_COUNTERS_MAX;
}

static bool is_body_sound(const union wire_message *message)
{
	switch (message->header.type) {
	case WIRE_ATTACH:
		return IS_STRING(message->attach.stream) && message->attach.stream[0];
	case WIRE_OPEN_CHANNEL:
		return IS_STRING(message->open_channel.channel) && message->open_channel.channel[0];
	case WIRE_CHANGE:
		return IS_STRING(message->change.name) && IS_STRING(message->change.text) &&
		       message->change.what >= WIRE_CHANGE_RELOAD && message->change.what <= WIRE_CHANGE_REMOVE_STREAM;
	case WIRE_DONE:
		return IS_STRING(message->done.text);
	case WIRE_ERROR:
		return IS_STRING(message->error.text) && message->error.error < 0 && message->error.error >= -ERRNO_MAX;
	case WIRE_DAEMON:
		return IS_STRING(message->daemon.version);
	case WIRE_STREAM:
		return is_stream_sound(&message->stream);
	case WIRE_CONSUMER:
		return IS_STRING(message->consumer.stream) && message->consumer.n_counters <= WIRE_COUNTERS_MAX;
	case WIRE_CHANNEL:
		return is_channel_sound(&message->channel);
	case WIRE_SENDER:
		return IS_STRING(message->sender.channel) && message->sender.n_counters <= WIRE_COUNTERS_MAX;
	case WIRE_INTERFACE:
		return IS_STRING(message->interface.interface) && IS_STRING(message->interface.device) &&
		       message->interface.n_counters <= WIRE_COUNTERS_MAX;
	}
	return true;
}

int wire_check(const union wire_message *message, size_t n)
{
	const struct wire_header *header = &message->header;

	if (n < sizeof(*header) || header->magic != WIRE_MAGIC || header->version != WIRE_VERSION)
		return -EPROTO;
	if (header->bytes != n || message_bytes(header->type) != n)
		return -EPROTO;
	return is_body_sound(message) ? 0 : -EPROTO;
}

/* ---- the socket ---------------------------------------------------------------------------------- */

union control_buffer {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
};

int wire_send(int socket, const struct wire_header *header, const int *fds, unsigned n_fds)
{
	union control_buffer control = {0};
	struct iovec data = {.iov_base = (void *)header, .iov_len = header->bytes};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
	ssize_t n;

	if (n_fds > WIRE_FDS_MAX)
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

/* Descriptors are ours as soon as they are here: gather all of them, whatever else is wrong. */
static unsigned gather_fds(struct msghdr *message, int *fds)
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

int wire_recv(int socket, union wire_message *message, int *fds, unsigned *n_fds)
{
	union control_buffer control;
	struct iovec data = {.iov_base = message, .iov_len = sizeof(*message)};
	unsigned room = n_fds ? *n_fds : 0;
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
	int came[WIRE_FDS_MAX];
	unsigned n_came;
	ssize_t n;
	int r;

	if (room > WIRE_FDS_MAX)
		return -EINVAL;
	if (n_fds)
		*n_fds = 0;
	/* What does not fit in msg_control the kernel never opens here: it drops it and sets MSG_CTRUNC. */
	header.msg_control = room ? control.bytes : NULL;
	header.msg_controllen = room ? CMSG_SPACE(room * sizeof(int)) : 0;
	do {
		n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	n_came = gather_fds(&header, came);
	r = n == 0 ? 0 : 1;
	if (n > 0 &&
	    (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || n_came > room || wire_check(message, (size_t)n) < 0))
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
