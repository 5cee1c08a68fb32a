// SPDX-License-Identifier: Apache-2.0
/* Finds pitfalls in commands. The program's memory is read as the kernel would, since it may be gone. */
#include "pitfalls.h"

#include "user_memory.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/socket.h>

/* The public part of struct ibv_cq (infiniband/verbs.h), which libibverbs gives as user_handle. */
struct library_cq {
	void *context, *channel, *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
};

static bool rules_overlap(const struct packet_key *value, const struct packet_key *mask, const struct flow_rule *rule)
{
	for (size_t i = 0; i < sizeof(mask->word) / sizeof(mask->word[0]); i++)
		if ((value->word[i] ^ rule->value.word[i]) & mask->word[i] & rule->mask.word[i])
			return false;
	return true;
}

static void pitfall_of_order(struct device *d, const struct flow_rule *rule)
{
	const struct flow_group *g;

	TAILQ_FOREACH (g, &d->steering.tables[rule->table].groups, link)
		for (uint32_t i = 0; g != rule->entry->group && i < g->n_chains; i++)
			for (const struct flow_entry *e = g->chains[i]; e; e = e->next)
				if (TAILQ_FIRST(&e->rules)->qp != rule->qp && rules_overlap(&e->value, &g->mask, rule))
					warning_give(d, WARNING_FLOW_ORDER, rule->qp->qpn);
}

void pitfall_of_rule(struct device *d, const struct flow_rule *rule)
{
	const struct flow_rule *other;

	if (!d->config.warnings || !rule->qp)
		return;
	TAILQ_FOREACH (other, &rule->entry->rules, entry_link) {
		if (other->qp != rule->qp)
			warning_give(d, WARNING_SAME_RULE, rule->qp->qpn);
		else if (rule->counter && !other->counter)
			warning_give(d, WARNING_LATE_COUNTER, rule->qp->qpn);
	}
	if (rule->table <= FLOW_TABLE_MULTICAST && !rule->dont_trap)
		pitfall_of_order(d, rule);
}

void pitfall_of_events(const struct ucq *u)
{
	struct library_cq theirs;

	if (!u->cq.device->config.warnings || !u->n_comp_events ||
	    user_memory_read(&theirs, u->object.user_handle, sizeof(theirs)) || theirs.handle != u->object.handle)
		return;
	if (theirs.comp_events_completed != u->n_comp_events)
		warning_give(u->cq.device, WARNING_UNACKED, u->cq.cqn);
}

void pitfall_of_reset(const struct cq *cq, uint32_t uidx, uint32_t number)
{
	uint32_t consumer_be;
	struct hw_cqe cqe;

	if (!cq || !cq->device->config.warnings ||
	    user_memory_read(&consumer_be, (uintptr_t)cq->dbrec, sizeof(consumer_be)))
		return;
	for (uint32_t i = be32toh(consumer_be) & HW_CQ_INDEX_MASK, n = 0;
	     n < cq->n_cqe && ((cq->producer ^ i) & HW_CQ_INDEX_MASK); i++, n++) {
		if (!user_memory_read(&cqe, (uintptr_t)cq_entry(cq, i), sizeof(cqe)) && be32toh(cqe.uidx_be) == uidx)
			warning_give(cq->device, WARNING_LOST_BY_RESET, number);
	}
}

void pitfall_of_fork(struct device *d)
{
	uint32_t i = 0;

	device_lock(d);
	while (i < d->mkeys.size && !d->mkeys.keys[i].used)
		i++;
	if (i < d->mkeys.size)
		warning_give(d, WARNING_FORK, 0);
	device_unlock(d);
}

static bool cq_is_armed_by_program(const struct cq *cq)
{
	uint32_t arm_be;

	return user_memory_read(&arm_be, (uintptr_t)&cq->dbrec[HW_DBR_CQ_ARM], sizeof(arm_be)) ||
	       (be32toh(arm_be) != CQ_NEVER_ARMED && (int)(be32toh(arm_be) >> 28 & 3) != cq->fired_sn);
}

/* A completion queue of the file that is on the channel and not armed; NULL if one is armed or there is none. */
static const struct cq *file_find_unarmed(const struct uverbs_file *f, const struct event_channel *channel)
{
	const struct cq *found = NULL;

	for (uint32_t i = 0; i < f->objects.size; i++) {
		const struct ucq *u = (const struct ucq *)f->objects.slots[i];

		if (!u || u->object.type != OBJECT_CQ || u->channel != channel)
			continue;
		if (cq_is_armed_by_program(&u->cq))
			return NULL;
		found = &u->cq;
	}
	return found;
}

void pitfall_of_wait(struct device *devices, unsigned int n_devices, const struct event_channel *channel)
{
	uint64_t record;

	if (fcntl(channel->peek_fd, F_GETFL) & O_NONBLOCK)
		return;
	for (unsigned int i = 0; i < n_devices; i++) {
		struct device *d = &devices[i];
		const struct uverbs_file *f;
		const struct cq *unarmed;

		if (!d->config.warnings)
			continue;
		device_lock(d);
		LIST_FOREACH (f, &d->files, link)
			/* An event that is there already ends the wait. */
			if (f->fd_object.ino == channel->file_ino && (unarmed = file_find_unarmed(f, channel)) &&
			    recv(channel->peek_fd, &record, sizeof(record), MSG_PEEK | MSG_DONTWAIT) < 0)
				warning_give(d, WARNING_UNARMED, unarmed->cqn);
		device_unlock(d);
	}
}
