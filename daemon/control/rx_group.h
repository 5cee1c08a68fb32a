// SPDX-License-Identifier: Apache-2.0
/*
 * A group: clients of one user that share the queues of a stream out among themselves. A member asks for one queue
 * after the other, each by a connection of its own. The request waits until there is a queue for it, and the answer is
 * that of an ordinary consumer, which begins where the owner before it stopped. So a member gives a queue up by closing
 * that queue's connection, and the kernel does the same for a member that dies. Control thread only.
 *
 *   free ──ask──▶ owned ──hung up, or recalled and hung up──▶ the worker gives the consumer back ──▶ free
 *
 * If a member asks and another one has at least two queues more, one of these is recalled, by its owner's state page.
 * An owner that does not give it up within RX_GROUP_RECALL_US is disconnected.
 */
#ifndef DAEMON_CONTROL_RX_GROUP_H
#define DAEMON_CONTROL_RX_GROUP_H

#include "daemon/control/rx_endpoint.h"
#include "lib/ibvcap/protocol.h"

#include <stdint.h>

#define RX_GROUP_RECALL_US UINT64_C(3000000)

struct rx_group;
struct rx_session;

/**
 * A client asks for a queue of the stream as a member of a group; makes the group if there is none. The answer may
 * wait. 0, or -errno: disconnect.
 */
int rx_group_join(struct session *session, struct rx_stream *stream, const struct protocol_attach *request);

/** The client gets to know where the owner before it stopped. No effect if the consumer is of no group. */
void rx_group_note_told(const struct rx_session *rx);

/** The consumer is the control thread's again: its queue is free. Returns its group; NULL: it is of none. */
struct rx_group *rx_group_take_back(struct rx_session *rx);

/**
 * Give free queues to members that ask, and recall one if they are shared out unevenly. Frees the group if it has no
 * member any more. To be called after each change. May disconnect clients. NULL: no effect.
 */
void rx_group_balance(struct rx_group *group);

const char *rx_group_name(const struct rx_group *group);

/** At each tick: disconnect owners that did not give up a recalled queue in time. */
void rx_groups_tick(struct rx_stream *stream, uint64_t now_us);

/** The stream ends: refuse the members that ask. */
void rx_groups_end(struct rx_stream *stream);

/** The stream is freed: forget its groups. */
void rx_groups_free(struct rx_stream *stream);

#endif
