// SPDX-License-Identifier: Apache-2.0
/* The pitfalls: what is wrong, what to do, and who says so. */
#include "warning.h"

const struct warning_row warning_rows[N_WARNINGS] = {
	[WARNING_UNSIGNALLED] = {"unsignalled-sends",
                                 "as many sends as the queue takes were posted, and none is signalled, so none is ever "
                                 "known to be done and the queue stays full",
                                 "set IBV_SEND_SIGNALED at least once in max_send_wr sends",
                                 "ibv_post_send(3); libmlx5: mlx5_wq_overflow"},
	[WARNING_UNACKED] = {"unacked-events",
                             "a completion queue is destroyed while events of it are not acknowledged, so "
                             "ibv_destroy_cq() waits for ever",
                             "call ibv_ack_cq_events() for each event before", "ibv_get_cq_event(3)"},
	[WARNING_UNARMED] = {"unarmed-wait",
                             "a thread waits for an event while no completion queue of the channel is armed",
                             "call ibv_req_notify_cq() and poll once more before waiting", "ibv_req_notify_cq(3)"},
	[WARNING_FLOW_ORDER] = {"flow-order",
                                "two flows of one priority match the same packets and name different queue pairs: the "
                                "order in which they are made decides",
                                "give the flow that shall win a smaller priority",
                                "ibv_create_flow(3); mlx5_core: fs_core.c"},
	[WARNING_SAME_RULE] = {"same-rule",
                               "the same flow on several queue pairs: each gets a copy of the packet, or one gets all, "
                               "by the device",
                               "use RSS (ibv_create_rwq_ind_table(3)) to share packets out",
                               "mlx5_core: add_rule_fg; SOFTHCA_DUPLICATE_RULES"},
	[WARNING_LATE_COUNTER] = {"late-counter",
                                  "a flow gets its counters while the same flow without counters delivers already, so "
                                  "packets came that are not counted",
                                  "make the flow with its counters first, before the queue pair is RTR",
                                  "ibv_attach_counters_point_flow(3)"},
	[WARNING_POST_IN_ERROR] = {"post-in-error",
                                   "work requests are posted to a queue that is in error, and come back flushed",
                                   "reset the queue after the first completion in error, then post",
                                   "ibv_modify_qp(3); IBTA 10.3.1"},
	[WARNING_SLOW_POLL] = {"slow-poll",
                               "a completion queue with fewer entries than its queues have work requests is three "
                               "quarters full: when it overruns, all of these queues stop",
                               "poll faster, or give it an entry for each work request",
                               "ibv_create_cq(3); IBTA 10.10.4"},
	[WARNING_LOST_BY_RESET] = {"lost-by-reset",
                                   "a queue is reset while completions of it are not polled, and they are lost",
                                   "poll until the last flushed one is there, then reset", "libmlx5: mlx5_cq_clean"},
	[WARNING_NO_STAMPS] = {"no-timestamps", "a completion queue asks for timestamps that the device has not",
                               "look at completion_timestamp_mask first", "ibv_query_device_ex(3)"},
	[WARNING_NOT_READY] =
		{"receiver-not-ready",
                 "a message came while no receive work request was posted: with RC the sender waits and tries "
                 "again, rnr_retry times, and then fails",
                 "post receives before the queue pair is RTR, and as many as the peer may send at a time",
                 "ibv_modify_qp(3); IBTA 9.7.5.2.8"},
	[WARNING_FORK] = {"fork-after-registration",
                          "the process forks with registered memory and without ibv_fork_init(): with a kernel before "
                          "5.12, a process that writes there gets a new page, and the device keeps the old one",
                          "call ibv_fork_init() first, or set RDMAV_FORK_SAFE",
                          "ibv_fork_init(3), ibv_is_fork_initialized(3)"},
	[WARNING_STRIDING_POST] =
		{"striding-post",
                 "ibv_post_wq_recv() was used for a striding receive queue: libmlx5 writes the address where the "
                 "device "
                 "does not look for it, so the first packet ends with LOC_PROT_ERR",
                 "write the entries (struct mlx5_mprq_wqe) and the doorbell record: mlx5dv_init_obj(3)",
                 "rdma-core pull request 1381; libmlx5: mlx5_post_wq_recv"},
};
