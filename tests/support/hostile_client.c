// SPDX-License-Identifier: Apache-2.0
/* clang-format off */
/*
 * A client that does what it should not, in one of these ways, for so many seconds or until SIGTERM:
 *
 *     hostile_client SOCKET STREAM SECONDS SEED WAY
 *
 *   lease                      a true start, then a lease of a block that never was
 *   plausible                  lies that can't be told from the truth
 *   random                     random values into every byte but the page's magic
 *   punch                      holes into the page, and resizing
 *   back, ahead, split, still  a lossless reader whose cursor goes back, past head, is the sum of two lies, or
 *                              stands still
 *   tap                        a reader without a page that wants to write
 *   malformed                  messages of random bytes
 *   requests                   random bodies behind right headers, and descriptors of every kind
 *   flood                      attach and detach as fast as it goes
 *   deaf                       answers that are never read
 *   send, kick, end            a sender with random packets and cursors, with kicks for nothing, or that is killed at
 *                              any step of opening; the channel has the name of the stream
 *   any                        all of these, one after the other, in a random order
 *
 * A line of JSON in the end: what it did, and how it was answered.
 */
/* clang-format on */
#include "tests/support/hostile_client.h"

#include <errno.h>
#include <fcntl.h>
#include <ibvcap/ibvcap.h>
#include <inttypes.h>
#include <signal.h>
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

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

bool hostile_is_over(const struct hostile *h)
{
	return stop || hostile_now_ms() >= h->end_ms;
}

/* xorshift64: the same seed does the same. */
uint64_t hostile_next(struct hostile *h)
{
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	h->random ^= h->random << 17;
	return h->random;
}

uint64_t hostile_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void hostile_nap_ms(unsigned ms)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

/* ---- the connection ------------------------------------------------------------------------------ */

int hostile_connect(struct hostile *h)
{
	const struct timeval timeout = {.tv_usec = 200000};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", h->path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void count_refusal(struct hostile *h, const struct protocol_error *error)
{
	if (strstr(error->text, "a second than max_messages_per_s"))
		h->refused[REFUSED_RATE]++;
	else if (strstr(error->text, "malformed"))
		h->refused[REFUSED_MALFORMED]++;
	else if (strstr(error->text, "not a request"))
		h->refused[REFUSED_NO_REQUEST]++;
	else
		h->refused[REFUSED_ELSE]++;
}

/* protocol_recv()'s result, counted. */
static int receive(struct hostile *h, int fd, union protocol_message *answer, int *fds, unsigned *n_fds)
{
	int r = protocol_recv(fd, answer, fds, n_fds);

	h->hung_up += r == 0 || r == -ECONNRESET;
	if (r == 1 && answer->header.type == PROTOCOL_ERROR)
		count_refusal(h, &answer->error);
	return r;
}

static void close_all(int *fds, unsigned n_fds)
{
	for (unsigned i = 0; i < n_fds; i++)
		close(fds[i]);
}

int hostile_attach(struct hostile *h, enum ibvcap_policy policy, int fds[PROTOCOL_FDS_MAX], unsigned *n_fds)
{
	/* Who wants to be waited for begins where it is waited for at once. */
	struct protocol_attach request = {.abi_major = IBVCAP_ABI_MAJOR,
	                                  .policy = policy,
	                                  .start = policy == IBVCAP_POLICY_LOSSLESS ? IBVCAP_START_OLDEST
	                                                                            : IBVCAP_START_NEWEST};
	union protocol_message answer;
	int fd = hostile_connect(h);

	*n_fds = PROTOCOL_FDS_MAX;
	if (fd < 0)
		return -1;
	snprintf(request.stream, sizeof(request.stream), "%s", h->stream);
	protocol_init(&request.header, PROTOCOL_ATTACH, sizeof(request));
	protocol_send(fd, &request.header, NULL, 0);
	if (receive(h, fd, &answer, fds, n_fds) == 1 && answer.header.type == PROTOCOL_ATTACHED) {
		h->attached++;
		return fd;
	}
	close(fd);
	return -1;
}

/* ---- messages ------------------------------------------------------------------------------------ */

static void random_bytes(struct hostile *h, void *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = (uint8_t)(hostile_next(h) >> 24);
}

static int any_descriptor(struct hostile *h)
{
	switch (hostile_next(h) % 5) {
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

static void send_with_descriptors(struct hostile *h, int fd, const union protocol_message *message)
{
	unsigned n_fds = (unsigned)(hostile_next(h) % (PROTOCOL_FDS_MAX + 1));
	int fds[PROTOCOL_FDS_MAX];

	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = any_descriptor(h);
	if (protocol_send(fd, &message->header, fds, n_fds) == -EPERM) /* by SO_PASSRIGHTS */
		protocol_send(fd, &message->header, NULL, 0);
	close_all(fds, n_fds);
}

static void take_answer(struct hostile *h, int fd)
{
	union protocol_message answer;
	int fds[PROTOCOL_FDS_MAX];
	unsigned n_fds = PROTOCOL_FDS_MAX;

	if (receive(h, fd, &answer, fds, &n_fds) == 1)
		close_all(fds, n_fds);
}

static void malformed(struct hostile *h)
{
	union protocol_message message;
	int fd = hostile_connect(h);

	if (fd < 0)
		return;
	random_bytes(h, &message, sizeof(message));
	if (hostile_next(h) % 2) /* all but its length is right */
		protocol_init(&message.header, PROTOCOL_STATUS, hostile_next(h));
	send(fd, &message, 1 + hostile_next(h) % sizeof(message), MSG_NOSIGNAL);
	h->sent++;
	take_answer(h, fd);
	close(fd);
}

static void make_request(struct hostile *h, union protocol_message *message)
{
	static const struct {
		enum protocol_type type;
		size_t bytes;
	} kinds[] = {
		{PROTOCOL_ATTACH, sizeof(struct protocol_attach)},
		{PROTOCOL_STATUS, sizeof(struct protocol_bare)},
		{PROTOCOL_RECONFIGURE, sizeof(struct protocol_reconfigure)},
		{PROTOCOL_ATTACHED, sizeof(struct protocol_attached)},
		{PROTOCOL_PART, PROTOCOL_PART_BYTES(sizeof(struct ibvcap_status_stream))},
		{PROTOCOL_END, sizeof(struct protocol_header)},
	};
	size_t kind = hostile_next(h) % (sizeof(kinds) / sizeof(kinds[0]));

	random_bytes(h, message, sizeof(*message));
	protocol_init(&message->header, kinds[kind].type, kinds[kind].bytes);
	if (kinds[kind].type != PROTOCOL_ATTACH || hostile_next(h) % 2)
		return;
	snprintf(message->attach.stream, sizeof(message->attach.stream), "%s", h->stream);
	message->attach.abi_major = IBVCAP_ABI_MAJOR;
}

static void requests(struct hostile *h)
{
	union protocol_message message;
	int fd = hostile_connect(h);

	for (int i = 0; i < 4 && fd >= 0; i++) {
		make_request(h, &message);
		h->sent++;
		send_with_descriptors(h, fd, &message);
		take_answer(h, fd);
	}
	if (fd >= 0)
		close(fd);
}

static void flood(struct hostile *h)
{
	int fds[PROTOCOL_FDS_MAX];
	unsigned n_fds;
	int fd = hostile_attach(h, IBVCAP_POLICY_LOSSY, fds, &n_fds);

	if (fd < 0)
		return;
	close_all(fds, n_fds);
	close(fd);
}

static void be_deaf(struct hostile *h)
{
	int *deaf = &h->deaf[hostile_next(h) % HOSTILE_DEAF];
	struct protocol_bare request = {0};

	if (*deaf >= 0)
		close(*deaf);
	*deaf = hostile_connect(h);
	protocol_init(&request.header, PROTOCOL_STATUS, sizeof(request));
	for (int i = 0; i < 100 && *deaf >= 0; i++)
		h->sent += send(*deaf, &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
	hostile_nap_ms(50);
}

static void any(struct hostile *h);

/* ---- all ways ------------------------------------------------------------------------------------ */

static const struct way {
	const char *name;
	void (*turn)(struct hostile *);
} ways[] = {
	{"lease", hostile_lease},   {"plausible", hostile_plausible},
	{"random", hostile_random}, {"punch", hostile_punch},
	{"back", hostile_back},     {"ahead", hostile_ahead},
	{"split", hostile_split},   {"still", hostile_still},
	{"tap", hostile_tap},       {"watched", hostile_watched},
	{"malformed", malformed},   {"requests", requests},
	{"flood", flood},           {"deaf", be_deaf},
	{"send", hostile_send},     {"kick", hostile_kick},
	{"end", hostile_end},       {"any", any},
};

#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

static void any(struct hostile *h)
{
	ways[hostile_next(h) % (N_WAYS - 1)].turn(h);
	hostile_nap_ms((unsigned)(hostile_next(h) % 100));
}

static const struct way *find_way(const char *name)
{
	for (size_t i = 0; i < N_WAYS; i++)
		if (strcmp(ways[i].name, name) == 0)
			return &ways[i];
	return NULL;
}

static void print(const struct hostile *h)
{
	printf("{\"attached\": %" PRIu64 ", \"sent\": %" PRIu64 ", \"written\": %" PRIu64 ", \"looks\": %" PRIu64
	       ", \"broken\": %" PRIu64 ", \"hung_up\": %" PRIu64,
	       h->attached, h->sent, h->written, h->looks, h->broken, h->hung_up);
	printf(", \"refused\": {\"rate\": %" PRIu64 ", \"malformed\": %" PRIu64 ", \"no_request\": %" PRIu64
	       ", \"else\": %" PRIu64 "}",
	       h->refused[REFUSED_RATE], h->refused[REFUSED_MALFORMED], h->refused[REFUSED_NO_REQUEST],
	       h->refused[REFUSED_ELSE]);
	printf(", \"put_out\": [");
	for (int i = 0; i < HOSTILE_REASONS; i++)
		printf("%s%" PRIu64, i ? ", " : "", h->put_out[i]);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	struct hostile h = {.deaf = {-1, -1, -1, -1}};
	const struct way *way = argc == 6 ? find_way(argv[5]) : NULL;

	if (!way) {
		fprintf(stderr, "usage: hostile_client SOCKET STREAM SECONDS SEED WAY\n");
		return 2;
	}
	h.path = argv[1];
	h.stream = argv[2];
	signal(SIGTERM, on_signal);
	h.end_ms = hostile_now_ms() + strtoull(argv[3], NULL, 10) * 1000;
	h.random = strtoull(argv[4], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	while (!hostile_is_over(&h))
		way->turn(&h);
	print(&h);
	return 0;
}
