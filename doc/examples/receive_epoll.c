// SPDX-License-Identifier: Apache-2.0
/*
 * receive_epoll STREAM...: receive several streams in one thread with epoll(7), beside whatever else a program waits
 * for (here standard input, whose end ends the program), and print how many packets came. Build it with
 *
 *     cc -o receive_epoll receive_epoll.c $(pkg-config --cflags --libs libibvcap)
 */
#include <ibvcap/ibvcap.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#define STREAMS_MAX 16

struct reader {
	const char *stream;
	struct ibvcap_rx *rx;
	uint64_t packets, skipped;
	int error;
};

/* Until ibvcap_rx_acquire() returns 0: only then does the descriptor become readable again. */
static void read_all(struct reader *reader)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	int r;

	while ((r = ibvcap_rx_acquire(reader->rx, &batch, UINT32_MAX, 1, 0)) > 0) {
		reader->packets += batch.n;
		reader->skipped += batch.gap;
		ibvcap_rx_release(reader->rx, &batch);
	}
	reader->error = r;
}

static int add(int epoll, int fd, struct reader *reader)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = reader};

	return fd < 0 ? -1 : epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* The stream's descriptor stays the same when the daemon restarts. */
static int open_reader(struct reader *reader, int epoll, const char *stream)
{
	reader->stream = stream;
	if (ibvcap_rx_open(NULL, stream, NULL, &reader->rx) < 0 || add(epoll, ibvcap_rx_fd(reader->rx), reader) < 0) {
		fprintf(stderr, "receive_epoll: %s\n", ibvcap_error_text());
		return -1;
	}
	read_all(reader); /* once before the first wait */
	return 0;
}

/* Wait until something is to be read. False at the end of standard input. */
static bool wait_and_read(int epoll)
{
	struct epoll_event event;
	struct reader *reader;
	char input[512];

	if (epoll_wait(epoll, &event, 1, -1) < 0)
		return errno == EINTR;
	reader = event.data.ptr;
	if (!reader)
		return read(STDIN_FILENO, input, sizeof(input)) > 0;
	read_all(reader);
	if (reader->error < 0 && reader->error != -EINTR) { /* it is over; readable for ever */
		fprintf(stderr, "receive_epoll: %s\n", ibvcap_error_text());
		epoll_ctl(epoll, EPOLL_CTL_DEL, ibvcap_rx_fd(reader->rx), NULL);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct reader readers[STREAMS_MAX] = {0};
	int epoll = epoll_create1(EPOLL_CLOEXEC), n = argc - 1 < STREAMS_MAX ? argc - 1 : STREAMS_MAX;

	for (int i = 0; i < n; i++)
		if (open_reader(&readers[i], epoll, argv[i + 1]) < 0)
			return 1;
	if (n == 0 || add(epoll, STDIN_FILENO, NULL) < 0) {
		fprintf(stderr, "usage: receive_epoll STREAM... <PIPE-OR-TERMINAL\n");
		return 1;
	}
	while (wait_and_read(epoll))
		;
	for (int i = 0; i < n; i++) {
		printf("%s: %" PRIu64 " packets, %" PRIu64 " skipped\n", readers[i].stream, readers[i].packets,
		       readers[i].skipped);
		ibvcap_rx_close(readers[i].rx);
	}
	return 0;
}
