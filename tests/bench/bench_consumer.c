// SPDX-License-Identifier: Apache-2.0
/*
 * bench_consumer SOCKET STREAM: a consumer of ibvcapd that reads every byte of every payload. On SIGTERM it takes what
 * is published and prints its counts.
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
	uint64_t n_packets;
	uint64_t n_bytes;
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

int main(int argc, char **argv)
{
	struct ibvcap_rx_batch batch = {.size = sizeof(batch)};
	struct ibvcap_rx_counts counts = {.size = sizeof(counts)};
	struct consumed consumed = {0};
	struct ibvcap_rx *rx;
	int n;

	if (argc != 3) {
		fputs("usage: bench_consumer SOCKET STREAM\n", stderr);
		return EX_USAGE;
	}
	n = ibvcap_rx_open(argv[1], argv[2], NULL, &rx);
	if (n < 0) {
		errno = -n;
		peer_die(argv[2]);
	}
	peer_ready();
	for (;;) {
		n = ibvcap_rx_acquire(rx, &batch, BATCH, 0, WAIT_MS);
		if (n > 0) {
			read_batch(&consumed, &batch);
			ibvcap_rx_release(rx, &batch);
		} else if (peer_stopped()) {
			break;
		} else if (n < 0 && n != -EINTR) {
			errno = -n;
			peer_die("acquire");
		}
	}
	ibvcap_rx_counts(rx, &counts);
	printf("{\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"sum\": %" PRIu64 "}\n",
	       consumed.n_packets, consumed.n_bytes, counts.skipped, consumed.sum);
	ibvcap_rx_close(rx);
	return 0;
}
