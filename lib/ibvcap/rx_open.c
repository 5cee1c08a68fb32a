// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/rx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *ibvcap_version(void)
{
	return TEXT(IBVCAP_VERSION_MAJOR) "." TEXT(IBVCAP_VERSION_MINOR);
}

/* The wake socket's file description is ours alone; a daemon that sent a blocking one would stop us. */
static int prepare(struct ibvcap_rx *rx)
{
	size_t n_rows = (size_t)rx->lease_blocks * rx->slots_per_block;
	int flags = rx->is_tap ? 0 : fcntl(rx->wake_socket, F_GETFL);

	if (!rx->is_tap && (flags < 0 || fcntl(rx->wake_socket, F_SETFL, flags | O_NONBLOCK) < 0))
		return error_set(-EPROTO, "the ring that the daemon sent: its wake socket cannot be read: %s",
		                 strerror(errno));
	rx->batch_starts = calloc((n_rows + 63) / 64, sizeof(*rx->batch_starts));
	return rx->batch_starts ? 0 : error_set(-ENOMEM, "out of memory");
}

int rx_open(struct ibvcap_rx **rx, int socket, const int fds[PROTOCOL_FD_N], uint64_t epoch)
{
	struct ibvcap_rx *new = calloc(1, sizeof(*new));
	int r;

	if (!new) {
		close(socket);
		for (unsigned i = 0; i < PROTOCOL_FD_N && fds[i] >= 0; i++)
			close(fds[i]);
		return error_set(-ENOMEM, "out of memory");
	}
	new->next_epoch = (struct rx_next){.poll_fd = -1, .timer_fd = -1, .client = CLIENT_INIT};
	new->socket = socket;
	new->payload = new->headers = new->ring_shm = new->state_shm = new->page_shm = (struct shm)SHM_INIT;
	r = rx_map_segments(new, fds, epoch);
	if (r == 0)
		r = prepare(new);
	if (r < 0) {
		ibvcap_rx_close(new);
		return r;
	}
	*rx = new;
	return 0;
}

/* "Back" is from now, and the rows' clock is this host's. */
struct rx_start_position rx_start_of(const struct ibvcap_rx_options *options)
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

int rx_fill_request(struct protocol_attach *request, const char *stream, const struct ibvcap_rx_options *options)
{
	const struct rx_start_position start = rx_start_of(options);
	size_t length = strlen(stream);

	if (length == 0 || length >= sizeof(request->stream))
		return error_set(-EINVAL, "stream '%s': a stream's name has 1 to %zu bytes", stream,
		                 sizeof(request->stream) - 1);
	if (options->start > IBVCAP_START_NS_BACK)
		return error_set(-EINVAL, "stream '%s': start %u: there is none such", stream, options->start);
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

int rx_take_answer(struct client *client, const struct ibvcap_rx_options *options, int fds[PROTOCOL_FD_N],
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
	return error_set(-EPROTO,
	                 "control socket '%s': not the answer to an attach; library and daemon are of different "
	                 "versions",
	                 client->path);
}

int ibvcap_rx_open(const char *socket_path, const char *stream, const struct ibvcap_rx_options *options,
                   struct ibvcap_rx **rx)
{
	static const struct ibvcap_rx_options defaults;
	struct client client = CLIENT_INIT;
	struct protocol_attach request;
	struct ibvcap_rx *new;
	int fds[PROTOCOL_FD_N];
	uint64_t epoch;
	int r;

	if (!options)
		options = &defaults;
	r = rx_fill_request(&request, stream, options);
	if (r == 0)
		r = client_connect(&client, socket_path, options->timeout_ms);
	if (r == 0)
		r = client_send(&client, &request.header);
	if (r == 0)
		r = rx_take_answer(&client, options, fds, &epoch);
	if (r < 0) {
		client_deinit(&client);
		return r;
	}
	r = rx_open(&new, client.socket, fds, epoch);
	if (r < 0)
		return r;
	if (new->is_tap)
		rx_begin_tap(new, &(struct rx_start_position){request.start, request.start_value});
	r = rx_next_init(&new->next_epoch, client.path, stream, options);
	if (r < 0)
		ibvcap_rx_close(new);
	else
		*rx = new;
	return r;
}

void ibvcap_rx_close(struct ibvcap_rx *rx)
{
	if (!rx)
		return;
	rx_close_epoch(rx);
	rx_next_deinit(&rx->next_epoch);
	free(rx->batch_starts);
	free(rx);
}
