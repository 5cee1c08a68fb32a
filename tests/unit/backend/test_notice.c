// SPDX-License-Identifier: Apache-2.0
/* Which notice an asynchronous event of the device becomes, and which queues it marks as failed. */
#include "daemon/backend/verbs/verbs.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

static struct ibv_async_event next;
static int read_error;
static uint32_t n_acknowledged;
static enum ibv_qp_state qp_state;
static int query_error;

/* In place of libibverbs'. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	*event = next;
	errno = read_error;
	return read_error ? -1 : 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	n_acknowledged++;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)qp, (void)mask, (void)init;
	attr->qp_state = qp_state;
	return query_error;
}

static struct verbs_backend backend = {.port = 1};

static struct backend_notice read_notice(enum ibv_event_type type)
{
	struct backend_notice notice = {0};

	next.event_type = type;
	n_acknowledged = 0;
	cr_assert(eq(int, verbs_read_notice(&backend.base, &notice), 1));
	cr_expect(eq(u32, n_acknowledged, 1), "the queue's destruction waits for it");
	cr_expect(eq(str, (char *)notice.text, (char *)ibv_event_type_str(type)));
	return notice;
}

Test(notice, the_failure_of_the_device_is_told)
{
	struct backend_notice notice = read_notice(IBV_EVENT_DEVICE_FATAL);

	cr_expect(eq(int, notice.type, BACKEND_NOTICE_DEVICE_FAILED));
	cr_expect(eq(ptr, notice.queue, NULL));
}

Test(notice, an_overrun_completion_queue_needs_a_new_one)
{
	struct verbs_queue queue = {0};
	struct ibv_cq cq = {.cq_context = &queue};
	struct backend_notice notice;

	next.element.cq = &cq;
	notice = read_notice(IBV_EVENT_CQ_ERR);
	cr_expect(eq(int, notice.type, BACKEND_NOTICE_QUEUE_FAILED));
	cr_expect(eq(ptr, notice.queue, &queue.base));
	cr_expect(atomic_load(&queue.cq_failed));
	cr_expect(atomic_load(&queue.failed));
}

static bool is_failed_in(enum ibv_event_type type, enum ibv_qp_state state, int error)
{
	struct verbs_queue queue = {0};
	struct ibv_qp qp = {.qp_context = &queue};
	struct backend_notice notice;

	next.element.qp = &qp;
	qp_state = state;
	query_error = error;
	notice = read_notice(type);
	cr_expect(eq(int, notice.type, BACKEND_NOTICE_QUEUE_FAILED));
	cr_expect(eq(ptr, notice.queue, &queue.base));
	cr_expect(not(atomic_load(&queue.cq_failed)));
	return atomic_load(&queue.failed);
}

Test(notice, a_queue_pair_has_failed_if_its_state_says_so_or_nobody_can)
{
	cr_expect(is_failed_in(IBV_EVENT_QP_FATAL, IBV_QPS_ERR, 0));
	cr_expect(is_failed_in(IBV_EVENT_QP_REQ_ERR, IBV_QPS_SQE, 0));
	cr_expect(is_failed_in(IBV_EVENT_QP_ACCESS_ERR, IBV_QPS_RTS, EIO));
	cr_expect(not(is_failed_in(IBV_EVENT_QP_FATAL, IBV_QPS_RTS, 0)), "a reset was quicker than the event");
}

Test(notice, the_link_is_that_of_our_port)
{
	next.element.port_num = 1;
	cr_expect(eq(int, read_notice(IBV_EVENT_PORT_ACTIVE).type, BACKEND_NOTICE_PORT_UP));
	cr_expect(eq(int, read_notice(IBV_EVENT_PORT_ERR).type, BACKEND_NOTICE_PORT_DOWN));
	next.element.port_num = 2;
	cr_expect(eq(int, read_notice(IBV_EVENT_PORT_ERR).type, BACKEND_NOTICE_OTHER));
	cr_expect(eq(int, read_notice(IBV_EVENT_GID_CHANGE).type, BACKEND_NOTICE_OTHER));
}

Test(notice, no_event_is_none_and_a_failed_read_is_an_error)
{
	struct backend_notice notice;

	n_acknowledged = 0;
	read_error = EAGAIN;
	cr_expect(eq(int, verbs_read_notice(&backend.base, &notice), 0));
	read_error = EINTR;
	cr_expect(eq(int, verbs_read_notice(&backend.base, &notice), 0));
	read_error = EIO;
	cr_expect(eq(int, verbs_read_notice(&backend.base, &notice), -EIO));
	cr_expect(eq(u32, n_acknowledged, 0));
}

Test(explain, each_errno_that_misleads_has_its_meaning)
{
	static const struct {
		int error;
		const char *part;
	} limits[] = {{EAGAIN, "rdma.max"}, {ETIMEDOUT, "does not answer"}, {EIO, "dmesg"}};
	static const struct {
		int error;
		const char *part;
	} flows[] = {{EPERM, "CAP_NET_RAW"},
	             {EACCES, "CAP_NET_RAW"},
	             {ENOSPC, "65536 rules"},
	             {ENOMEM, "no memory"},
	             {EOPNOTSUPP, "mlx4"},
	             {EPROTONOSUPPORT, "mlx4"},
	             {EEXIST, "another queue"},
	             {EINVAL, "refused by the driver"},
	             {EIO, "dmesg"}};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		cr_expect(ne(ptr, strstr(verbs_explain_limit(limits[i].error), limits[i].part), NULL), "%s",
		          limits[i].part);
	cr_expect(eq(str, (char *)verbs_explain_limit(EINVAL), (char *)""));
	for (size_t i = 0; i < sizeof(flows) / sizeof(flows[0]); i++)
		cr_expect(ne(ptr, strstr(verbs_explain_flow(flows[i].error, NULL), flows[i].part), NULL), "%s",
		          flows[i].part);
}
