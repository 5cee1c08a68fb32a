// SPDX-License-Identifier: Apache-2.0
/*
 * A consumer that keeps what it leases: hold_reader --socket PATH --stream NAME [--leases N] [--hold-ms N]. It acquires
 * N blocks (1; 0: as many as it may), holds them for so long (0; -1: until TERM), and gives them back, over and over.
 * Each payload is checked against the numbered pattern when it comes, and again before it goes back: it is in use
 * meanwhile. Where nothing was lost before the ring and the sender began at the ring's head, a row's number is its
 * sequence. A line of JSON when attached, one with the counts at TERM.
 */
#include "tools/send/pattern.h"

#include <ibvcap/ibvcap.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define LEASES_MAX 64

struct faults {
	uint64_t corrupt;
	uint64_t displaced;
};

struct reader {
	const char *socket;
	const char *stream;
	uint32_t n_leases;
	int hold_ms;
	struct ibvcap_rx *rx;
	uint64_t rows; /* counted here, beside the library */
	uint64_t gaps;
	uint64_t corrupt;   /* payloads that were not as sent when they came */
	uint64_t displaced; /* … another packet than their sequence says */
	uint64_t spoiled;   /* batches that were another when they went back */
	uint32_t n_batches;
	struct ibvcap_rx_batch batches[LEASES_MAX];
	struct faults seen[LEASES_MAX]; /* in each, when it came */
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void parse(int argc, char **argv, struct reader *reader)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"stream", required_argument, NULL, 'n'},
		{"leases", required_argument, NULL, 'l'},
		{"hold-ms", required_argument, NULL, 'h'},
		{0},
	};
	int option;

	*reader = (struct reader){.n_leases = 1};
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 's')
			reader->socket = optarg;
		else if (option == 'n')
			reader->stream = optarg;
		else if (option == 'l')
			reader->n_leases = (uint32_t)atoi(optarg);
		else if (option == 'h')
			reader->hold_ms = atoi(optarg);
		else
			exit(EX_USAGE);
	}
	if (!reader->stream || reader->n_leases > LEASES_MAX)
		exit(EX_USAGE);
}

/* Payloads that are not as they were sent; those that are another packet than their sequence says. */
static struct faults look(const struct ibvcap_rx_batch *batch)
{
	struct faults faults = {0};
	uint64_t number;

	for (uint32_t i = 0; i < batch->n; i++) {
		faults.corrupt += !pattern_check(ibvcap_rx_payload(batch, i), batch->meta[i].length, &number);
		faults.displaced += number != batch->sequence + i;
	}
	return faults;
}

/* 0, or the library's error. */
static int take(struct reader *reader)
{
	struct ibvcap_rx_batch *batch = &reader->batches[reader->n_batches];
	int n;

	batch->size = sizeof(*batch);
	n = ibvcap_rx_acquire(reader->rx, batch, UINT32_MAX, UINT32_MAX, 100); /* a whole block, if it comes in time */
	if (n <= 0)
		return n == -EINTR ? 0 : n;
	reader->rows += batch->n;
	reader->gaps += batch->gap;
	reader->seen[reader->n_batches] = look(batch);
	reader->corrupt += reader->seen[reader->n_batches].corrupt;
	reader->displaced += reader->seen[reader->n_batches].displaced;
	reader->n_batches++;
	return 0;
}

/* TERM ends it; that it came just before is seen within the second. */
static void hold(const struct reader *reader)
{
	const struct timespec start = {.tv_sec = reader->hold_ms / 1000, .tv_nsec = reader->hold_ms % 1000 * 1000000};
	struct timespec left = start;

	if (reader->hold_ms >= 0)
		while (!stop && nanosleep(&left, &left) < 0)
			;
	else
		while (!stop)
			poll(NULL, 0, 1000);
}

static void give_back(struct reader *reader)
{
	while (reader->n_batches > 0) {
		const struct ibvcap_rx_batch *batch = &reader->batches[--reader->n_batches];
		const struct faults *seen = &reader->seen[reader->n_batches];
		struct faults now = look(batch);

		reader->spoiled += now.corrupt != seen->corrupt || now.displaced != seen->displaced;
		ibvcap_rx_release(reader->rx, batch);
	}
}

static int consume(struct reader *reader)
{
	int r = 0;

	while (!stop && r == 0) {
		while (!stop && r == 0 && reader->n_batches < reader->n_leases)
			r = take(reader);
		if (r == -ENOBUFS)
			r = 0; /* it has all it may */
		if (r == 0)
			hold(reader);
		give_back(reader);
	}
	return r;
}

static void print_counts(const struct reader *reader)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	ibvcap_rx_counts(reader->rx, &counts);
	printf("{\"published\": %" PRIu64 ", \"delivered\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"lag\": %" PRIu64
	       ", \"rows\": %" PRIu64 ", \"gaps\": %" PRIu64 ", \"corrupt\": %" PRIu64 ", \"spoiled\": %" PRIu64
	       ", \"displaced\": %" PRIu64 "}\n",
	       counts.published, counts.delivered, counts.skipped, counts.lag, reader->rows, reader->gaps,
	       reader->corrupt, reader->spoiled, reader->displaced);
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = IBVCAP_NO_REATTACH};
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct reader reader;
	int r;

	parse(argc, argv, &reader);
	sigaction(SIGTERM, &action, NULL);
	r = ibvcap_rx_open(reader.socket, reader.stream, &options, &reader.rx);
	if (r < 0) {
		fprintf(stderr, "hold_reader: %s\n", ibvcap_error_text());
		return EX_UNAVAILABLE;
	}
	ibvcap_rx_info(reader.rx, &info);
	if (reader.n_leases == 0)
		reader.n_leases = info.lease_blocks < LEASES_MAX ? info.lease_blocks : LEASES_MAX;
	printf("{\"lease_blocks\": %u}\n", info.lease_blocks);
	fflush(stdout);
	r = consume(&reader);
	if (r == 0)
		print_counts(&reader);
	else
		fprintf(stderr, "hold_reader: %s\n", strerror(-r));
	ibvcap_rx_close(reader.rx);
	return r == 0 ? EX_OK : EX_SOFTWARE;
}
