// SPDX-License-Identifier: Apache-2.0
/* Loads and attaches the tcx program, and changes its map of flows. */
#include "daemon/backend/bpf/tcx_drop.h"

#include "daemon/backend/bpf/bpf_load.h"
#include "daemon/backend/bpf/flow_table.h"
#include "daemon/base/fd.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#define ATTACH_TCX_INGRESS ((enum bpf_attach_type)46) /* BPF_TCX_INGRESS, which headers before Linux 6.6 lack */

struct tcx_drop {
	char interface[IFNAMSIZ];
	struct bpf_object *object;
	struct flow_table table;
	int link_fd; /* -1: none */
};

static int tcx_drop_load(struct tcx_drop *drop, bool has_ethernet, struct failure *failure)
{
	const struct flow_settings settings = {.no_ethernet = !has_ethernet};
	int r = bpf_code_open(&bpf_code_tcx, &drop->object, failure);

	if (r == 0)
		r = flow_table_size(drop->object);
	if (r == 0)
		r = bpf_code_load(drop->object, drop->interface, failure);
	return r < 0 ? r : flow_table_init(&drop->table, drop->object, drop->interface, &settings);
}

/* A kernel without tcx does not know the type of attachment. */
static int tcx_drop_attach(struct tcx_drop *drop, unsigned int ifindex, struct failure *failure)
{
	const struct bpf_program *found = bpf_object__find_program_by_name(drop->object, "tcx_drop");
	int fd = bpf_link_create(bpf_program__fd(found), (int)ifindex, ATTACH_TCX_INGRESS, NULL);

	if (fd >= 0) {
		drop->link_fd = fd;
		return 0;
	}
	if (fd == -EINVAL || fd == -EOPNOTSUPP)
		return failure_set(
			failure, EX_OSERR, EOPNOTSUPP,
			"interface %s: this kernel has no tcx: Linux 6.6 or later is needed (uname -r shows the "
			"version)",
			drop->interface);
	return failure_set(failure, EX_OSERR, -fd, "interface %s: cannot attach the tcx program: %s", drop->interface,
	                   strerror(-fd));
}

int tcx_drop_open(const char *interface, unsigned int ifindex, bool has_ethernet, struct tcx_drop **out,
                  struct failure *failure)
{
	struct tcx_drop *drop = calloc(1, sizeof(*drop));
	int r;

	*out = NULL;
	if (!drop)
		return failure_no_memory(failure);
	drop->link_fd = -1;
	strncpy(drop->interface, interface, sizeof(drop->interface) - 1);
	r = tcx_drop_load(drop, has_ethernet, failure);
	if (r == 0)
		r = tcx_drop_attach(drop, ifindex, failure);
	if (r < 0)
		tcx_drop_close(drop);
	else
		*out = drop;
	return r;
}

void tcx_drop_close(struct tcx_drop *drop)
{
	if (!drop)
		return;
	if (drop->link_fd >= 0)
		bpf_link_detach(drop->link_fd); /* a process that inherited the descriptor would keep the link */
	fd_close(&drop->link_fd);
	bpf_object__close(drop->object);
	free(drop);
}

int tcx_drop_add(struct tcx_drop *drop, const struct flow_rule *rule, struct failure *failure)
{
	return flow_table_add(&drop->table, rule, &(struct flow_target){0}, failure);
}

void tcx_drop_remove(struct tcx_drop *drop, const struct flow_rule *rule)
{
	flow_table_remove(&drop->table, rule);
}
