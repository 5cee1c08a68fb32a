// SPDX-License-Identifier: Apache-2.0
/*
 * Dispatches a client's request to what serves it: rx_endpoint, tx_endpoint, status, or the daemon's reconfiguration.
 */
#include "daemon/control/requests.h"

#include "daemon/control/id_name.h"
#include "daemon/control/server.h"

#include <errno.h>
#include <unistd.h>

static int answer_reconfiguration(struct session *session, int error, const char *text)
{
	if (error < 0)
		return session_send_error(session, error, "%s; nothing was changed", text);
	return session_send_done(session, text);
}

void control_reconfigured(struct control *control, int error, const char *text)
{
	struct session *session = control->reconfiguring;

	control->reconfiguring = NULL;
	if (session && answer_reconfiguration(session, error, text) < 0)
		session_free(session);
}

/* A refusal is answered at once, everything else by control_reconfigured(). */
static int begin_reconfiguration(struct session *session, const struct protocol_reconfigure *change)
{
	const struct control_options *options = &session->control->options;
	struct failure failure = {.text = ""};
	int r;

	if (!rights_to_change(&session->peer, geteuid()))
		return session_send_error(
			session, -EACCES,
			"the configuration is not for user %s to change: only for root and the daemon's user",
			id_of_user(session->peer.uid).text);
	r = options->reconfigure(options->context, change, &failure);
	if (r < 0)
		return answer_reconfiguration(session, r, failure.text);
	session->control->reconfiguring = session;
	return 0;
}

int requests_handle(struct session *session, const union protocol_message *message)
{
	switch (message->header.type) {
	case PROTOCOL_ATTACH:
		return rx_endpoint_attach(session, &message->attach);
	case PROTOCOL_OPEN_CHANNEL:
		return tx_endpoint_open(session, &message->open_channel);
	case PROTOCOL_MAPPED:
		return tx_endpoint_mapped(session);
	case PROTOCOL_STATUS:
		return status_request(session);
	case PROTOCOL_RECONFIGURE:
		return begin_reconfiguration(session, &message->change);
	default:
		return session_refuse(session, -EPROTO, "a message that is not a request");
	}
}
