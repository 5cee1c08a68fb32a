// SPDX-License-Identifier: Apache-2.0
/* Attaching to a stream: the request, the daemon's answer, and the handle made of it. */
#include "lib/base/fd.h"
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/rx/rx_queue.h"

#include <errno.h>
#include <string.h>

int rx_open_fill_request(struct protocol_attach *request, const char *stream, const struct ibvcap_rx_options *options)
{
	uint64_t start_value = options->back, now_ns = time_utc_ns();

	if (memchr(options->group, '\0', sizeof(options->group)) == NULL)
		return error_set(-EINVAL, "stream '%s': a group's name has at most %zu bytes", stream,
		                 sizeof(options->group) - 1);
	if (options->start > IBVCAP_START_NS_BACK)
		return error_set(-EINVAL, "stream '%s': start %u is no value of enum ibvcap_start", stream,
		                 options->start);
	if (options->lend &&
	    (options->queue == IBVCAP_QUEUE_ALL || options->group[0] || options->policy == IBVCAP_POLICY_TAP))
		return error_set(-EINVAL,
		                 "stream '%s': lend is for a consumer of one queue: not for a tap, a group or "
		                 "IBVCAP_QUEUE_ALL",
		                 stream);
	/* Becomes a UTC time here, since rows are stamped with this host's clock. */
	if (options->start == IBVCAP_START_NS_BACK)
		start_value = now_ns - u64_min(options->back, now_ns);
	*request = (struct protocol_attach){
		.abi_major = IBVCAP_ABI_MAJOR,
		.abi_minor = IBVCAP_ABI_MINOR,
		.queue = options->queue,
		.start = options->start,
		.start_value = start_value,
		.policy = options->policy,
		.lease_blocks = options->lease_blocks,
		.lends = options->lend != NULL,
	};
	memcpy(request->group, options->group, sizeof(request->group));
	protocol_init(&request->header, PROTOCOL_ATTACH, sizeof(*request));
	strcpy(request->stream, stream);
	return 0;
}

static int rx_open_send_lent(struct client *client, const struct ibvcap_rx_lent *lent)
{
	struct protocol_lent message = {.offset = lent->offset};

	protocol_init(&message.header, PROTOCOL_LENT, sizeof(message));
	return client_send_descriptor(client, &message.header, lent->fd);
}

int rx_open_lend(struct rx_shared *shared, struct client *client, const struct ibvcap_rx_options *options)
{
	struct ibvcap_rx_lent lent = IBVCAP_INIT(struct ibvcap_rx_lent);
	union protocol_message answer;
	int r = client_receive_answer(client, &answer, PROTOCOL_LEND, NULL, 0, "an attach that lends memory");

	if (r < 0)
		return r;
	r = options->lend(options->lend_context, answer.lend.bytes, &lent);
	if (r < 0)
		return error_set(r, "stream '%s': the program's function that lends memory failed: %s", shared->stream,
		                 strerror(-r));
	if (!lent.address)
		return error_set(-EINVAL, "stream '%s': the memory that the program lends has no address",
		                 shared->stream);
	shared->lent = lent.address;
	shared->lent_bytes = answer.lend.bytes;
	return rx_open_send_lent(client, &lent);
}

int rx_open_receive(struct rx_queue **queue, struct rx_shared *shared, struct client *client,
                    const struct ibvcap_rx_options *options)
{
	const unsigned n = options->policy == IBVCAP_POLICY_TAP ? PROTOCOL_FD_TAP_N : PROTOCOL_FD_N;
	union protocol_message answer;
	int fds[PROTOCOL_FD_N];
	int r = client_receive_answer(client, &answer, PROTOCOL_ATTACHED, fds, n, "an attach");

	if (r < 0)
		return r;
	for (unsigned i = n; i < PROTOCOL_FD_N; i++)
		fds[i] = -1;
	r = rx_queue_new(queue, shared, options, client->socket, fds, answer.attached.epoch);
	client->socket = -1;
	return r;
}

int rx_open_queue(struct rx_queue **queue, struct rx_shared *shared, const struct ibvcap_rx_options *options)
{
	struct client client = CLIENT_INIT;
	struct protocol_attach request;
	int r = rx_open_fill_request(&request, shared->stream, options);

	if (r == 0)
		r = client_connect(&client, shared->path, options->timeout_ms);
	if (r == 0)
		r = client_send(&client, &request.header);
	if (r == 0 && options->lend)
		r = rx_open_lend(shared, &client, options);
	if (r == 0)
		r = rx_open_receive(queue, shared, &client, options);
	fd_close(&client.socket);
	if (r == 0 && (*queue)->is_tap)
		rx_map_begin_tap(*queue, &(struct rx_start_position){request.start, request.start_value});
	return r;
}
