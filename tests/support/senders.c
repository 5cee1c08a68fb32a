// SPDX-License-Identifier: Apache-2.0
#include "tests/support/senders.h"

#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int test_sender_init(struct test_sender *sender, struct backend *backend, const struct worker *worker, uint32_t n_slots,
                     uint32_t slot_bytes)
{
	const struct sender_options options = {.channel = "test",
	                                       .epoch = 1,
	                                       .n_slots = n_slots,
	                                       .slot_bytes = slot_bytes,
	                                       .n_destinations = 1,
	                                       .page_bytes = 4096};
	int sockets[2] = {-1, -1};
	int r;

	*sender = (struct test_sender){.socket = -1};
	r = sender_init(&sender->sender, &options, NULL);
	if (r == 0)
		r = sender_seal(&sender->sender);
	if (r == 0)
		r = backend->ops->register_memory(backend, sender->sender.arena.address, sender->sender.arena.bytes,
		                                  &sender->memory, NULL);
	if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) < 0)
		r = -errno;
	sender->sender.registration = sender->memory;
	sender->sender.socket = sockets[0];
	sender->socket = sockets[1];
	if (r == 0)
		r = sender_kick_init(&sender->sender.kick, tx_worker_epoll(worker));
	if (r < 0)
		test_sender_deinit(sender);
	return r;
}

void test_sender_deinit(struct test_sender *sender)
{
	if (sender->memory)
		sender->memory->backend->ops->unregister_memory(sender->memory);
	if (sender->socket >= 0)
		close(sender->socket);
	if (sender->sender.socket >= 0)
		close(sender->sender.socket);
	sender_kick_deinit(&sender->sender.kick);
	sender_deinit(&sender->sender);
	*sender = (struct test_sender){.socket = -1,
	                               .sender = {.kick = SENDER_KICK_INIT,
	                                          .socket = -1,
	                                          .arena = SHM_INIT,
	                                          .page_shm = SHM_INIT,
	                                          .state_shm = SHM_INIT}};
}

bool test_sender_has_room(const struct test_sender *sender)
{
	return sender->submitted - sender_load_completed(sender->sender.state) < sender->sender.n_slots;
}

void test_sender_write(struct test_sender *sender, struct ibvcap_tx_descriptor descriptor)
{
	uint64_t slot = sender->submitted & (sender->sender.n_slots - 1);
	uint8_t *row = (uint8_t *)sender->sender.arena.address + slot * sender->sender.slot_bytes;

	memcpy(row, &sender->submitted, descriptor.length < 8 ? descriptor.length : 8);
	((struct ibvcap_tx_descriptor *)(void *)(sender->sender.page + 1))[slot] = descriptor;
	sender->submitted++;
}

void test_sender_submit(struct test_sender *sender)
{
	sender_store_submitted(sender->sender.page, sender->submitted);
	if (sender_load_need_kick(sender->sender.state))
		(void)eventfd_write(sender->sender.kick.eventfd, 1);
}

uint64_t test_sender_count(const struct test_sender *sender, enum ibvcap_tx_counter counter)
{
	return counter_get(&sender->sender.state->counters[counter]);
}

struct tx_queue_destination test_destination(uint32_t index, enum packet_checksums checksums)
{
	const struct packet_route route = {
		.family = AF_INET,
		.destination_mac = {2, 0, 0, 0, 0, 1},
		.source_mac = {2, 0, 0, 0, 0, 2},
		.destination = {10, 0, 0, 1},
		.source = {10, 0, 0, 2},
		.destination_port = (uint16_t)(2 + index),
		.source_port = 1,
		.vlan = -1,
		.hop_limit = 64,
	};
	struct tx_queue_destination destination = {.error = 0};

	packet_template_init(&destination.headers, &route, checksums);
	return destination;
}
