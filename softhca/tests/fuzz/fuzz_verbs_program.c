// SPDX-License-Identifier: Apache-2.0
/* The program's memory, written as by libmlx5 or with arbitrary bytes; and a wire whose frames come from the input. */
#include "fuzz_verbs.h"

#include "softhca/device/hw.h"
#include "softhca/tests/support/fake_wire.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAX_FRAMES      8
#define MAX_FRAME_BYTES 2048
#define HEADROOM        16
#define ROUNDS          3 /* of the device's thread, until what was given to it has been dealt with */

uint8_t input_u8(struct input *in)
{
	uint8_t v = 0;

	input_bytes(in, &v, sizeof(v));
	return v;
}

uint16_t input_u16(struct input *in)
{
	uint16_t v = 0;

	input_bytes(in, &v, sizeof(v));
	return v;
}

uint64_t input_u64(struct input *in)
{
	uint64_t v = 0;

	input_bytes(in, &v, sizeof(v));
	return v;
}

void poke(uint64_t to, const void *from, size_t bytes)
{
	struct iovec local = {(void *)from, bytes}, remote = {(void *)(uintptr_t)to, bytes};

	if (process_vm_writev(getpid(), &local, 1, &remote, 1, 0) < 0 && errno != EFAULT)
		abort();
}

static void poke_be32(const volatile void *to, uint32_t value)
{
	uint32_t be = htobe32(value);

	poke((uintptr_t)to, &be, sizeof(be));
}

static struct hw_data_seg data_seg(struct run *run, struct input *in, uint32_t bytes, bool strange)
{
	struct mr *mr = some_object(run, OBJECT_MR, strange ? input_u8(in) : 0);
	uint32_t lkey = mr ? mr->lkey : MKEY_NULL;
	const struct mkey *key = mr ? &run->device.mkeys.keys[mr->lkey >> 8] : NULL;
	uint64_t addr = key ? key->iova : 0;

	if (strange) {
		addr += input_u16(in);
		bytes = input_u8(in) & 1 ? input_u16(in) : bytes;
		lkey = input_u8(in) & 1 ? (uint32_t)input_u64(in) : lkey;
	}
	return (struct hw_data_seg){htobe32(bytes), htobe32(lkey), htobe64(addr)};
}

static struct rq *some_rq(struct run *run, unsigned int n)
{
	struct uwq *w = some_object(run, OBJECT_WQ, n / 2);
	struct uqp *u = some_object(run, OBJECT_QP, n / 2);

	return w && (n % 2 || !u || !u->qp.rq.n_wqe) ? &w->rq : u ? &u->qp.rq : NULL;
}

static void post_recv(struct run *run, struct input *in, bool strange)
{
	struct rq *rq = some_rq(run, strange ? input_u8(in) : 0);
	struct hw_data_seg segs[4];
	uint16_t n = strange ? input_u16(in) : 4;

	if (!rq || !rq->n_wqe)
		return;
	for (int i = 0; i < 4; i++)
		segs[i] = data_seg(run, in, 1024, strange);
	for (uint32_t i = 0; i < rq->n_wqe && i < 16; i++)
		poke((uintptr_t)rq->buf + ((uint64_t)i << rq->wqe_shift), segs,
		     rq->wqe_shift > 6 ? sizeof(segs) : 1u << rq->wqe_shift);
	poke_be32(rq->dbrec, (uint16_t)(rq->taken + n));
}

static void post_send(struct run *run, struct input *in, bool strange)
{
	struct uqp *u = some_object(run, OBJECT_QP, strange ? input_u8(in) : 0);
	uint16_t n = strange ? input_u16(in) : 1;
	struct {
		struct hw_ctrl_seg ctrl;
		struct hw_eth_seg eth;
		struct hw_data_seg data;
	} wqe = {};

	if (!u || !u->qp.sq.n_bb)
		return;
	wqe.ctrl.opmod_idx_opcode_be = htobe32(HW_OPCODE_SEND);
	wqe.ctrl.qpn_ds_be = htobe32(u->qp.qpn << 8 | sizeof(wqe) / 16);
	wqe.ctrl.fm_ce_se = HW_CTRL_CQ_UPDATE;
	wqe.eth.inline_hdr_sz_be = htobe16(sizeof(wqe.eth.inline_hdr));
	wqe.data = data_seg(run, in, 64, strange);
	if (strange) {
		uint8_t how = input_u8(in);

		wqe.eth.cs_flags = how & 0xc0;
		if (how & 1)
			wqe.eth.inline_hdr_sz_be = input_u16(in);
		if (how & 2)
			wqe.data.byte_count_be = htobe32(HW_INLINE_SEG | input_u16(in));
		if (how & 4)
			wqe.ctrl.qpn_ds_be = htobe32(u->qp.qpn << 8 | input_u8(in));
		if (how & 8)
			wqe.ctrl.opmod_idx_opcode_be = htobe32(input_u8(in));
		if (how & 16)
			input_bytes(in, &wqe, sizeof(wqe));
	}
	for (uint32_t i = 0; i < u->qp.sq.n_bb && i < 16; i++)
		poke((uintptr_t)u->qp.sq.buf + (uint64_t)i * HW_SEND_WQE_BB, &wqe, sizeof(wqe));
	poke_be32(u->qp.sq.dbrec, (uint16_t)(u->qp.sq.taken + n));
}

/* All completions read and the queue armed, or any consumer index and arm record. */
static void consume(struct run *run, struct input *in, bool strange)
{
	struct ucq *u = some_object(run, OBJECT_CQ, strange ? input_u8(in) : 0);

	if (!u)
		return;
	poke_be32(&u->cq.dbrec[HW_DBR_CQ_CONSUMER],
	          (strange && input_u8(in) & 1 ? (uint32_t)input_u64(in) : u->cq.producer) & HW_CQ_INDEX_MASK);
	poke_be32(&u->cq.dbrec[HW_DBR_CQ_ARM],
	          strange ? (uint32_t)input_u64(in) : (u->cq.producer & HW_CQ_INDEX_MASK) | 1u << 28);
}

static void poke_anything(struct run *run, struct input *in)
{
	uint8_t bytes[64];
	uint64_t to = (uintptr_t)slot(run, input_u8(in)) + SLOT_BYTES - input_u16(in) % (2 * 4096);

	poke(to, bytes, input_bytes(in, bytes, 1 + input_u8(in) % sizeof(bytes)));
}

void operate_memory(struct run *run, struct input *in, enum operation operation, bool strange)
{
	switch (operation) {
	case OP_POST_RECV:
		post_recv(run, in, strange);
		break;
	case OP_POST_SEND:
		post_send(run, in, strange);
		break;
	case OP_CONSUME:
		consume(run, in, strange);
		break;
	default:
		poke_anything(run, in);
	}
}

/* ---- the wire: stands in for wire.c's ---------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	uint8_t frames[MAX_FRAMES][HEADROOM + MAX_FRAME_BYTES];
	uint32_t lengths[MAX_FRAMES];
	enum wire_addressed addressed[MAX_FRAMES];
	int n_frames;
	unsigned int rounds; /* how often the device came by */
} the_wire = {.lock = PTHREAD_MUTEX_INITIALIZER};

int fake_wire_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	int n;

	(void)wire;
	pthread_mutex_lock(&the_wire.lock);
	the_wire.rounds++;
	n = the_wire.n_frames < max ? the_wire.n_frames : max;
	for (int i = 0; i < n; i++)
		frames[i] = (struct wire_frame){
			.data = the_wire.frames[i] + HEADROOM,
			.len = the_wire.lengths[i],
			.addressed = the_wire.addressed[i],
		};
	pthread_mutex_unlock(&the_wire.lock);
	return n;
}

void fake_wire_release(struct wire *wire)
{
	(void)wire;
	pthread_mutex_lock(&the_wire.lock);
	the_wire.n_frames = 0;
	pthread_mutex_unlock(&the_wire.lock);
}

/* The kernel would read the frames: what is not there is an error of the call, and no failure. */
int fake_wire_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	static uint8_t sink[1 << 17];

	(void)wire;
	for (int i = 0; i < n; i++) {
		struct iovec to = {sink, sizeof(sink)};

		if (process_vm_readv(getpid(), &to, 1, iov[i], (unsigned long)iovcnt[i], 0) < 0 && errno != EFAULT)
			abort();
	}
	return n;
}

void fake_wire_wait(struct wire *wire, unsigned int timeout_us)
{
	const struct timespec ts = {.tv_nsec = 20000};

	(void)wire;
	(void)timeout_us;
	nanosleep(&ts, NULL);
}

/* IPv4 and UDP from here to there, or any bytes. */
static void make_frame(struct input *in, bool strange, int i)
{
	static const uint8_t udp[42] = {2, 0,  0,  0, 0, 1,  2, 0, 0, 0,  0, 2, 8, 0, 0x45, 0, 0, 50, 0,  0, 0,
	                                0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 0,    2, 0, 0,  30, 0, 0};
	uint8_t *frame = the_wire.frames[i] + HEADROOM;
	uint32_t len = 64;

	memset(frame, 0, 64);
	memcpy(frame, udp, sizeof(udp));
	the_wire.addressed[i] = WIRE_TO_US;
	if (strange) {
		uint8_t how = input_u8(in);

		the_wire.addressed[i] = (enum wire_addressed)(how & 3);
		if (how & 4)
			len = 14 + input_u16(in) % (MAX_FRAME_BYTES - 14);
		if (how & 8)
			input_bytes(in, frame, 14 + input_u8(in) % 64);
		if (how & 16)
			frame[12 + input_u8(in) % 40] = input_u8(in);
	}
	the_wire.lengths[i] = len;
}

void operate_frames(struct run *run, struct input *in, bool strange)
{
	const struct timespec ts = {.tv_nsec = 10000};
	unsigned int seen;

	if (!run->device.wire)
		return;
	pthread_mutex_lock(&the_wire.lock);
	for (the_wire.n_frames = 0; the_wire.n_frames < 3; the_wire.n_frames++)
		make_frame(in, strange, the_wire.n_frames);
	seen = the_wire.rounds;
	pthread_mutex_unlock(&the_wire.lock);
	for (unsigned int now = seen; now - seen < ROUNDS;) {
		nanosleep(&ts, NULL);
		pthread_mutex_lock(&the_wire.lock);
		now = the_wire.rounds;
		pthread_mutex_unlock(&the_wire.lock);
	}
}
