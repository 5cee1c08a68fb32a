// SPDX-License-Identifier: Apache-2.0
/* What the device does when memory that it works in has gone away. */
#ifndef SOFTHCA_DEVICE_LOST_MEMORY_H
#define SOFTHCA_DEVICE_LOST_MEMORY_H

/* `loss` is a struct fault_loss. Puts the users of its page in error, and sets `found` if there are any.
 * fault_guard() calls this under guard, since a queue that goes to the error state is flushed, which may touch more
 * memory that is gone. */
void lost_memory_recover(void *loss);

#endif
