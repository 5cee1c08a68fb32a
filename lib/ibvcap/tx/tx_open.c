// SPDX-License-Identifier: Apache-2.0
/*
 * Opening a channel, in two round trips: the daemon sends the segments, this process maps them and says so, the daemon
 * seals them and its worker takes the sender over.
 */
#include "lib/base/fd.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/client/segment_check.h"
#include "lib/ibvcap/client/sized_struct.h"
#include "lib/ibvcap/tx/tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WHOLE "channel"

/* ---- what the daemon sent ------------------------------------------------------------------------- */

static bool tx_is_geometry_sound(const struct ibvcap_tx *tx, const struct ibvcap_sender_state *state)
{
	return state->n_slots >= IBVCAP_TX_SLOTS_MIN && state->n_slots <= IBVCAP_TX_SLOTS_MAX &&
	       (state->n_slots & (state->n_slots - 1)) == 0 && state->slot_bytes && state->slot_bytes <= UINT16_MAX &&
	       state->n_destinations && segment_fits(0, 1, state->n_slots, state->slot_bytes, tx->arena.bytes) &&
	       segment_fits(state->descriptors_offset, _Alignof(struct ibvcap_tx_descriptor), state->n_slots,
	                    sizeof(struct ibvcap_tx_descriptor), tx->page_shm.bytes) &&
	       segment_fits(state->statuses_offset, _Alignof(int32_t), state->n_slots, sizeof(int32_t),
	                    tx->state_shm.bytes);
}

/* Reads the geometry once, into a copy, so that the checked values are the used ones. */
static int tx_map_geometry(struct ibvcap_tx *tx)
{
	struct ibvcap_sender_state copy;

	memcpy((void *)&copy, tx->state_shm.address, sizeof(copy));
	if (!tx_is_geometry_sound(tx, &copy))
		return segment_reject(WHOLE, "positions outside of its segments");
	tx->state = tx->state_shm.address;
	tx->page = tx->page_shm.address;
	tx->waiter.link = &tx->state->link;
	tx->waiter.wake = &tx->page->wake;
	tx->descriptors = (void *)((uint8_t *)tx->page_shm.address + copy.descriptors_offset);
	tx->statuses = (const void *)((const uint8_t *)tx->state_shm.address + copy.statuses_offset);
	tx->info = (struct ibvcap_tx_info){
		.epoch = copy.segment.epoch,
		.n_slots = copy.n_slots,
		.slot_bytes = copy.slot_bytes,
		.n_destinations = copy.n_destinations,
		.page_bytes = copy.page_bytes,
		.rate_bps = copy.rate_bps,
		.burst_bytes = copy.burst_bytes,
		.late_after_ns = copy.late_after_ns,
	};
	memcpy(tx->info.channel, copy.channel, sizeof(tx->info.channel));
	tx->info.channel[sizeof(tx->info.channel) - 1] = '\0';
	return 0;
}

static int tx_map_segments(struct ibvcap_tx *tx, const int fds[PROTOCOL_FD_OPENED_N], uint64_t epoch)
{
	const struct segment segments[] = {
		[PROTOCOL_FD_ARENA] = {.shm = &tx->arena, .name = "arena", .writable = true},
		[PROTOCOL_FD_SENDER_PAGE] = {&tx->page_shm, "sender page", true, IBVCAP_SENDER_PAGE_MAGIC,
	                                     sizeof(struct ibvcap_sender_page)},
		[PROTOCOL_FD_SENDER_STATE] = {&tx->state_shm, "sender state", false, IBVCAP_SENDER_STATE_MAGIC,
	                                      sizeof(struct ibvcap_sender_state)},
	};
	int r;

	tx->waiter.socket = fds[PROTOCOL_FD_SENDER_SOCKET];
	tx->kick = fds[PROTOCOL_FD_SENDER_KICK];
	r = segment_map_all(segments, PROTOCOL_FD_SENDER_STATE + 1, fds, epoch, WHOLE);
	return r == 0 ? tx_map_geometry(tx) : r;
}

int tx_handle_new(struct ibvcap_tx **tx, int control, const int fds[PROTOCOL_FD_OPENED_N], uint64_t epoch)
{
	struct ibvcap_tx *new = calloc(1, sizeof(*new));
	int r;

	if (!new) {
		close(control);
		for (unsigned i = 0; i < PROTOCOL_FD_OPENED_N; i++)
			close(fds[i]);
		return error_set(-ENOMEM, "out of memory");
	}
	new->waiter = (struct waiter){.ops = &tx_waiter_ops, .control = control};
	new->arena = new->page_shm = new->state_shm = (struct shm)SHM_INIT;
	r = tx_map_segments(new, fds, epoch);
	if (r == 0)
		r = segment_unblock(new->waiter.socket, WHOLE, "socket");
	if (r == 0)
		r = segment_unblock(new->kick, WHOLE, "eventfd");
	if (r == 0)
		r = owner_mark_new(&new->owner);
	if (r < 0) {
		ibvcap_tx_close(new);
		return r;
	}
	*tx = new;
	return 0;
}

/* ---- the conversation ----------------------------------------------------------------------------- */

static int tx_open_fill_request(struct protocol_open_channel *request, const char *channel,
                                const struct ibvcap_tx_options *options)
{
	size_t length = strlen(channel);

	if (options->reserved != 0)
		return error_set(-EINVAL,
		                 "struct ibvcap_tx_options: reserved is %u, not 0; initialise it with "
		                 "IBVCAP_INIT(struct ibvcap_tx_options)",
		                 options->reserved);
	if (length == 0 || length >= sizeof(request->channel))
		return error_set(-EINVAL, "channel '%s': a channel's name has 1 to %zu bytes", channel,
		                 sizeof(request->channel) - 1);
	*request = (struct protocol_open_channel){.abi_major = IBVCAP_ABI_MAJOR, .abi_minor = IBVCAP_ABI_MINOR};
	protocol_init(&request->header, PROTOCOL_OPEN_CHANNEL, sizeof(*request));
	memcpy(request->channel, channel, length);
	return 0;
}

/* The daemon answers once the memory is sealed and its worker has the sender. The socket is the handle's already. */
static int tx_open_say_mapped(struct client *client)
{
	struct protocol_bare mapped;
	union protocol_message answer;
	int r;

	protocol_init(&mapped.header, PROTOCOL_MAPPED, sizeof(mapped));
	r = client_send(client, &mapped.header);
	return r < 0 ? r : client_receive_answer(client, &answer, PROTOCOL_READY, NULL, 0, "an open");
}

int ibvcap_tx_open(const char *socket_path, const char *channel, const struct ibvcap_tx_options *options,
                   struct ibvcap_tx **tx)
{
	struct ibvcap_tx_options known = IBVCAP_INIT(struct ibvcap_tx_options);
	struct client client = CLIENT_INIT;
	struct protocol_open_channel request;
	struct ibvcap_tx *new;
	union protocol_message answer;
	int fds[PROTOCOL_FD_OPENED_N];
	int r = options ? sized_struct_read(&known, sizeof(known), options, "ibvcap_tx_options") : 0;

	if (r == 0)
		r = tx_open_fill_request(&request, channel, &known);
	if (r == 0)
		r = client_connect(&client, socket_path, known.timeout_ms);
	if (r == 0)
		r = client_send(&client, &request.header);
	if (r == 0)
		r = client_receive_answer(&client, &answer, PROTOCOL_OPENED, fds, PROTOCOL_FD_OPENED_N, "an open");
	if (r != 0) {
		fd_close(&client.socket);
		return r;
	}
	r = tx_handle_new(&new, client.socket, fds, answer.opened.epoch);
	if (r < 0)
		return r;
	r = tx_open_say_mapped(&client);
	if (r < 0)
		ibvcap_tx_close(new);
	else
		*tx = new;
	return r;
}

void ibvcap_tx_close(struct ibvcap_tx *tx)
{
	if (!tx)
		return;
	/* The daemon sees this at once, also if a child has inherited the socket. */
	if (tx->waiter.control >= 0 && owner_is_here(tx->owner))
		shutdown(tx->waiter.control, SHUT_RDWR);
	shm_deinit(&tx->arena);
	shm_deinit(&tx->page_shm);
	shm_deinit(&tx->state_shm);
	fd_close(&tx->waiter.socket);
	fd_close(&tx->kick);
	fd_close(&tx->waiter.control);
	owner_mark_free(tx->owner);
	free(tx);
}
