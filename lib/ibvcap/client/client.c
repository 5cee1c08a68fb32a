// SPDX-License-Identifier: Apache-2.0
/* Connects to the daemon's control socket, sends requests and receives answers, within one deadline. */
#include "lib/ibvcap/client/client.h"

#include "lib/base/fd.h"
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define TIMEOUT_MS_DEFAULT 5000u

int client_ms_until(uint64_t deadline_ns)
{
	uint64_t now = time_monotonic_ns();

	return now < deadline_ns ? (int)u64_min((deadline_ns - now) / 1000000 + 1, INT_MAX) : 0;
}

const char *client_path(const char *path)
{
	if (!path)
		path = secure_getenv("IBVCAP_SOCKET");
	return path && path[0] ? path : IBVCAP_CONTROL_SOCKET;
}

/* Let connect() and sendmsg() wait until the deadline at most. */
static int client_set_timeout(const struct client *client)
{
	const int ms = client_ms_until(client->deadline_ns);
	const struct timeval timeout = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	if (ms == 0)
		return -EAGAIN;
	return setsockopt(client->socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ? -errno : 0;
}

/*
 * A connect waits while the daemon's backlog is full. The kernel begins the whole timeout anew when a connect is
 * repeated after a signal, so the rest of it is set each time: else a program with a fast timer would wait for ever.
 */
static int client_connect_path(const struct client *client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r;

	memcpy(address.sun_path, client->path, strlen(client->path) + 1);
	do {
		r = client_set_timeout(client);
		if (r == 0 && connect(client->socket, (const struct sockaddr *)&address, sizeof(address)) < 0)
			r = -errno;
	} while (r == -EINTR);
	return r;
}

int client_connect(struct client *client, const char *path, uint32_t timeout_ms)
{
	struct client new = CLIENT_INIT;
	int r;

	if (timeout_ms == 0)
		timeout_ms = TIMEOUT_MS_DEFAULT;
	new.path = client_path(path);
	if (strlen(new.path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return error_set(-EINVAL, "control socket '%s': the path is longer than 107 bytes", new.path);
	new.deadline_ns = time_monotonic_ns() + timeout_ms *UINT64_C(1000000);
	new.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (new.socket < 0)
		return error_set(-errno, "control socket '%s': %s", new.path, strerror(errno));
	r = client_connect_path(&new);
	if (r < 0) {
		fd_close(&new.socket);
		return client_explain_connect(new.path, r);
	}
	*client = new;
	return 0;
}

static int client_check_sent(const struct client *client, int r)
{
	/* The daemon may have refused this connection and hung up: its reason waits in the socket. */
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	return r < 0 ? client_explain_lost(client->socket, client->path, r == -EAGAIN ? -ETIMEDOUT : r) : 0;
}

int client_send(struct client *client, const struct protocol_header *request)
{
	return client_check_sent(client, protocol_send(client->socket, request, NULL, 0));
}

int client_send_descriptor(struct client *client, const struct protocol_header *request, int fd)
{
	int r = protocol_send(client->socket, request, &fd, 1);

	return r == -EBADF ? error_set(r, "control socket '%s': the descriptor %d is not open", client->path, fd)
	                   : client_check_sent(client, r);
}

static int client_wait_readable(const struct client *client)
{
	struct pollfd poller = {.fd = client->socket, .events = POLLIN};
	int r;

	do {
		const int ms = client_ms_until(client->deadline_ns);

		if (ms == 0)
			return -ETIMEDOUT;
		r = poll(&poller, 1, ms);
	} while (r == 0 || (r < 0 && errno == EINTR));
	return r < 0 ? -errno : 0;
}

int client_receive(struct client *client, union protocol_message *message, int *fds, unsigned *n_fds)
{
	const unsigned room = n_fds ? *n_fds : 0;
	int r = client_wait_readable(client);

	if (r == 0)
		r = protocol_recv(client->socket, message, fds, n_fds);
	/* The daemon hung up before it read the request: the reset comes first, its reason after it. */
	if (r == -ECONNRESET) {
		if (n_fds)
			*n_fds = room;
		r = protocol_recv(client->socket, message, fds, n_fds);
	}
	if (r <= 0)
		return client_explain_lost(client->socket, client->path, r == -EAGAIN ? -ETIMEDOUT : r);
	if (message->header.type != PROTOCOL_ERROR)
		return 0;
	while (n_fds && *n_fds > 0)
		close(fds[--*n_fds]);
	return error_set(message->error.error, "%s", message->error.text);
}

int client_receive_answer(struct client *client, union protocol_message *message, enum protocol_type type, int *fds,
                          unsigned n_fds, const char *request)
{
	unsigned n = n_fds;
	int r = client_receive(client, message, fds, n_fds ? &n : NULL);

	if (r < 0 || (message->header.type == type && n == n_fds))
		return r;
	while (n > 0)
		close(fds[--n]);
	return error_set(-EPROTO,
	                 "control socket '%s': not the answer to %s; library and daemon are of different versions",
	                 client->path, request);
}
