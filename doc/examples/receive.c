// SPDX-License-Identifier: Apache-2.0
/*
 * receive STREAM [SECONDS]: receive a stream for some seconds, or until it ends or ^C, and print a table of what was
 * received and what was lost, and where. Build it with
 *
 *     cc -o receive receive.c $(pkg-config --cflags --libs libibvcap)
 */
#include <ibvcap/ibvcap.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct table {
	uint64_t packets, bytes, errored, truncated; /* rows of the batches */
	uint64_t skipped;                            /* this program was too slow */
	uint64_t restarts;                           /* of the daemon: what came in between is not counted */
	struct ibvcap_rx_losses card;                /* came and got no row */
};

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static void count_batch(struct table *table, const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	for (uint32_t i = 0; i < batch->n; i++) {
		const struct ibvcap_meta *meta = &batch->meta[i];

		if (meta->flags & (IBVCAP_PACKET_FLAG_ERROR | IBVCAP_PACKET_FLAG_UNUSABLE)) {
			table->errored++; /* the row has no payload */
			continue;
		}
		/* The payload is ibvcap_rx_payload(batch, i), meta->length bytes, until ibvcap_rx_release(). */
		table->packets++;
		table->bytes += meta->length;
		table->truncated += (meta->flags & IBVCAP_PACKET_FLAG_TRUNCATED) != 0;
	}
	table->skipped += batch->gap;
	table->restarts += (batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN) != 0;
	ibvcap_rx_add_losses(rx, batch, &table->card);
}

int main(int argc, char **argv)
{
	time_t end = argc > 2 ? time(NULL) + atoi(argv[2]) : 0;
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct table table = {.card = IBVCAP_INIT(struct ibvcap_rx_losses)};
	struct ibvcap_rx *rx;
	bool failed;
	int r;

	if (argc < 2 || ibvcap_rx_open(NULL, argv[1], NULL, &rx) < 0) {
		fprintf(stderr, "receive: %s\n", argc < 2 ? "usage: receive STREAM [SECONDS]" : ibvcap_error_text());
		return 1;
	}
	signal(SIGINT, stop);
	do {
		r = ibvcap_rx_acquire(rx, &batch, UINT32_MAX, 1, 100);
		if (r > 0) {
			count_batch(&table, rx, &batch);
			r = ibvcap_rx_release(rx, &batch);
		}
	} while (!stopped && (r >= 0 || r == -EINTR) && (!end || time(NULL) < end));
	failed = r < 0 && r != -EINTR;
	if (failed) /* the stream has ended, too: was removed, or its daemon stays away */
		fprintf(stderr, "receive: %s\n", ibvcap_error_text());
	ibvcap_rx_close(rx);
	printf("received    %12" PRIu64 " packets, %" PRIu64 " bytes\n", table.packets, table.bytes);
	printf("truncated   %12" PRIu64 " of these were longer than a row (payload_size)\n", table.truncated);
	printf("errored     %12" PRIu64 " rows without a packet: the card reported an error\n", table.errored);
	printf("skipped     %12" PRIu64 " lost here: this program was too slow for the ring\n", table.skipped);
	printf("no_buffer   %12" PRIu64 " came and got no row\n", table.card.packets + table.card.after);
	printf("restarts    %12" PRIu64 " of the daemon; packets between two runs are not counted\n", table.restarts);
	return failed;
}
