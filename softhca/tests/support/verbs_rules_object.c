// SPDX-License-Identifier: Apache-2.0
/* Rules of objects and of the queue pair's state machine. */
#include "verbs_rules.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_qp *new_qp(struct queue *q, unsigned int send, unsigned int recv)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = ibv_cq_ex_to_cq(q->cq),
		.recv_cq = ibv_cq_ex_to_cq(q->cq),
		.cap = {.max_send_wr = send, .max_recv_wr = recv, .max_send_sge = !!send, .max_recv_sge = !!recv},
		.qp_type = IBV_QPT_RAW_PACKET,
	};

	return ibv_create_qp(q->pd, &attr);
}

static int modify(struct ibv_qp *qp, enum ibv_qp_state state, int extra)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .qkey = 1};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | extra);
}

static const char *init_takes_exactly_port(void)
{
	struct ibv_qp *qp = new_qp(shared_queue(), 0, 4);

	EXPECT(qp, "no QP");
	EXPECT_RETURNS(EINVAL, modify(qp, IBV_QPS_INIT, 0));
	EXPECT_RETURNS(EINVAL, modify(qp, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_QKEY));
	EXPECT_RETURNS(EINVAL, modify(qp, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX));
	EXPECT_RETURNS(0, modify(qp, IBV_QPS_INIT, IBV_QP_PORT));
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	return NULL;
}

static const char *rtr_takes_only_state(void)
{
	struct ibv_qp *qp = new_qp(shared_queue(), 4, 4);

	EXPECT(qp, "no QP");
	EXPECT_RETURNS(EINVAL, modify(qp, IBV_QPS_RTR, 0)); /* not from RESET */
	EXPECT_RETURNS(0, modify(qp, IBV_QPS_INIT, IBV_QP_PORT));
	EXPECT_RETURNS(EINVAL, modify(qp, IBV_QPS_RTR, IBV_QP_PORT));
	EXPECT_RETURNS(EINVAL, modify(qp, IBV_QPS_RTS, 0));
	EXPECT_RETURNS(0, modify(qp, IBV_QPS_RTR, 0));
	EXPECT_RETURNS(EINVAL, modify(qp, IBV_QPS_INIT, IBV_QP_PORT));
	EXPECT_RETURNS(EINVAL, modify(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN));
	EXPECT_RETURNS(0, modify(qp, IBV_QPS_RTS, 0));
	EXPECT_RETURNS(0, modify(qp, IBV_QPS_ERR, 0));
	EXPECT_RETURNS(0, modify(qp, IBV_QPS_RESET, 0));
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	return NULL;
}

static const char *port_zero_refused(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 2};
	struct ibv_qp *qp = new_qp(shared_queue(), 0, 4);

	EXPECT_RETURNS(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT));
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	return NULL;
}

static const char *query_tells_state(void)
{
	struct ibv_qp *qp = new_qp(shared_queue(), 0, 4);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT_RETURNS(0, modify(qp, IBV_QPS_INIT, IBV_QP_PORT));
	EXPECT_RETURNS(0, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	EXPECT(attr.qp_state == IBV_QPS_INIT, "state is not INIT");
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	return NULL;
}

static const char *qp_needs_a_queue(void)
{
	EXPECT_ERRNO(EINVAL, new_qp(shared_queue(), 0, 0));
	return NULL;
}

static const char *queue_depth_limit(void)
{
	EXPECT_ERRNO(EINVAL, new_qp(shared_queue(), 0, 32769));
	return NULL;
}

static const char *other_types_refused(void)
{
	struct queue *q = shared_queue();
	struct ibv_qp_init_attr attr = {
		.send_cq = ibv_cq_ex_to_cq(q->cq),
		.recv_cq = ibv_cq_ex_to_cq(q->cq),
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UC,
	};

	EXPECT_ERRNO(EOPNOTSUPP, ibv_create_qp(q->pd, &attr));
	return NULL;
}

static const char *used_objects_are_busy(void)
{
	struct queue *q = shared_queue();

	EXPECT_RETURNS(EBUSY, ibv_destroy_cq(ibv_cq_ex_to_cq(q->cq)));
	EXPECT_RETURNS(EBUSY, ibv_dealloc_pd(q->pd));
	return NULL;
}

static const char *unmapped_memory(void)
{
	struct ibv_pd *pd = shared_queue()->pd; /* its own mappings must not fill the hole */
	void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap((uint8_t *)p + 4096, 4096);
	EXPECT_ERRNO(EFAULT, ibv_reg_mr(pd, p, 8192, IBV_ACCESS_LOCAL_WRITE));
	munmap(p, 4096);
	return NULL;
}

static const char *read_only_memory(void)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	EXPECT_ERRNO(EFAULT, ibv_reg_mr(shared_queue()->pd, p, 4096, IBV_ACCESS_LOCAL_WRITE));
	mr = ibv_reg_mr(shared_queue()->pd, p, 4096, 0);
	EXPECT(mr, "read-only memory was refused for reading");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	munmap(p, 4096);
	return NULL;
}

static const char *remote_write_needs_local(void)
{
	static uint8_t memory[4096];

	EXPECT_ERRNO(EINVAL, ibv_reg_mr(shared_queue()->pd, memory, sizeof(memory), IBV_ACCESS_REMOTE_WRITE));
	return NULL;
}

static const char *iova_agrees_in_page(void)
{
	static uint8_t memory[8192] __attribute__((aligned(4096)));
	struct ibv_mr *mr;

	EXPECT_ERRNO(EINVAL, ibv_reg_mr_iova(shared_queue()->pd, memory, 4096, 1, IBV_ACCESS_LOCAL_WRITE));
	mr = ibv_reg_mr_iova(shared_queue()->pd, memory, 4096, 0, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(mr, "iova 0 was refused");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	return NULL;
}

static const char *too_many_sges(void)
{
	struct queue *q = shared_queue();
	struct ibv_sge sge[9] = {};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 9}, *bad = NULL;

	EXPECT_RETURNS(EINVAL, ibv_post_recv(q->qp, &wr, &bad));
	EXPECT(bad == &wr, "bad_wr is not the first one not posted");
	return NULL;
}

static const struct queue_config config = {.depth = 4, .n_sge = 1, .payload_bytes = 2048};

static const char *full_queue(struct queue *q)
{
	EXPECT_RETURNS(0, queue_post(q, 0, 4));
	EXPECT_RETURNS(ENOMEM, queue_post(q, 0, 1));
	return NULL;
}

static const char *flush_on_error(struct queue *q)
{
	struct ibv_poll_cq_attr attr = {};
	int n = 0;

	EXPECT_RETURNS(0, queue_post(q, 0, 3));
	queue_to_state(q, IBV_QPS_ERR);
	EXPECT_RETURNS(0, ibv_start_poll(q->cq, &attr));
	do {
		EXPECT(q->cq->status == IBV_WC_WR_FLUSH_ERR, "not a flush error");
		EXPECT(q->cq->wr_id == (uint64_t)n, "not in order");
		n++;
	} while (!ibv_next_poll(q->cq));
	ibv_end_poll(q->cq);
	EXPECT(n == 3, "not every work request was flushed");
	return NULL;
}

static const char *reset_forgets(struct queue *q)
{
	struct ibv_poll_cq_attr attr = {};

	EXPECT_RETURNS(0, queue_post(q, 0, 3));
	queue_to_state(q, IBV_QPS_RESET);
	EXPECT_RETURNS(ENOENT, ibv_start_poll(q->cq, &attr));
	queue_to_state(q, IBV_QPS_INIT);
	queue_to_state(q, IBV_QPS_RTR);
	EXPECT_RETURNS(0, queue_post(q, 0, 4)); /* all free again */
	return NULL;
}

static const char *memlock_limit(void)
{
	const size_t bytes = 64 << 20;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit old, low = {1 << 20, 1 << 20};
	struct ibv_mr *mr;

	/* Without CAP_IPC_LOCK: the test runs this rule under setpriv. */
	getrlimit(RLIMIT_MEMLOCK, &old);
	low.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &low);
	errno = 0;
	mr = ibv_reg_mr(shared_queue()->pd, p, bytes, IBV_ACCESS_LOCAL_WRITE);
	setrlimit(RLIMIT_MEMLOCK, &old);
	if (getenv("HAS_IPC_LOCK")) {
		EXPECT(mr, "CAP_IPC_LOCK did not lift the limit");
		ibv_dereg_mr(mr);
	} else {
		EXPECT(!mr && errno == ENOMEM, "64 MiB registered with a limit of 1 MiB");
	}
	munmap(p, bytes);
	return NULL;
}

static const char *null_mr(void)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(shared_queue()->pd);

	EXPECT(mr, "no null MR");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	return NULL;
}

static const char *thread_domain(void)
{
	struct queue *q = shared_queue();
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = ibv_alloc_td(q->ctx, &td_attr);
	struct ibv_parent_domain_init_attr attr = {.pd = q->pd, .td = td};
	struct ibv_pd *parent;

	EXPECT(td, "no thread domain");
	parent = ibv_alloc_parent_domain(q->ctx, &attr);
	EXPECT(parent, "no parent domain");
	EXPECT_RETURNS(EBUSY, ibv_dealloc_td(td));
	EXPECT_RETURNS(0, ibv_dealloc_pd(parent));
	EXPECT_RETURNS(0, ibv_dealloc_td(td));
	return NULL;
}

static const char *clock_moves(void)
{
	struct ibv_values_ex a = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK}, b = a;
	struct ibv_device_attr_ex attr;
	uint64_t t0, t1, ticks, expected;

	EXPECT_RETURNS(0, ibv_query_device_ex(shared_queue()->ctx, NULL, &attr));
	EXPECT_RETURNS(0, ibv_query_rt_values_ex(shared_queue()->ctx, &a));
	t0 = now_ns();
	usleep(200000);
	EXPECT_RETURNS(0, ibv_query_rt_values_ex(shared_queue()->ctx, &b));
	t1 = now_ns();
	ticks = (uint64_t)(b.raw_clock.tv_nsec - a.raw_clock.tv_nsec);
	expected = (t1 - t0) * attr.hca_core_clock / 1000000;
	EXPECT(ticks > expected * 95 / 100 && ticks < expected * 105 / 100, "the clock is not hca_core_clock fast");
	return NULL;
}

static const char *closing_frees_what_is_left(void)
{
	struct queue q;

	queue_open(&q, &config);
	EXPECT_RETURNS(0, queue_post(&q, 0, 4));
	EXPECT_RETURNS(0, queue_add_udp_flow(&q, "10.1.2.3", 4002, true));
	EXPECT_RETURNS(0, ibv_close_device(q.ctx));
	return NULL;
}

static const char *not_offered(void)
{
	struct queue *q = shared_queue();

	EXPECT(ibv_rereg_mr(q->payload_mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD,
	       "a registration was changed");
	return NULL;
}

const struct rule object_rules[] = {
	{"qp-init-takes-exactly-port", "ib_core: qp_state_table", .check = init_takes_exactly_port},
	{"qp-rtr-rts-take-only-state", "ib_core: qp_state_table", .check = rtr_takes_only_state},
	{"qp-port-must-exist", "ib_core: ib_modify_qp port check", .check = port_zero_refused},
	{"qp-query-tells-state", "mlx5_ib: mlx5_ib_query_qp", .check = query_tells_state},
	{"qp-needs-a-queue", "mlx5_ib: create_raw_packet_qp", .check = qp_needs_a_queue},
	{"qp-depth-limit", "libmlx5: mlx5_calc_rq_size", .check = queue_depth_limit},
	{"qp-other-types-refused", "mlx5_ib: check_qp_type", .check = other_types_refused},
	{"used-objects-are-busy", "ib_core: usecnt of PD and CQ", .check = used_objects_are_busy},
	{"mr-unmapped-memory", "ib_core: ib_umem_get", .check = unmapped_memory},
	{"mr-read-only-memory", "ib_core: ib_umem_get", .check = read_only_memory},
	{"mr-remote-write-needs-local", "ib_core: ib_check_mr_access", .check = remote_write_needs_local},
	{"mr-iova-agrees-in-page", "ib_uverbs: ib_uverbs_reg_mr", .check = iova_agrees_in_page},
	{"mr-memlock-limit", "ib_core: ib_umem_get, RLIMIT_MEMLOCK", .check = memlock_limit},
	{"mr-null", "libmlx5: mlx5_alloc_null_mr", .check = null_mr},
	{"recv-too-many-sges", "verbs-rules: Posting and polling", .check = too_many_sges},
	{"thread-domain", "libmlx5: mlx5_alloc_td", .check = thread_domain},
	{"clock-moves", "libmlx5: mlx5_read_clock", .check = clock_moves},
	{"closing-frees-what-is-left", "ib_uverbs: uverbs_destroy_ufile_hw", .check = closing_frees_what_is_left},
	{"not-offered", "ib_uverbs: method without the driver's operation", .check = not_offered},
	{"recv-full-queue", "verbs-rules: Posting and polling", .check_queue = full_queue, .config = &config},
	{"qp-error-flushes", "verbs-rules: Posting and polling", .check_queue = flush_on_error, .config = &config},
	{"qp-reset-forgets", "libmlx5: mlx5_modify_qp, mlx5_cq_clean", .check_queue = reset_forgets, .config = &config},
	{},
};
