// SPDX-License-Identifier: Apache-2.0
/*
 * The packet sockets of an interface as one fanout group (PACKET_FANOUT_EBPF; without the right to load a program
 * PACKET_FANOUT_CBPF): the kernel runs one program for each frame, which returns the index of the socket that gets the
 * frame. Without a group, the kernel would run the filters of all sockets for each frame.
 *
 * The index is that in the kernel's list of members. When a socket leaves, the kernel moves the last member to its
 * index. When the interface comes up, the kernel makes the list anew, in the order in which the sockets were made. So
 * the members must always be in that order, and none may leave while others are behind it:
 *   - member 0 takes no frame; neither does a member without a queue;
 *   - a queue takes a free member, or a new one behind all others. The socket of a new member gets its ring before it
 *     joins the list, while other queues get theirs. Sockets join in the order in which they were made;
 *   - the kernel takes a member out of the list while it gets or loses its ring, and then appends it. A spare socket,
 *     which was the last member, moves to its index meanwhile. When the spare socket is closed, the kernel moves the
 *     last member back to where it was. No other socket moves.
 * While the kernel makes the list anew, an index may be that of another socket. A filter in each socket refuses frames
 * that are not for its index, or its flows.
 */
#include "daemon/backend/packet/af_packet.h"

#include "lib/base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>
#include <sys/socket.h>

/* Since Linux 6.4. Older kernels ignore it; the program then returns member 0 for frames that this host sends. */
#define FANOUT_IGNORE_OUTGOING 0x4000
#define FANOUT_OF_TYPE(type)   ((int)((unsigned)(type) << 16))

/* The first socket makes the group. The others join it by its number, which the kernel chose. */
static int fanout_join(const struct af_packet *backend, int fd)
{
	const struct af_packet_fanout *fanout = &backend->fanout;
	int type = backend->program ? PACKET_FANOUT_EBPF : PACKET_FANOUT_CBPF;
	int option = FANOUT_OF_TYPE(type | PACKET_FANOUT_FLAG_UNIQUEID | FANOUT_IGNORE_OUTGOING);
	socklen_t bytes = sizeof(option);

	if (fanout->n > 0 && getsockopt(fanout->at[0].fd, SOL_PACKET, PACKET_FANOUT, &option, &bytes) < 0)
		return -errno;
	return setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &option, sizeof(option)) == 0 ? 0 : -errno;
}

/* A socket that takes no frame. */
static int fanout_open_socket(struct af_packet *backend, struct failure *failure)
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

static void fanout_wait_for_turn(struct af_packet *backend, uint64_t turn)
{
	while (backend->fanout.turn != turn)
		pthread_cond_wait(&backend->fanout.turned, &backend->changing);
}

static int fanout_append(struct af_packet *backend, int fd)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = backend->index};
	struct af_packet_fanout *fanout = &backend->fanout;
	int r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : fanout_join(backend, fd);

	if (r == 0)
		fanout->at[fanout->n++] = (struct af_packet_fanout_member){.fd = fd};
	return r;
}

/* Appends a member without a queue. */
static int fanout_add(struct af_packet *backend)
{
	struct failure failure;
	int fd, r;

	fanout_wait_for_turn(backend, backend->fanout.n_turns);
	if (backend->fanout.n == AF_PACKET_FANOUT_MAX)
		return -E2BIG;
	fd = fanout_open_socket(backend, &failure);
	r = fd < 0 ? fd : fanout_append(backend, fd);
	if (r < 0)
		fd_close(&fd);
	return r;
}

static int fanout_set_program(const struct af_packet *backend)
{
	int program = backend->program->steer_fd;

	return setsockopt(backend->fanout.at[0].fd, SOL_PACKET, PACKET_FANOUT_DATA, &program, sizeof(program)) == 0
	               ? 0
	               : -errno;
}

int af_packet_fanout_open(struct af_packet *backend)
{
	int r = fanout_add(backend);

	if (r == 0)
		r = backend->program ? fanout_set_program(backend) : af_packet_apply_group(backend);
	if (r < 0)
		af_packet_fanout_close(backend);
	return r;
}

void af_packet_fanout_close(struct af_packet *backend)
{
	while (backend->fanout.n > 0)
		fd_close(&backend->fanout.at[--backend->fanout.n].fd);
}

/* After a member got or lost its ring: it is the last one now, and the spare socket has its index. */
static void fanout_drop_spare(struct af_packet_fanout *fanout)
{
	fd_close(&fanout->at[--fanout->n].fd);
}

int af_packet_fanout_take(struct af_packet *backend)
{
	struct af_packet_fanout *fanout = &backend->fanout;
	uint32_t i = 1;
	int r;

	while (i < fanout->n && fanout->at[i].is_taken)
		i++;
	if (i >= fanout->n)
		return 0;
	fanout->at[i].is_taken = true; /* others may come while this waits for a turn */
	r = fanout_add(backend);
	if (r < 0)
		fanout->at[i].is_taken = false;
	return r < 0 ? r : (int)i;
}

void af_packet_fanout_finish(struct af_packet *backend, uint32_t index)
{
	struct tpacket_stats statistics;
	socklen_t bytes = sizeof(statistics);

	fanout_drop_spare(&backend->fanout);
	/* Discards the counts of the queue that had this member before. */
	getsockopt(backend->fanout.at[index].fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &bytes);
}

bool af_packet_fanout_have_room(const struct af_packet *backend)
{
	const struct af_packet_fanout *fanout = &backend->fanout;

	/* One stays free for a spare socket, without which no member can be given back. */
	return fanout->n + (fanout->n_turns - fanout->turn) + 1 < AF_PACKET_FANOUT_MAX;
}

int af_packet_fanout_make_socket(struct af_packet *backend, uint64_t *turn, struct failure *failure)
{
	int fd = fanout_open_socket(backend, failure);

	if (fd >= 0)
		*turn = backend->fanout.n_turns++;
	return fd;
}

int af_packet_fanout_enter(struct af_packet *backend, uint64_t turn, int fd)
{
	struct af_packet_fanout *fanout = &backend->fanout;
	int r;

	fanout_wait_for_turn(backend, turn);
	r = fd < 0 ? 0 : fanout_append(backend, fd);
	fanout->turn++;
	pthread_cond_broadcast(&fanout->turned);
	if (fd < 0 || r < 0)
		return r;
	fanout->at[fanout->n - 1].is_taken = true;
	return (int)fanout->n - 1;
}

int af_packet_fanout_accept(struct af_packet *backend, uint32_t index)
{
	int filter = backend->program->filter_fds[index];

	return setsockopt(backend->fanout.at[index].fd, SOL_SOCKET, SO_ATTACH_BPF, &filter, sizeof(filter)) == 0
	               ? 0
	               : -errno;
}

static void fanout_trim(struct af_packet_fanout *fanout)
{
	while (fanout->n > 1 && !fanout->at[fanout->n - 1].is_taken)
		fd_close(&fanout->at[--fanout->n].fd);
}

/* Without a spare socket the member stays taken, and keeps its ring. */
void af_packet_fanout_give_back(struct af_packet *backend, uint32_t index)
{
	struct af_packet_fanout *fanout = &backend->fanout;
	const struct tpacket_req nothing = {0};

	af_packet_refuse_all(fanout->at[index].fd);
	if (index + 1 < fanout->n) {
		if (fanout_add(backend) < 0)
			return;
		setsockopt(fanout->at[index].fd, SOL_PACKET, PACKET_RX_RING, &nothing, sizeof(nothing));
		fanout_drop_spare(fanout);
	}
	fanout->at[index].is_taken = false;
	fanout_trim(fanout);
}
