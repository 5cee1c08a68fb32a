// SPDX-License-Identifier: Apache-2.0
/*
 * The sum of a queue: packets that the program matched = packets taken out of the rings + packets dropped for each
 * reason + packets still in the rings. The kernel and the program never reset the counts of a queue number, so a queue
 * subtracts the counts at its creation.
 */
#include "daemon/backend/xdp/xdp.h"

#include "lib/base/time.h"

static int statistics_read_drops(const struct xdp_receive *receive, struct xdp_socket_drops *sum)
{
	*sum = (struct xdp_socket_drops){0};
	for (uint32_t i = 0; i < receive->n_sockets; i++) {
		struct xdp_socket_drops drops;
		int r = xdp_socket_read_drops(&receive->sockets[i], &drops);

		if (r < 0)
			return r;
		sum->no_frame += drops.no_frame;
		sum->ring_full += drops.ring_full;
	}
	return 0;
}

static int statistics_read_program(const struct xdp_receive *receive, struct flow_counts *counts)
{
	return xdp_program_read_counts(receive->backend->program, receive->number, counts);
}

int xdp_statistics_begin(struct xdp_receive *receive)
{
	int r = statistics_read_drops(receive, &receive->drops_before);

	return r < 0 ? r : statistics_read_program(receive, &receive->counts_before);
}

static void statistics_set(struct xdp_receive *receive, enum backend_drop reason, uint64_t n)
{
	atomic_store_explicit(&receive->base.n_dropped[reason], n, memory_order_relaxed);
}

/* The offset is whole seconds. The two clocks are read one after the other, and not half a second apart. */
void xdp_read_tai_offset(struct xdp_receive *receive)
{
	uint64_t utc_ns = time_utc_ns(), ahead_ns = time_of_clock_ns(CLOCK_TAI) - utc_ns;

	if (time_utc_ns() - utc_ns < TIME_SECOND_NS / 2)
		atomic_store_explicit(&receive->tai_offset_ns, ahead_ns / TIME_SECOND_NS * TIME_SECOND_NS,
		                      memory_order_relaxed);
}

static bool statistics_is_drained(const struct xdp_receive *receive)
{
	for (uint32_t i = 0; i < receive->n_sockets; i++)
		if (!xdp_ring_is_empty(&receive->sockets[i].receive))
			return false;
	return true;
}

/*
 * The sockets are unbound. In another namespace the program would go on matching packets, which the kernel then loses
 * without a count. So the program is detached, and packets that it matched and the sockets did not get are lost.
 */
static void statistics_count_unbound(struct xdp_receive *receive, const struct flow_counts *counts,
                                     const struct xdp_socket_drops *drops)
{
	uint64_t known = counts->no_socket + drops->no_frame + drops->ring_full;

	if (!statistics_is_drained(receive))
		return;
	known += atomic_load_explicit(&receive->n_taken, memory_order_relaxed);
	statistics_set(receive, BACKEND_DROP_UNBOUND, counts->matched > known ? counts->matched - known : 0);
}

/*
 * Drops are read before matches. So a packet that is dropped between the two readings counts as in flight, and none
 * counts as dropped but not matched.
 */
int xdp_read_matched(struct backend_queue *base, uint64_t *packets)
{
	struct xdp_receive *receive = xdp_receive(base);
	struct xdp_socket_drops drops;
	struct flow_counts counts;
	bool is_unbound = xdp_socket_is_unbound(&receive->sockets[0]);
	int r;

	/* The worker may sleep. */
	for (uint32_t i = 0; i < receive->n_sockets; i++)
		xdp_socket_answer_driver(&receive->sockets[i]);
	if (is_unbound) {
		/* At the end the control thread reads, while the device's thread may follow new queues. */
		pthread_mutex_lock(&receive->backend->changing);
		xdp_program_detach(receive->backend->program);
		pthread_mutex_unlock(&receive->backend->changing);
	}
	if (is_unbound || atomic_exchange(&receive->flows_removed, false))
		frame_wait();
	r = statistics_read_drops(receive, &drops);
	if (r == 0)
		r = statistics_read_program(receive, &counts);
	if (r != 0)
		return r;
	drops.no_frame -= receive->drops_before.no_frame;
	drops.ring_full -= receive->drops_before.ring_full;
	counts.matched -= receive->counts_before.matched;
	counts.no_socket -= receive->counts_before.no_socket;
	statistics_set(receive, BACKEND_DROP_NO_FRAME, drops.no_frame);
	statistics_set(receive, BACKEND_DROP_RING_FULL, drops.ring_full);
	statistics_set(receive, BACKEND_DROP_NO_SOCKET, counts.no_socket);
	if (is_unbound)
		statistics_count_unbound(receive, &counts, &drops);
	xdp_read_tai_offset(receive);
	*packets = counts.matched;
	return 0;
}

/*
 * The driver counts a packet that a socket has refused when its turn ends, and frame_wait() waits for the end of all
 * turns. Queues that have gone leave their sockets, with their counts.
 */
uint64_t xdp_read_refused(struct backend *base, bool wait)
{
	struct xdp_backend *backend = xdp_backend(base);
	uint32_t n_card_queues, max_card_queues = backend->interface.max_card_queues;
	struct xdp_socket_drops drops;
	uint64_t sum = 0;

	pthread_mutex_lock(&backend->changing);
	n_card_queues = backend->interface.n_card_queues;
	for (uint32_t i = 0; i < backend->n_queues * max_card_queues; i++) {
		const struct xdp_socket *socket = &backend->sockets[i];

		if (i % max_card_queues < n_card_queues && socket->is_bound &&
		    xdp_socket_read_drops(socket, &drops) == 0)
			sum += drops.no_frame + drops.ring_full;
	}
	pthread_mutex_unlock(&backend->changing);
	if (wait)
		frame_wait();
	return sum;
}
