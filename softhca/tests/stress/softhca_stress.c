// SPDX-License-Identifier: Apache-2.0
/*
 * softhca's commands in threads against its device thread, so that ThreadSanitizer sees every access.
 * Workers open the device, set up a queue pair with a flow, receive and send, and tear down: piece by piece,
 * or by closing the descriptor with all of it in use. For each there is a meddler on the same descriptor,
 * whose commands may be cut off by that close. Frames come all the time. Exit 0: everybody got frames, and
 * nothing is left in the device.
 */
#include "softhca_stress.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N_WORKERS   3u
#define N_WQE       8u /* in each of a queue pair's queues */
#define SENT_BYTES  (FRAME_BYTES + sizeof(((struct hw_eth_seg *)0)->inline_hdr))
#define COMPLETIONS 40u /* a round of a worker */
#define PATIENCE_S  60
#define EXIT_SKIP   77
#define ARENA_BYTES 16384u

/* A worker's memory: where the device finds its queues. */
struct arena {
	struct hw_cqe cqes[N_CQE];
	struct hw_data_seg receives[N_WQE][2];
	uint8_t sends[N_WQE][HW_SEND_WQE_BB];
	uint32_t cq_record[2] __attribute__((aligned(64)));
	uint32_t qp_record[2] __attribute__((aligned(64)));
	struct hw_cqe other_cqes[N_CQE]; /* the meddler's */
	uint32_t other_record[2] __attribute__((aligned(64)));
	uint8_t frames[4096] __attribute__((aligned(64)));
};
static_assert(sizeof(struct arena) <= ARENA_BYTES, "arena");

struct worker {
	struct stress *stress;
	pthread_t thread, meddler;
	atomic_int fd;
	struct arena *arena;
	unsigned int n_rounds;
	uint32_t pd, cq, mr, lkey, qp, flow;
	uint32_t consumed;
	uint16_t received, sent; /* posted, free-running */
};

/*
 * At a number of the worker's own: his meddler never meets another's descriptor. By system calls,
 * as softhca does it: ThreadSanitizer would know of some closes, not of all, and take one number for one
 * descriptor.
 */
static void open_device(struct worker *w, int number)
{
	struct stress *s = w->stress;
	const struct uverbs_env env = {.fdtab = &s->fdtab, .memlock = &s->memlock, .clock = &s->clock};
	int fd = uverbs_open(&s->device, &env, O_CLOEXEC);
	struct fd_object *o;

	must(fd >= 0);
	o = fdtab_take(&s->fdtab, fd);
	must(o && syscall(SYS_dup3, fd, number, O_CLOEXEC) == number);
	must(!fdtab_set(&s->fdtab, number, o));
	syscall(SYS_close, fd);
	w->fd = number;
}

/* As close() does it (preload/hook_fd.c). */
static void close_fd(struct stress *s, int fd)
{
	struct fd_object *o = fdtab_take(&s->fdtab, fd);

	must(o);
	syscall(SYS_close, fd);
	fd_object_put(o);
}

/* The descriptor of asynchronous events. */
static int get_context(struct worker *w)
{
	struct ib_uverbs_get_context core = {};
	struct mlx5_ib_alloc_ucontext_req_v2 drv = {.max_cqe_version = 1, .lib_caps = MLX5_LIB_CAP_DYN_UAR};
	union {
		struct ib_uverbs_get_context_resp core;
		uint8_t room[sizeof(struct ib_uverbs_get_context_resp) + sizeof(struct mlx5_ib_alloc_ucontext_resp)];
	} resp = {};

	must(!COMMAND(w->stress, w->fd, GET_CONTEXT, core, drv, resp));
	return (int)resp.core.async_fd;
}

static void modify_qp(struct worker *w, enum qp_state state)
{
	struct ib_uverbs_modify_qp core = {.qp_handle = w->qp,
	                                   .attr_mask = state == QP_INIT ? 1 | 1 << 5 : 1,
	                                   .qp_state = (uint8_t)state,
	                                   .port_num = 1};

	must(!COMMAND_SILENT(w->stress, w->fd, MODIFY_QP, core));
}

/* The number that the device knows it by. */
static uint32_t create_qp(struct worker *w)
{
	struct ib_uverbs_create_qp core = {.pd_handle = w->pd,
	                                   .send_cq_handle = w->cq,
	                                   .recv_cq_handle = w->cq,
	                                   .max_recv_wr = N_WQE,
	                                   .max_send_wr = N_WQE,
	                                   .max_recv_sge = 1,
	                                   .max_send_sge = 1,
	                                   .qp_type = IB_UVERBS_QPT_RAW_PACKET};
	struct mlx5_ib_create_qp drv = {.buf_addr = (uintptr_t)w->arena->receives,
	                                .sq_buf_addr = (uintptr_t)w->arena->sends,
	                                .db_addr = (uintptr_t)w->arena->qp_record,
	                                .rq_wqe_count = N_WQE,
	                                .rq_wqe_shift = 5,
	                                .sq_wqe_count = N_WQE};
	struct {
		struct ib_uverbs_create_qp_resp core;
		struct mlx5_ib_create_qp_resp drv;
	} resp = {};

	must(!COMMAND(w->stress, w->fd, CREATE_QP, core, drv, resp));
	w->qp = resp.core.qp_handle;
	for (unsigned int state = QP_INIT; state <= QP_RTS; state++)
		modify_qp(w, (enum qp_state)state);
	return resp.core.qpn;
}

static void create_flow(struct worker *w)
{
	const struct ib_uverbs_flow_spec_eth eth = {.type = 0x20, .size = sizeof(eth)}; /* any frame */
	union {
		struct ib_uverbs_create_flow core;
		uint8_t room[sizeof(struct ib_uverbs_create_flow) + sizeof(eth)];
	} req = {.core = {.qp_handle = w->qp, .flow_attr = {.size = sizeof(eth), .num_of_specs = 1, .port = 1}}};
	struct ib_uverbs_create_flow_resp resp = {};

	memcpy(req.room + sizeof(req.core), &eth, sizeof(eth));
	must(!extended(w->stress, w->fd, IB_USER_VERBS_EX_CMD_CREATE_FLOW, &req, sizeof(req), &resp, sizeof(resp)));
	w->flow = resp.flow_handle;
}

static void ring(uint32_t *record, uint32_t value)
{
	__atomic_store_n(record, htobe32(value), __ATOMIC_RELEASE);
}

static void post_receive(struct worker *w)
{
	unsigned int i = w->received++ % N_WQE;
	uint8_t *to = w->arena->frames + (size_t)i * 2 * FRAME_BYTES;

	w->arena->receives[i][0] =
		(struct hw_data_seg){htobe32(2 * FRAME_BYTES), htobe32(w->lkey), htobe64((uintptr_t)to)};
	w->arena->receives[i][1] = (struct hw_data_seg){.lkey_be = htobe32(HW_INVALID_LKEY)};
	ring(&w->arena->qp_record[HW_DBR_RECV], w->received);
}

static void post_send(struct worker *w, uint32_t qpn)
{
	const uint8_t *from = w->arena->frames + 2ul * N_WQE * FRAME_BYTES; /* behind what is received into */
	struct {
		struct hw_ctrl_seg ctrl;
		struct hw_eth_seg eth;
		struct hw_data_seg data;
	} wqe = {
		.ctrl = {.opmod_idx_opcode_be = htobe32((uint32_t)w->sent << 8 | HW_OPCODE_SEND),
	                 .qpn_ds_be = htobe32(qpn << 8 | sizeof(wqe) / 16),
	                 .fm_ce_se = HW_CTRL_CQ_UPDATE},
		.eth = {.inline_hdr_sz_be = htobe16(sizeof(wqe.eth.inline_hdr))},
		.data = {htobe32(FRAME_BYTES), htobe32(w->lkey), htobe64((uintptr_t)from)},
	};

	memcpy(w->arena->sends[w->sent++ % N_WQE], &wqe, sizeof(wqe));
	ring(&w->arena->qp_record[HW_DBR_SEND], w->sent);
}

/* One completion, if there is one: its opcode, or HW_CQE_INVALID. */
static enum hw_cqe_opcode poll_cq(struct worker *w)
{
	const struct hw_cqe *c = &w->arena->cqes[w->consumed % N_CQE];
	uint8_t op_own = __atomic_load_n(&c->op_own, __ATOMIC_ACQUIRE);
	enum hw_cqe_opcode opcode = (enum hw_cqe_opcode)(op_own >> 4);

	if (opcode == HW_CQE_INVALID || (op_own & 1) != w->consumed / N_CQE % 2)
		return HW_CQE_INVALID;
	if (opcode == HW_CQE_REQ_ERR || opcode == HW_CQE_RESP_ERR)
		fprintf(stderr, "opcode %u, syndrome %u, work request %u\n", opcode,
		        ((const struct hw_cqe_err *)c)->syndrome, be16toh(c->wqe_counter_be));
	if (opcode == HW_CQE_RESP_SEND) /* the wire's, or one of ours: lo's MAC is all zeros */
		must(be32toh(c->byte_cnt_be) == FRAME_BYTES || be32toh(c->byte_cnt_be) == SENT_BYTES);
	ring(&w->arena->cq_record[HW_DBR_CQ_CONSUMER], ++w->consumed & HW_CQ_INDEX_MASK);
	return opcode;
}

static void receive_and_send(struct worker *w, uint32_t qpn)
{
	const struct timespec nap = {.tv_nsec = 20000};
	time_t give_up = time(NULL) + PATIENCE_S;

	for (unsigned int i = 0; i < N_WQE; i++)
		post_receive(w);
	post_send(w, qpn);
	for (unsigned int seen = 0; seen < COMPLETIONS;) {
		enum hw_cqe_opcode opcode = poll_cq(w);

		if (opcode == HW_CQE_INVALID) {
			must(time(NULL) < give_up);
			nanosleep(&nap, NULL);
			continue;
		}
		must(opcode == HW_CQE_RESP_SEND || opcode == HW_CQE_REQ);
		if (opcode == HW_CQE_REQ)
			post_send(w, qpn);
		else
			post_receive(w);
		seen++;
	}
}

/* Any command may be too late for the descriptor: then the close takes back what is left. */
static void *meddle(void *arg)
{
	struct worker *w = arg;
	struct stress *s = w->stress;
	struct device_counters counters;
	uint32_t pd, mr, lkey, cq;
	int fd = w->fd;

	while (w->fd >= 0) {
		if (alloc_pd(s, fd, &pd))
			break;
		if (!reg_mr(s, fd, pd, w->arena->frames, sizeof(w->arena->frames), &mr, &lkey))
			dereg_mr(s, fd, mr);
		if (!create_cq(s, fd, w->arena->other_cqes, w->arena->other_record, &cq))
			destroy_cq(s, fd, cq);
		dealloc_pd(s, fd, pd);
		device_read_counters(&s->device, &counters);
	}
	return NULL;
}

static void tear_down(struct worker *w)
{
	struct ib_uverbs_destroy_flow flow = {.flow_handle = w->flow};
	struct ib_uverbs_destroy_qp qp = {.qp_handle = w->qp};
	struct ib_uverbs_destroy_qp_resp resp = {};

	must(!extended(w->stress, w->fd, IB_USER_VERBS_EX_CMD_DESTROY_FLOW, &flow, sizeof(flow), NULL, 0));
	must(!COMMAND_NO_DRIVER(w->stress, w->fd, DESTROY_QP, qp, resp));
	must(!destroy_cq(w->stress, w->fd, w->cq));
	must(!dereg_mr(w->stress, w->fd, w->mr));
	must(!dealloc_pd(w->stress, w->fd, w->pd));
}

static void round_of(struct worker *w, int number)
{
	int async_fd;
	uint32_t qpn;

	w->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(w->arena != MAP_FAILED);
	for (unsigned int i = 0; i < N_CQE; i++)
		w->arena->cqes[i].op_own = w->arena->other_cqes[i].op_own = HW_CQE_INVALID << 4;
	w->consumed = w->received = w->sent = 0;
	open_device(w, number);
	async_fd = get_context(w);
	must(!pthread_create(&w->meddler, NULL, meddle, w));
	must(!alloc_pd(w->stress, w->fd, &w->pd));
	must(!create_cq(w->stress, w->fd, w->arena->cqes, w->arena->cq_record, &w->cq));
	must(!reg_mr(w->stress, w->fd, w->pd, w->arena->frames, sizeof(w->arena->frames), &w->mr, &w->lkey));
	qpn = create_qp(w);
	create_flow(w);
	receive_and_send(w, qpn);
	if (w->n_rounds++ % 2)
		tear_down(w);
	w->fd = -1;
	close_fd(w->stress, number);
	pthread_join(w->meddler, NULL);
	close_fd(w->stress, async_fd);
	munmap(w->arena, ARENA_BYTES);
}

#define FIRST_NUMBER 600 /* beyond any that is given otherwise */

static void *work(void *arg)
{
	struct worker *w = arg;
	int number = w->fd; /* what main() said */

	while (!w->stress->stop)
		round_of(w, number);
	return NULL;
}

static void set_up(struct stress *s)
{
	struct settings settings;
	char message[256];

	must(settings_read(&settings, message, sizeof(message)));
	settings.device.netdev = "lo";
	settings.device.clock = &s->clock;
	settings.device.l2_filter = false;
	settings.device.kernel_drop = KERNEL_DROP_OFF;
	fault_init(sigaction);
	fdtab_init(&s->fdtab);
	clock_init(&s->clock, settings.clock_us);
	device_init(&s->device, &settings.device, 0, &uverbs_events);
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc == 3 && !strcmp(argv[1], "--seconds") ? (unsigned int)atoi(argv[2]) : 10;
	static struct stress stress; /* as long as the process, as the preload's */
	struct worker workers[N_WORKERS] = {};
	struct stress *s = &stress;

	if (!program_has_net_raw()) {
		fprintf(stderr, "softhca_stress: skipped: flows need CAP_NET_RAW\n");
		return EXIT_SKIP;
	}
	set_up(s);
	for (unsigned int i = 0; i < N_WORKERS; i++) {
		workers[i].stress = s;
		workers[i].fd = FIRST_NUMBER + (int)i;
		must(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	sleep(seconds);
	s->stop = true;
	for (unsigned int i = 0; i < N_WORKERS; i++) {
		pthread_join(workers[i].thread, NULL);
		must(workers[i].n_rounds);
		printf("worker %u: %u rounds\n", i, workers[i].n_rounds);
	}
	must(LIST_EMPTY(&s->device.files) && TAILQ_EMPTY(&s->device.qps) && !s->device.steering.occupied);
	must(!s->device.wire && !s->device.n_wire_users && !s->memlock.pages);
	return 0;
}
