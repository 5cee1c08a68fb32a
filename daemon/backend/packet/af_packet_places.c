// SPDX-License-Identifier: Apache-2.0
/*
 * The packet sockets of an interface as one group (PACKET_FANOUT_EBPF; without the right to load a program
 * PACKET_FANOUT_CBPF): the kernel runs one program for each frame, which says by a number which of them gets it. With
 * sockets that are no group, the kernel would run the filters of all of them for each frame.
 *
 * The number is the socket's place in the kernel's list. When a socket leaves, the kernel puts the last one into its
 * place. When the interface comes up, it makes the list anew, in the order in which the sockets were made. So the
 * places must always be in that order, and none may be left while others are behind it:
 *   - place 0 takes no frame; neither does a place without a queue;
 *   - a queue takes a free place, or a new one behind all others. A socket for a new place gets its ring before it
 *     joins the list, while other queues get theirs. Sockets join in the order in which they were made;
 *   - a socket of the list that gets or loses its ring leaves the list meanwhile, and joins it again as the last one. A
 *     spare socket, which was the last one, moves to its place. When the spare socket is closed, the kernel puts the
 *     last one back to where it was. No other socket moves.
 * While the kernel makes the list anew, a number may be that of another socket. A filter in each socket refuses frames
 * that are not for its place, or its flows.
 */
#include "daemon/backend/packet/af_packet.h"

#include "lib/base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>
#include <sys/socket.h>

/* Of Linux 6.4; older kernels do not look at it, and the program passes over what this host sends. */
#define FANOUT_IGNORE_OUTGOING 0x4000
#define FANOUT_OF_TYPE(type)   ((int)((unsigned)(type) << 16))

/* The first one makes the group, whose number the others name. */
static int places_join(const struct af_packet *backend, int fd)
{
	const struct af_packet_places *places = &backend->places;
	int type = backend->program ? PACKET_FANOUT_EBPF : PACKET_FANOUT_CBPF;
	int fanout = FANOUT_OF_TYPE(type | PACKET_FANOUT_FLAG_UNIQUEID | FANOUT_IGNORE_OUTGOING);
	socklen_t bytes = sizeof(fanout);

	if (places->n > 0 && getsockopt(places->at[0].fd, SOL_PACKET, PACKET_FANOUT, &fanout, &bytes) < 0)
		return -errno;
	return setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &fanout, sizeof(fanout)) == 0 ? 0 : -errno;
}

/* A socket that takes no frame. */
static int places_open_socket(struct af_packet *backend, struct failure *failure)
{
	int fd = kernel_path_open_socket(backend->interface, SOCK_RAW, failure);
	int r = fd < 0 ? fd : af_packet_refuse_all(fd);

	if (r < 0 && fd >= 0)
		failure_set(failure, EX_OSERR, -r, "interface %s: cannot set a socket's filter: %s", backend->interface,
		            strerror(-r));
	if (r < 0)
		fd_close(&fd);
	return r < 0 ? r : fd;
}

static void places_wait_for_turn(struct af_packet *backend, uint64_t turn)
{
	while (backend->places.turn != turn)
		pthread_cond_wait(&backend->places.turned, &backend->changing);
}

static int places_append(struct af_packet *backend, int fd)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = backend->index};
	struct af_packet_places *places = &backend->places;
	int r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : places_join(backend, fd);

	if (r == 0)
		places->at[places->n++] = (struct af_packet_place){.fd = fd};
	return r;
}

/* A socket without a queue in the last place. */
static int places_add(struct af_packet *backend)
{
	struct failure failure;
	int fd, r;

	places_wait_for_turn(backend, backend->places.n_turns);
	if (backend->places.n == AF_PACKET_PLACES)
		return -E2BIG;
	fd = places_open_socket(backend, &failure);
	r = fd < 0 ? fd : places_append(backend, fd);
	if (r < 0)
		fd_close(&fd);
	return r;
}

static int places_set_program(const struct af_packet *backend)
{
	int program = packet_program_fd(backend->program);

	return setsockopt(backend->places.at[0].fd, SOL_PACKET, PACKET_FANOUT_DATA, &program, sizeof(program)) == 0
	               ? 0
	               : -errno;
}

int af_packet_places_open(struct af_packet *backend)
{
	int r = places_add(backend);

	if (r == 0)
		r = backend->program ? places_set_program(backend) : af_packet_apply_group(backend);
	if (r < 0)
		af_packet_places_close(backend);
	return r;
}

void af_packet_places_close(struct af_packet *backend)
{
	while (backend->places.n > 0)
		fd_close(&backend->places.at[--backend->places.n].fd);
}

/* After a socket got or lost its ring: it is the last one, and the spare socket is in its place. */
static void places_drop_spare(struct af_packet_places *places)
{
	fd_close(&places->at[--places->n].fd);
}

int af_packet_places_take(struct af_packet *backend)
{
	struct af_packet_places *places = &backend->places;
	uint32_t i = 1;
	int r;

	while (i < places->n && places->at[i].is_taken)
		i++;
	if (i >= places->n)
		return 0;
	places->at[i].is_taken = true; /* others may come while this waits for a turn */
	r = places_add(backend);
	if (r < 0)
		places->at[i].is_taken = false;
	return r < 0 ? r : (int)i;
}

void af_packet_places_settle(struct af_packet *backend, uint32_t place)
{
	struct tpacket_stats statistics;
	socklen_t bytes = sizeof(statistics);

	places_drop_spare(&backend->places);
	/* Of the queue that had the place before. */
	getsockopt(backend->places.at[place].fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &bytes);
}

bool af_packet_places_have_room(const struct af_packet *backend)
{
	const struct af_packet_places *places = &backend->places;

	/* One stays free for a spare socket, without which no place can be given back. */
	return places->n + (places->n_turns - places->turn) + 1 < AF_PACKET_PLACES;
}

int af_packet_places_make_socket(struct af_packet *backend, uint64_t *turn, struct failure *failure)
{
	int fd = places_open_socket(backend, failure);

	if (fd >= 0)
		*turn = backend->places.n_turns++;
	return fd;
}

int af_packet_places_enter(struct af_packet *backend, uint64_t turn, int fd)
{
	struct af_packet_places *places = &backend->places;
	int r;

	places_wait_for_turn(backend, turn);
	r = fd < 0 ? 0 : places_append(backend, fd);
	places->turn++;
	pthread_cond_broadcast(&places->turned);
	if (fd < 0 || r < 0)
		return r;
	places->at[places->n - 1].is_taken = true;
	return (int)places->n - 1;
}

int af_packet_places_accept(struct af_packet *backend, uint32_t place)
{
	int filter = packet_program_filter_fd(backend->program, place);

	return setsockopt(backend->places.at[place].fd, SOL_SOCKET, SO_ATTACH_BPF, &filter, sizeof(filter)) == 0
	               ? 0
	               : -errno;
}

static void places_trim(struct af_packet_places *places)
{
	while (places->n > 1 && !places->at[places->n - 1].is_taken)
		fd_close(&places->at[--places->n].fd);
}

/* Without a spare socket the place stays taken, and keeps its ring. */
void af_packet_places_give_back(struct af_packet *backend, uint32_t place)
{
	struct af_packet_places *places = &backend->places;
	const struct tpacket_req nothing = {0};

	af_packet_refuse_all(places->at[place].fd);
	if (place + 1 < places->n) {
		if (places_add(backend) < 0)
			return;
		setsockopt(places->at[place].fd, SOL_PACKET, PACKET_RX_RING, &nothing, sizeof(nothing));
		places_drop_spare(places);
	}
	places->at[place].is_taken = false;
	places_trim(places);
}
