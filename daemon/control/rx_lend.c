// SPDX-License-Identifier: Apache-2.0
/*
 * The consumer of a stream with payload_memory = "consumer": asks it for the memory of the payload rows, has the daemon
 * open the stream with it, and then attaches the consumer as any other one.
 */
#include "daemon/control/rx_lend.h"

#include "daemon/control/id_name.h"
#include "daemon/control/server.h"
#include "daemon/base/loop.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A client that was asked for memory. */
struct rx_lend {
	struct session_wait wait;
	TAILQ_ENTRY(rx_lend) link; /* of those whose memory has come */
	struct session *session;
	struct protocol_attach request;
	uint64_t bytes; /* that it was asked for */
	int dmabuf;     /* -1: it has not come, or the stream is being opened with it */
	uint64_t offset;
};

static void rx_lend_close_dmabuf(struct rx_lend *lend)
{
	if (lend->dmabuf < 0)
		return;
	TAILQ_REMOVE(&lend->session->control->lends, lend, link);
	fd_close(&lend->dmabuf);
}

static void rx_lend_abandon(struct session_wait *wait)
{
	struct rx_lend *lend = (struct rx_lend *)wait;
	struct control *control = lend->session->control;

	rx_lend_close_dmabuf(lend);
	lend->session->wait = NULL;
	if (control->lending == lend)
		control->lending = NULL;
	free(lend);
}

/* ---- asking ------------------------------------------------------------------------------------- */

static struct rx_stream *rx_lend_find(const struct control *control, const char *name)
{
	struct rx_stream *stream;

	TAILQ_FOREACH (stream, &control->rx_streams, link)
		if (strcmp(stream->known->config->name, name) == 0)
			break;
	return stream;
}

static const struct endpoint_client *rx_lend_find_client(const struct rx_stream *stream)
{
	const struct endpoint_client *client;

	LIST_FOREACH (client, &stream->queues[0]->endpoint.clients, link)
		if (client->session)
			break;
	return client;
}

bool control_has_lender(const struct control_stream *stream)
{
	return !stream->stream || rx_lend_find_client(stream->stream);
}

/* ENDPOINT_ADMITTED: the stream is closed. */
static int rx_lend_admit_place(struct session *session, const struct config_stream *config)
{
	const struct rx_stream *stream = rx_lend_find(session->control, config->name);
	const struct endpoint_client *client = stream ? rx_lend_find_client(stream) : NULL;

	if (client)
		return session_send_error(session, -EAGAIN,
		                          "stream '%s': its payload rows are in memory of its consumer, process %d of "
		                          "user %s, and there can be no other one",
		                          config->name, (int)client->pid, id_of_user(client->uid).text);
	if (stream)
		return session_send_error(session, -EAGAIN,
		                          "stream '%s': the memory of its last consumer is being given back; try again",
		                          config->name);
	if (!session->control->listening)
		return session_send_error(session, -EAGAIN, "stream '%s': the daemon is stopping", config->name);
	return ENDPOINT_ADMITTED;
}

static int rx_lend_admit(struct session *session, const struct config_stream *config,
                         const struct protocol_attach *request)
{
	enum rights rights =
		rights_to_receive(session->control->options.config, config, &session->peer, geteuid(), NULL);
	int r = endpoint_admit_rights(session, "stream", config->name, rights, config->file, config->line);

	if (r != ENDPOINT_ADMITTED)
		return r;
	if (!request->lends || request->policy == IBVCAP_POLICY_TAP || request->group[0])
		return session_send_error(session, -EOPNOTSUPP,
		                          "stream '%s': its payload rows are in memory that its only consumer lends "
		                          "(payload_memory, %s:%d): a program has to do that, by the option lend of "
		                          "ibvcap_rx_open(), not as a tap, and not in a group; no other can read them",
		                          config->name, config->file, config->line);
	if (request->queue)
		return session_send_error(session, -EINVAL, "stream '%s' has no queue %u: it has 1, from 0",
		                          config->name, request->queue);
	return rx_lend_admit_place(session, config);
}

int rx_lend_ask(struct session *session, const struct config_stream *config, const struct protocol_attach *request)
{
	const struct control_options *options = &session->control->options;
	struct protocol_lend message = {.bytes = options->lent_bytes(options->context, config)};
	int r = rx_lend_admit(session, config, request);
	struct rx_lend *lend;

	if (r != ENDPOINT_ADMITTED)
		return r;
	lend = calloc(1, sizeof(*lend));
	if (!lend)
		return session_send_error(session, -ENOMEM, "stream '%s': out of memory", config->name);
	*lend = (struct rx_lend){
		.wait = {.is_for_client = true, .abandon = rx_lend_abandon},
		.session = session,
		.request = *request,
		.bytes = message.bytes,
		.dmabuf = -1,
	};
	session->wait = &lend->wait;
	protocol_init(&message.header, PROTOCOL_LEND, sizeof(message));
	connection_accept_dmabuf(session->connection);
	session_resume(session);
	return session_send(session, &message.header, NULL, 0);
}

/* ---- the memory has come ------------------------------------------------------------------------ */

/* The client may attach anew by this connection. */
static int rx_lend_refuse(struct rx_lend *lend, int error, const char *why)
{
	struct session *session = lend->session;
	int r = session_send_error(session, error, "stream '%s': the memory that was lent: %s", lend->request.stream,
	                           why);

	rx_lend_abandon(&lend->wait);
	return r;
}

static const char *explain_dmabuf(int error)
{
	return error == -ENOMSG   ? "no descriptor came"
	       : error == -EACCES ? "its descriptor is not open for reading and writing"
	                          : "its descriptor is of no dma-buf";
}

/* 0 or -errno with the text. */
static int rx_lend_check_extent(const struct rx_lend *lend, uint64_t offset, uint64_t bytes, char text[static 160])
{
	long page = sysconf(_SC_PAGESIZE);

	if (offset % (uint64_t)page)
		snprintf(text, 160, "its offset %" PRIu64 " is no multiple of %ld", offset, page);
	else if (offset > bytes || bytes - offset < lend->bytes)
		snprintf(text, 160, "the dma-buf has %" PRIu64 " bytes, and %" PRIu64 " are needed from %" PRIu64 " on",
		         bytes, lend->bytes, offset);
	else
		return 0;
	return -EINVAL;
}

int rx_lend_take(struct session *session, const struct protocol_lent *message)
{
	struct rx_lend *lend = (struct rx_lend *)session->wait;
	uint64_t bytes = 0;
	char text[160];
	int dmabuf, r;

	if (!lend || lend->wait.abandon != rx_lend_abandon)
		return session_refuse(session, -EPROTO, "memory that the daemon did not ask for");
	dmabuf = connection_take_dmabuf(session->connection, &bytes);
	if (dmabuf < 0)
		return rx_lend_refuse(lend, dmabuf == -EACCES ? dmabuf : -EINVAL, explain_dmabuf(dmabuf));
	r = rx_lend_check_extent(lend, message->offset, bytes, text);
	if (r < 0) {
		close(dmabuf);
		return rx_lend_refuse(lend, r, text);
	}
	lend->wait.is_for_client = false;
	lend->dmabuf = dmabuf;
	lend->offset = message->offset;
	TAILQ_INSERT_TAIL(&session->control->lends, lend, link);
	loop_arm(session->control->tick, 0);
	return 0;
}

/* ---- opening ------------------------------------------------------------------------------------ */

/* 0: it is on its way, or the client was refused; -EBUSY: later; -errno: disconnect. */
static int rx_lend_open(struct rx_lend *lend)
{
	struct session *session = lend->session;
	struct control *control = session->control;
	const struct control_options *options = &control->options;
	const struct config_stream *config = config_find_stream(options->config, lend->request.stream);
	struct failure failure = {.text = ""};
	int r;

	if (!config || !config->payload_is_lent)
		return rx_lend_refuse(lend, -ESRCH, "a reload has taken the stream away");
	if (options->lent_bytes(options->context, config) != lend->bytes)
		return rx_lend_refuse(lend, -EAGAIN, "a reload has changed how many bytes are needed; try again");
	/* A reload, or another consumer, may have changed that since the client was asked. */
	r = rx_lend_admit(session, config, &lend->request);
	if (r != ENDPOINT_ADMITTED) {
		rx_lend_abandon(&lend->wait);
		return r;
	}
	r = options->open_lent(options->context, config, lend->dmabuf, lend->offset, &failure);
	if (r == -EBUSY)
		return r;
	if (r == 0) {
		rx_lend_close_dmabuf(lend);
		control->lending = lend;
		return 0;
	}
	r = session_send_error(session, r, "%s", failure.text);
	rx_lend_abandon(&lend->wait);
	return r;
}

void rx_lends_open(struct control *control)
{
	struct rx_lend *lend;

	while (!control->lending && (lend = TAILQ_FIRST(&control->lends))) {
		struct session *session = lend->session;
		int r = rx_lend_open(lend);

		if (r == -EBUSY)
			break;
		if (r < 0)
			session_free(session);
	}
}

void control_opened_lent(struct control *control, int error, const char *text)
{
	struct rx_lend *lend = control->lending;
	struct protocol_attach request;
	struct session *session;
	int r;

	loop_arm(control->tick, 0);
	if (!lend) /* the client has left: the daemon sees that nobody has the stream */
		return;
	session = lend->session;
	request = lend->request;
	rx_lend_abandon(&lend->wait);
	if (error < 0)
		r = session_send_error(session, error, "%s", text);
	else
		r = rx_admit(session, rx_lend_find(control, request.stream)->queues[0], &request, NULL);
	if (r < 0)
		session_free(session);
}
