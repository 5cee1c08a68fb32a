// SPDX-License-Identifier: Apache-2.0
/*
 * Turns the events of a client's socket into jobs for the thread of its user: receive one message, send as much as the
 * socket takes, close. One job at a time; connection_proceed() decides on the next one.
 */
#include "daemon/control/connection.h"

#include "daemon/control/listener.h"
#include "daemon/base/loop.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DRAIN_MAX    16
#define OVERDUE_US   UINT64_C(5000000) /* a client that takes longer to read an answer is disconnected */
#define PAUSE_MAX_US UINT64_C(1000000) /* then the call budget is looked at again */

/* Messages with the descriptors of the first one. */
struct answer {
	STAILQ_ENTRY(answer) link;
	struct reply reply;
	int fds[PROTOCOL_FDS_MAX];
	unsigned n_fds;
};

STAILQ_HEAD(answer_list, answer);

enum connection_job { CONNECTION_NO_JOB, CONNECTION_RECEIVE, CONNECTION_SEND, CONNECTION_CLOSE };

struct connection {
	struct background_job job;
	enum connection_job doing;
	struct user *user;
	int fd;
	connection_handler *on_event;
	void *context;
	sd_event_source *io;
	sd_event_source *overdue; /* armed while the socket is full */
	sd_event_source *pause;   /* armed while the call budget is exceeded */
	bool is_refused;
	bool is_closing;
	bool is_wanted; /* the next message */
	bool is_readable;
	bool is_full; /* the client has to read before more can be sent */
	bool is_paused;
	bool accepts_dmabuf;
	struct answer_list pending; /* not given to a job yet */

	/* The thread uses these members while it has a job. */
	struct answer_list answers;
	union protocol_message message;
	int result;
	int dmabuf; /* or -errno: see connection_take_dmabuf() */
	uint64_t dmabuf_bytes;
};

/* ---- the user's thread ------------------------------------------------------------------------------- */

static void charge_call(const struct connection *connection, uint64_t since_ns)
{
	cpu_budget_charge(&connection->user->calls, time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID) - since_ns,
	                  time_monotonic_ns());
}

/* The calls on a descriptor, its close() too, may take as long as the client likes until it is known as a dma-buf. */
static int check_dmabuf(int fd, uint64_t *bytes)
{
	int flags = fcntl(fd, F_GETFL);
	struct statfs filesystem;
	off_t end;

	if (flags & O_PATH || fstatfs(fd, &filesystem) < 0 || filesystem.f_type != DMA_BUF_MAGIC)
		return -EBADF;
	/* No driver looks at that when it registers the memory, and the client may have been given it for reading. */
	if ((flags & O_ACCMODE) != O_RDWR)
		return -EACCES;
	end = lseek(fd, 0, SEEK_END);
	*bytes = end < 0 ? 0 : (uint64_t)end;
	return fd;
}

static void receive_with_dmabuf(struct connection *connection)
{
	unsigned n = 1;
	int fd = -1;

	connection->result = protocol_recv(connection->fd, &connection->message, &fd, &n);
	if (connection->result != -EAGAIN)
		listener_pass_descriptors(connection->fd, false);
	connection->dmabuf = connection->result == 1 && n == 1 ? check_dmabuf(fd, &connection->dmabuf_bytes) : -ENOMSG;
	if (connection->dmabuf < 0)
		fd_close(&fd);
}

static void receive_message(void *context)
{
	struct connection *connection = context;
	uint64_t start_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	fd_close(&connection->dmabuf);
	if (connection->accepts_dmabuf)
		receive_with_dmabuf(connection);
	else
		connection->result = protocol_recv(connection->fd, &connection->message, NULL, NULL);
	charge_call(connection, start_ns);
}

static void free_answer(struct answer *answer)
{
	for (unsigned i = 0; i < answer->n_fds; i++)
		fd_close(&answer->fds[i]);
	reply_deinit(&answer->reply);
	free(answer);
}

/* 0 or -errno; -EAGAIN: the client has to read first. */
static int send_answer(const struct connection *connection, struct answer *answer)
{
	const struct protocol_header *message;
	size_t bytes;

	while ((message = reply_next(&answer->reply, &bytes))) {
		uint64_t start_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
		unsigned n_fds = answer->reply.sent == 0 ? answer->n_fds : 0;
		int r = protocol_send(connection->fd, message, answer->fds, n_fds);

		charge_call(connection, start_ns);
		if (r < 0)
			return r;
		answer->reply.sent += bytes;
	}
	return 0;
}

static void send_answers(void *context)
{
	struct connection *connection = context;
	struct answer *answer;

	if (connection->accepts_dmabuf)
		listener_pass_descriptors(connection->fd, true);
	connection->result = 0;
	while ((answer = STAILQ_FIRST(&connection->answers))) {
		connection->result = send_answer(connection, answer);
		if (connection->result < 0)
			return;
		STAILQ_REMOVE_HEAD(&connection->answers, link);
		free_answer(answer);
	}
}

/*
 * A client whose messages are unread at the close gets ECONNRESET instead of its answer. From the shutdown on it gets
 * EPIPE, and its answer.
 */
static void drain_socket(const struct connection *connection)
{
	uint64_t start_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	char byte;

	shutdown(connection->fd, SHUT_RD);
	charge_call(connection, start_ns);
	for (int i = 0; i < DRAIN_MAX && connection->result == 0; i++) {
		start_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
		if (recv(connection->fd, &byte, 1, MSG_DONTWAIT) <= 0)
			return;
		charge_call(connection, start_ns);
	}
}

static void close_socket(void *context)
{
	struct connection *connection = context;
	struct answer *answer;
	uint64_t start_ns;

	connection->accepts_dmabuf = false;
	send_answers(connection);
	drain_socket(connection);
	while ((answer = STAILQ_FIRST(&connection->answers))) {
		STAILQ_REMOVE_HEAD(&connection->answers, link);
		free_answer(answer);
	}
	start_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	fd_close(&connection->dmabuf);
	fd_close(&connection->fd);
	charge_call(connection, start_ns);
}

/* ---- the control thread ------------------------------------------------------------------------------ */

static void on_connection_job_done(void *context);

static void connection_begin_job(struct connection *connection, enum connection_job doing)
{
	static void (*const works[])(void *) = {[CONNECTION_RECEIVE] = receive_message,
	                                        [CONNECTION_SEND] = send_answers,
	                                        [CONNECTION_CLOSE] = close_socket};

	STAILQ_CONCAT(&connection->answers, &connection->pending);
	connection->doing = doing;
	connection->job.work = works[doing];
	connection->job.done = on_connection_job_done;
	connection->job.context = connection;
	background_add(connection->user->threads[USER_SOCKETS], &connection->job);
}

/* True: nothing is read until the timer ends. */
static bool connection_pause(struct connection *connection)
{
	uint64_t excess_us = cpu_budget_excess_ns(&connection->user->calls, time_monotonic_ns()) / 1000;

	if (excess_us == 0)
		return false;
	connection->is_paused = true;
	loop_arm(connection->pause, excess_us < PAUSE_MAX_US ? excess_us : PAUSE_MAX_US);
	return true;
}

bool connection_is_sending(const struct connection *connection)
{
	return connection->doing == CONNECTION_SEND || !STAILQ_EMPTY(&connection->pending) ||
	       !STAILQ_EMPTY(&connection->answers);
}

/* The next job, if there is one to do. */
static void connection_proceed(struct connection *connection)
{
	bool may_read;

	if (connection->doing != CONNECTION_NO_JOB)
		return;
	if (connection->is_closing) {
		connection_begin_job(connection, CONNECTION_CLOSE);
		return;
	}
	if (connection_is_sending(connection)) {
		if (!connection->is_full)
			connection_begin_job(connection, CONNECTION_SEND);
	} else if (connection->is_wanted && connection->is_readable && !connection->is_paused &&
	           !connection_pause(connection)) {
		connection->is_wanted = connection->is_readable = false;
		connection_begin_job(connection, CONNECTION_RECEIVE);
	}
	may_read = connection->is_wanted && !connection->is_readable;
	sd_event_source_set_io_events(connection->io, connection->is_full ? EPOLLOUT : may_read ? EPOLLIN : 0);
}

static void take_sent(struct connection *connection)
{
	if (connection->result == -EAGAIN && !connection->is_full) {
		connection->is_full = true;
		if (sd_event_source_get_enabled(connection->overdue, NULL) == 0)
			loop_arm(connection->overdue, OVERDUE_US);
	} else if (connection->result == 0) {
		sd_event_source_set_enabled(connection->overdue, SD_EVENT_OFF);
	} else if (connection->result != -EAGAIN) {
		connection->on_event(connection->context, connection->result, NULL);
	}
}

static void on_connection_job_done(void *context)
{
	struct connection *connection = context;
	enum connection_job did = connection->doing;

	if (did == CONNECTION_RECEIVE && connection->result != -EAGAIN)
		connection->accepts_dmabuf = false;

	connection->doing = CONNECTION_NO_JOB;
	if (did == CONNECTION_CLOSE) {
		user_leave(connection->user, connection->is_refused);
		free(connection);
		return;
	}
	if (!connection->is_closing && did == CONNECTION_SEND)
		take_sent(connection);
	else if (!connection->is_closing && connection->result == -EAGAIN)
		connection->is_wanted = true;
	else if (!connection->is_closing)
		connection->on_event(connection->context, connection->result, &connection->message);
	connection_proceed(connection);
}

static int on_connection_io(sd_event_source *, int, uint32_t events, void *context)
{
	struct connection *connection = context;

	if (events & (EPOLLHUP | EPOLLERR)) {
		connection->on_event(connection->context, 0, NULL);
		return 0;
	}
	if (events & EPOLLOUT)
		connection->is_full = false;
	if (events & EPOLLIN)
		connection->is_readable = true;
	connection_proceed(connection);
	return 0;
}

static int on_connection_overdue(sd_event_source *, uint64_t, void *context)
{
	struct connection *connection = context;

	connection->on_event(connection->context, -ETIMEDOUT, NULL);
	return 0;
}

static int on_connection_pause(sd_event_source *, uint64_t, void *context)
{
	struct connection *connection = context;

	connection->is_paused = false;
	connection_proceed(connection);
	return 0;
}

/* ---- life -------------------------------------------------------------------------------------------- */

int connection_new(struct connection **out, struct user *user, int fd, connection_handler *on_event, void *context)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	sd_event *event = user->users->event;
	int r;

	if (!connection || !user_thread(user, USER_SOCKETS)) {
		free(connection);
		return -ENOMEM;
	}
	connection->user = user;
	connection->fd = fd;
	connection->dmabuf = -1;
	connection->on_event = on_event;
	connection->context = context;
	STAILQ_INIT(&connection->answers);
	STAILQ_INIT(&connection->pending);
	r = sd_event_add_io(event, &connection->io, fd, 0, on_connection_io, connection);
	if (r >= 0)
		r = loop_add_timer(event, &connection->overdue, on_connection_overdue, connection);
	if (r >= 0)
		r = loop_add_timer(event, &connection->pause, on_connection_pause, connection);
	if (r < 0) {
		sd_event_source_disable_unref(connection->io);
		sd_event_source_disable_unref(connection->overdue);
		sd_event_source_disable_unref(connection->pause);
		free(connection);
		return r;
	}
	*out = connection;
	return 0;
}

void connection_receive(struct connection *connection)
{
	connection->is_wanted = true;
	connection_proceed(connection);
}

int connection_send(struct connection *connection, struct reply *reply, const int *fds, unsigned n_fds)
{
	struct answer *answer = calloc(1, sizeof(*answer));

	if (!answer) {
		for (unsigned i = 0; i < n_fds; i++)
			close(fds[i]);
		reply_deinit(reply);
		return -ENOMEM;
	}
	answer->reply = *reply;
	*reply = (struct reply){0};
	if (n_fds)
		memcpy(answer->fds, fds, n_fds * sizeof(*fds));
	answer->n_fds = n_fds;
	STAILQ_INSERT_TAIL(&connection->pending, answer, link);
	connection_proceed(connection);
	return 0;
}

void connection_accept_dmabuf(struct connection *connection)
{
	connection->accepts_dmabuf = true;
}

int connection_take_dmabuf(struct connection *connection, uint64_t *bytes)
{
	int fd = connection->dmabuf;

	*bytes = connection->dmabuf_bytes;
	connection->dmabuf = -1;
	return fd;
}

void connection_refuse(struct connection *connection)
{
	connection->is_refused = true;
	user_refuse(connection->user);
}

void connection_close(struct connection *connection)
{
	if (!connection)
		return;
	connection->is_closing = true;
	connection->io = sd_event_source_disable_unref(connection->io);
	connection->overdue = sd_event_source_disable_unref(connection->overdue);
	connection->pause = sd_event_source_disable_unref(connection->pause);
	connection_proceed(connection);
}
