// SPDX-License-Identifier: Apache-2.0
/* Returns leases to a receiver's handle, whichever thread is in a call on it, and closes it behind the last one. */
#include "python/binding.h"

struct receiver *receiver_new_of(struct ibvcap_rx *rx)
{
	struct receiver *receiver = PyMem_Calloc(1, sizeof(*receiver));

	if (!receiver || !call_lock_init(&receiver->lock)) {
		PyMem_Free(receiver);
		return NULL;
	}
	receiver->n_references = 1;
	receiver->rx = rx;
	receiver->losses = (struct ibvcap_rx_losses)IBVCAP_INIT(struct ibvcap_rx_losses);
	return receiver;
}

struct receiver *receiver_ref(struct receiver *receiver)
{
	receiver->n_references++;
	return receiver;
}

/* Without a reference no thread is in a call, and no batch is left. */
void receiver_unref(struct receiver *receiver)
{
	if (--receiver->n_references)
		return;
	PyThread_free_lock(receiver->lock.lock);
	PyMem_Free(receiver);
}

void receiver_release_rows(struct receiver *receiver, const struct ibvcap_rx_batch *rows)
{
	ibvcap_rx_release(receiver->rx, rows); /* -ECONNABORTED: the next acquire says it */
	receiver->n_batches--;
}

/* With the handle's lock: do the work that other threads left. rx may be NULL after it. */
static void receiver_settle(struct receiver *receiver)
{
	while (receiver->returned) {
		struct batch *batch = receiver->returned;

		receiver->returned = batch->next;
		receiver_release_rows(receiver, &batch->rows);
		PyMem_Free(batch);
	}
	if (receiver->is_closed && receiver->n_batches == 0) {
		ibvcap_rx_close(receiver->rx);
		receiver->rx = NULL;
	}
}

/* The interpreter's lock is held from here to the end, so nothing is left behind. */
void receiver_unlock(struct receiver *receiver)
{
	receiver_settle(receiver);
	PyThread_release_lock(receiver->lock.lock);
}

bool receiver_begin(struct receiver *receiver)
{
	call_lock_take(&receiver->lock);
	if (receiver->rx && !receiver->is_closed)
		return true;
	receiver_unlock(receiver);
	PyErr_SetString(PyExc_ValueError, "the receiver is closed");
	return false;
}

void receiver_take_back(struct receiver *receiver, struct batch *batch)
{
	struct batch *copy;

	if (PyThread_acquire_lock(receiver->lock.lock, NOWAIT_LOCK)) {
		receiver_release_rows(receiver, &batch->rows);
		receiver_unlock(receiver);
		return;
	}
	copy = PyMem_Malloc(sizeof(*copy)); /* a thread is in a call: it returns this batch within WAIT_SLICE_MS */
	if (!copy)
		return; /* the lease stays until the handle is closed */
	*copy = *batch;
	copy->next = receiver->returned;
	receiver->returned = copy;
}
