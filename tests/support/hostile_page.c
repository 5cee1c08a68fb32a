// SPDX-License-Identifier: Apache-2.0
/* Clients that are attached, and lie. Each lies until the daemon puts it out, or for a while. */
#include "tests/support/hostile_client.h"

#include "lib/ibvcap/ring.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define PAGE_WORDS (PAGE_BYTES / sizeof(uint64_t))
#define WATCHERS   20000
#define WATCHED_MS 5000
#define LIE_MS     700        /* how long one that is let be goes on */
#define RING_BYTES PAGE_BYTES /* of the ring segment: struct ibvcap_ring is all that is needed */

/* One attachment. */
struct lie {
	struct hostile *hostile;
	int socket;
	int fds[PROTOCOL_FDS_MAX];
	unsigned n_fds;
	struct ibvcap_consumer_page *page;
	const struct ibvcap_consumer_state *state;
	const struct ibvcap_ring *ring;
	uint64_t floor; /* when it began */
	uint64_t end_ms;
};

static void *map(int fd, int protection)
{
	void *address = mmap(NULL, PAGE_BYTES, protection, MAP_SHARED, fd, 0);

	return address == MAP_FAILED ? NULL : address;
}

static void end(struct lie *lie)
{
	struct hostile *hostile = lie->hostile;

	if (lie->state) {
		bool out = client_load_connection(&lie->state->link) == IBVCAP_CONNECTION_ENDED;

		hostile->put_out[out ? client_load_reason(&lie->state->link) % HOSTILE_REASONS : 0]++;
		hostile->looks += consumer_load_floor(lie->ring) - lie->floor;
	}
	if (lie->page)
		munmap(lie->page, PAGE_BYTES);
	if (lie->state)
		munmap((void *)lie->state, PAGE_BYTES);
	if (lie->ring)
		munmap((void *)lie->ring, RING_BYTES);
	while (lie->n_fds > 0)
		close(lie->fds[--lie->n_fds]);
	if (lie->socket >= 0)
		close(lie->socket);
}

static bool begin(struct lie *lie, struct hostile *hostile, enum ibvcap_policy policy)
{
	*lie = (struct lie){.hostile = hostile};
	lie->socket = hostile_attach(hostile, policy, lie->fds, &lie->n_fds);
	if (lie->socket < 0) {
		hostile_nap_ms(20);
		return false;
	}
	lie->end_ms = hostile_now_ms() + LIE_MS;
	if (lie->n_fds == PROTOCOL_FD_N) {
		lie->page = map(lie->fds[PROTOCOL_FD_CONSUMER_PAGE], PROT_READ | PROT_WRITE);
		lie->ring = map(lie->fds[PROTOCOL_FD_RING], PROT_READ);
		lie->state = lie->ring ? map(lie->fds[PROTOCOL_FD_CONSUMER_STATE], PROT_READ) : NULL;
	}
	if (lie->page && lie->state) {
		lie->floor = consumer_load_floor(lie->ring);
		return true;
	}
	end(lie);
	return false;
}

static bool goes_on(const struct lie *lie)
{
	return client_load_connection(&lie->state->link) == IBVCAP_CONNECTION_OPEN && hostile_now_ms() < lie->end_ms &&
	       !hostile_is_over(lie->hostile);
}

/* So that others have a CPU too. */
static void wait_to_be_seen(const struct lie *lie)
{
	while (goes_on(lie))
		hostile_nap_ms(1);
}

/* Of the newest row: what comes after it may have no memory yet. */
static uint64_t newest_block(const struct lie *lie)
{
	uint64_t head = consumer_load_head(lie->ring);

	return (head ? head - 1 : 0) / lie->ring->slots_per_block;
}

static uint64_t nasty_value(struct hostile *hostile)
{
	static const uint64_t values[] = {
		0, 1, 2, 63, 64, 65, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 1, UINT64_MAX};
	uint64_t random = hostile_next(hostile);

	switch (random % 4) {
	case 0:
		return values[hostile_next(hostile) % (sizeof(values) / sizeof(values[0]))];
	case 1:
		return hostile_next(hostile) % 64; /* near what is true early on */
	case 2:
		return hostile_next(hostile) % 4096;
	}
	return hostile_next(hostile);
}

static void spoil_wake_socket(struct lie *lie)
{
	struct hostile *hostile = lie->hostile;
	int fd = lie->fds[PROTOCOL_FD_WAKE_SOCKET];
	char junk[512] = {0};

	fcntl(fd, F_SETFL, hostile_next(hostile) % 2 ? O_NONBLOCK : 0);
	if (hostile_next(hostile) % 2)
		send(fd, junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (hostile_next(hostile) % 3 == 0)
		shutdown(fd, hostile_next(hostile) % 2 ? SHUT_RD : SHUT_RDWR);
}

/* ---- leases, and every byte ---------------------------------------------------------------------- */

static void lease_truly(struct lie *lie)
{
	struct hostile *hostile = lie->hostile;
	uint32_t slot = (uint32_t)(hostile_next(hostile) % lie->state->lease_blocks);
	uint64_t floor = consumer_load_floor(lie->ring); /* first: the newest is not below it */
	uint64_t newest = newest_block(lie);

	/* Often the oldest: it is the next that is due for reuse. */
	consumer_store_lease(lie->page, slot,
	                     hostile_next(hostile) % 2 ? floor : floor + hostile_next(hostile) % (newest - floor + 1));
	hostile->written++;
}

/* A reader as any other for a moment, and then with a block that never was. */
void hostile_lease(struct hostile *hostile)
{
	struct lie lie;
	uint64_t honest_ms = hostile_now_ms() + hostile_next(hostile) % 50;

	if (!begin(&lie, hostile, IBVCAP_POLICY_LOSSY))
		return;
	while (hostile_now_ms() < honest_ms && goes_on(&lie)) {
		lease_truly(&lie);
		hostile_nap_ms(1);
	}
	consumer_store_lease(lie.page, (uint32_t)(hostile_next(hostile) % lie.state->lease_blocks),
	                     newest_block(&lie) + lie.ring->n_blocks + hostile_next(hostile) % 2);
	wait_to_be_seen(&lie);
	end(&lie);
}

static void lie_about_waking(struct lie *lie)
{
	struct hostile *hostile = lie->hostile;
	uint64_t head = consumer_load_head(lie->ring);

	client_request_wake(&lie->page->wake,
	                    hostile_next(hostile) % 4 ? head + hostile_next(hostile) % 128 : nasty_value(hostile),
	                    hostile_next(hostile) % 2);
}

/* Every word but the magic, with nothing that can be told from the truth: never to be put out. */
void hostile_plausible(struct hostile *hostile)
{
	volatile uint64_t *words;
	struct lie lie;

	if (!begin(&lie, hostile, IBVCAP_POLICY_LOSSY))
		return;
	words = (volatile uint64_t *)lie.page;
	spoil_wake_socket(&lie);
	for (unsigned turn = 0; goes_on(&lie); turn++) {
		for (int i = 0; i < 8; i++) {
			uint64_t word = 1 + hostile_next(hostile) % (PAGE_WORDS - 1);
			bool leases = word >= offsetof(struct ibvcap_consumer_page, leases) / 8 &&
			              word < offsetof(struct ibvcap_consumer_page, tracked) / 8;

			if (!leases)
				words[word] = nasty_value(hostile);
			lease_truly(&lie);
			lie_about_waking(&lie);
			hostile->written++;
		}
		if (turn % 64 == 0)
			hostile_nap_ms(1);
	}
	end(&lie);
}

/* … with anything. */
void hostile_random(struct hostile *hostile)
{
	volatile uint64_t *words;
	struct lie lie;

	if (!begin(&lie, hostile, hostile_next(hostile) % 2 ? IBVCAP_POLICY_LOSSY : IBVCAP_POLICY_LOSSLESS))
		return;
	words = (volatile uint64_t *)lie.page;
	for (unsigned turn = 0; goes_on(&lie); turn++) {
		for (int i = 0; i < 64; i++)
			words[1 + hostile_next(hostile) % (PAGE_WORDS - 1)] = nasty_value(hostile);
		hostile->written += 64;
		if (turn % 64 == 0)
			hostile_nap_ms(1);
	}
	end(&lie);
}

/* ---- the page itself ----------------------------------------------------------------------------- */

static void try_to_resize(struct lie *lie)
{
	for (unsigned i = 0; i <= PROTOCOL_FD_CONSUMER_PAGE; i++) {
		lie->hostile->broken += ftruncate(lie->fds[i], 0) == 0;
		lie->hostile->broken += ftruncate(lie->fds[i], 1 << 30) == 0;
	}
}

void hostile_punch(struct hostile *hostile)
{
	struct lie lie;

	if (!begin(&lie, hostile, hostile_next(hostile) % 2 ? IBVCAP_POLICY_LOSSY : IBVCAP_POLICY_LOSSLESS))
		return;
	try_to_resize(&lie);
	for (int i = 0; i < 8 && goes_on(&lie); i++) {
		lease_truly(&lie);
		hostile_nap_ms(1);
	}
	while (goes_on(&lie)) {
		fallocate(lie.fds[PROTOCOL_FD_CONSUMER_PAGE], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		          PAGE_BYTES);
		hostile->written++;
		hostile_nap_ms(1);
	}
	end(&lie);
}

/* ---- lossless ------------------------------------------------------------------------------------ */

static void store_cursor(struct lie *lie, uint64_t cursor)
{
	consumer_store_delivered(lie->page, cursor - lie->state->attach_sequence);
	lie->hostile->written++;
}

/* As if it read just what is about to be recycled, so that its page is looked at again and again. */
static uint64_t read_truly(struct lie *lie, unsigned ms)
{
	uint64_t until_ms = hostile_now_ms() + ms;
	uint64_t cursor = lie->state->attach_sequence;

	while (goes_on(lie) && hostile_now_ms() < until_ms) {
		uint64_t head = consumer_load_head(lie->ring);
		uint64_t next = (consumer_load_floor(lie->ring) + 2) * lie->ring->slots_per_block;

		next = next < head ? next : head;
		if (next > cursor)
			cursor = next;
		store_cursor(lie, cursor);
		hostile_nap_ms(1);
	}
	return cursor;
}

void hostile_back(struct hostile *hostile)
{
	struct lie lie;
	uint64_t cursor;

	if (!begin(&lie, hostile, IBVCAP_POLICY_LOSSLESS))
		return;
	cursor = read_truly(&lie, 200);
	if (cursor > lie.state->attach_sequence)
		store_cursor(&lie, lie.state->attach_sequence);
	wait_to_be_seen(&lie);
	end(&lie);
}

/* Past head by what it says it has skipped, and further with each. */
void hostile_ahead(struct hostile *hostile)
{
	struct lie lie;

	if (!begin(&lie, hostile, IBVCAP_POLICY_LOSSLESS))
		return;
	read_truly(&lie, 200);
	while (goes_on(&lie)) {
		consumer_store_skipped(lie.page, consumer_load_head(lie.ring) + 4096);
		hostile->written++;
		hostile_nap_ms(1);
	}
	end(&lie);
}

/* Two lies, of which the sum is true. */
void hostile_split(struct hostile *hostile)
{
	uint64_t cursor;
	struct lie lie;

	if (!begin(&lie, hostile, IBVCAP_POLICY_LOSSLESS))
		return;
	cursor = read_truly(&lie, 200);
	consumer_store_skipped(lie.page, -(UINT64_C(1) << 40));
	while (goes_on(&lie)) {
		uint64_t head = consumer_load_head(lie.ring);

		cursor = cursor < head ? head : cursor;
		store_cursor(&lie, cursor + (UINT64_C(1) << 40));
		hostile_nap_ms(1);
	}
	end(&lie);
}

/* Reads nothing, and asks to be waited for. */
void hostile_still(struct hostile *hostile)
{
	struct lie lie;

	if (!begin(&lie, hostile, IBVCAP_POLICY_LOSSLESS))
		return;
	wait_to_be_seen(&lie);
	end(&lie);
}

/* ---- waking ------------------------------------------------------------------------------------- */

static void watch_socket(int fd, int *epolls, unsigned n)
{
	struct epoll_event event = {.events = EPOLLIN};

	for (unsigned i = 0; i < n; i++) {
		epolls[i] = epoll_create1(EPOLL_CLOEXEC);
		if (epolls[i] >= 0)
			epoll_ctl(epolls[i], EPOLL_CTL_ADD, fd, &event);
	}
}

/* Has so many watch its wake socket that a wake-up takes milliseconds, and asks for one after the other. */
void hostile_watched(struct hostile *hostile)
{
	static int epolls[WATCHERS];
	struct rlimit limit;
	struct lie lie;
	char byte[64];

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (!begin(&lie, hostile, IBVCAP_POLICY_LOSSY))
		return;
	watch_socket(lie.fds[PROTOCOL_FD_WAKE_SOCKET], epolls, WATCHERS);
	lie.end_ms = hostile_now_ms() + WATCHED_MS;
	while (goes_on(&lie)) {
		client_request_wake(&lie.page->wake, consumer_load_head(lie.ring) + 1, true);
		hostile->written++;
		(void)!recv(lie.fds[PROTOCOL_FD_WAKE_SOCKET], byte, sizeof(byte), MSG_DONTWAIT);
	}
	for (unsigned i = 0; i < WATCHERS; i++)
		if (epolls[i] >= 0)
			close(epolls[i]);
	end(&lie);
}

/* ---- tap ----------------------------------------------------------------------------------------- */

static void try_to_write(struct hostile *hostile, int fd)
{
	void *address = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	hostile->broken += address != MAP_FAILED;
	if (address != MAP_FAILED)
		munmap(address, PAGE_BYTES);
	hostile->broken += pwrite(fd, "x", 1, 0) == 1;
	hostile->broken += fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_BYTES) == 0;
	hostile->broken += ftruncate(fd, 0) == 0;
}

/* Tries to write what it may read, asks again and again, and leaves its answers. */
void hostile_tap(struct hostile *hostile)
{
	struct protocol_bare request = {0};
	int fds[PROTOCOL_FDS_MAX];
	unsigned n_fds;
	int fd = hostile_attach(hostile, IBVCAP_POLICY_TAP, fds, &n_fds);

	if (fd < 0) {
		hostile_nap_ms(20);
		return;
	}
	hostile->broken += n_fds != PROTOCOL_FD_TAP_N;
	protocol_init(&request.header, PROTOCOL_STATUS, sizeof(request));
	for (int i = 0; i < 20; i++)
		send(fd, &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL);
	for (unsigned i = 0; i < n_fds; i++)
		try_to_write(hostile, fds[i]);
	hostile_nap_ms(100);
	while (n_fds > 0)
		close(fds[--n_fds]);
	close(fd);
}
