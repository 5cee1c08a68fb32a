// SPDX-License-Identifier: Apache-2.0
/*
 * A client's socket. Only the thread of the client's user (user.h) reads it, writes to it and closes it, because the
 * client can make each of these calls take as long as it likes. The control thread waits for events of the socket and
 * gives the thread one job at a time. What the thread's calls cost is charged to the user's call budget; while that is
 * exceeded, nothing is read. Control thread only.
 */
#ifndef DAEMON_CONTROL_CONNECTION_H
#define DAEMON_CONTROL_CONNECTION_H

#include "daemon/control/reply.h"
#include "daemon/control/user.h"
#include "lib/ibvcap/protocol.h"

struct connection;

/*
 * result 1: a message came. 0: the client has left. -EPROTO: the client sent something that is no message. -errno: the
 * connection does not work any more; -ETIMEDOUT: the client does not read its answers. May close the connection.
 */
typedef void connection_handler(void *context, int result, const union protocol_message *message);

/**
 * Takes the connected socket and the user_enter() of its client over: the user_leave() comes when the socket is closed.
 * on_event is called from the loop. 0 or -errno: they stay the caller's.
 */
int connection_new(struct connection **connection, struct user *user, int fd, connection_handler *on_event,
                   void *context);

/** Pass the client's next message to on_event; further messages wait in the socket. */
void connection_receive(struct connection *connection);

/**
 * Send the messages of the reply, the first one with the descriptors, as fast as the client reads. Takes over and
 * empties the reply, and closes the descriptors when they are sent, also on failure. 0 or -ENOMEM.
 */
int connection_send(struct connection *connection, struct reply *reply, const int *fds, unsigned n_fds);

/**
 * From the next answer on, and until the next message has come, the client may send a descriptor beside a message. The
 * kernel refuses it at other times, or the user's thread closes it.
 */
void connection_accept_dmabuf(struct connection *connection);

/**
 * For on_event, after connection_accept_dmabuf(): the dma-buf that came with the message, which the caller closes, and
 * its size. -ENOMSG: no descriptor came. -EBADF: it is of no dma-buf. -EACCES: it is not open for reading and writing.
 */
int connection_take_dmabuf(struct connection *connection, uint64_t *bytes);

/** Is something still to be sent? */
bool connection_is_sending(const struct connection *connection);

/** The client is one too many: from now on it does not count as a session of its user. */
void connection_refuse(struct connection *connection);

/** Send as much as the socket takes now, and close it. on_event is not called any more. NULL: no effect. */
void connection_close(struct connection *connection);

#endif
