// SPDX-License-Identifier: Apache-2.0
/* Changing the configuration of a running daemon: one request, one answer. */
#include "lib/base/fd.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <string.h>

#define RECONFIGURE_TIMEOUT_MS 60000u

static int reconfigure_fill_request(struct protocol_reconfigure *request, enum ibvcap_reconfigure what,
                                    const char *name, const char *text)
{
	*request = (struct protocol_reconfigure){.what = (uint32_t)what};
	protocol_init(&request->header, PROTOCOL_RECONFIGURE, sizeof(*request));
	if (name && strlen(name) >= sizeof(request->name))
		return error_set(-E2BIG, "the name '%.40s...' is longer than %zu bytes", name,
		                 sizeof(request->name) - 1);
	if (text && strlen(text) >= sizeof(request->text))
		return error_set(-E2BIG,
		                 "%s: longer than the %zu bytes that can be sent: add it to the daemon's configuration "
		                 "file, and reload",
		                 name, sizeof(request->text) - 1);
	if (name)
		strcpy(request->name, name);
	if (text)
		strcpy(request->text, text);
	return 0;
}

int ibvcap_reconfigure(const char *socket_path, enum ibvcap_reconfigure what, const char *name, const char *text,
                       char *answer, size_t answer_bytes, uint32_t timeout_ms)
{
	struct client client = CLIENT_INIT;
	struct protocol_reconfigure request;
	union protocol_message message;
	int r = reconfigure_fill_request(&request, what, name, text);

	if (r == 0)
		r = client_connect(&client, socket_path, timeout_ms ? timeout_ms : RECONFIGURE_TIMEOUT_MS);
	if (r == 0)
		r = client_send(&client, &request.header);
	if (r == 0)
		r = client_receive_answer(&client, &message, PROTOCOL_DONE, NULL, 0, "a reconfiguration");
	if (r == 0 && answer && answer_bytes)
		snprintf(answer, answer_bytes, "%s", message.done.text);
	fd_close(&client.socket);
	return r;
}
