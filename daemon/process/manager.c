// SPDX-License-Identifier: Apache-2.0
/* Sends messages to the service manager without waiting for it, and queues those that find its socket full. */
#include "daemon/process/manager.h"

#include "daemon/base/log.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WAITING_MAX 8192 /* the descriptors that the unit lets the manager keep, each kept and dropped once */

struct manager_message {
	TAILQ_ENTRY(manager_message) link;
	int fd; /* -1: none */
	char text[256];
};

struct manager {
	int socket;
	struct sockaddr_un address;
	socklen_t address_bytes;
	sd_event_source *writable; /* enabled while messages wait */
	TAILQ_HEAD(, manager_message) waiting;
	uint32_t n_waiting;
};

/* ---- sending ------------------------------------------------------------------------------------- */

/* Connected, so that the kernel tells when there is room again. */
static int manager_connect(const struct manager *manager)
{
	int r = connect(manager->socket, (const struct sockaddr *)&manager->address, manager->address_bytes);

	return r < 0 ? -errno : 0;
}

static int manager_send_once(const struct manager *manager, const struct manager_message *message)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
	struct iovec text = {.iov_base = (void *)message->text, .iov_len = strlen(message->text)};
	struct msghdr datagram = {.msg_iov = &text, .msg_iovlen = 1};

	if (message->fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &message->fd, sizeof(int));
		datagram.msg_control = &control;
		datagram.msg_controllen = sizeof(control);
	}
	return sendmsg(manager->socket, &datagram, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* A manager that was started again has another socket of the same name. */
static int manager_send(const struct manager *manager, const struct manager_message *message)
{
	int r = manager_send_once(manager, message);

	if ((r == -ECONNREFUSED || r == -ENOTCONN) && manager_connect(manager) == 0)
		r = manager_send_once(manager, message);
	return r;
}

static void manager_forget(struct manager *manager, struct manager_message *message)
{
	TAILQ_REMOVE(&manager->waiting, message, link);
	manager->n_waiting--;
	fd_close(&message->fd);
	free(message);
}

static int on_manager_writable(sd_event_source *source, int, uint32_t, void *context)
{
	struct manager *manager = context;
	struct manager_message *message;

	while ((message = TAILQ_FIRST(&manager->waiting))) {
		int r = manager_send(manager, message);

		if (r == -EAGAIN)
			return 0;
		if (r < 0)
			log_warning("a message to the service manager is lost: %s", strerror(-r));
		manager_forget(manager, message);
	}
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

/* The descriptor may be closed before the message is sent, so a copy of it waits. */
static int manager_queue(struct manager *manager, const struct manager_message *message)
{
	int fd = message->fd < 0 ? -1 : fcntl(message->fd, F_DUPFD_CLOEXEC, 0);
	struct manager_message *copy;

	if (fd < 0 && message->fd >= 0)
		return -errno;
	copy = manager->n_waiting < WAITING_MAX ? malloc(sizeof(*copy)) : NULL;
	if (!copy) {
		fd_close(&fd);
		return -ENOBUFS;
	}
	*copy = *message;
	copy->fd = fd;
	TAILQ_INSERT_TAIL(&manager->waiting, copy, link);
	manager->n_waiting++;
	return sd_event_source_set_enabled(manager->writable, SD_EVENT_ON);
}

static int manager_post(struct manager *manager, const struct manager_message *message)
{
	int r = TAILQ_EMPTY(&manager->waiting) ? manager_send(manager, message) : -EAGAIN;

	return r == -EAGAIN ? manager_queue(manager, message) : r;
}

/* ---- messages ------------------------------------------------------------------------------------ */

void manager_tell(struct manager *manager, const char *format, ...)
{
	struct manager_message message = {.fd = -1}, *old;
	va_list arguments;
	size_t word;

	if (!manager)
		return;
	va_start(arguments, format);
	vsnprintf(message.text, sizeof(message.text), format, arguments);
	va_end(arguments);
	word = strcspn(message.text, "=") + 1;
	TAILQ_FOREACH (old, &manager->waiting, link)
		if (strncmp(old->text, message.text, word) == 0)
			break;
	if (old)
		manager_forget(manager, old);
	manager_post(manager, &message);
}

/* FDPOLL=0: by default the manager drops a descriptor that has an error or a hang-up to report. */
int manager_keep_fd(struct manager *manager, const char *name, int fd)
{
	struct manager_message message = {.fd = fd};
	int r;

	if (!manager)
		return 0;
	snprintf(message.text, sizeof(message.text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	r = manager_post(manager, &message);
	if (r < 0)
		log_warning("the service manager does not keep '%s' for the next run: %s", name, strerror(-r));
	return r;
}

void manager_drop_fds(struct manager *manager, const char *name)
{
	struct manager_message message = {.fd = -1};

	if (!manager)
		return;
	snprintf(message.text, sizeof(message.text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	manager_post(manager, &message);
}

/* ---- the manager --------------------------------------------------------------------------------- */

/* The name may be in the abstract namespace: "@…". */
static int manager_open(struct manager *manager, const char *name)
{
	struct sockaddr_un *address = &manager->address;
	size_t n = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || n >= sizeof(address->sun_path))
		return -EINVAL;
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, name, n);
	if (name[0] == '@')
		address->sun_path[0] = '\0';
	manager->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	manager->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return manager->socket < 0 ? -errno : manager_connect(manager);
}

struct manager *manager_new(sd_event *event)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct manager *manager = name ? calloc(1, sizeof(*manager)) : NULL;
	int r = -ENOMEM;

	if (!name)
		return NULL;
	if (manager) {
		TAILQ_INIT(&manager->waiting);
		manager->socket = -1;
		r = manager_open(manager, name);
	}
	if (r == 0)
		r = sd_event_add_io(event, &manager->writable, manager->socket, EPOLLOUT, on_manager_writable, manager);
	if (r >= 0)
		r = sd_event_source_set_enabled(manager->writable, SD_EVENT_OFF);
	if (r >= 0)
		return manager;
	log_warning("the service manager cannot be told anything (NOTIFY_SOCKET=%s): %s", name, strerror(-r));
	manager_free(manager);
	return NULL;
}

void manager_free(struct manager *manager)
{
	if (!manager)
		return;
	while (!TAILQ_EMPTY(&manager->waiting))
		manager_forget(manager, TAILQ_FIRST(&manager->waiting));
	sd_event_source_disable_unref(manager->writable);
	fd_close(&manager->socket);
	free(manager);
}
