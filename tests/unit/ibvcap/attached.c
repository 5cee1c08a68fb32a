// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ibvcap/attached.h"

#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/ring.h"
#include "lib/losses/ledger.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void init_ring(struct attached *attached)
{
	const struct rx_ring_options options = {
		.stream = "test",
		.epoch = attached->epoch,
		.slot_bytes = SLOT_BYTES,
		.slots_per_block = N,
		.header_bytes = 42,
		.history_blocks = 2,
		.posted_slots = N,
		.spare_blocks = QUOTA,
		.lease_blocks_max = QUOTA,
		.page_bytes = 4096,
		.queue_index = attached->queue,
		.n_queues = attached->n_queues ? attached->n_queues : 1,
	};
	struct failure failure;

	cr_assert_eq(rx_ring_init(&attached->ring, &options, &failure), 0, "%s", failure.text);
	cr_assert_eq(rx_ring_seal(&attached->ring, &failure), 0, "%s", failure.text);
}

static void init_page(struct shm *shm, uint64_t magic, uint64_t epoch)
{
	struct ibvcap_segment *segment;

	*shm = (struct shm)SHM_INIT;
	cr_assert_eq(shm_create(shm, "test", 4096, 4096), 0);
	segment = shm->address;
	segment->magic = magic;
	segment->abi_major = IBVCAP_ABI_MAJOR;
	segment->bytes = shm->bytes;
	segment->epoch = epoch;
	cr_assert_eq(shm_seal_size(shm), 0);
}

static void init_consumer(struct ring_consumer *consumer, uint64_t epoch)
{
	*consumer = (struct ring_consumer){.lease_blocks = QUOTA, .start = consumer->start};
	init_page(&consumer->state_shm, IBVCAP_STATE_MAGIC, epoch);
	init_page(&consumer->page_shm, IBVCAP_CONSUMER_MAGIC, epoch);
	consumer->state = consumer->state_shm.address;
	consumer->page = consumer->page_shm.address;
	consumer->state->lease_blocks = QUOTA;
}

int attached_add_consumer(struct rx_ring *ring, struct ring_consumer *consumer, uint64_t epoch, int fds[PROTOCOL_FD_N])
{
	int wake[2];

	init_consumer(consumer, epoch);
	cr_assert_eq(rx_ring_add_consumer(ring, consumer), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wake), 0);
	fds[PROTOCOL_FD_PAYLOAD] = shm_reopen_readonly(&ring->payload);
	fds[PROTOCOL_FD_HEADERS] = shm_reopen_readonly(&ring->headers);
	fds[PROTOCOL_FD_RING] = shm_reopen_readonly(&ring->ring_shm);
	fds[PROTOCOL_FD_CONSUMER_STATE] = shm_reopen_readonly(&consumer->state_shm);
	fds[PROTOCOL_FD_CONSUMER_PAGE] = fcntl(consumer->page_shm.fd, F_DUPFD_CLOEXEC, 0);
	fds[PROTOCOL_FD_WAKE_SOCKET] = wake[0];
	return wake[1];
}

void attached_prepare(struct attached *attached, int fds[PROTOCOL_FD_N], int *socket)
{
	const uint64_t epoch = attached->epoch ? attached->epoch : EPOCH;
	int ends[2];

	*attached = (struct attached){.epoch = epoch,
	                              .queue = attached->queue,
	                              .n_queues = attached->n_queues,
	                              .n_earlier = attached->n_earlier,
	                              .start = attached->start};
	init_ring(attached);
	daemon_store_interface(attached->ring.ring, &(struct ring_interface){.read_ns = UINT64_MAX});
	attached_publish(attached, attached->n_earlier);
	attached->consumer.start = attached->start;
	attached->daemon_wake = attached_add_consumer(&attached->ring, &attached->consumer, epoch, fds);
	attached->consumer.budget = &attached->account;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	attached->daemon_socket = ends[0];
	*socket = ends[1];
}

int attached_open(struct ibvcap_rx **rx, int socket, const int fds[PROTOCOL_FD_N], uint64_t epoch, const char *path,
                  const struct ibvcap_rx_options *options)
{
	struct ibvcap_rx *new;
	struct rx_queue *queue;
	int r;

	cr_assert_eq(rx_new(&new, path, "test", options), 0, "%s", ibvcap_error_text());
	r = rx_queue_new(&queue, &new->shared, options, socket, fds, epoch);
	if (r < 0) {
		ibvcap_rx_close(new);
		return r;
	}
	cr_assert_eq(owner_mark_new(&new->shared.owner), 0);
	rx_part_put(new, 0, queue);
	*rx = new;
	return 0;
}

void attached_init(struct attached *attached)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = IBVCAP_NO_REATTACH};
	int fds[PROTOCOL_FD_N], socket;

	attached_prepare(attached, fds, &socket);
	cr_assert_eq(attached_open(&attached->rx, socket, fds, EPOCH, NULL, &options), 0, "%s", ibvcap_error_text());
}

void attached_deinit(struct attached *attached)
{
	ibvcap_rx_close(attached->rx);
	close(attached->daemon_socket);
	close(attached->daemon_wake);
	shm_deinit(&attached->consumer.state_shm);
	shm_deinit(&attached->consumer.page_shm);
	rx_ring_deinit(&attached->ring);
}

static void fill(const struct rx_span *span, uint64_t ahead)
{
	for (uint32_t i = 0; i < span->n; i++) {
		uint64_t number = span->sequence + i + ahead;

		memcpy(span->payload + (size_t)i * SLOT_BYTES, &number, sizeof(number));
		memcpy(span->headers + (size_t)i * 64, &number, sizeof(number));
		span->meta[i] =
			(struct ibvcap_meta){.length = SLOT_BYTES, .wire_length = SLOT_BYTES, .header_length = 42};
	}
}

void attached_publish(struct attached *attached, uint64_t n)
{
	while (n > 0) {
		struct rx_span span;

		rx_ring_post_span(&attached->ring, n < N ? (uint32_t)n : N, &span);
		cr_assert_gt(span.n, 0, "the ring starves");
		fill(&span, attached->numbers_ahead);
		rx_ring_publish(&attached->ring, span.n);
		n -= span.n;
	}
}

void attached_settle(struct attached *attached, uint64_t lost, uint64_t until_ns, uint64_t read_utc_ns)
{
	struct ibvcap_ledger *ledger = &attached->ring.ring->ledger;
	const struct ledger_losses losses = {.marks = lost, .no_buffer = lost};
	const struct ledger_entry entry = {.until_ns = until_ns,
	                                   .read_utc_ns = read_utc_ns,
	                                   .until_utc_ns = read_utc_ns,
	                                   .head = attached->ring.head,
	                                   .before = losses,
	                                   .after = losses,
	                                   .no_buffer_most = lost};
	struct ledger_entry newest;

	if (ledger_newest(ledger, &newest) && newest.after.no_buffer == lost)
		ledger_renew(ledger, &entry);
	else
		ledger_append(ledger, &entry);
}

uint64_t attached_number(const struct ibvcap_rx_batch *batch, uint32_t i)
{
	uint64_t number;

	memcpy(&number, ibvcap_rx_payload(batch, i), sizeof(number));
	return number;
}
