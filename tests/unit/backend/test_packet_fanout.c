// SPDX-License-Identifier: Apache-2.0
/* The group of packet sockets: what it asks of the kernel, in which order, and what a failure leaves. */
#include "tests/unit/backend/packet_kernel.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OF_GROUP(type, flags) ((int)((unsigned)((type) | (flags)) << 16))
#define IGNORE_OUTGOING       0x4000
#define N_QUEUES_MAX          (AF_PACKET_FANOUT_MAX - 2)

static struct af_packet backend;
static struct failure failure;
static unsigned n_fds; /* without members and queues */

static void set_up(void)
{
	set_up_kernel();
	make_packet_backend(&backend);
	n_fds = count_open_fds();
	open_packet_fanout(&backend);
}

static void tear_down(void)
{
	clear_packet_backend(&backend);
	close_packet_fanout(&backend);
	cr_expect(eq(uint, count_open_fds(), n_fds));
}

TestSuite(packet_fanout, .init = set_up, .fini = tear_down);

static int create_with(struct backend_queue_options options, struct backend_queue **queue)
{
	return af_packet_create_queue(&backend.base, &options, queue, &failure);
}

static struct backend_queue *must_create(void)
{
	struct backend_queue *queue = NULL;

	cr_assert(eq(int, create_with(packet_queue_options(), &queue), 0), "%s", failure.text);
	return queue;
}

static uint32_t place_of(const struct backend_queue *queue)
{
	return af_packet_receive(queue)->fanout_index;
}

static uint32_t n_taken(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < backend.fanout.n; i++)
		n += backend.fanout.at[i].is_taken;
	return n;
}

/* Index of the k-th such call among all calls; -1: there is none. */
static int order_of(int fd, int name, int k)
{
	const struct kernel_call *call = kernel_find(fd, name, k);

	return call ? (int)(call - kernel.calls) : -1;
}

static void expect_refuses_all(const struct kernel_call *filter)
{
	cr_assert(ne(ptr, (void *)filter, NULL));
	cr_expect(eq(int, filter->filter_n, 1));
	cr_expect(eq(u32, filter->filter_begin[0].k, 0));
	cr_expect(eq(uint, filter->filter_begin[0].code, BPF_RET | BPF_K));
}

/* ---- in the order of calls -------------------------------------------------------------------------- */

Test(packet_fanout, the_first_socket_refuses_all_frames_makes_the_group_and_gets_the_program)
{
	int fd = backend.fanout.at[0].fd;

	cr_assert(eq(u32, backend.fanout.n, 1));
	expect_refuses_all(kernel_find(fd, SO_ATTACH_FILTER, 0));
	cr_expect(lt(int, order_of(fd, SO_ATTACH_FILTER, 0), order_of(fd, KERNEL_BIND, 0)));
	cr_expect(lt(int, order_of(fd, KERNEL_BIND, 0), order_of(fd, PACKET_FANOUT, 0)));
	cr_expect(eq(int, kernel_find(fd, PACKET_FANOUT, 0)->value,
	             OF_GROUP(PACKET_FANOUT_EBPF | PACKET_FANOUT_FLAG_UNIQUEID, IGNORE_OUTGOING)));
	cr_expect(lt(int, order_of(fd, PACKET_FANOUT, 0), order_of(fd, PACKET_FANOUT_DATA, 0)));
	cr_expect(eq(int, kernel_find(fd, PACKET_FANOUT_DATA, 0)->value, KERNEL_PROGRAM_FD));
}

Test(packet_fanout, a_queues_socket_has_its_ring_before_it_joins_the_group_and_takes_frames_last)
{
	const struct backend_queue *queue = must_create();
	int fd = af_packet_receive(queue)->queue.fd;

	cr_expect(eq(u32, place_of(queue), 1));
	cr_expect(eq(int, backend.fanout.at[1].fd, fd));
	expect_refuses_all(kernel_find(fd, SO_ATTACH_FILTER, 0));
	cr_expect(lt(int, order_of(fd, SO_ATTACH_FILTER, 0), order_of(fd, KERNEL_BIND, 0)));
	cr_expect(lt(int, order_of(fd, PACKET_RX_RING, 0), order_of(fd, KERNEL_BIND, 0)));
	cr_expect(lt(int, order_of(fd, KERNEL_BIND, 0), order_of(fd, PACKET_FANOUT, 0)));
	cr_expect(eq(int, kernel_find(fd, PACKET_FANOUT, 0)->value, 4711), "the number of the group");
	cr_expect(lt(int, order_of(fd, PACKET_FANOUT, 0), order_of(fd, SO_ATTACH_BPF, 0)));
	cr_expect(eq(int, kernel_find(fd, SO_ATTACH_BPF, 0)->value, KERNEL_FILTER_FD + 1));
	cr_assert(eq(u32, backend.fanout.n, 2));
}

Test(packet_fanout, a_place_that_is_given_back_refuses_all_frames_before_it_loses_its_ring)
{
	struct backend_queue *first = must_create(), *second = must_create();
	int fd = af_packet_receive(first)->queue.fd;

	kernel_forget_calls();
	af_packet_receive_free(first);
	expect_refuses_all(kernel_find(fd, SO_ATTACH_FILTER, 0));
	cr_assert(eq(int, kernel_count(fd, PACKET_RX_RING), 1));
	cr_expect(lt(int, order_of(fd, SO_ATTACH_FILTER, 0), order_of(fd, PACKET_RX_RING, 0)));
	cr_expect(eq(u32, kernel_find(fd, PACKET_RX_RING, 0)->ring.tp_block_nr, 0));
	cr_expect(eq(int, backend.fanout.at[1].fd, fd), "the socket stays");
	cr_expect(eq(u32, backend.fanout.n, 3));
	/* A spare socket was at that index meanwhile. */
	cr_assert(eq(int, kernel_count(-1, PACKET_FANOUT), 1));
	cr_expect(lt(int, order_of(-1, PACKET_FANOUT, 0), order_of(fd, PACKET_RX_RING, 0)));
	/* The next queue takes it. */
	kernel_forget_calls();
	first = must_create();
	cr_expect(eq(u32, place_of(first), 1));
	cr_expect(lt(int, order_of(-1, PACKET_FANOUT, 0), order_of(fd, PACKET_RX_RING, 0)));
	cr_expect(lt(int, order_of(fd, PACKET_RX_RING, 0), order_of(fd, SO_ATTACH_BPF, 0)));
	cr_expect(eq(int, kernel_find(fd, SO_ATTACH_BPF, 0)->value, KERNEL_FILTER_FD + 1));
	cr_expect(eq(int, kernel.statistics_read_of, fd), "what was counted before is not the queue's");
	cr_expect(eq(u32, backend.fanout.n, 3));
	af_packet_receive_free(second);
	cr_expect(eq(u32, backend.fanout.n, 2), "the last member has a queue");
}

Test(packet_fanout, a_queue_for_copies_has_none)
{
	struct backend_queue_options options = packet_queue_options();
	struct backend_queue *queue;

	options.copies = true;
	cr_assert(eq(int, create_with(options, &queue), 0));
	cr_expect(eq(u32, place_of(queue), 0));
	cr_expect(eq(u32, n_taken(), 0));
	af_packet_receive_free(queue);
}

/* ---- how many --------------------------------------------------------------------------------------- */

/* Each call of the kernel is forgotten. The order of giving back is another than that of taking. */
Test(packet_fanout, all_but_two_can_be_taken_and_all_can_be_given_back)
{
	static struct backend_queue *queues[N_QUEUES_MAX + 2];

	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < N_QUEUES_MAX + 2; i++) {
			kernel_forget_calls();
			queues[i] = must_create();
			cr_expect(eq(u32, place_of(queues[i]), i < N_QUEUES_MAX ? i + 1 : 0), "queue %u", i);
		}
		cr_expect(eq(u32, backend.fanout.n, AF_PACKET_FANOUT_MAX - 1), "one is free for a spare socket");
		for (uint32_t i = 0; i < N_QUEUES_MAX + 2; i++) {
			kernel_forget_calls();
			af_packet_receive_free(queues[round ? N_QUEUES_MAX + 1 - i : i * 5 % (N_QUEUES_MAX + 2)]);
		}
		cr_expect(eq(u32, n_taken(), 0));
		cr_expect(eq(u32, backend.fanout.n, 1));
		cr_expect(eq(uint, count_open_fds(), n_fds + 1));
	}
}

/* ---- without a program ------------------------------------------------------------------------------- */

static void use_classic_filter(void)
{
	close_packet_fanout(&backend);
	backend.drops = false;
	kernel_forget_calls();
	cr_assert(eq(int, af_packet_fanout_open(&backend), 0));
}

Test(packet_fanout, without_a_program_a_classic_filter_has_the_flows_of_all_queues)
{
	struct backend_queue *queues[2];
	struct flow_rule rule = packet_rule(1, 7502);
	struct backend_flow *flow;
	int group, n_before;

	use_classic_filter();
	group = backend.fanout.at[0].fd;
	cr_expect(eq(int, kernel_find(group, PACKET_FANOUT, 0)->value,
	             OF_GROUP(PACKET_FANOUT_CBPF | PACKET_FANOUT_FLAG_UNIQUEID, IGNORE_OUTGOING)));
	n_before = kernel_find(group, PACKET_FANOUT_DATA, 0)->filter_n;
	for (int i = 0; i < 2; i++) {
		queues[i] = must_create();
		cr_expect(eq(u32, place_of(queues[i]), i + 1));
		cr_expect(eq(int, kernel_count(af_packet_receive(queues[i])->queue.fd, SO_ATTACH_BPF), 0));
	}
	kernel_forget_calls();
	rule.copy = true; /* no reader */
	cr_assert(eq(int, af_packet_add_flow(queues[1], &rule, &flow, &failure), 0), "%s", failure.text);
	cr_assert(eq(int, kernel_count(group, PACKET_FANOUT_DATA), 1));
	cr_expect(gt(int, kernel_find(group, PACKET_FANOUT_DATA, 0)->filter_n, n_before));
	cr_expect(eq(int, kernel_count(af_packet_receive(queues[1])->queue.fd, SO_ATTACH_FILTER), 1));
	cr_expect(eq(int, kernel_count(af_packet_receive(queues[0])->queue.fd, SO_ATTACH_FILTER), 0));
	kernel_forget_calls();
	af_packet_remove_flow(flow);
	cr_expect(eq(int, kernel_find(group, PACKET_FANOUT_DATA, 0)->filter_n, n_before));
	expect_refuses_all(&(struct kernel_call){.filter_n = 1, .filter_begin = {{BPF_RET | BPF_K, 0, 0, 0}}});
}

Test(packet_fanout, without_a_program_a_flow_that_the_group_refuses_is_undone)
{
	struct flow_rule rule = packet_rule(1, 7502);
	struct backend_queue *queue;
	struct backend_flow *flow = NULL;

	use_classic_filter();
	queue = must_create();
	kernel.fail_setsockopt_of = PACKET_FANOUT_DATA;
	kernel.setsockopt_error = ENOMEM;
	cr_expect(eq(int, af_packet_add_flow(queue, &rule, &flow, &failure), -ENOMEM));
	cr_expect(strstr(failure.text, "optmem_max") != NULL, "%s", failure.text);
	cr_expect(eq(ptr, (void *)backend.flows, NULL));
	cr_expect(eq(ptr, (void *)flow, NULL));
}

Test(packet_fanout, without_a_program_queues_of_a_group_are_beside_it)
{
	struct backend_queue_options options = packet_queue_options();
	struct backend_queue *queue;

	use_classic_filter();
	options.in_group = true;
	cr_assert(eq(int, create_with(options, &queue), 0));
	cr_expect(eq(u32, place_of(queue), 0));
}

/* ---- failures --------------------------------------------------------------------------------------- */

Test(packet_fanout, whichever_call_fails_leaves_no_socket_and_no_place_taken)
{
	struct backend_queue_options options = packet_queue_options();
	struct backend_queue *before = must_create(), *queue;
	bool has_failed = true;
	int n_failed = 0;

	af_packet_receive_free(must_create()); /* there are two members that are not taken */
	options.timestamps = options.flow_tags = true;
	backend.time.clock_fd = 0;
	for (int i = 0; has_failed; i++) {
		int r;

		kernel_forget_calls();
		kernel_fail_after(i);
		r = create_with(options, &queue);
		has_failed = kernel_has_failed();
		kernel_fail_after(-1);
		cr_expect(eq(u32, n_taken(), r == 0 && place_of(queue) ? 2 : 1), "call %d", i);
		if (r == 0)
			af_packet_receive_free(queue);
		else
			n_failed++;
		cr_expect(eq(u32, n_taken(), 1), "call %d", i);
		cr_expect(eq(uint, count_open_fds(), n_fds + backend.fanout.n), "call %d", i);
	}
	cr_expect(gt(int, n_failed, 6));
	cr_expect(eq(u32, place_of(before), 1));
}

Test(packet_fanout, whichever_call_fails_when_the_group_is_made_leaves_none)
{
	bool has_failed = true;

	close_packet_fanout(&backend);
	kernel.n_loaded = 1;
	backend.program = (struct packet_program *)&kernel;
	for (int i = 0; has_failed; i++) {
		int r;

		kernel_forget_calls();
		kernel_fail_after(i);
		r = af_packet_fanout_open(&backend);
		has_failed = kernel_has_failed();
		kernel_fail_after(-1);
		cr_expect(eq(int, r < 0, has_failed), "call %d", i);
		cr_expect(eq(u32, backend.fanout.n, has_failed ? 0 : 1));
		cr_expect(eq(uint, count_open_fds(), n_fds + backend.fanout.n));
	}
}

Test(packet_fanout, without_a_spare_socket_a_place_stays_taken)
{
	struct backend_queue *first = must_create(), *second = must_create();
	int fd = af_packet_receive(first)->queue.fd;

	kernel.fail_setsockopt_of = PACKET_FANOUT;
	kernel_forget_calls();
	af_packet_receive_free(first);
	expect_refuses_all(kernel_find(fd, SO_ATTACH_FILTER, 0));
	cr_expect(eq(int, kernel_count(fd, PACKET_RX_RING), 0));
	cr_expect(eq(u32, n_taken(), 2));
	kernel.fail_setsockopt_of = 0;
	cr_expect(eq(u32, place_of(must_create()), 3));
	af_packet_receive_free(second);
	cr_expect(eq(u32, backend.fanout.n, 4));
}

/* ---- several threads -------------------------------------------------------------------------------- */

#define N_THREADS 8

struct entrant {
	uint64_t turn;
	int fd, fanout_index;
};

static void *enter(void *argument)
{
	struct entrant *entrant = argument;

	pthread_mutex_lock(&backend.changing);
	entrant->fanout_index = af_packet_fanout_enter(&backend, entrant->turn, entrant->fd);
	pthread_mutex_unlock(&backend.changing);
	return NULL;
}

/* The last one comes first. The third one has failed. */
Test(packet_fanout, sockets_enter_in_the_order_in_which_they_were_made)
{
	struct entrant entrants[N_THREADS];
	pthread_t threads[N_THREADS];

	for (int i = 0; i < N_THREADS; i++) {
		entrants[i].fd = af_packet_fanout_make_socket(&backend, &entrants[i].turn, &failure);
		cr_assert(ge(int, entrants[i].fd, 0));
	}
	close(entrants[2].fd);
	entrants[2].fd = -1;
	for (int i = N_THREADS - 1; i >= 0; i--) {
		cr_assert(eq(int, pthread_create(&threads[i], NULL, enter, &entrants[i]), 0));
		usleep(1000);
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < N_THREADS; i++)
		cr_expect(eq(int, entrants[i].fanout_index, i == 2 ? 0 : i < 2 ? i + 1 : i), "%d", i);
	for (uint32_t i = 1; i < backend.fanout.n; i++)
		backend.fanout.at[i].is_taken = false;
}
