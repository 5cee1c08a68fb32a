// SPDX-License-Identifier: Apache-2.0
/*
 * bench_consumer SOCKET STREAM [THREADS [CPU N_CPUS]]: a consumer of ibvcapd that reads every byte of every payload;
 * thread k has queue k. On SIGTERM it takes what is published and prints its counts.
 */
#include "tests/bench/capture_peer.h"

#include <ibvcap/ibvcap.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define BATCH   256
#define WAIT_MS 100

struct consumed {
	struct ibvcap_rx *rx;
	uint64_t n_packets;
	uint64_t n_bytes;
	uint64_t n_skipped;
	uint64_t sum; /* of all words of payloads, so that they are read */
};

static uint64_t sum_words(const uint8_t *bytes, size_t n)
{
	uint64_t sum = 0, word;

	for (; n >= sizeof(word); n -= sizeof(word), bytes += sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		sum += word;
	}
	while (n-- > 0)
		sum += *bytes++;
	return sum;
}

static void read_batch(struct consumed *consumed, const struct ibvcap_rx_batch *batch)
{
	for (uint32_t i = 0; i < batch->n; i++) {
		if (batch->meta[i].flags & IBVCAP_PACKET_FLAG_ERROR)
			continue;
		consumed->sum += sum_words(ibvcap_rx_payload(batch, i), batch->meta[i].length);
		consumed->n_bytes += batch->meta[i].length;
		consumed->n_packets++;
	}
}

static void consumer_open(struct consumed *consumed, char **words, uint32_t queue)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .queue = queue};
	int r = ibvcap_rx_open(words[1], words[2], &options, &consumed->rx);

	if (r < 0) {
		errno = -r;
		peer_die(words[2]);
	}
}

static void *consumer_run(void *argument)
{
	struct ibvcap_rx_batch batch = {.size = sizeof(batch)};
	struct ibvcap_rx_counts counts = {.size = sizeof(counts)};
	struct consumed *consumed = argument;
	int n;

	for (;;) {
		n = ibvcap_rx_acquire(consumed->rx, &batch, BATCH, 0, WAIT_MS);
		if (n > 0) {
			read_batch(consumed, &batch);
			ibvcap_rx_release(consumed->rx, &batch);
		} else if (peer_stopped()) {
			break;
		} else if (n < 0 && n != -EINTR) {
			errno = -n;
			peer_die("acquire");
		}
	}
	ibvcap_rx_counts(consumed->rx, &counts);
	consumed->n_skipped = counts.skipped;
	ibvcap_rx_close(consumed->rx);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct consumed consumed[PEER_THREADS_MAX];
	struct peer_threads threads;
	struct consumed all = {0};

	if (argc < 3 || argc > 6) {
		fputs("usage: bench_consumer SOCKET STREAM [THREADS [CPU N_CPUS]]\n", stderr);
		return EX_USAGE;
	}
	threads = peer_threads_read(argc, argv, 3);
	for (unsigned i = 0; i < threads.n; i++)
		consumer_open(&consumed[i], argv, i);
	peer_ready();
	peer_threads_run(&threads, consumer_run, consumed, sizeof(consumed[0]));
	for (unsigned i = 0; i < threads.n; i++) {
		all.n_packets += consumed[i].n_packets;
		all.n_bytes += consumed[i].n_bytes;
		all.n_skipped += consumed[i].n_skipped;
		all.sum += consumed[i].sum;
	}
	printf("{\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"sum\": %" PRIu64 "}\n",
	       all.n_packets, all.n_bytes, all.n_skipped, all.sum);
	return 0;
}
