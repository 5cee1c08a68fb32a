// SPDX-License-Identifier: Apache-2.0
/*
 * A client that does everything it should not, for so many seconds: hostile_client SOCKET STREAM SECONDS SEED. Adversarial
 * and random values into every byte of its page, holes punched into it, junk into its wake socket; messages of random
 * bytes, and of random bodies behind right headers; descriptors of every kind with them; attach and detach as fast as
 * it goes; requests whose answers are never read. A line of JSON in the end: what it did, and how it was answered.
 */
#include "lib/ibvcap/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PAGE_WORDS (4096 / sizeof(uint64_t))
#define DEAF_MAX   4

struct hostile {
	const char *path;
	const char *stream;
	uint64_t random;
	uint64_t attached;
	uint64_t refused; /* answered with an error */
	uint64_t hung_up;
	uint64_t sent;    /* messages out of the ordinary */
	uint64_t written; /* words of its page */
	int deaf[DEAF_MAX]; /* connections whose answers are not read */
};

/* xorshift64: the same seed does the same. */
static uint64_t next(struct hostile *h)
{
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	h->random ^= h->random << 17;
	return h->random;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* -1: not now. */
static int connect_daemon(struct hostile *h)
{
	const struct timeval timeout = { .tv_usec = 200000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", h->path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void count_answer(struct hostile *h, int fd)
{
	union wire_message answer;
	int fds[WIRE_FDS_MAX];
	unsigned n_fds = WIRE_FDS_MAX;
	int r = wire_recv(fd, &answer, fds, &n_fds);

	h->hung_up += r == 0 || r == -ECONNRESET;
	h->refused += r == 1 && answer.header.type == WIRE_ERROR;
	for (unsigned i = 0; r == 1 && i < n_fds; i++)
		close(fds[i]);
}

/* ---- attached, and lying ------------------------------------------------------------------------- */

static struct wire_attach attach_request(const struct hostile *h)
{
	struct wire_attach request = { .abi_major = IBVCAP_ABI_MAJOR };

	snprintf(request.stream, sizeof(request.stream), "%s", h->stream);
	wire_init(&request.header, WIRE_ATTACH, sizeof(request));
	return request;
}

/* The connection, and its descriptors; -1: refused. */
static int attach(struct hostile *h, const struct wire_attach *request, int fds[WIRE_FDS_MAX], unsigned *n_fds)
{
	union wire_message answer;
	int fd = connect_daemon(h);
	int r;

	*n_fds = WIRE_FDS_MAX;
	if (fd < 0)
		return -1;
	wire_send(fd, &request->header, NULL, 0);
	r = wire_recv(fd, &answer, fds, n_fds);
	if (r == 1 && answer.header.type == WIRE_ATTACHED) {
		h->attached++;
		return fd;
	}
	h->hung_up += r == 0 || r == -ECONNRESET;
	h->refused += r == 1 && answer.header.type == WIRE_ERROR;
	close(fd);
	return -1;
}

static uint64_t nasty_value(struct hostile *h)
{
	static const uint64_t values[] = { 0, 1, 2, 63, 64, 65, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 1,
					   UINT64_MAX };
	uint64_t random = next(h);

	switch (random % 4) {
	case 0:
		return values[next(h) % (sizeof(values) / sizeof(values[0]))];
	case 1:
		return next(h) % 64; /* near what is true early on */
	case 2:
		return next(h) % 4096;
	}
	return next(h);
}

static void scribble(struct hostile *h, int page_fd, uint64_t ms)
{
	volatile uint64_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	uint64_t end = now_ms() + ms;

	if (page == MAP_FAILED)
		return;
	while (now_ms() < end) {
		for (int i = 0; i < 64; i++)
			page[next(h) % PAGE_WORDS] = nasty_value(h);
		h->written += 64;
		if (next(h) % 16 == 0)
			fallocate(page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
	}
	munmap((void *)page, 4096);
}

static void spoil_wake_socket(struct hostile *h, int fd)
{
	char junk[512] = { 0 };

	fcntl(fd, F_SETFL, next(h) % 2 ? O_NONBLOCK : 0);
	if (next(h) % 2)
		send(fd, junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (next(h) % 3 == 0)
		shutdown(fd, next(h) % 2 ? SHUT_RD : SHUT_RDWR);
}

static void lie(struct hostile *h)
{
	struct wire_attach request = attach_request(h);
	int fds[WIRE_FDS_MAX];
	unsigned n_fds;
	int fd = attach(h, &request, fds, &n_fds);

	if (fd < 0)
		return;
	if (n_fds == WIRE_FD_N) {
		spoil_wake_socket(h, fds[WIRE_FD_WAKE_SOCKET]);
		scribble(h, fds[WIRE_FD_CONSUMER_PAGE], 20 + next(h) % 50);
	}
	while (n_fds > 0)
		close(fds[--n_fds]);
	close(fd);
}

static void flood(struct hostile *h)
{
	struct wire_attach request = attach_request(h);

	for (int i = 0; i < 50; i++) {
		int fds[WIRE_FDS_MAX];
		unsigned n_fds;
		int fd = attach(h, &request, fds, &n_fds);

		if (fd < 0)
			continue;
		while (n_fds > 0)
			close(fds[--n_fds]);
		close(fd);
	}
}

/* ---- messages ------------------------------------------------------------------------------------ */

static void random_bytes(struct hostile *h, void *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = (uint8_t)(next(h) >> 24);
}

static size_t make_message(struct hostile *h, union wire_message *message)
{
	static const struct {
		enum wire_type type;
		size_t bytes;
	} kinds[] = {
		{ WIRE_ATTACH, sizeof(struct wire_attach) },     { WIRE_STATUS, sizeof(struct wire_status) },
		{ WIRE_CHANGE, sizeof(struct wire_change) },     { WIRE_ATTACHED, sizeof(struct wire_attached) },
		{ WIRE_STREAM, sizeof(struct wire_stream) },     { WIRE_END, sizeof(struct wire_header) },
	};
	size_t kind = next(h) % (sizeof(kinds) / sizeof(kinds[0]));
	size_t bytes = kinds[kind].bytes;

	random_bytes(h, message, sizeof(*message));
	if (next(h) % 4 == 0)
		return 1 + next(h) % sizeof(*message); /* nothing of it is right */
	wire_init(&message->header, kinds[kind].type, next(h) % 8 ? bytes : next(h));
	if (kinds[kind].type == WIRE_ATTACH && next(h) % 2) {
		snprintf(message->attach.stream, sizeof(message->attach.stream), "%s", h->stream);
		message->attach.abi_major = IBVCAP_ABI_MAJOR;
	}
	return bytes;
}

static int any_descriptor(struct hostile *h)
{
	switch (next(h) % 5) {
	case 0:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 1:
		return memfd_create("hostile", MFD_CLOEXEC);
	case 2:
		return epoll_create1(EPOLL_CLOEXEC);
	case 3:
		return eventfd(0, EFD_CLOEXEC);
	}
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void send_with_descriptors(struct hostile *h, int fd, union wire_message *message, size_t bytes)
{
	unsigned n_fds = (unsigned)(next(h) % (WIRE_FDS_MAX + 1));
	int fds[WIRE_FDS_MAX];

	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = any_descriptor(h);
	message->header.bytes = (uint32_t)bytes; /* so much is sent */
	wire_send(fd, &message->header, fds, n_fds);
	for (unsigned i = 0; i < n_fds; i++)
		close(fds[i]);
}

static void talk_nonsense(struct hostile *h)
{
	union wire_message message;
	int fd = connect_daemon(h);

	for (int i = 0; i < 4 && fd >= 0; i++) {
		size_t bytes = make_message(h, &message);

		h->sent++;
		if (bytes >= sizeof(message.header) && next(h) % 2)
			send_with_descriptors(h, fd, &message, bytes);
		else
			send(fd, &message, bytes, MSG_NOSIGNAL);
		count_answer(h, fd);
	}
	if (fd >= 0)
		close(fd);
}

static void be_deaf(struct hostile *h)
{
	int *deaf = &h->deaf[next(h) % DEAF_MAX];
	struct wire_status request = { 0 };

	if (*deaf >= 0)
		close(*deaf);
	*deaf = connect_daemon(h);
	wire_init(&request.header, WIRE_STATUS, sizeof(request));
	for (int i = 0; i < 100 && *deaf >= 0; i++)
		if (send(*deaf, &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
}

int main(int argc, char **argv)
{
	static void (*const ways[])(struct hostile *) = { lie, lie, flood, talk_nonsense, talk_nonsense, be_deaf };
	struct hostile h = { .deaf = { -1, -1, -1, -1 } };
	uint64_t end;

	if (argc != 5) {
		fprintf(stderr, "usage: hostile_client SOCKET STREAM SECONDS SEED\n");
		return 2;
	}
	h.path = argv[1];
	h.stream = argv[2];
	end = now_ms() + strtoull(argv[3], NULL, 10) * 1000;
	h.random = strtoull(argv[4], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	while (now_ms() < end)
		ways[next(&h) % (sizeof(ways) / sizeof(ways[0]))](&h);
	printf("{\"attached\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"hung_up\": %" PRIu64 ", \"sent\": %" PRIu64
	       ", \"written\": %" PRIu64 "}\n",
	       h.attached, h.refused, h.hung_up, h.sent, h.written);
	return 0;
}
