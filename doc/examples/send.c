// SPDX-License-Identifier: Apache-2.0
/*
 * send CHANNEL COUNT RATE: send COUNT numbered packets, RATE of them per second, each at its own time, and print what
 * became of them. Build it with
 *
 *     cc -o send send.c $(pkg-config --cflags --libs libibvcap)
 */
#include <ibvcap/ibvcap.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000u

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Fill the reserved rows: a number of 8 bytes, and the time before which the packet does not leave. */
static void fill_rows(const struct ibvcap_tx_slots *slots, uint64_t start_ns, uint64_t rate)
{
	for (uint32_t i = 0; i < slots->n; i++) {
		uint64_t number = slots->sequence + i;

		memcpy(slots->payload + (size_t)i * slots->stride, &number, sizeof(number));
		slots->packets[i].length = sizeof(number);
		slots->packets[i].not_before_ns =
			start_ns + number / rate * SECOND_NS + number % rate * SECOND_NS / rate;
	}
}

/* 0; a negative errno if the channel ended or failed. */
static int send_numbers(struct ibvcap_tx *tx, uint64_t count, uint64_t rate)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);
	uint64_t start_ns = now_ns(), left = count;
	int r = 0;

	while (left > 0 && r >= 0) {
		r = ibvcap_tx_reserve(tx, &slots, left < 64 ? (uint32_t)left : 64, 1, 1000);
		if (r <= 0)
			continue; /* no row became free within a second, or an error */
		fill_rows(&slots, start_ns, rate);
		left -= slots.n;
		r = ibvcap_tx_submit(tx, slots.n); /* from here on the rows belong to the card */
	}
	return r < 0 ? r : ibvcap_tx_flush(tx, -1);
}

int main(int argc, char **argv)
{
	struct ibvcap_tx_counts counts = IBVCAP_INIT(struct ibvcap_tx_counts);
	uint64_t count = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t rate = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
	struct ibvcap_tx *tx;
	int r;

	if (count == 0 || rate == 0) {
		fprintf(stderr, "usage: send CHANNEL COUNT RATE\n");
		return 1;
	}
	if (ibvcap_tx_open(NULL, argv[1], NULL, &tx) < 0) {
		fprintf(stderr, "send: %s\n", ibvcap_error_text());
		return 1;
	}
	r = send_numbers(tx, count, rate);
	if (r < 0)
		fprintf(stderr, "send: %s\n", ibvcap_error_text());
	ibvcap_tx_counts(tx, &counts);
	ibvcap_tx_close(tx);
	printf("sent %" PRIu64 " of %" PRIu64 " packets, errored %" PRIu64 ", flushed %" PRIu64 ", late %" PRIu64 "\n",
	       counts.completed, counts.submitted, counts.errored, counts.flushed, counts.late);
	return r < 0 || counts.completed < count;
}
