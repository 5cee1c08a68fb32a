// SPDX-License-Identifier: Apache-2.0
/*
 * direct_twin INTERFACE SEED STEPS: random posts and completions on one receive queue, which libmlx5 and the direct
 * path read and fill in turn: the same events, entries and records must come out. This program plays the device, in the
 * completion queue's own memory; of the mlx5 device behind the interface it needs only the numbers of the queue pair.
 * Exit 1, and a line that names the step, if they differ.
 */
#include "daemon/backend/verbs/verbs.h"

#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>

#define SLOTS        64u
#define ROWS         1024u
#define ROW_BYTES    256u
#define MEMORY       ((size_t)ROWS * ROW_BYTES)
#define POLL_MAX     80u
#define N_ERRORS     6u
#define IS_ONE_IN(n) (random_below(n) == 0)

struct twins {
	struct verbs_receive_queue *library, *direct; /* of one queue pair and one completion queue */
	struct mlx5dv_cq cq;
	struct mlx5dv_qp qp;
	uint32_t uidx_be, qpn_be;
	uint32_t n_completed, n_done; /* of all time; since the last reset */
	uint32_t n_outstanding;       /* posted and not completed */
	uint8_t *payload, *headers;
	struct backend_memory *memory;
	unsigned step;
};

static uint64_t state;

static uint32_t random_word(void)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 32);
}

static uint32_t random_below(uint32_t n)
{
	return random_word() % n;
}

static void require_same(const struct twins *twins, bool same, const char *what)
{
	if (same)
		return;
	printf("step %u: %s differ\n", twins->step, what);
	exit(EXIT_FAILURE);
}

static void require_set_up(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "direct_twin: %s\n", what);
	exit(EX_UNAVAILABLE);
}

/* ---- the device ---------------------------------------------------------------------------------- */

static struct mlx5_cqe64 *cqe_at(const struct twins *twins, uint32_t index)
{
	return (struct mlx5_cqe64 *)twins->cq.buf + (index & (twins->cq.cqe_cnt - 1));
}

/* Everything but the last byte. A receive queue completes in order; libmlx5 44 does not read the counter. */
static void write_completion(struct twins *twins, struct mlx5_cqe64 *cqe, bool is_error)
{
	static const uint8_t syndromes[N_ERRORS] = {MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR,
	                                            MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR,
	                                            MLX5_CQE_SYNDROME_LOCAL_PROT_ERR,
	                                            MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
	                                            0x77,
	                                            MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR};
	for (size_t i = 0; i < offsetof(struct mlx5_cqe64, op_own); i++)
		((uint8_t *)cqe)[i] = (uint8_t)random_word();
	cqe->srqn_uidx = twins->uidx_be;
	cqe->app = 0; /* no tag matching, which a raw queue pair does not have */
	cqe->wqe_counter = htobe16((uint16_t)twins->n_done);
	if (is_error) {
		((struct mlx5_err_cqe *)cqe)->syndrome = syndromes[random_below(N_ERRORS)];
		((struct mlx5_err_cqe *)cqe)->s_wqe_opcode_qpn = twins->qpn_be;
	}
}

static void complete_some(struct twins *twins)
{
	for (uint32_t n = random_below(twins->n_outstanding + 1); n; n--) {
		bool is_error = IS_ONE_IN(32);
		struct mlx5_cqe64 *cqe = cqe_at(twins, twins->n_completed);
		uint8_t owner = !!(twins->n_completed & twins->cq.cqe_cnt);

		write_completion(twins, cqe, is_error);
		cqe->op_own = (uint8_t)((is_error ? MLX5_CQE_RESP_ERR : MLX5_CQE_RESP_SEND) << 4 |
		                        (IS_ONE_IN(8) ? 2 : 0) | owner);
		twins->n_completed++;
		twins->n_done++;
		twins->n_outstanding--;
	}
	if (twins->n_outstanding) /* the next is being written */
		write_completion(twins, cqe_at(twins, twins->n_completed), false);
}

/* ---- both ---------------------------------------------------------------------------------------- */

static void post_some(struct twins *twins)
{
	static uint8_t before[SLOTS * 64], by_library[SLOTS * 64];
	size_t bytes = (size_t)twins->qp.rq.wqe_cnt * twins->qp.rq.stride;
	uint32_t n = 1 + random_below(SLOTS + 8), slot = random_below(ROWS - n);
	const struct backend_run run = {slot, n, twins->payload + (size_t)slot * ROW_BYTES,
	                                twins->headers + (size_t)slot * ROW_BYTES};
	int taken;

	memcpy(before, twins->qp.rq.buf, bytes);
	taken = verbs_post(&twins->library->queue.base, &run);
	memcpy(by_library, twins->qp.rq.buf, bytes);
	memcpy(twins->qp.rq.buf, before, bytes);
	require_same(twins, twins->direct->queue.base.ops->post(&twins->direct->queue.base, &run) == taken,
	             "counts of posts");
	require_same(twins, memcmp(twins->qp.rq.buf, by_library, bytes) == 0, "receive queue's entries");
	twins->n_outstanding += (uint32_t)taken;
}

static void poll_some(struct twins *twins)
{
	static struct backend_event by_library[POLL_MAX], by_direct[POLL_MAX];
	uint32_t max = 1 + random_below(POLL_MAX), record;
	int n;

	memset(by_library, 0x5a, sizeof(by_library));
	memset(by_direct, 0x5a, sizeof(by_direct));
	record = twins->cq.dbrec[0];
	n = verbs_poll(&twins->library->queue.base, by_library, max);
	if (n > 0) {
		record = twins->cq.dbrec[0];
		twins->cq.dbrec[0] = ~record;
	}
	require_same(twins, twins->direct->queue.base.ops->poll(&twins->direct->queue.base, by_direct, max) == n,
	             "counts of events");
	require_same(twins, memcmp(by_library, by_direct, sizeof(by_library)) == 0, "events");
	require_same(twins, twins->cq.dbrec[0] == record, "consumer indices");
	require_same(twins,
	             memcmp(&twins->library->queue.base.use, &twins->direct->queue.base.use,
	                    sizeof(struct backend_use)) == 0,
	             "what the queues hold");
}

/* The queue pair is in INIT then, so that its device lets it be. */
static void reset(struct twins *twins)
{
	while (twins->n_outstanding) {
		complete_some(twins);
		poll_some(twins);
	}
	for (uint32_t i = 0; i <= 2 * twins->cq.cqe_cnt; i++)
		poll_some(twins);
	require_set_up(verbs_reset(&twins->library->queue.base) == 0, "no reset");
	require_set_up(twins->direct->queue.base.ops->reset(&twins->direct->queue.base) == 0, "no reset");
	twins->n_done = 0;
}

/* ---- set-up -------------------------------------------------------------------------------------- */

/* The device flushes a slot, and its completion has the numbers by which the library finds the queue pair. */
static void learn_numbers(struct twins *twins)
{
	const struct mlx5_cqe64 *cqe = cqe_at(twins, 0);
	struct backend_queue *base = &twins->library->queue.base;
	const struct backend_run run = {0, 1, twins->payload, twins->headers};

	require_set_up(verbs_post(base, &run) == 1 && verbs_start(base) == 0, "the queue does not start");
	require_set_up(twins->direct->queue.base.ops->post(&twins->direct->queue.base, &run) == 1, "no post");
	require_set_up(verbs_queue_modify(&twins->library->queue, IBV_QPS_ERR) == 0, "no error state");
	while (__atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4 == MLX5_CQE_INVALID)
		;
	twins->uidx_be = cqe->srqn_uidx;
	twins->qpn_be = cqe->sop_drop_qpn;
	twins->n_completed = 1;
}

static void set_up(struct twins *twins, struct backend *backend)
{
	struct backend_queue_options options = {
		.slots = SLOTS,
		.header_bytes = IS_ONE_IN(2) ? 42 : 0,
		.header_stride = ROW_BYTES,
		.slot_bytes = 200,
		.row_stride = ROW_BYTES,
		.flow_tags = IS_ONE_IN(2),
		.oversize_sink = IS_ONE_IN(2),
		.timestamps = !IS_ONE_IN(3),
	};
	struct mlx5dv_obj objects = {.cq = {.out = &twins->cq}, .qp = {.out = &twins->qp}};
	size_t bytes = sizeof(*twins->direct) + SLOTS * sizeof(twins->direct->slots[0]);
	struct backend_queue *queue;
	struct failure failure = {0};

	twins->payload = mmap(NULL, 2 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require_set_up(twins->payload != MAP_FAILED, "no memory");
	twins->headers = twins->payload + MEMORY;
	require_set_up(verbs_register_memory(backend, twins->payload, 2 * MEMORY, &options.payload, &failure) == 0,
	               failure.text);
	options.headers = twins->memory = options.payload;
	require_set_up(verbs_create_queue(backend, &options, &queue, &failure) == 0, failure.text);
	twins->library = verbs_receive_queue(queue);
	twins->direct = calloc(1, bytes);
	require_set_up(twins->direct != NULL, "no memory");
	memcpy(twins->direct, twins->library, bytes);
	require_set_up(verbs_direct_init(twins->direct, &options, &failure) == 0, failure.text);
	objects.cq.in = ibv_cq_ex_to_cq(twins->library->queue.cq);
	objects.qp.in = twins->library->queue.qp;
	require_set_up(mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP) == 0, "mlx5dv_init_obj");
	learn_numbers(twins);
	reset(twins);
}

int main(int argc, char **argv)
{
	struct twins twins = {0};
	struct backend *backend;
	struct failure failure = {0};
	unsigned steps;

	if (argc != 4)
		return EX_USAGE;
	state = strtoull(argv[2], NULL, 10);
	steps = (unsigned)strtoul(argv[3], NULL, 10);
	const struct backend_open_options options = {.interface = argv[1]};

	require_set_up(verbs_backend_ops.open(&options, &backend, &failure) == 0, failure.text);
	set_up(&twins, backend);
	for (; twins.step < steps; twins.step++) {
		uint32_t what = random_below(100);

		if (what < 40)
			post_some(&twins);
		else if (what < 70)
			complete_some(&twins);
		else if (what < 99)
			poll_some(&twins);
		else
			reset(&twins);
	}
	verbs_destroy_queue(&twins.library->queue.base);
	verbs_unregister_memory(twins.memory);
	free(twins.direct);
	verbs_backend_ops.close(backend);
	return EXIT_SUCCESS;
}
