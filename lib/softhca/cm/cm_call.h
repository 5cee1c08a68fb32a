// SPDX-License-Identifier: Apache-2.0
/* A command as its handler sees it. With the manager's lock. */
#ifndef SOFTHCA_CM_CM_CALL_H
#define SOFTHCA_CM_CM_CALL_H

#include "../uverbs/user_memory.h"
#include "cm_id.h"

struct cm_call {
	struct cm_file *file;
	int fd;
	uint64_t in; /* where the command is in the program's memory */
	size_t in_bytes, out_bytes;
};

#define CALL_READ(call, cmd) user_memory_read((cmd), (call)->in, sizeof(*(cmd)))

static inline int call_write(const struct cm_call *c, uint64_t to, const void *resp, size_t bytes)
{
	return user_memory_write(to, resp, bytes < c->out_bytes ? bytes : c->out_bytes);
}

/* 0 or negative errno. */
typedef int cm_handler(const struct cm_call *c);
cm_handler cm_command_connect, cm_command_accept, cm_command_reject, cm_command_disconnect, cm_command_notify;
cm_handler cm_join_ip_mcast, cm_join_mcast, cm_leave_mcast;

#endif
