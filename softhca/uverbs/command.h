// SPDX-License-Identifier: Apache-2.0
/*
 * A command as its handler sees it, whether it came by write() or by ioctl INVOKE_WRITE. `in` and `out` are the core
 * structures, `drv_*` mlx5's own payload behind them. Declares cmd_ah.c, cmd_cq.c, cmd_device.c, cmd_roce.c, cmd_rss.c,
 * write_commands.c.
 */
#ifndef SOFTHCA_UVERBS_COMMAND_H
#define SOFTHCA_UVERBS_COMMAND_H

#include "objects.h"

#include <string.h>

struct command {
	struct uverbs_file *file;
	const void *in, *drv_in;
	void *out, *drv_out;
	size_t in_bytes, drv_in_bytes, out_bytes, drv_out_bytes;
};

/* Copies a request to `to`. A shorter one, from an older library, is filled up with zeros. A longer one must have
 * zeros at its end, else -EOPNOTSUPP. */
int command_in(void *to, size_t bytes, const void *from, size_t from_bytes);
/* Copies as much of the response as the program has room for. */
void command_out(void *to, size_t to_bytes, const void *from, size_t bytes);

#define COMMAND_IN(c, req)   command_in((req), sizeof(*(req)), (c)->in, (c)->in_bytes)
#define COMMAND_OUT(c, resp) command_out((c)->out, (c)->out_bytes, (resp), sizeof(*(resp)))

typedef int command_handler(struct command *c);

command_handler cmd_get_context, cmd_query_device, cmd_query_port, cmd_ex_query_device;
command_handler cmd_alloc_pd, cmd_reg_mr;
command_handler cmd_create_comp_channel, cmd_create_cq, cmd_ex_create_cq, cmd_ex_modify_cq, cmd_resize_cq,
	cmd_destroy_cq;
command_handler cmd_create_ah, cmd_create_srq, cmd_modify_srq, cmd_query_srq, cmd_destroy_srq;
command_handler cmd_create_qp, cmd_ex_create_qp, cmd_modify_qp, cmd_ex_modify_qp, cmd_query_qp, cmd_attach_mcast,
	cmd_detach_mcast, cmd_destroy_qp;
command_handler cmd_ex_create_wq, cmd_ex_modify_wq, cmd_ex_destroy_wq;
command_handler cmd_ex_create_rwq_ind_table, cmd_ex_destroy_rwq_ind_table;
command_handler cmd_ex_create_flow, cmd_ex_destroy_flow;

struct ioctl_call;
typedef int ioctl_handler(struct ioctl_call *call);
ioctl_handler ioctl_query_context, ioctl_async_event_alloc, ioctl_pd_query, ioctl_query_mr;
ioctl_handler ioctl_invoke_write, ioctl_query_gid_table, ioctl_query_gid_entry;
ioctl_handler ioctl_counters_create, ioctl_counters_read;
ioctl_handler ioctl_matcher_create, ioctl_flow_create, ioctl_flow_destroy;
ioctl_handler ioctl_cq_create, ioctl_reg_dmabuf_mr, ioctl_uar_alloc;

/* Creates a completion queue, however the request came. */
struct ib_uverbs_ex_create_cq;
struct ib_uverbs_create_cq_resp;
int ucq_create(struct command *c, const struct ib_uverbs_ex_create_cq *req, struct ib_uverbs_create_cq_resp *resp);

/* What mlx5 tells of a context. */
struct mlx5_ib_alloc_ucontext_resp;
void context_fill(const struct device *d, struct mlx5_ib_alloc_ucontext_resp *r);
/* Opens a file of asynchronous events, whose descriptor `*fd` becomes. 0 or negative errno. */
int context_open_events(struct uverbs_file *f, int *fd);
/* Undoes what GET_CONTEXT has mapped and started. No effect on a file without a context. */
void context_unmap_clock(struct uverbs_file *f);

/* EX_CREATE_QP of a queue pair over an indirection table: reads and checks mlx5's part of the request, */
struct ib_uverbs_ex_create_qp;
struct mlx5_ib_create_qp_rss;
int rss_qp_read(const struct command *c, const struct ib_uverbs_ex_create_qp *req, struct mlx5_ib_create_qp_rss *drv);
/* and, with the lock held, finds the table and sets `rss` and `qp.rss`. */
int rss_qp_find(const struct command *c, struct uqp *u, const struct ib_uverbs_ex_create_qp *req,
                const struct mlx5_ib_create_qp_rss *drv);

/* The end of each command, by its name or, if it has none, its number: tells a trace and, if it was refused, the user.
 */
void command_ended(struct device *d, const char *name, uint32_t number, int result, uint64_t began_ns);

/* MODIFY_QP and QUERY_QP of an RC or UD queue pair. The first is without the lock, the second with it. */
struct ib_uverbs_modify_qp;
struct ib_uverbs_query_qp_resp;
int roce_modify(struct command *c, const struct ib_uverbs_modify_qp *req);
void roce_query(const struct uqp *u, struct ib_uverbs_query_qp_resp *resp);

/* Completes a path that a program gives: source address, MAC address of the destination or of the next hop, UDP port.
 * Lock not held, since this may wait for the neighbour. 0, -EINVAL or -ETIMEDOUT. */
struct roce_path;
int path_resolve(struct device *d, struct roce_path *path, unsigned int sgid_index, unsigned int port);

/* Runs a write command by its number. 0 or negative errno. */
int command_dispatch(struct command *c, uint32_t command);

#endif
