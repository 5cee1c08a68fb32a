// SPDX-License-Identifier: Apache-2.0
/* When a change of a BPF program's maps has reached all frames. */
#ifndef DAEMON_BACKEND_BPF_FRAME_WAIT_H
#define DAEMON_BACKEND_BPF_FRAME_WAIT_H

/** Wait until no frame is on its way any more through the programs and sockets as they were before. Some 20 ms. */
void frame_wait(void);

#endif
