// SPDX-License-Identifier: Apache-2.0
/* The queues of events that programs read. */
#include "cm_id.h"

#include <stdlib.h>

/* The program's end can be read while there are events. */
static void cm_file_enqueue(struct cm_file *f, struct cm_event *e)
{
	if (STAILQ_EMPTY(&f->events))
		send(f->token_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	STAILQ_INSERT_TAIL(&f->events, e, link);
}

static void cm_file_dequeue(struct cm_file *f, struct cm_event *e)
{
	char token;

	STAILQ_REMOVE(&f->events, e, cm_event, link);
	if (STAILQ_EMPTY(&f->events))
		recv(f->peek_fd, &token, sizeof(token), MSG_DONTWAIT);
}

struct cm_event *cm_event_add(struct cm_id *id, enum cm_event_type event, int32_t status)
{
	struct cm_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->id = id;
	e->resp.event = event;
	e->resp.status = (uint32_t)status;
	e->resp.uid = id->uid;
	e->resp.id = id->handle;
	cm_file_enqueue(id->file, e);
	return e;
}

void cm_event_remove(struct cm_file *file, struct cm_event *e)
{
	cm_file_dequeue(file, e);
	free(e);
}

void cm_id_move(struct cm_id *id, struct cm_file *to)
{
	struct cm_event *e, *next;

	for (e = STAILQ_FIRST(&id->file->events); e && id->file != to; e = next) {
		next = STAILQ_NEXT(e, link);
		if (e->id != id)
			continue;
		cm_file_dequeue(id->file, e);
		cm_file_enqueue(to, e);
	}
	id->file = to;
}
