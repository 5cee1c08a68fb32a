// SPDX-License-Identifier: Apache-2.0
/* Receive work requests of RC and UD, from the queue pair's own queue or a shared one. */
#ifndef SOFTHCA_ROCE_RECEIVE_H
#define SOFTHCA_ROCE_RECEIVE_H

#include "roce_qp.h"

/* Takes the next one. False if there is none. */
bool receive_take(struct roce_qp *q, struct recv_wqe *w);
/* Copies to byte `at` and what follows of its scatter list. 0 or the error. */
enum hw_syndrome receive_scatter(const struct roce_qp *q, const struct recv_wqe *w, uint32_t at, const uint8_t *from,
                                 uint32_t bytes);
/* Completes it. `source`: hw_cqe's flags_rqpn. */
void receive_complete(struct roce_qp *q, const struct recv_wqe *w, enum hw_cqe_opcode opcode, uint32_t bytes,
                      const struct roce_packet *p, uint32_t source);
void receive_fail(struct roce_qp *q, const struct recv_wqe *w, enum hw_syndrome error);

#endif
