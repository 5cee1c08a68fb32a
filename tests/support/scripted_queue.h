// SPDX-License-Identifier: Apache-2.0
/* Private to the scripted backend: what both kinds of its queues are, and the calls of those that send. */
#ifndef TESTS_SUPPORT_SCRIPTED_QUEUE_H
#define TESTS_SUPPORT_SCRIPTED_QUEUE_H

#include "tests/support/scripted_backend.h"

#define SCRIPTED_SEND_SLOTS_MAX 16384u

struct scripted_memory {
	struct backend_memory memory;
	const uint8_t *address;
	size_t bytes;
	uint32_t n_under_way; /* packets to send that lie in it */
};

/* First in each. */
struct scripted_any {
	struct backend_queue queue;
	bool sends;
	bool started;
	bool failed;
	bool armed;
	int fd;
	int reset_error;
	uint64_t arms;
};

static inline struct scripted_any *scripted_any(struct backend_queue *queue)
{
	return (struct scripted_any *)queue;
}

/** The descriptor and what else is the same for both. */
int scripted_any_init(struct scripted_any *any, struct backend *backend);
/** Something completed: the event, if it was armed. */
void scripted_any_completed(struct scripted_any *any);

/* Of a queue that sends. */
int scripted_create_send_queue(struct backend *backend, const struct backend_send_options *options,
                               struct backend_queue **queue, struct failure *failure);
void scripted_destroy_send_queue(struct backend_queue *queue);
void scripted_reset_send_queue(struct backend_queue *queue);
void scripted_fail_send_queue(struct backend_queue *queue);
void scripted_limit_send_post(struct backend_queue *queue, uint32_t n);
void scripted_next_send_status(struct backend_queue *queue, enum backend_status status);
int scripted_send_post(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n);
int scripted_send_post_summed(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n);
int scripted_send_reap(struct backend_queue *queue, struct backend_sent *sent, uint32_t max);

#endif
