// SPDX-License-Identifier: Apache-2.0
/* Connections: requests of the program and messages of the peer. With the manager's lock. Declares cm_receive.c. */
#ifndef SOFTHCA_CM_CM_CONNECTION_H
#define SOFTHCA_CM_CM_CONNECTION_H

#include "cm_transport.h"

#include <rdma/ib_user_verbs.h>

/* rdma_connect, rdma_accept (without parameters: the peer that connected is ready), rdma_reject, rdma_disconnect,
 * rdma_notify. 0 or negative errno. */
int cm_connect(struct cm_id *id, const struct rdma_ucm_conn_param *param);
int cm_accept(struct cm_id *id, const struct rdma_ucm_conn_param *param, uint64_t uid);
int cm_reject(struct cm_id *id, const void *data, unsigned int bytes, uint8_t reason);
int cm_disconnect(struct cm_id *id);
int cm_notify(struct cm_id *id, uint32_t event);

/* What the queue pair needs to go to the state (rdma_init_qp_attr). 0 or -EINVAL. */
int cm_qp_attributes(const struct cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *attr);

/* Ends the identifier and its connection, and those of requests that the program has not read. The peers get a
 * message. */
void cm_destroy(struct cm_id *id);

/* A message came to a device. */
void cm_receive(struct cm *cm, const struct cm_datagram *datagram);
/* Sends a message again whose deadline has passed, or gives up. */
void cm_expire(struct cm_id *id, uint64_t now_ns);

#endif
