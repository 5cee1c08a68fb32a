// SPDX-License-Identifier: Apache-2.0
/* Attaching to a stream: the request, the daemon's answer, and the handle made of it. */
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/rx.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* IBVCAP_START_NS_BACK becomes a UTC time here, since rows are stamped with this host's clock. */
static struct rx_start_position rx_open_start_position(const struct ibvcap_rx_options *options)
{
	struct rx_start_position start = {.where = options->start, .value = options->back};
	struct timespec now;

	if (start.where == IBVCAP_START_NS_BACK) {
		clock_gettime(CLOCK_REALTIME, &now);
		start.value = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
		start.value -= options->back < start.value ? options->back : start.value;
	}
	return start;
}

int rx_open_fill_request(struct protocol_attach *request, const char *stream, const struct ibvcap_rx_options *options)
{
	const struct rx_start_position start = rx_open_start_position(options);
	size_t length = strlen(stream);

	if (length == 0 || length >= sizeof(request->stream))
		return error_set(-EINVAL, "stream '%s': a stream's name has 1 to %zu bytes", stream,
		                 sizeof(request->stream) - 1);
	if (options->start > IBVCAP_START_NS_BACK)
		return error_set(-EINVAL, "stream '%s': start %u is no value of enum ibvcap_start", stream,
		                 options->start);
	*request = (struct protocol_attach){
		.abi_major = IBVCAP_ABI_MAJOR,
		.abi_minor = IBVCAP_ABI_MINOR,
		.queue = options->queue,
		.start = start.where,
		.start_value = start.value,
		.policy = options->policy,
		.lease_blocks = options->lease_blocks,
	};
	protocol_init(&request->header, PROTOCOL_ATTACH, sizeof(*request));
	memcpy(request->stream, stream, length);
	return 0;
}

int rx_open_receive_answer(struct client *client, const struct ibvcap_rx_options *options, int fds[PROTOCOL_FD_N],
                           uint64_t *epoch)
{
	const unsigned wanted = options->policy == IBVCAP_POLICY_TAP ? PROTOCOL_FD_TAP_N : PROTOCOL_FD_N;
	union protocol_message answer;
	unsigned n_fds = PROTOCOL_FD_N;
	int r = client_receive(client, &answer, fds, &n_fds);

	if (r < 0)
		return r;
	if (answer.header.type == PROTOCOL_ATTACHED && n_fds == wanted) {
		*epoch = answer.attached.epoch;
		for (unsigned i = wanted; i < PROTOCOL_FD_N; i++)
			fds[i] = -1;
		return 0;
	}
	while (n_fds > 0)
		close(fds[--n_fds]);
	return client_reject_answer(client, "an attach");
}

int ibvcap_rx_open(const char *socket_path, const char *stream, const struct ibvcap_rx_options *options,
                   struct ibvcap_rx **rx)
{
	struct ibvcap_rx_options known = IBVCAP_INIT(struct ibvcap_rx_options);
	struct client client = CLIENT_INIT;
	struct protocol_attach request;
	struct ibvcap_rx *new;
	int fds[PROTOCOL_FD_N];
	uint64_t epoch;
	int r = options ? sized_struct_read(&known, sizeof(known), options, "ibvcap_rx_options") : 0;

	if (r == 0)
		r = rx_open_fill_request(&request, stream, &known);
	if (r == 0)
		r = client_connect(&client, socket_path, known.timeout_ms);
	if (r == 0)
		r = client_send(&client, &request.header);
	if (r == 0)
		r = rx_open_receive_answer(&client, &known, fds, &epoch);
	if (r != 0) {
		client_deinit(&client);
		return r;
	}
	r = rx_handle_new(&new, client.socket, fds, epoch);
	if (r < 0)
		return r;
	if (new->is_tap)
		rx_map_begin_tap(new, &(struct rx_start_position){request.start, request.start_value});
	r = rx_handle_set_reattach(new, client.path, stream, &known);
	if (r < 0)
		ibvcap_rx_close(new);
	else
		*rx = new;
	return r;
}
