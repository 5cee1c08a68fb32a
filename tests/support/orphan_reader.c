// SPDX-License-Identifier: Apache-2.0
/*
 * orphan_reader SOCKET STREAM: attach, print "attached", take a batch, and end; a child that was forked meanwhile goes
 * on with the same handle. The daemon knew the parent: with it the attachment ends, and the child has to be told. Prints
 * what the child's release and next acquire return.
 */
#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void go_on(struct ibvcap_rx *rx, const struct ibvcap_batch *batch)
{
	struct ibvcap_batch next;
	int released, acquired;

	sleep(1); /* until the daemon has seen the parent's end */
	released = ibvcap_release(rx, batch);
	acquired = ibvcap_acquire(rx, &next, 1, 1, 0);
	printf("%d %d\n", released, acquired);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct ibvcap_batch batch;
	struct ibvcap_rx *rx;
	int r;

	if (argc != 3)
		return EXIT_FAILURE;
	r = ibvcap_attach(argv[1], argv[2], NULL, &rx);
	if (r < 0) {
		fprintf(stderr, "%s\n", ibvcap_error_text());
		return EXIT_FAILURE;
	}
	puts("attached");
	fflush(stdout);
	r = ibvcap_acquire(rx, &batch, 1, 1, 10000);
	if (r != 1) {
		fprintf(stderr, "acquire: %s\n", strerror(-r));
		return EXIT_FAILURE;
	}
	if (fork() == 0)
		go_on(rx, &batch);
	_exit(EXIT_SUCCESS);
}
