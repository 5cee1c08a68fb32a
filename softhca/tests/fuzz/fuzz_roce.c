// SPDX-License-Identifier: Apache-2.0
/*
 * What may come from the wire to RC and UD queue pairs, and what a program may write to their queues, in any order.
 * Input: operations, each a byte for its kind and bytes that it takes. The RC queue pair is connected with itself, so
 * its own packets come back, too. The program's memory ends before a page that is not there.
 */
#include "softhca/device/mcast.h"
#include "softhca/roce/roce_qp.h"
#include "softhca/uverbs/objects.h"
#include "softhca/tests/fuzz/fuzz_input.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N_CQE          256u
#define N_BLOCKS       16u
#define N_RECEIVES     16u
#define RECEIVE_SHIFT  5
#define ARENA_BYTES    65536u
#define MAX_OPERATIONS 200

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One queue pair with all its memory. */
struct end {
	struct qp qp;
	struct cq cq;
	uint32_t cq_dbrec[2], dbrec[2];
	uint8_t entries[N_CQE * sizeof(struct hw_cqe)];
	uint8_t sends[N_BLOCKS * HW_SEND_WQE_BB];
	uint8_t receives[N_RECEIVES << RECEIVE_SHIFT];
};

static struct device device;
static struct clock device_clock;
static struct pd domain;
static struct end rc, ud;
static uint8_t *arena;
static uint32_t key;
static const uint8_t gid[16] = {0xfe, 0x80, [15] = 1};

static int wire_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	(void)wire;
	(void)iov;
	(void)iovcnt;
	return n;
}

static void nothing_cq(struct cq *cq)
{
	(void)cq;
}

static void nothing_qp(struct qp *qp)
{
	(void)qp;
}

static void nothing_event(struct qp *qp, enum device_event event)
{
	(void)qp;
	(void)event;
}

static const struct wire_ops wire_ops = {.send = wire_send};
static struct wire wire = {.ops = &wire_ops};
static const struct device_events events = {
	.cq_completion = nothing_cq, .cq_error = nothing_cq, .qp_fatal = nothing_qp, .qp_event = nothing_event};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct settings settings = fuzz_settings(&device_clock);

	(void)argc;
	(void)argv;
	settings.device.kernel_drop = KERNEL_DROP_OFF;
	device_init(&device, &settings.device, 0, &events);
	device.wire = &wire;
	device.mtu = 9000;
	device.mcast = mcast_new("lo");
	must(device.mcast && !roce_open(&device));
	arena = mmap(NULL, ARENA_BYTES + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(arena != MAP_FAILED && !mprotect(arena, ARENA_BYTES, PROT_READ | PROT_WRITE));
	key = mkey_create(&device.mkeys,
	                  &(struct mkey){.local_write = true,
	                                 .remote = MKEY_REMOTE_READ | MKEY_REMOTE_WRITE | MKEY_REMOTE_ATOMIC,
	                                 .start = arena,
	                                 .iova = (uintptr_t)arena,
	                                 .length = ARENA_BYTES,
	                                 .pd = &domain},
	                  100, false);
	must(key);
	return 0;
}

static void end_open(struct end *e, bool datagrams)
{
	memset(e, 0, sizeof(*e));
	e->cq = (struct cq){.device = &device,
	                    .buf = e->entries,
	                    .cqe_bytes = sizeof(struct hw_cqe),
	                    .n_cqe = N_CQE,
	                    .dbrec = e->cq_dbrec,
	                    .ignore_overrun = true};
	e->cq_dbrec[HW_DBR_CQ_ARM] = CQ_NEVER_ARMED;
	cq_init(&e->cq);
	e->qp = (struct qp){.device = &device, .pd = &domain};
	e->qp.sq = (struct sq){.cq = &e->cq, .buf = e->sends, .dbrec = &e->dbrec[HW_DBR_SEND], .n_bb = N_BLOCKS};
	e->qp.rq = (struct rq){.device = &device,
	                       .pd = &domain,
	                       .cq = &e->cq,
	                       .buf = e->receives,
	                       .dbrec = &e->dbrec[HW_DBR_RECV],
	                       .n_wqe = N_RECEIVES,
	                       .wqe_shift = RECEIVE_SHIFT,
	                       .qp = &e->qp};
	must(!roce_qp_new(&e->qp, NULL, datagrams));
	TAILQ_INSERT_TAIL(&device.qps, &e->qp, link);
	e->qp.roce->attributes = (struct roce_attributes){
		.path = {.version = ROCE_V2},
		.dest_qpn = e->qp.qpn,
		.access = MKEY_REMOTE_READ | MKEY_REMOTE_WRITE | MKEY_REMOTE_ATOMIC,
		.mtu_bytes = 256,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.rnr_retry = 1,
		.retry_cnt = 1,
	};
	memcpy(e->qp.roce->attributes.path.sgid, gid, sizeof(gid));
	memcpy(e->qp.roce->attributes.path.dgid, gid, sizeof(gid));
	for (enum qp_state state = QP_INIT; state <= QP_RTS; state++)
		roce_qp_set_state(e->qp.roce, state);
}

static void end_close(struct end *e)
{
	TAILQ_REMOVE(&device.qps, &e->qp, link);
	roce_qp_free(e->qp.roce);
	cq_deinit(&e->cq);
}

/* The next number below `range`; 0 at the end of the input. */
static uint32_t take(struct input *in, uint32_t range)
{
	uint32_t v = 0;

	for (uint32_t r = range - 1; r && in->left; r >>= 8, in->left--)
		v = v << 8 | *in->data++;
	return v % range;
}

static void deliver(uint8_t *frame, uint32_t bytes)
{
	struct wire_frame f = {.data = frame, .len = bytes, .addressed = WIRE_TO_US};

	device.take(&device, &f, 1);
}

/* A packet with fields that are good or nearly so, with a right CRC unless a byte is changed behind it. */
static void do_packet(struct input *in)
{
	struct end *e = take(in, 4) ? &rc : &ud;
	const struct roce_qp *q = e->qp.roce;
	uint32_t choice = take(in, 256);
	struct roce_packet p = {
		.opcode = (uint8_t)(take(in, 4) ? take(in, 24) : UD_SEND_ONLY + take(in, 2)),
		.solicited = choice & 1,
		.ack_request = choice & 2,
		.dest_qpn = e->qp.qpn,
		.psn = (choice & 4 ? q->requester.una : q->responder.psn) + take(in, 16) - (choice & 8 ? 8 : 0),
		.va = (uintptr_t)arena + take(in, ARENA_BYTES + 64),
		.rkey = choice & 16 ? key ^ 1 : key,
		.dma_bytes = take(in, 2048),
		.syndrome = (uint8_t)take(in, 256),
		.bytes = choice & 32 ? 256 : take(in, 300),
	};
	uint8_t frame[ROCE_FRAME_BYTES] = {}, smac[6] = {};
	uint32_t bytes, at;

	if (!(roce_traits(p.opcode) & ROCE_PAYLOAD))
		p.bytes = 0;
	roce_packet_begin(frame, &p, &q->attributes.path, smac);
	bytes = roce_packet_end(frame, &p, &q->attributes.path);
	at = take(in, 512);
	if (choice & 64 && at < bytes)
		frame[at] ^= (uint8_t)take(in, 256);
	if (choice & 128)
		bytes = take(in, bytes);
	deliver(frame, bytes);
}

static void do_frame(struct input *in)
{
	uint8_t frame[512] = {};
	uint32_t bytes = take(in, sizeof(frame));

	for (uint32_t i = 0; i < bytes; i++)
		frame[i] = (uint8_t)take(in, 256);
	deliver(frame, bytes);
}

static struct hw_data_seg data_segment(struct input *in)
{
	return (struct hw_data_seg){htobe32(take(in, 1024)), htobe32(take(in, 8) ? key : key ^ 1),
	                            htobe64((uintptr_t)arena + take(in, ARENA_BYTES + 64))};
}

static void do_receive(struct input *in)
{
	struct end *e = take(in, 2) ? &rc : &ud;
	uint16_t n = (uint16_t)be32toh(e->dbrec[HW_DBR_RECV]);
	struct hw_data_seg segs[2] = {data_segment(in), {0, htobe32(HW_INVALID_LKEY), 0}};

	memcpy(e->receives + ((n & (N_RECEIVES - 1)) << RECEIVE_SHIFT), segs, sizeof(segs));
	e->dbrec[HW_DBR_RECV] = htobe32((uint16_t)(n + 1));
}

/* A send of one block, whose segments fit its opcode or nearly so. */
static void do_send(struct input *in)
{
	static const uint8_t opcodes[] = {HW_OPCODE_NOP,          HW_OPCODE_SEND,      HW_OPCODE_SEND_IMM,
	                                  HW_OPCODE_WRITE,        HW_OPCODE_WRITE_IMM, HW_OPCODE_READ,
	                                  HW_OPCODE_COMPARE_SWAP, HW_OPCODE_FETCH_ADD};
	struct end *e = take(in, 4) ? &rc : &ud;
	uint16_t n = (uint16_t)be32toh(e->dbrec[HW_DBR_SEND]);
	uint8_t entry[HW_SEND_WQE_BB] = {};
	struct hw_ctrl_seg *ctrl = (void *)entry;
	struct hw_raddr_seg remote = {htobe64((uintptr_t)arena + take(in, ARENA_BYTES + 64)), htobe32(key), 0};
	uint32_t opcode = take(in, 16) ? opcodes[take(in, sizeof(opcodes))] : take(in, 256);
	bool plain = opcode == HW_OPCODE_SEND || opcode == HW_OPCODE_SEND_IMM;
	size_t at = plain ? 16 : opcode > HW_OPCODE_READ ? 48 : 32;
	struct hw_data_seg data = data_segment(in);

	memcpy(entry + 16, &remote, sizeof(remote));
	memcpy(entry + at, &data, sizeof(data));
	ctrl->opmod_idx_opcode_be = htobe32((uint32_t)n << 8 | opcode);
	ctrl->qpn_ds_be = htobe32(e->qp.qpn << 8 | (take(in, 8) ? (uint32_t)at / 16 + 1 : take(in, 64)));
	ctrl->fm_ce_se = (uint8_t)take(in, 256);
	if (!take(in, 8))
		entry[16 + take(in, 48)] = (uint8_t)take(in, 256);
	memcpy(e->sends + (n & (N_BLOCKS - 1)) * HW_SEND_WQE_BB, entry, sizeof(entry));
	e->dbrec[HW_DBR_SEND] = htobe32((uint16_t)(n + 1));
}

static void do_work(struct input *in)
{
	struct end *e = take(in, 2) ? &rc : &ud;

	if (e->qp.sq.state == WQ_RDY)
		e->qp.work(&e->qp, NULL);
	queues_flush(&device);
}

static void do_state(struct input *in)
{
	struct end *e = take(in, 2) ? &rc : &ud;

	roce_qp_query_state(e->qp.roce);
	if (take(in, 8) || e->qp.state != QP_ERR)
		return;
	memset(e->dbrec, 0, sizeof(e->dbrec));
	for (enum qp_state state = QP_RESET; state <= QP_RTS; state++)
		roce_qp_set_state(e->qp.roce, state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const operations[])(struct input *) = {do_packet, do_packet, do_frame, do_receive,
	                                                     do_send,   do_send,   do_work,  do_state};
	struct input in = {data, size};

	end_open(&rc, false);
	end_open(&ud, true);
	for (int i = 0; i < MAX_OPERATIONS && in.left; i++) {
		operations[take(&in, 8)](&in);
		cq_events(&device);
	}
	end_close(&rc);
	end_close(&ud);
	must(device.take != NULL && !device.roce->n_users);
	return 0;
}
