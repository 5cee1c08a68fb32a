// SPDX-License-Identifier: Apache-2.0
/*
 * The queues of a device as a trace shows them: doorbells, work requests and completions. What the program's memory has
 * is copied before a line begins, since reading it may be cut off (fault.h).
 */
#include "../wire/clock_now.h"
#include "qp.h"
#include "srq.h"
#include "status.h"
#include "trace.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WQE_BYTES 1024 /* 63 segments of 16 bytes, and more */
#define SHOWN_SGES    4

static void trace_flush(struct device_trace *x)
{
	uint64_t n_lines = 0;

	for (size_t i = 0; i < x->lines.bytes; i++)
		n_lines += x->text[i] == '\n';
	trace_send(x->trace, TRACE_TEXT, x->text, x->lines.bytes, n_lines);
	x->lines.bytes = 0;
}

static void trace_make_room(struct lines *lines)
{
	trace_flush((struct device_trace *)((char *)lines - offsetof(struct device_trace, lines)));
}

static struct lines *trace_line(struct device *d, const char *what)
{
	struct lines *lines = &d->tracing->lines;

	lines_begin(lines, what);
	lines_time(lines, "time", d->tracing->now_ns);
	lines_text(lines, "device", d->name);
	return lines;
}

static void trace_sge(struct lines *lines, const struct hw_data_seg *seg, unsigned int i)
{
	char name[16], text[64];

	if (i >= SHOWN_SGES)
		return;
	snprintf(name, sizeof(name), "sge%u", i);
	snprintf(text, sizeof(text), "0x%lx+%u/0x%x", be64toh(seg->addr_be), be32toh(seg->byte_count_be),
	         be32toh(seg->lkey_be));
	lines_text(lines, name, text);
}

static void trace_rq_entry(struct rq *rq, uint16_t index)
{
	struct hw_data_seg segs[MAX_WQE_BYTES / sizeof(struct hw_data_seg)];
	size_t bytes = 1ul << rq->wqe_shift;
	unsigned int first = !!rq->log_strides, n = first; /* behind a next segment */
	struct lines *lines;

	if (bytes > sizeof(segs))
		bytes = sizeof(segs);
	memcpy(segs, rq->buf + ((size_t)(index & (rq->n_wqe - 1)) << rq->wqe_shift), bytes);
	lines = trace_line(rq->device, "receive");
	lines_hex(lines, "queue", rq->number);
	lines_number(lines, "index", index);
	for (; n < bytes / sizeof(segs[0]) && be32toh(segs[n].lkey_be) != HW_INVALID_LKEY; n++)
		trace_sge(lines, &segs[n], n - first);
	lines_number(lines, "sges", n - first);
	lines_end(lines);
}

static void trace_doorbell(struct device *d, const char *kind, uint32_t queue, uint32_t value, uint32_t n)
{
	struct lines *lines = trace_line(d, "doorbell");

	lines_text(lines, "of", kind);
	lines_hex(lines, "queue", queue);
	lines_number(lines, "value", value);
	lines_number(lines, "n", n);
	lines_end(lines);
}

/* If more was posted than the queue has entries, the program has written over the first ones. */
static void trace_rq(struct rq *rq)
{
	uint16_t posted, n;

	if (!rq->n_wqe || rq->state == WQ_RST)
		return;
	posted = wq_posted(rq->dbrec);
	n = (uint16_t)(posted - rq->traced);
	if (!n)
		return;
	trace_doorbell(rq->device, "rq", rq->number, posted, n);
	if (n > rq->n_wqe)
		rq->traced = (uint16_t)(posted - rq->n_wqe);
	for (; rq->traced != posted; rq->traced++)
		trace_rq_entry(rq, rq->traced);
}

/* Its entries are a list, which the program goes on with while the device takes from it; so only their number. */
static void trace_srq(struct srq *srq)
{
	uint16_t posted;

	if (!srq->n_wqe)
		return;
	posted = wq_posted(srq->dbrec);
	if (posted != srq->traced)
		trace_doorbell(srq->device, "srq", srq->number, posted, (uint16_t)(posted - srq->traced));
	srq->traced = posted;
}

static const char *trace_opcode(uint8_t opcode, char *number, size_t size)
{
	/* PRM, work queue entries: opcodes */
	static const char *const names[] = {
		[0x00] = "NOP",       [0x05] = "SEND_INVAL", [0x08] = "RDMA_WRITE", [0x09] = "RDMA_WRITE_IMM",
		[0x0a] = "SEND",      [0x0b] = "SEND_IMM",   [0x0e] = "TSO",        [0x10] = "RDMA_READ",
		[0x11] = "ATOMIC_CS", [0x12] = "ATOMIC_FA",  [0x25] = "UMR"};

	if (opcode < sizeof(names) / sizeof(names[0]) && names[opcode])
		return names[opcode];
	snprintf(number, size, "0x%02x", opcode);
	return number;
}

/* Shows one entry and returns the number of its blocks. */
static uint16_t trace_sq_entry(struct qp *qp, uint16_t index, uint16_t left)
{
	struct hw_ctrl_seg ctrl;
	struct lines *lines;
	char number[8];

	memcpy(&ctrl, sq_at(&qp->sq, index, 0), sizeof(ctrl));
	lines = trace_line(qp->device, "send");
	lines_hex(lines, "queue", qp->qpn);
	lines_number(lines, "index", index);
	lines_text(lines, "opcode", trace_opcode((uint8_t)be32toh(ctrl.opmod_idx_opcode_be), number, sizeof(number)));
	lines_number(lines, "segments", be32toh(ctrl.qpn_ds_be) & 0x3f);
	lines_flag(lines, "signalled", ctrl.fm_ce_se & HW_CTRL_CQ_UPDATE);
	lines_end(lines);
	return sq_blocks(&ctrl, left);
}

static void trace_sq(struct qp *qp)
{
	struct sq *sq = &qp->sq;
	uint16_t posted, n;

	if (!sq->n_bb || sq->state == WQ_RST)
		return;
	posted = wq_posted(sq->dbrec);
	n = (uint16_t)(posted - sq->traced);
	if (!n)
		return;
	trace_doorbell(qp->device, "sq", qp->qpn, posted, n);
	if (n > sq->n_bb) {
		sq->traced = posted; /* where the oldest entry that is left begins is not known */
		return;
	}
	for (uint16_t blocks; n; n = (uint16_t)(n - blocks)) {
		blocks = trace_sq_entry(qp, sq->traced, n);
		sq->traced = (uint16_t)(sq->traced + blocks);
	}
}

static void trace_cq_doorbells(struct cq *cq)
{
	uint32_t consumer =
		be32toh(__atomic_load_n(&cq->dbrec[HW_DBR_CQ_CONSUMER], __ATOMIC_ACQUIRE)) & HW_CQ_INDEX_MASK;
	uint32_t arm = be32toh(__atomic_load_n(&cq->dbrec[HW_DBR_CQ_ARM], __ATOMIC_ACQUIRE));

	if (consumer != cq->traced_consumer)
		trace_doorbell(cq->device, "cq", cq->cqn, consumer,
		               (consumer - cq->traced_consumer) & HW_CQ_INDEX_MASK);
	cq->traced_consumer = consumer;
	if (arm != cq->traced_arm && arm != CQ_NEVER_ARMED)
		trace_doorbell(cq->device, arm & HW_CQ_ARM_SOLICITED ? "arm-solicited" : "arm", cq->cqn,
		               arm & HW_CQ_INDEX_MASK, 1);
	cq->traced_arm = arm;
}

static void trace_cqe(struct cq *cq, uint32_t index)
{
	struct hw_cqe cqe;
	struct lines *lines;
	unsigned int opcode;
	bool error;
	char number[8];

	memcpy(&cqe, cq_entry(cq, index), sizeof(cqe));
	opcode = cqe.op_own >> 4;
	error = opcode == HW_CQE_REQ_ERR || opcode == HW_CQE_RESP_ERR;
	lines = trace_line(cq->device, "completion");
	lines_hex(lines, "cq", cq->cqn);
	lines_number(lines, "index", index);
	lines_text(lines, "of", opcode == HW_CQE_REQ || opcode == HW_CQE_REQ_ERR ? "send" : "receive");
	lines_text(lines, "status",
	           error ? status_name(((struct hw_cqe_err *)&cqe)->syndrome, number, sizeof(number)) : "SUCCESS");
	lines_hex(lines, "uidx", be32toh(cqe.uidx_be));
	lines_number(lines, "wqe", be16toh(cqe.wqe_counter_be));
	if (!error && opcode != HW_CQE_REQ)
		lines_number(lines, "bytes", be32toh(cqe.byte_cnt_be) & (cq->striding ? 0xffff : UINT32_MAX));
	if (!error && opcode == HW_CQE_RESP_SEND && cq->striding) {
		lines_number(lines, "entry", be16toh(cqe.wqe_id_be));
		lines_number(lines, "strides", be32toh(cqe.byte_cnt_be) >> 16 & 0x7fff);
	}
	if (opcode == HW_CQE_RESP_SEND)
		lines_number(lines, "tag", be32toh(cqe.sop_drop_qpn_be));
	if (cq->producer - index <= cq->n_held)
		lines_number(lines, "compressed", cq->n_held);
	lines_end(lines);
}

static void trace_cq(struct cq *cq, bool completed)
{
	if (!cq || !cq->buf)
		return;
	trace_cq_doorbells(cq);
	if (!completed)
		return;
	if (cq->producer - cq->traced > cq->n_cqe)
		cq->traced = cq->producer - cq->n_cqe;
	for (; cq->traced != cq->producer; cq->traced++)
		trace_cqe(cq, cq->traced);
}

static void trace_cqs(struct device *d, bool completed)
{
	struct qp *qp;
	struct rq *rq;

	TAILQ_FOREACH (qp, &d->qps, link) {
		trace_cq(qp->sq.cq, completed);
		trace_cq(qp->rq.cq, completed); /* also of a queue pair that takes its work requests from an SRQ */
	}
	TAILQ_FOREACH (rq, &d->wqs, link)
		if (rq->n_wqe)
			trace_cq(rq->cq, completed);
}

void trace_posted(struct device *d)
{
	struct qp *qp;
	struct rq *rq;
	struct srq *srq;

	d->tracing->now_ns = clock_now_ns(CLOCK_REALTIME);
	TAILQ_FOREACH (qp, &d->qps, link) {
		trace_rq(&qp->rq);
		trace_sq(qp);
	}
	TAILQ_FOREACH (rq, &d->wqs, link)
		trace_rq(rq);
	TAILQ_FOREACH (srq, &d->srqs, link)
		trace_srq(srq);
	trace_cqs(d, false);
}

/* What was posted while the device worked comes before its completions. */
void trace_completed(struct device *d)
{
	struct device_trace *x = d->tracing;

	trace_posted(d);
	trace_cqs(d, true);
	trace_flush(x);
	if (x->n_frame_bytes)
		trace_send(x->trace, TRACE_FRAMES, x->frames, x->n_frame_bytes, 1);
	x->n_frame_bytes = 0;
}

void trace_held(struct cq *cq)
{
	trace_posted(cq->device);
	trace_cq(cq, true);
}

void trace_forget_past(struct device *d)
{
	struct qp *qp;
	struct rq *rq;
	struct srq *srq;

	TAILQ_FOREACH (qp, &d->qps, link) {
		qp->rq.traced = qp->rq.taken;
		qp->sq.traced = qp->sq.taken;
		if (qp->sq.cq)
			qp->sq.cq->traced = qp->sq.cq->producer;
		if (qp->rq.cq)
			qp->rq.cq->traced = qp->rq.cq->producer;
	}
	TAILQ_FOREACH (srq, &d->srqs, link)
		srq->traced = srq->taken;
	TAILQ_FOREACH (rq, &d->wqs, link) {
		rq->traced = rq->taken;
		rq->cq->traced = rq->cq->producer;
	}
}

struct device_trace *trace_new(struct trace *t)
{
	struct device_trace *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->trace = t;
	x->lines =
		(struct lines){.text = x->text, .size = sizeof(x->text), .json = t->json, .make_room = trace_make_room};
	return x;
}
