// SPDX-License-Identifier: Apache-2.0
/* Senders and their channel, made as the daemon makes them, for tests without one. */
#ifndef TESTS_SUPPORT_SENDERS_H
#define TESTS_SUPPORT_SENDERS_H

#include "daemon/backend/backend.h"
#include "daemon/ring/sender.h"
#include "daemon/worker/tx_queue.h"
#include "daemon/worker/tx_worker.h"

struct test_sender {
	struct sender sender;
	struct backend_memory *memory;
	int socket;         /* the client's end */
	uint64_t submitted; /* as its client means to say */
};

/** Sealed and registered, as it would be mailed to the worker. 0 or -errno. */
int test_sender_init(struct test_sender *sender, struct backend *backend, const struct worker *worker, uint32_t n_slots,
                     uint32_t slot_bytes);
void test_sender_deinit(struct test_sender *sender);

/** Is there room for one more? */
bool test_sender_has_room(const struct test_sender *sender);

/** One packet as descriptor says; its payload begins with its number. submit: publish what was written. */
void test_sender_write(struct test_sender *sender, struct ibvcap_tx_descriptor descriptor);
void test_sender_submit(struct test_sender *sender);

/** Of its counters. */
uint64_t test_sender_count(const struct test_sender *sender, enum ibvcap_tx_counter counter);

/** The headers that its destination gives a channel: IPv4, ports 1 and 2 + index. */
struct tx_queue_destination test_destination(uint32_t index, enum packet_checksums checksums);

#endif
