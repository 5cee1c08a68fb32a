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
 *   - the last place never has a queue: it is the spare one. A queue takes a free place, or the spare place, and then
 *     another one is made;
 *   - a socket that gets or loses its ring leaves the list meanwhile, and is last then: the spare socket is in its
 *     place. When that is closed, the last one returns to where it was. No other socket moves.
 * While the kernel makes the list anew, a number may be that of another socket. A filter in each socket refuses frames
 * that are not for its place, or its flows.
 */
#include "daemon/backend/packet/af_packet.h"

#include "daemon/backend/socket/kernel_path.h"
#include "daemon/base/fd.h"

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

/* A socket in the last place, which takes no frame. */
static int places_add(struct af_packet *backend)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = backend->index};
	struct af_packet_places *places = &backend->places;
	struct failure failure;
	int fd, r;

	if (places->n == AF_PACKET_PLACES)
		return -E2BIG;
	fd = kernel_path_open_socket(backend->interface, SOCK_RAW, &failure);
	if (fd < 0)
		return fd;
	r = af_packet_refuse_all(fd);
	if (r == 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		r = -errno;
	if (r == 0)
		r = places_join(backend, fd);
	if (r < 0)
		fd_close(&fd);
	else
		places->at[places->n++] = (struct af_packet_place){.fd = fd};
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

/* After a socket got or lost its ring: it is in the last place, and the spare socket in its own. */
static void places_restore(struct af_packet *backend)
{
	struct af_packet_places *places = &backend->places;

	fd_close(&places->at[--places->n].fd);
	places_add(backend); /* without a spare socket, the next queue needs one first */
}

static int places_have_spare(struct af_packet *backend)
{
	const struct af_packet_places *places = &backend->places;

	return places->n > 1 && !places->at[places->n - 1].is_taken ? 0 : places_add(backend);
}

int af_packet_places_take(struct af_packet *backend)
{
	struct af_packet_places *places = &backend->places;
	int r = places_have_spare(backend);
	uint32_t i = 1;

	if (r < 0)
		return r;
	while (places->at[i].is_taken)
		i++;
	if (i + 1 == AF_PACKET_PLACES) /* it stays the spare one, without which no place can be given back */
		return -E2BIG;
	places->at[i].is_taken = true;
	return (int)i;
}

void af_packet_places_settle(struct af_packet *backend, uint32_t place)
{
	struct af_packet_places *places = &backend->places;
	struct tpacket_stats statistics;
	socklen_t bytes = sizeof(statistics);

	if (place + 1 < places->n)
		places_restore(backend);
	else
		places_add(backend);
	/* Of the queue that had the place before. */
	getsockopt(places->at[place].fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &bytes);
}

int af_packet_places_accept(struct af_packet *backend, uint32_t place)
{
	int filter = packet_program_filter_fd(backend->program, place);

	return setsockopt(backend->places.at[place].fd, SOL_SOCKET, SO_ATTACH_BPF, &filter, sizeof(filter)) == 0
	               ? 0
	               : -errno;
}

/* Without a spare socket the place stays taken, and keeps its ring. */
void af_packet_places_give_back(struct af_packet *backend, uint32_t place)
{
	struct af_packet_places *places = &backend->places;
	const struct tpacket_req nothing = {0};

	af_packet_refuse_all(places->at[place].fd);
	if (place + 1 < places->n && places_have_spare(backend) < 0)
		return;
	setsockopt(places->at[place].fd, SOL_PACKET, PACKET_RX_RING, &nothing, sizeof(nothing));
	places->at[place].is_taken = false;
	if (place + 1 < places->n)
		places_restore(backend);
	while (places->n > 2 && !places->at[places->n - 1].is_taken && !places->at[places->n - 2].is_taken)
		fd_close(&places->at[--places->n].fd);
}
