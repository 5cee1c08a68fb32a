// SPDX-License-Identifier: Apache-2.0
/* Queue pairs: states of the pair from those of its queues (mlx5_ib: sqrq_state_to_qp_state), flushes. */
#include "device/qp.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#define N_CQE 64

static unsigned int n_fatal;

static void fatal(struct qp *qp)
{
	(void)qp;
	n_fatal++;
}

static void nothing(struct cq *cq)
{
	(void)cq;
}

static const struct device_events events = {.cq_completion = nothing, .cq_error = nothing, .qp_fatal = fatal};
static struct device device;
static uint32_t cq_dbrec[2], dbrec[2];
static uint8_t entries[N_CQE * 64], send_buf[16 * HW_SEND_WQE_BB], receive_buf[16 * 16];
static struct cq cq;
static struct qp qp;

static void set_up(void)
{
	n_fatal = 0;
	memset(&device, 0, sizeof(device));
	device.events = &events;
	TAILQ_INIT(&device.armed_later);
	TAILQ_INIT(&device.qps);
	TAILQ_INIT(&device.wqs);
	memset(dbrec, 0, sizeof(dbrec));
	memset(send_buf, 0, sizeof(send_buf));
	cq_dbrec[HW_DBR_CQ_ARM] = CQ_NEVER_ARMED;
	cq = (struct cq){.device = &device, .buf = entries, .cqe_bytes = 64, .n_cqe = N_CQE, .dbrec = cq_dbrec};
	cq_init(&cq);
	qp = (struct qp){.device = &device, .qpn = 5};
	qp.sq = (struct sq){.cq = &cq, .buf = send_buf, .dbrec = &dbrec[HW_DBR_SEND], .n_bb = 16};
	qp.rq = (struct rq){.device = &device,
	                    .cq = &cq,
	                    .buf = receive_buf,
	                    .n_wqe = 16,
	                    .wqe_shift = 4,
	                    .dbrec = &dbrec[HW_DBR_RECV],
	                    .qp = &qp};
	TAILQ_INSERT_TAIL(&device.qps, &qp, link);
	qp_set_state(&qp, QP_INIT);
	qp_set_state(&qp, QP_RTR);
	qp_set_state(&qp, QP_RTS);
}

TestSuite(qp, .init = set_up);

Test(qp, what_a_query_tells)
{
	cr_assert_eq(qp_query_state(&qp), QP_RTS);
	sq_fail(&qp, true);
	cr_assert_eq(qp_query_state(&qp), QP_SQE);
	rq_fail(&qp.rq, true);
	cr_assert_eq(qp_query_state(&qp), QP_ERR);
	qp_set_state(&qp, QP_RESET);
	cr_assert_eq(qp_query_state(&qp), QP_RESET);
}

Test(qp, a_receive_queue_alone_in_error_is_a_contradiction)
{
	rq_fail(&qp.rq, true);
	cr_assert_eq(qp_query_state(&qp), -EINVAL);
	qp.sq.n_bb = 0; /* without a send queue it is none */
	cr_assert_eq(qp_query_state(&qp), QP_ERR);
}

Test(qp, a_send_queue_alone_hides_its_error)
{
	qp.rq.n_wqe = 0;
	sq_fail(&qp, true);
	cr_assert_eq(qp_query_state(&qp), QP_RTS);
}

Test(qp, an_event_for_what_no_completion_told)
{
	sq_fail(&qp, true);
	cr_assert_eq(n_fatal, 0);
	rq_fail(&qp.rq, false);
	cr_assert_eq(n_fatal, 1);
	rq_fail(&qp.rq, false); /* it is there already */
	cr_assert_eq(n_fatal, 1);
}

Test(qp, a_flush_is_once_for_each)
{
	dbrec[HW_DBR_RECV] = htobe32(3);
	rq_set_state(&qp.rq, WQ_ERR);
	cr_assert_eq(cq.producer, 3);
	cr_assert(queues_flush(&device));
	cr_assert_eq(cq.producer, 3);
	dbrec[HW_DBR_RECV] = htobe32(4);
	queues_flush(&device);
	cr_assert_eq(cq.producer, 4);
}

Test(qp, a_flush_of_scribbled_requests_ends)
{
	struct hw_ctrl_seg *second = (void *)(send_buf + HW_SEND_WQE_BB);

	second->qpn_ds_be = htobe32(63); /* the first one has no length, this one is too long */
	dbrec[HW_DBR_SEND] = htobe32(2);
	sq_fail(&qp, true);
	cr_assert_eq(cq.producer, 2);
	queues_flush(&device);
	cr_assert_eq(cq.producer, 2);
}
