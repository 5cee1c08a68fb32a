// SPDX-License-Identifier: Apache-2.0
/* Passes the events that the device reports on to the program's event files. */
#include "objects.h"

#include <rdma/ib_user_verbs.h>

static void async_event_of_device(struct uverbs_file *file, uint32_t type)
{
	struct ib_uverbs_async_event_desc desc = {.element = device_port(file->device), .event_type = type};
	struct event_channel *c;

	STAILQ_FOREACH (c, &file->async, link)
		event_channel_send(c, &desc);
}

static void async_event_of(struct object *o, uint32_t type)
{
	struct ib_uverbs_async_event_desc desc = {.element = o->user_handle, .event_type = type};
	struct event_channel *first = STAILQ_FIRST(&o->file->async);

	o->n_async_events += first && event_channel_send(first, &desc);
}

uint32_t async_events_read(struct object *o)
{
	struct event_channel *first = STAILQ_FIRST(&o->file->async);

	if (first)
		o->n_async_events -= event_channel_purge(first, o->user_handle);
	return o->n_async_events;
}

static void uverbs_on_completion(struct cq *cq)
{
	struct ucq *u = cq->owner;
	struct ib_uverbs_comp_event_desc desc = {.cq_handle = u->object.user_handle};

	if (u->channel && event_channel_send(u->channel, &desc))
		u->n_comp_events++;
}

static void uverbs_on_qp_event(struct qp *qp, enum device_event event)
{
	struct uqp *u = qp->owner;

	async_event_of(&u->object, event);
}

static void uverbs_on_qp_fatal(struct qp *qp)
{
	uverbs_on_qp_event(qp, EVENT_QP_FATAL);
}

static void uverbs_on_srq_event(struct srq *srq, enum device_event event)
{
	struct usrq *u = srq->owner;

	async_event_of(&u->object, event);
}

static void uverbs_on_wq_fatal(struct rq *rq)
{
	struct uwq *u = rq->owner;

	async_event_of(&u->object, EVENT_WQ_FATAL);
}

static void uverbs_on_cq_error(struct cq *cq)
{
	struct ucq *u = cq->owner;
	struct qp *qp;
	struct rq *rq;

	async_event_of(&u->object, EVENT_CQ_ERR);
	/* IB specification 10.10.4: the queues that complete there go to the error state. */
	TAILQ_FOREACH (qp, &cq->device->qps, link) {
		if (qp->rq.n_wqe && qp->rq.cq == cq)
			rq_fail(&qp->rq, false);
		if (qp->sq.n_bb && qp->sq.cq == cq)
			sq_fail(qp, false);
	}
	TAILQ_FOREACH (rq, &cq->device->wqs, link)
		if (rq->cq == cq)
			rq_fail(rq, false);
}

static void uverbs_on_port(struct device *device, bool active)
{
	struct uverbs_file *file;

	LIST_FOREACH (file, &device->files, link)
		async_event_of_device(file, active ? EVENT_PORT_ACTIVE : EVENT_PORT_ERR);
}

/* mlx5_ib: mlx5_ib_handle_event, for MLX5_DEV_EVENT_SYS_ERROR. */
static void uverbs_on_fatal(struct device *device)
{
	struct uverbs_file *file;

	LIST_FOREACH (file, &device->files, link) {
		file->dead = true;
		async_event_of_device(file, EVENT_DEVICE_FATAL);
	}
}

const struct device_events uverbs_events = {
	.cq_completion = uverbs_on_completion,
	.cq_error = uverbs_on_cq_error,
	.qp_fatal = uverbs_on_qp_fatal,
	.wq_fatal = uverbs_on_wq_fatal,
	.qp_event = uverbs_on_qp_event,
	.srq_event = uverbs_on_srq_event,
	.port = uverbs_on_port,
	.fatal = uverbs_on_fatal,
};
