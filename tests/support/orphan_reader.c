// SPDX-License-Identifier: Apache-2.0
/*
 * orphan_reader SOCKET STREAM [N]: attach, print "attached", take a batch, and end; a child that was forked meanwhile
 * goes on with the same handle. The daemon knew the parent: its attachment ends with it, so the child's calls fail.
 * Prints what the child's release and next acquire return. With N it is a tap: prints the first byte of N packets, the
 * first of them the parent's, and how often an epoch began.
 */
#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void go_on(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	struct ibvcap_rx_batch next = IBVCAP_INIT(struct ibvcap_rx_batch);
	int released, acquired;

	released = ibvcap_rx_release(rx, batch);
	acquired = ibvcap_rx_acquire(rx, &next, 1, 1, 0);
	printf("%d %d\n", released, acquired);
	fflush(stdout);
}

static void print_packets(struct ibvcap_rx *rx, int n)
{
	for (int i = 0; i < n; i++) {
		uint8_t byte;
		size_t length;
		int r = ibvcap_rx_recv(rx, &byte, 1, &length, NULL, 60000);

		printf("%d\n", r == 1 ? byte : r);
		fflush(stdout);
	}
}

static void be_tap(struct ibvcap_rx *rx, int n)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	print_packets(rx, 1);
	if (fork() != 0)
		_exit(EXIT_SUCCESS);
	print_packets(rx, n - 1);
	ibvcap_rx_counts(rx, &counts);
	printf("%d epochs\n", (int)counts.epochs);
	fflush(stdout);
	_exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
	struct ibvcap_rx_options options = {.size = sizeof(options),
	                                    .policy = argc == 4 ? IBVCAP_POLICY_TAP : IBVCAP_POLICY_LOSSY};
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_rx *rx;
	int r;

	if (argc != 3 && argc != 4)
		return EXIT_FAILURE;
	r = ibvcap_rx_open(argv[1], argv[2], &options, &rx);
	if (r < 0) {
		fprintf(stderr, "%s\n", ibvcap_error_text());
		return EXIT_FAILURE;
	}
	puts("attached");
	fflush(stdout);
	if (argc == 4)
		be_tap(rx, atoi(argv[3]));
	r = ibvcap_rx_acquire(rx, &batch, 1, 1, 10000);
	if (r != 1) {
		fprintf(stderr, "acquire: %s\n", strerror(-r));
		return EXIT_FAILURE;
	}
	if (fork() == 0)
		go_on(rx, &batch);
	_exit(EXIT_SUCCESS);
}
