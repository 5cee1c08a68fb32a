// SPDX-License-Identifier: Apache-2.0
/*
 * One queue of a stream: its ring, the registration of that memory, the device's queue and the worker. Control thread
 * only, but for stream_queue_prepare().
 */
#ifndef DAEMON_STREAM_STREAM_QUEUE_H
#define DAEMON_STREAM_STREAM_QUEUE_H

#include "daemon/backend/backend.h"
#include "daemon/control/control.h"
#include "daemon/reassembly/reassembly.h"
#include "daemon/ring/rx_ring.h"
#include "daemon/worker/rx_worker.h"

struct stream;

/* The numbers in the last log line about resets of the queue. */
struct told_resets {
	uint64_t resets;
	uint64_t at_ns; /* 0: no line yet */
};

/* At the sensor's time in packets. */
struct sensor_look {
	uint64_t head;  /* packets before it were looked at, or passed over */
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	bool is_known;  /* the offsets are */
	int64_t min_ns, median_ns, max_ns;
};

struct stream_queue {
	struct stream *stream;
	uint32_t index;
	struct rx_ring ring;
	struct backend_memory *payload;
	struct backend_memory *headers;
	struct backend_queue *queue;   /* the device's queue */
	struct reassembly *reassembly; /* which owns it; NULL: none */
	struct worker *worker;
	struct rx_crew *crew; /* the interface's, whose thread runs the worker; NULL: it has a thread of its own */
	bool worker_runs;
	bool ended;              /* the worker has mailed that it ends */
	bool failed;             /* since the device cannot reset the queue */
	uint64_t clock_error_ns; /* bound of the line that was mailed last */
	struct sensor_look sensor;
	struct control_queue control; /* as control sees it */
	struct told_resets told_resets;
};

/** Empty, so that stream_queue_release() may be called. */
void stream_queue_init(struct stream_queue *queue, struct stream *stream, uint32_t index);

/** Make memory, queue and worker, and post all receive requests. On failure: call stream_queue_release(). */
int stream_queue_prepare(struct stream_queue *queue, uint64_t epoch, struct failure *failure);
/** The reverse, in any state of it. */
void stream_queue_release(struct stream_queue *queue);

int stream_queue_start(struct stream_queue *queue, struct failure *failure);

/** Mail MAIL_STOP, after a last MAIL_MATCHED unless that is NULL. No effect if the worker does not run. */
void stream_queue_stop(struct stream_queue *queue, const struct mail *matched);
/** Wait for the worker's thread. True: it ran. */
bool stream_queue_join(struct stream_queue *queue);

/** Give the worker and the readers of the ring the clock of the interface. */
void stream_queue_set_clock(struct stream_queue *queue);

#endif
