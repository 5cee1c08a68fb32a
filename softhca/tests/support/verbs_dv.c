// SPDX-License-Identifier: Apache-2.0
/*
 * verbs_dv FORMAT COUNT [LOG_BYTES SHIFT]: receives UDP frames by a work queue whose completion queue is read as
 * mlx5dv's users do it, since libmlx5 does not read compressed completions. FORMAT: hash, csum, stride or plain. With
 * LOG_BYTES the work queue is striding, in strides of that many bytes; SHIFT: 1: packets begin two bytes further.
 * Says "ready", then of each frame "BLOCK FIELD HEX": with how many others it was compressed (0: not at all), what its
 * completion has of its own (hash or checksum, as they lie in memory), and its bytes; or "BLOCK filler STRIDES".
 * Ends after COUNT frames.
 */
#include "verbs_common.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH          1024u
#define LOG_STRIDES    9u
#define N_STRIDING     8u /* entries of a striding queue */
#define FRAME_BYTES    2048u
#define MINI_ARRAY     8u
#define CQE_INVALID    (15u << 4)
#define CQE_COMPRESSED 3u

struct mini_cqe {
	uint32_t own; /* hash, or checksum and the index of the stride */
	uint32_t byte_cnt_be;
};

struct reader {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_wq *wq;
	struct mlx5dv_cq dv;
	struct mlx5dv_rwq rwq;
	uint16_t n_posted;
	uint8_t *memory;
	bool csum, has_stride;
	uint8_t log_bytes, shift_bytes; /* striding; 0: not */
	uint32_t stride;                /* of the entry in use, the next */
	uint32_t index;                 /* of the entry to be read next */
	unsigned long n_seen;
};

/* libmlx5 learns only by polling that a work request is done, so who reads the completions also posts. */
static uint32_t buffer_bytes(const struct reader *r)
{
	return r->log_bytes ? 1u << (r->log_bytes + LOG_STRIDES) : FRAME_BYTES;
}

static void post(struct reader *r)
{
	uint16_t slot = (uint16_t)(r->n_posted % r->rwq.wqe_cnt);
	uint8_t *entry = (uint8_t *)r->rwq.buf + (size_t)slot * r->rwq.stride;
	struct mlx5_wqe_data_seg *seg = r->log_bytes ? &((struct mlx5_mprq_wqe *)entry)->dseg : (void *)entry;

	mlx5dv_set_data_seg(seg, buffer_bytes(r), r->mr->lkey, (uintptr_t)r->memory + (size_t)slot * buffer_bytes(r));
	r->n_posted++;
	__atomic_store_n(r->rwq.dbrec, htobe32(r->n_posted), __ATOMIC_RELEASE);
}

static void open_cq(struct reader *r, const char *format)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = DEPTH};
	struct mlx5dv_cq_init_attr dv = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE};
	struct mlx5dv_obj obj = {};

	r->has_stride = !strcmp(format, "stride");
	r->csum = r->has_stride || !strcmp(format, "csum");
	dv.cqe_comp_res_format = r->has_stride ? MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX
	                         : r->csum     ? MLX5DV_CQE_RES_FORMAT_CSUM
	                                       : MLX5DV_CQE_RES_FORMAT_HASH;
	if (!strcmp(format, "plain"))
		dv.comp_mask = 0;
	r->cq = ibv_cq_ex_to_cq(mlx5dv_create_cq(r->ctx, &attr, &dv));
	if (!r->cq)
		die("mlx5dv_create_cq");
	obj.cq.in = r->cq;
	obj.cq.out = &r->dv;
	errno = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
	if (errno || r->dv.cqe_size != sizeof(struct mlx5_cqe64))
		die("mlx5dv_init_obj");
}

static void open_wq(struct reader *r)
{
	uint32_t n = r->log_bytes ? N_STRIDING : DEPTH;
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = n, .max_sge = 1, .pd = r->pd, .cq = r->cq};
	struct mlx5dv_wq_init_attr dv = {.comp_mask = r->log_bytes ? MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ : 0,
	                                 .striding_rq_attrs = {.single_stride_log_num_of_bytes = r->log_bytes,
	                                                       .single_wqe_log_num_of_strides = LOG_STRIDES,
	                                                       .two_byte_shift_en = r->shift_bytes}};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct mlx5dv_obj obj = {};

	r->wq = mlx5dv_create_wq(r->ctx, &init, &dv);
	if (!r->wq)
		die("mlx5dv_create_wq");
	errno = ibv_modify_wq(r->wq, &ready);
	if (errno)
		die("ibv_modify_wq");
	obj.rwq.in = r->wq;
	obj.rwq.out = &r->rwq;
	errno = mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ);
	if (errno || r->rwq.wqe_cnt != n)
		die("mlx5dv_init_obj, %u entries of %u bytes", r->rwq.wqe_cnt, r->rwq.stride);
	for (uint32_t i = 0; i < n; i++)
		post(r);
}

static struct mlx5_cqe64 *entry(struct reader *r, uint32_t index)
{
	return (struct mlx5_cqe64 *)((uint8_t *)r->dv.buf + (size_t)(index & (r->dv.cqe_cnt - 1)) * r->dv.cqe_size);
}

static void print(uint32_t block, uint32_t own, const uint8_t *frame, uint32_t bytes)
{
	printf("%u %08x ", block, own);
	for (uint32_t i = 0; i < bytes; i++)
		printf("%02x", frame[i]);
	puts("");
}

/* A completion: of how many in its block, the work request that its title names and what it has of its own. */
struct completion {
	uint32_t block, own;
	uint16_t wqe, stride;
	uint32_t byte_cnt;
};

static void take_strides(struct reader *r, const struct completion *c)
{
	uint32_t n = c->byte_cnt >> 16 & 0x7fff, bytes = c->byte_cnt & 0xffff;
	uint32_t needed = (bytes + r->shift_bytes + (1u << r->log_bytes) - 1) >> r->log_bytes;
	const uint8_t *buffer = r->memory + (size_t)(c->wqe % r->rwq.wqe_cnt) * buffer_bytes(r);

	if (c->stride != r->stride || r->stride + n > 1u << LOG_STRIDES)
		die("stride %u and %u more, not %u", c->stride, n, r->stride);
	if (c->byte_cnt >> 31) {
		printf("%u filler %u\n", c->block, n);
	} else {
		if (n != needed)
			die("%u strides for %u bytes", n, bytes);
		print(c->block, be32toh(c->own), buffer + ((size_t)r->stride << r->log_bytes) + r->shift_bytes, bytes);
		r->n_seen++;
	}
	r->stride += n;
	if (r->stride >> LOG_STRIDES) {
		r->stride = 0;
		post(r);
	}
}

static void take(struct reader *r, const struct completion *c)
{
	if (r->log_bytes) {
		take_strides(r, c);
		return;
	}
	if (c->wqe != (uint16_t)r->n_seen || c->byte_cnt > FRAME_BYTES)
		die("work request %u after %lu frames, %u bytes", c->wqe, r->n_seen, c->byte_cnt);
	print(c->block, be32toh(c->own), r->memory + (size_t)(c->wqe % DEPTH) * FRAME_BYTES, c->byte_cnt);
	r->n_seen++;
	post(r);
}

static uint32_t own_of(const struct reader *r, const struct mlx5_cqe64 *cqe)
{
	uint32_t own = 0;

	/* mlx5_cqe64 of mlx5_core: rss_hash_result, check_sum */
	if (r->csum)
		memcpy(&own, (const uint8_t *)cqe + 20, 2);
	else
		memcpy(&own, (const uint8_t *)cqe + 12, 4);
	return own;
}

static struct completion of(const struct reader *r, const struct mlx5_cqe64 *cqe)
{
	uint16_t counter = be16toh(cqe->wqe_counter);
	struct completion c = {.own = own_of(r, cqe), .wqe = counter, .byte_cnt = be32toh(cqe->byte_cnt)};

	if (r->log_bytes) {
		c.stride = counter;
		c.wqe = be16toh(cqe->wqe_id);
	}
	return c;
}

/* As mlx5_core and DPDK read it. */
static void read_block(struct reader *r, const struct mlx5_cqe64 *title)
{
	uint32_t n = be32toh(title->byte_cnt), array = r->index + 1;
	struct completion c = of(r, title);

	c.block = n;
	if (n < 2 || n > 64 || (r->index & (r->dv.cqe_cnt - 1)) + n > r->dv.cqe_cnt)
		die("a block of %u at %u", n, r->index);
	for (uint32_t i = 0; i < n; i++) {
		if (i && i % MINI_ARRAY == 0)
			array = r->index + i;
		struct mini_cqe mini = ((const struct mini_cqe *)entry(r, array))[i % MINI_ARRAY];

		c.own = mini.own;
		c.byte_cnt = be32toh(mini.byte_cnt_be);
		if (r->has_stride) {
			c.stride = be32toh(mini.own) & 0xffff;
			c.own &= htobe32(0xffff0000);
		}
		take(r, &c);
		c.stride = (uint16_t)(c.stride + (c.byte_cnt >> 16 & 0x7fff));
		c.wqe += !r->log_bytes;
	}
	for (uint32_t i = 0; i < n; i++)
		entry(r, r->index + i)->op_own = CQE_INVALID;
	r->index += n;
}

static void poll_once(struct reader *r)
{
	struct mlx5_cqe64 *cqe = entry(r, r->index);
	uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);

	if (op_own >> 4 == CQE_INVALID >> 4 || (op_own & 1) != !!(r->index & r->dv.cqe_cnt))
		return;
	if (op_own >> 4 != MLX5_CQE_RESP_SEND)
		die("opcode %u", op_own >> 4);
	if ((op_own >> 2 & 3) == CQE_COMPRESSED) {
		read_block(r, cqe);
	} else {
		struct completion c = of(r, cqe);

		take(r, &c);
		r->index++;
	}
	__atomic_store_n(&r->dv.dbrec[0], htobe32(r->index & 0xffffff), __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct reader r = {};
	unsigned long count;
	size_t bytes;

	if ((argc != 3 && argc != 5) || !list || !list[0])
		die("usage: verbs_dv hash|csum|stride|plain COUNT [LOG_BYTES SHIFT], with a device");
	if (argc == 5) {
		r.log_bytes = (uint8_t)atoi(argv[3]);
		r.shift_bytes = atoi(argv[4]) ? 2 : 0;
	}
	r.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	r.pd = ibv_alloc_pd(r.ctx);
	bytes = (size_t)buffer_bytes(&r) * (r.log_bytes ? N_STRIDING : DEPTH);
	r.memory = aligned_alloc(4096, bytes);
	r.mr = ibv_reg_mr(r.pd, r.memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!r.mr)
		die("ibv_reg_mr");
	open_cq(&r, argv[1]);
	open_wq(&r);
	rss_pair_open(&(struct rss_pair){0}, r.pd, &r.wq, 0, IBV_RX_HASH_SRC_PORT_UDP);
	puts("ready");
	fflush(stdout);
	count = strtoul(argv[2], NULL, 10);
	while (r.n_seen < count)
		poll_once(&r);
	return 0;
}
