// SPDX-License-Identifier: Apache-2.0
/* Send queues, into whose entries and doorbell record a program may write anything. */
#include "device/profile.h"
#include "device/qp.h"
#include "device/sq.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <string.h>

#define N_CQE        16
#define N_BB         4
#define INLINE_BYTES 900

static unsigned int n_sent;

static int send_frames(struct wire *w, const struct iovec *const *iov, const int *iovcnt, int n)
{
	(void)w;
	(void)iov;
	(void)iovcnt;
	n_sent += (unsigned int)n;
	return n;
}

static void nothing(struct cq *cq)
{
	(void)cq;
}

static const struct wire_ops wire_ops = {.send = send_frames};
static struct wire wire = {.ops = &wire_ops};
static const struct device_events events = {.cq_completion = nothing, .cq_error = nothing};
static const struct profile profile;
static struct device device;
static uint32_t cq_dbrec[2], dbrec[2];
static uint8_t entries[N_CQE * 64], send_buf[N_BB * HW_SEND_WQE_BB];
static struct cq cq;
static struct qp qp;

static void set_up(void)
{
	n_sent = 0;
	memset(&device, 0, sizeof(device));
	device.events = &events;
	device.config.profile = &profile;
	device.wire = &wire;
	device.mtu = 1500;
	TAILQ_INIT(&device.armed_later);
	cq_dbrec[HW_DBR_CQ_ARM] = CQ_NEVER_ARMED;
	cq = (struct cq){.device = &device, .buf = entries, .cqe_bytes = 64, .n_cqe = N_CQE, .dbrec = cq_dbrec};
	cq_init(&cq);
	qp = (struct qp){.device = &device, .qpn = 5};
	qp.sq = (struct sq){.cq = &cq, .buf = send_buf, .dbrec = &dbrec[HW_DBR_SEND], .n_bb = N_BB};
	qp_set_state(&qp, QP_INIT);
	qp_set_state(&qp, QP_RTR);
	qp_set_state(&qp, QP_RTS);
}

/* A send of `segments` 16-byte units, `inline_bytes` of them in the Ethernet segment, and no more. */
static void post(uint32_t segments, uint16_t inline_bytes, uint16_t doorbell)
{
	struct hw_ctrl_seg *ctrl = (void *)send_buf;
	struct hw_eth_seg *eth = (void *)(ctrl + 1);

	memset(send_buf, 0, sizeof(send_buf));
	ctrl->opmod_idx_opcode_be = htobe32(HW_OPCODE_SEND);
	ctrl->qpn_ds_be = htobe32(qp.qpn << 8 | segments);
	ctrl->fm_ce_se = HW_CTRL_CQ_UPDATE;
	eth->inline_hdr_sz_be = htobe16(inline_bytes);
	dbrec[HW_DBR_SEND] = htobe32(doorbell);
}

static uint8_t work(void)
{
	struct sq_batch *batch = sq_batch_new();

	sq_work(&qp, batch);
	sq_batch_free(batch);
	return entries[63] >> 4;
}

TestSuite(sq, .init = set_up);

Test(sq, sends_what_is_posted)
{
	post(6, 62, 2);
	cr_assert_eq(work(), HW_CQE_REQ);
	cr_assert_eq(n_sent, 1);
}

Test(sq, what_is_posted_is_sent_before_the_queue_goes)
{
	device.sq_batch = sq_batch_new();
	qp.work = sq_work;
	device.halted = true;
	post(6, 62, 2);
	qp_send_posted(&qp);
	cr_assert_eq(n_sent, 0);
	device.halted = false;
	qp_send_posted(&qp);
	cr_assert_eq(n_sent, 1);
	qp_send_posted(&qp);
	cr_assert_eq(n_sent, 1);
	post(6, 62, 4);
	sq_set_state(&qp, WQ_ERR);
	qp_send_posted(&qp);
	cr_assert_eq(n_sent, 1);
	sq_batch_free(device.sq_batch);
}

Test(sq, a_request_longer_than_what_is_posted_is_an_error)
{
	post(6, 62, 1);
	cr_assert_eq(work(), HW_CQE_REQ_ERR);
	cr_assert_eq(n_sent, 0);
}

Test(sq, a_request_longer_than_the_queue_is_an_error)
{
	post(59, INLINE_BYTES, 1000);
	cr_assert_eq(work(), HW_CQE_REQ_ERR);
	cr_assert_eq(n_sent, 0);
}
