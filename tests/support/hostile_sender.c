// SPDX-License-Identifier: Apache-2.0
/* Senders that lie in their page, kick for nothing, or end at any step. The channel has the name of the stream. */
#include "tests/support/hostile_client.h"

#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <fcntl.h>
#include <ibvcap/ibvcap.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS   200
#define N_STEPS 9 /* at which one that ends may end */

struct opened {
	struct hostile *hostile;
	int socket;
	int fds[PROTOCOL_FDS_MAX];
	unsigned n_fds;
	struct ibvcap_sender_page *page;
	struct ibvcap_sender_state *state;
	size_t page_bytes;
	size_t state_bytes;
	uint64_t submitted;
};

/* Another value than the last step: go on. */
static void step(unsigned now, unsigned last)
{
	if (now == last)
		raise(SIGKILL);
}

static void *map_all(int fd, int protection, size_t *bytes)
{
	struct stat status;
	void *address;

	if (fstat(fd, &status) < 0)
		return NULL;
	*bytes = (size_t)status.st_size;
	address = mmap(NULL, *bytes, protection, MAP_SHARED, fd, 0);
	return address == MAP_FAILED ? NULL : address;
}

static bool exchange(struct opened *o, const struct protocol_header *request, enum protocol_type type, int *fds,
                     unsigned *n_fds)
{
	union protocol_message answer;

	if (protocol_send(o->socket, request, NULL, 0) < 0)
		return false;
	return protocol_recv(o->socket, &answer, fds, n_fds) == 1 && answer.header.type == type;
}

static void finish_sending(struct opened *o)
{
	if (o->state) {
		bool out = client_load_connection(&o->state->link) == IBVCAP_CONNECTION_ENDED;

		o->hostile->put_out[out ? o->state->link.reason % HOSTILE_REASONS : 0]++;
		munmap(o->state, o->state_bytes);
	}
	if (o->page)
		munmap(o->page, o->page_bytes);
	while (o->n_fds > 0)
		close(o->fds[--o->n_fds]);
	if (o->socket >= 0)
		close(o->socket);
}

/* last: the step at which the process ends; N_STEPS: none. */
static bool begin_sending(struct opened *o, struct hostile *hostile, unsigned last)
{
	struct protocol_open_channel request = {.abi_major = IBVCAP_ABI_MAJOR};
	struct protocol_bare mapped;

	*o = (struct opened){.hostile = hostile, .socket = hostile_connect(hostile)};
	step(0, last);
	snprintf(request.channel, sizeof(request.channel), "%s", hostile->stream);
	protocol_init(&request.header, PROTOCOL_OPEN_CHANNEL, sizeof(request));
	protocol_init(&mapped.header, PROTOCOL_MAPPED, sizeof(mapped));
	if (o->socket < 0)
		return false;
	if (last == 1)
		protocol_send(o->socket, &request.header, NULL, 0);
	step(1, last);
	o->n_fds = PROTOCOL_FDS_MAX;
	if (!exchange(o, &request.header, PROTOCOL_OPENED, o->fds, &o->n_fds)) {
		finish_sending(o);
		hostile_nap_ms(20);
		return false;
	}
	step(2, last);
	o->page = map_all(o->fds[PROTOCOL_FD_SENDER_PAGE], PROT_READ | PROT_WRITE, &o->page_bytes);
	o->state = map_all(o->fds[PROTOCOL_FD_SENDER_STATE], PROT_READ, &o->state_bytes);
	step(3, last);
	if (last == 4)
		protocol_send(o->socket, &mapped.header, NULL, 0);
	step(4, last);
	if (!o->page || !o->state || !exchange(o, &mapped.header, PROTOCOL_READY, NULL, NULL)) {
		finish_sending(o);
		return false;
	}
	hostile->attached++;
	step(5, last);
	return true;
}

/* Through the last descriptor, whatever it is: a socket or an eventfd. */
static void kick(struct opened *o)
{
	static const uint64_t one = 1;
	int fd = o->fds[PROTOCOL_FD_OPENED_N - 1];

	if (send(fd, &one, sizeof(one), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == ENOTSOCK)
		(void)!write(fd, &one, sizeof(one));
	for (unsigned i = PROTOCOL_FD_OPENED_N; i < o->n_fds; i++)
		(void)!write(o->fds[i], &one, sizeof(one));
}

static bool still_open(const struct opened *o)
{
	return client_load_connection(&o->state->link) == IBVCAP_CONNECTION_OPEN && !hostile_is_over(o->hostile);
}

static void write_descriptors(struct opened *o, uint64_t n)
{
	struct ibvcap_tx_descriptor *descriptors = (void *)((char *)o->page + o->state->descriptors_offset);
	struct hostile *hostile = o->hostile;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t words[2] = {hostile_next(hostile) % 2 ? 0 : hostile_next(hostile),
		                     hostile_next(hostile) % 2 ? 100 : hostile_next(hostile)};

		memcpy(&descriptors[(o->submitted + i) % o->state->n_slots], words, sizeof(words));
	}
}

/* Random packets, and at last a cursor that cannot be. */
void hostile_send(struct hostile *hostile)
{
	struct opened o;

	if (!begin_sending(&o, hostile, N_STEPS))
		return;
	for (int i = 0; i < TURNS && still_open(&o); i++) {
		uint64_t n = hostile_next(hostile) % 8;

		if (o.submitted + n - sender_load_completed(o.state) <= o.state->n_slots) {
			write_descriptors(&o, n);
			o.submitted += n;
			sender_store_submitted(o.page, o.submitted);
			hostile->written += n;
		}
		client_request_wake(&o.page->wake, o.submitted, hostile_next(hostile) % 2);
		kick(&o);
		hostile_nap_ms(1 + (unsigned)(hostile_next(hostile) % 4));
	}
	if (hostile_next(hostile) % 2)
		sender_store_submitted(o.page, hostile_next(hostile));
	if (hostile_next(hostile) % 2)
		fallocate(o.fds[PROTOCOL_FD_SENDER_PAGE], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
	kick(&o);
	hostile_nap_ms(5);
	finish_sending(&o);
}

void hostile_kick(struct hostile *hostile)
{
	struct opened o;

	if (!begin_sending(&o, hostile, N_STEPS))
		return;
	for (int i = 0; i < 100 * TURNS && still_open(&o); i++) {
		kick(&o);
		hostile->written++;
		if (i % 100 == 0)
			hostile_nap_ms(2);
	}
	finish_sending(&o);
}

/* A child that ends by SIGKILL at any step. */
void hostile_end(struct hostile *hostile)
{
	unsigned last = (unsigned)(hostile_next(hostile) % N_STEPS);
	pid_t child = fork();
	struct opened o;

	if (child > 0)
		waitpid(child, NULL, 0);
	if (child != 0)
		return;
	if (begin_sending(&o, hostile, last)) {
		write_descriptors(&o, 4);
		sender_store_submitted(o.page, 4);
		step(6, last);
		kick(&o);
		step(7, last);
		hostile_nap_ms(2);
	}
	raise(SIGKILL);
}
