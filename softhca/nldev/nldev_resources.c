// SPDX-License-Identifier: Apache-2.0
/*
 * Resources of RDMA netlink: the objects that this process has, by type (fill_res_info and fill_res_…_entry). The
 * objects of other processes are theirs alone, as for a task in another PID namespace.
 */
#include "nldev_message.h"

#include "../uverbs/memlock.h"
#include "../uverbs/objects.h"

#include <errno.h>
#include <linux/capability.h>
#include <unistd.h>

#define ENTRY_ROOM 512 /* more than any entry needs */

/* An object as the answer shows it; `object` is NULL for a context. */
struct resource {
	struct device *device;
	const struct uverbs_file *file;
	struct object *object;
};

/* restrack numbers contexts; here they have the number of our own descriptor. */
static uint32_t resource_context(const struct resource *s)
{
	return (uint32_t)s->file->memfd;
}

static void resource_put_qp(struct nldev_message *m, const struct resource *s)
{
	struct uqp *u = (struct uqp *)s->object;
	int state = uqp_query_state(u);

	if (u->port)
		nldev_put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, u->port);
	nldev_put_u32(m, RDMA_NLDEV_ATTR_RES_PDN, u->pd->pdn);
	nldev_put_u32(m, RDMA_NLDEV_ATTR_RES_SQ_PSN, 0);
	nldev_put_u8(m, RDMA_NLDEV_ATTR_RES_TYPE, u->type);
	nldev_put_u8(m, RDMA_NLDEV_ATTR_RES_STATE, (uint8_t)(state < 0 ? (int)u->qp.state : state));
}

static void resource_put_cq(struct nldev_message *m, const struct resource *s)
{
	const struct ucq *u = (struct ucq *)s->object;

	nldev_put_u32(m, RDMA_NLDEV_ATTR_RES_CQE, u->cq.n_cqe - 1);
	nldev_put_u64(m, RDMA_NLDEV_ATTR_RES_USECNT, s->object->n_users);
	nldev_put_u8(m, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	nldev_put_u32(m, RDMA_NLDEV_ATTR_RES_CTXN, resource_context(s));
}

static void resource_put_mr(struct nldev_message *m, const struct resource *s)
{
	const struct mr *mr = (struct mr *)s->object;

	if (program_has_capability(CAP_NET_ADMIN)) { /* netlink_capable */
		nldev_put_u32(m, RDMA_NLDEV_ATTR_RES_RKEY, mr->lkey);
		nldev_put_u32(m, RDMA_NLDEV_ATTR_RES_LKEY, mr->lkey);
	}
	nldev_put_u64(m, RDMA_NLDEV_ATTR_RES_MRLEN, s->device->mkeys.keys[mr->lkey >> 8].length);
	nldev_put_u32(m, RDMA_NLDEV_ATTR_RES_PDN, mr->pd->pdn);
}

static void resource_put_pd(struct nldev_message *m, const struct resource *s)
{
	nldev_put_u64(m, RDMA_NLDEV_ATTR_RES_USECNT, s->object->n_users);
	nldev_put_u32(m, RDMA_NLDEV_ATTR_RES_CTXN, resource_context(s));
}

static void resource_put_context(struct nldev_message *m, const struct resource *s)
{
	(void)m;
	(void)s;
}

static uint32_t resource_id(const struct resource *s)
{
	if (!s->object)
		return resource_context(s);
	switch (s->object->type) {
	case OBJECT_PD:
		return ((struct pd *)s->object)->pdn;
	case OBJECT_CQ:
		return ((struct ucq *)s->object)->cq.cqn;
	case OBJECT_QP:
		return ((struct uqp *)s->object)->qp.qpn;
	default:
		return ((struct mr *)s->object)->lkey >> 8;
	}
}

#define NO_OBJECT OBJECT_N_TYPES

/* By what rdma(8) asks for. A type without `put` has no objects here. */
static const struct resource_kind {
	const char *name;
	unsigned int command;
	int table, entry, id; /* attributes; `id` names the entry */
	enum object_type type;
	void (*put)(struct nldev_message *m, const struct resource *s);
} resource_kinds[] = {
	{"pd", RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY, RDMA_NLDEV_ATTR_RES_PDN,
         OBJECT_PD, resource_put_pd},
	{"cq", RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY, RDMA_NLDEV_ATTR_RES_CQN,
         OBJECT_CQ, resource_put_cq},
	{"qp", RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
         RDMA_NLDEV_ATTR_RES_LQPN, OBJECT_QP, resource_put_qp},
	{"cm_id", RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
         RDMA_NLDEV_ATTR_RES_CM_IDN, NO_OBJECT, NULL},
	{"mr", RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY, RDMA_NLDEV_ATTR_RES_MRN,
         OBJECT_MR, resource_put_mr},
	{"ctx", RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
         RDMA_NLDEV_ATTR_RES_CTXN, NO_OBJECT, resource_put_context},
	{"srq", RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
         RDMA_NLDEV_ATTR_RES_SRQN, NO_OBJECT, NULL},
};
#define N_KINDS (sizeof(resource_kinds) / sizeof(resource_kinds[0]))

static const struct resource_kind *resource_find_kind(const struct nldev_request *r)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (resource_kinds[i].command == RDMA_NL_GET_OP(r->head.nlmsg_type))
			return &resource_kinds[i];
	return NULL;
}

/* Calls `visit` for each object of the kind, until it returns false. With the device's lock held. */
static void resource_each(struct device *d, const struct resource_kind *k,
                          bool (*visit)(void *arg, const struct resource *s), void *arg)
{
	struct resource s = {.device = d};
	const struct uverbs_file *f;

	if (!k->put)
		return;
	LIST_FOREACH (f, &d->files, link) {
		s.file = f;
		s.object = NULL;
		if (!f->has_context)
			continue;
		if (k->type == NO_OBJECT && !visit(arg, &s))
			return;
		for (uint32_t i = 0; k->type != NO_OBJECT && i < f->objects.size; i++) {
			s.object = f->objects.slots[i];
			if (s.object && s.object->type == k->type && !visit(arg, &s))
				return;
		}
	}
}

static bool resource_count(void *arg, const struct resource *s)
{
	(void)s;
	++*(uint64_t *)arg;
	return true;
}

static void resource_send_summary(const struct nldev_request *r, struct device *d, uint16_t flags)
{
	struct nldev_message m;
	size_t table;

	nldev_begin(&m, r, flags);
	nldev_put_handle(&m, d);
	table = nldev_nest(&m, RDMA_NLDEV_ATTR_RES_SUMMARY);
	device_lock(d);
	for (size_t i = 0; i < N_KINDS; i++) {
		size_t entry = nldev_nest(&m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
		uint64_t n = 0;

		resource_each(d, &resource_kinds[i], resource_count, &n);
		nldev_put_text(&m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, resource_kinds[i].name);
		nldev_put_u64(&m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, n);
		nldev_end(&m, entry);
	}
	device_unlock(d);
	nldev_end(&m, table);
	nldev_send(&m);
}

int nldev_resource_summary(const struct nldev_request *r)
{
	struct device *d = nldev_request_device(r);

	if (!(r->head.nlmsg_flags & NLM_F_DUMP)) {
		if (!d)
			return -EINVAL;
		resource_send_summary(r, d, 0);
		return 0;
	}
	for (unsigned int i = 0; i < r->nldev->n_devices; i++)
		resource_send_summary(r, &r->nldev->devices[i], NLM_F_MULTI);
	return 0;
}

/* The answer to a dump, or to a question for one entry. */
struct resource_answer {
	struct nldev_message message;
	const struct resource_kind *kind;
	struct device *device;
	uint32_t port; /* 0: of all ports */
	uint32_t id;   /* of the entry that is asked for */
	bool wants_one, found;
	size_t table;
};

static void resource_begin(struct resource_answer *a, const struct nldev_request *r)
{
	nldev_begin(&a->message, r, a->wants_one ? 0 : NLM_F_MULTI);
	nldev_put_handle(&a->message, a->device);
	if (!a->wants_one)
		a->table = nldev_nest(&a->message, a->kind->table);
}

static void resource_finish(struct resource_answer *a)
{
	if (!a->wants_one)
		nldev_end(&a->message, a->table);
	nldev_send(&a->message);
}

static bool resource_is_wanted(const struct resource_answer *a, const struct resource *s)
{
	if (a->port && a->kind->type == OBJECT_QP && ((struct uqp *)s->object)->port != a->port)
		return false;
	return !a->wants_one || resource_id(s) == a->id;
}

static bool resource_visit(void *arg, const struct resource *s)
{
	struct resource_answer *a = arg;
	size_t entry = 0;

	if (!resource_is_wanted(a, s))
		return true;
	a->found = true;
	if (!a->wants_one && sizeof(a->message.bytes) - a->message.used < ENTRY_ROOM) {
		resource_finish(a);
		resource_begin(a, a->message.request);
	}
	if (!a->wants_one)
		entry = nldev_nest(&a->message, a->kind->entry);
	a->kind->put(&a->message, s);
	nldev_put_u32(&a->message, a->kind->id, resource_id(s));
	nldev_put_u32(&a->message, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)getpid());
	if (!a->wants_one)
		nldev_end(&a->message, entry);
	return !a->wants_one;
}

/* 0, -EINVAL, or -ENOENT if the one entry that is asked for is not there. */
static int resource_answer(struct resource_answer *a, const struct nldev_request *r)
{
	a->kind = resource_find_kind(r);
	a->device = nldev_request_device(r);
	if (!a->device)
		return -EINVAL;
	if (r->attrs[RDMA_NLDEV_ATTR_PORT_INDEX] && nldev_request_port(r, &a->device, &a->port))
		return -EINVAL;
	resource_begin(a, r);
	device_lock(a->device);
	resource_each(a->device, a->kind, resource_visit, a);
	device_unlock(a->device);
	if (a->wants_one && !a->found)
		return -ENOENT;
	resource_finish(a);
	return 0;
}

int nldev_resource_get(const struct nldev_request *r)
{
	struct resource_answer a = {.wants_one = true};

	if (!nldev_request_u32(r, resource_find_kind(r)->id, &a.id))
		return -EINVAL;
	return resource_answer(&a, r);
}

int nldev_resource_dump(const struct nldev_request *r)
{
	struct resource_answer a = {.wants_one = false};

	return resource_answer(&a, r);
}
