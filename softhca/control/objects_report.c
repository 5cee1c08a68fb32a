// SPDX-License-Identifier: Apache-2.0
/*
 * Lists the objects of a process: devices, open contexts, and what each context has. The program's memory is read by
 * system calls, since it may be gone.
 */
#include "../uverbs/objects.h"
#include "../uverbs/user_memory.h"
#include "../wire/lines.h"
#include "control.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const qp_states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
static const char *const qp_types[] = {[2] = "RC", [4] = "UD", [8] = "RAW_PACKET"}; /* enum ib_uverbs_qp_type */
static const char *const wq_states[] = {"RST", "RDY", "ERR"};

/* A doorbell record; `fallback` if it cannot be read. */
static uint32_t report_doorbell(const uint32_t *dbrec, uint32_t fallback)
{
	uint32_t value_be;

	return user_memory_read(&value_be, (uintptr_t)dbrec, sizeof(value_be)) ? fallback : be32toh(value_be);
}

static uint16_t report_posted(const uint32_t *dbrec, uint16_t taken)
{
	return (uint16_t)(report_doorbell(dbrec, taken) - taken);
}

static void report_mr(struct lines *r, const struct object *o)
{
	const struct mr *mr = (const struct mr *)o;
	const struct mkey *key = &o->file->device->mkeys.keys[mr->lkey >> 8];

	lines_number(r, "pd", mr->pd->object.handle);
	lines_hex(r, "lkey", mr->lkey);
	lines_hex(r, "address", (uintptr_t)key->start);
	lines_hex(r, "iova", key->iova);
	lines_number(r, "bytes", key->length);
	lines_flag(r, "local_write", key->local_write);
	lines_flag(r, "dmabuf", mr->dmabuf);
}

static void report_cq(struct lines *r, const struct object *o)
{
	const struct ucq *u = (const struct ucq *)o;
	const struct cq *cq = &u->cq;
	uint32_t arm = report_doorbell(&cq->dbrec[HW_DBR_CQ_ARM], CQ_NEVER_ARMED);

	lines_hex(r, "cqn", cq->cqn);
	lines_number(r, "entries", cq->n_cqe);
	lines_number(r, "unread", (cq->producer - report_doorbell(cq->dbrec, cq->producer)) & HW_CQ_INDEX_MASK);
	lines_number(r, "completions", cq->producer);
	lines_flag(r, "armed", arm != CQ_NEVER_ARMED && (int)(arm >> 28 & 3) != cq->fired_sn);
	lines_flag(r, "channel", u->channel);
	lines_number(r, "events", u->n_comp_events);
	lines_flag(r, "overrun", cq->failed);
}

static void report_rq(struct lines *r, const struct rq *rq)
{
	lines_text(r, "rq_state", wq_states[rq->state]);
	lines_number(r, "rq_entries", rq->n_wqe);
	lines_number(r, "rq_posted", rq->n_wqe ? report_posted(rq->dbrec, rq->taken) : 0);
}

static void report_qp(struct lines *r, const struct object *o)
{
	const struct uqp *u = (const struct uqp *)o;

	lines_hex(r, "qpn", u->qp.qpn);
	lines_text(r, "type", qp_types[u->type]);
	lines_text(r, "state", qp_states[u->qp.state]);
	lines_number(r, "pd", u->pd->object.handle);
	if (u->ind_table) {
		lines_number(r, "table", u->ind_table->object.handle);
		return;
	}
	lines_number(r, "send_cq", u->send_cq->object.handle);
	lines_number(r, "recv_cq", u->recv_cq->object.handle);
	if (u->srq)
		lines_number(r, "srq", u->srq->object.handle);
	report_rq(r, &u->qp.rq);
	lines_text(r, "sq_state", wq_states[u->qp.sq.state]);
	lines_number(r, "sq_blocks", u->qp.sq.n_bb);
	lines_number(r, "sq_posted", u->qp.sq.n_bb ? report_posted(u->qp.sq.dbrec, u->qp.sq.taken) : 0);
	lines_number(r, "rate_kbps", u->qp.sq.pacing.rate_kbps);
}

static void report_wq(struct lines *r, const struct object *o)
{
	const struct uwq *u = (const struct uwq *)o;

	lines_hex(r, "wqn", u->rq.number);
	lines_number(r, "pd", u->pd->object.handle);
	lines_number(r, "cq", u->cq->object.handle);
	report_rq(r, &u->rq);
}

static void report_table(struct lines *r, const struct object *o)
{
	const struct uind_table *t = (const struct uind_table *)o;
	char wqs[LINES_LONGEST / 4] = "";

	for (size_t i = 0, n = 0; i < t->n_wqs && n < sizeof(wqs) - 12; i++)
		n += (size_t)snprintf(wqs + n, sizeof(wqs) - n, "%s%u", i ? "," : "", t->wqs[i]->object.handle);
	lines_number(r, "n_wqs", t->n_wqs);
	lines_text(r, "wqs", wqs);
}

static void report_match(struct lines *r, const struct packet_key *mask, const struct packet_key *value)
{
	char ip[INET6_ADDRSTRLEN];
	int family = value->ip_version == 6 ? AF_INET6 : AF_INET;
	static const uint8_t zeros[16];

	if (memcmp(mask->dst_ip, zeros, 16) && inet_ntop(family, value->dst_ip, ip, sizeof(ip)))
		lines_text(r, "dst_ip", ip);
	if (memcmp(mask->src_ip, zeros, 16) && inet_ntop(family, value->src_ip, ip, sizeof(ip)))
		lines_text(r, "src_ip", ip);
	if (mask->dst_port)
		lines_number(r, "dst_port", ntohs(value->dst_port));
	if (mask->src_port)
		lines_number(r, "src_port", ntohs(value->src_port));
	if (mask->ether_type)
		lines_hex(r, "ether_type", ntohs(value->ether_type));
}

static void report_flow(struct lines *r, const struct object *o)
{
	const struct uflow *f = (const struct uflow *)o;
	const struct flow_rule *rule = &f->rules[0];

	if (f->qp)
		lines_number(r, "qp", f->qp->object.handle);
	if (f->matcher)
		lines_number(r, "matcher", f->matcher->object.handle);
	lines_number(r, "table", rule->table);
	lines_flag(r, "drop", rule->action == FLOW_DROP);
	lines_flag(r, "miss", rule->action == FLOW_MISS);
	report_match(r, &rule->mask, &rule->value);
	if (rule->has_tag)
		lines_number(r, "tag", rule->tag);
	if (f->counters)
		lines_number(r, "counters", f->counters->object.handle);
}

static void report_matcher(struct lines *r, const struct object *o)
{
	const struct umatcher *m = (const struct umatcher *)o;

	lines_number(r, "priority", m->match.priority);
	lines_hex(r, "criteria", m->match.criteria);
}

static void report_counters(struct lines *r, const struct object *o)
{
	const struct counters *k = (const struct counters *)o;

	lines_number(r, "packets", k->value.packets);
	lines_number(r, "bytes", k->value.bytes);
}

static void report_srq(struct lines *r, const struct object *o)
{
	const struct usrq *u = (const struct usrq *)o;

	lines_hex(r, "srqn", u->srq.number);
	lines_number(r, "pd", u->pd->object.handle);
	lines_number(r, "srq_entries", u->srq.n_wqe);
	lines_number(r, "srq_posted", u->srq.n_wqe ? report_posted(u->srq.dbrec, u->srq.taken) : 0);
	lines_number(r, "limit", u->srq.limit);
}

static void report_ah(struct lines *r, const struct object *o)
{
	lines_number(r, "pd", ((const struct ah *)o)->pd->object.handle);
}

static void report_pd(struct lines *r, const struct object *o)
{
	lines_hex(r, "pdn", ((const struct pd *)o)->pdn);
}

static void report_uar(struct lines *r, const struct object *o)
{
	lines_number(r, "page", ((const struct uar *)o)->page);
}

static const struct {
	const char *name;
	void (*details)(struct lines *r, const struct object *o);
} types[OBJECT_N_TYPES] = {
	[OBJECT_FLOW] = {"flow", report_flow}, [OBJECT_COUNTERS] = {"counters", report_counters},
	[OBJECT_QP] = {"qp", report_qp},       [OBJECT_RWQ_IND_TBL] = {"rwq_ind_table", report_table},
	[OBJECT_WQ] = {"wq", report_wq},       [OBJECT_CQ] = {"cq", report_cq},
	[OBJECT_MR] = {"mr", report_mr},       [OBJECT_PD] = {"pd", report_pd},
	[OBJECT_UAR] = {"uar", report_uar},    [OBJECT_SRQ] = {"srq", report_srq},
	[OBJECT_AH] = {"ah", report_ah},       [OBJECT_MATCHER] = {"matcher", report_matcher},
};

static void report_object(struct lines *r, const struct object *o)
{
	lines_begin(r, types[o->type].name ? types[o->type].name : "object");
	lines_number(r, "handle", o->handle);
	lines_text(r, "device", o->file->device->name);
	lines_number(r, "context", o->file->fd_object.ino);
	if (types[o->type].details)
		types[o->type].details(r, o);
	lines_number(r, "users", o->n_users);
	lines_number(r, "pinned_pages", o->n_pinned);
	lines_number(r, "thread", (uint64_t)o->creator);
	lines_time(r, "created", o->created_ns);
	lines_end(r);
}

static void report_context(struct lines *r, const struct uverbs_file *f)
{
	lines_begin(r, "context");
	lines_number(r, "context", f->fd_object.ino);
	lines_text(r, "device", f->device->name);
	lines_flag(r, "dead", f->dead);
	lines_end(r);
	for (unsigned int type = OBJECT_N_TYPES; type--;)
		for (uint32_t i = 0; i < f->objects.size; i++)
			if (f->objects.slots[i] && f->objects.slots[i]->type == type)
				report_object(r, f->objects.slots[i]);
}

static void report_device(struct lines *r, struct device *d)
{
	const struct uverbs_file *f;
	struct device_counters c;

	device_read_counters(d, &c);
	lines_begin(r, "device");
	lines_text(r, "device", d->name);
	lines_text(r, "netdev", d->config.netdev);
	lines_text(r, "profile", d->config.profile->name);
	lines_number(r, "rx_packets", c.rx_packets);
	lines_number(r, "tx_packets", c.tx_packets);
	lines_number(r, "out_of_buffer", c.out_of_buffer);
	lines_number(r, "discards", c.discards);
	lines_end(r);
	device_lock(d);
	LIST_FOREACH (f, &d->files, link)
		report_context(r, f);
	device_unlock(d);
}

/* Also in a chroot without /proc. */
static void report_process(struct lines *r)
{
	char name[32] = "";
	long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC), n;

	n = fd < 0 ? 0 : syscall(SYS_read, fd, name, sizeof(name) - 1);
	syscall(SYS_close, fd);
	name[n > 0 ? n - 1 : 0] = 0;
	lines_begin(r, "process");
	lines_number(r, "pid", (uint64_t)getpid());
	lines_number(r, "uid", geteuid());
	lines_text(r, "command", name);
	lines_end(r);
}

void objects_report(const struct control *c, struct lines *r)
{
	report_process(r);
	for (unsigned int i = 0; i < c->n_devices; i++)
		report_device(r, &c->devices[i]);
}
