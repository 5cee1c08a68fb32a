// SPDX-License-Identifier: Apache-2.0
/*
 * A stream and its queues as control offers them to consumers. A consumer that a client asks for is checked, lent to
 * the worker of a queue by mail, and freed only when the worker has given it back. Control thread only. Declares
 * rx_admit.c, rx_readings.c.
 */
#ifndef DAEMON_CONTROL_RX_ENDPOINT_H
#define DAEMON_CONTROL_RX_ENDPOINT_H

#include "daemon/control/control.h"
#include "daemon/control/endpoint.h"
#include "daemon/control/notifier.h"
#include "daemon/control/rx_session.h"
#include "daemon/control/status.h"
#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct rx_stream {
	TAILQ_ENTRY(rx_stream) link;
	struct control *control;
	struct control_stream *known;
	struct rx_endpoint *queues[IBVCAP_QUEUES_MAX];
	uint32_t n_queues;
	LIST_HEAD(, rx_group) groups;
};

/* A queue. */
struct rx_endpoint {
	struct endpoint endpoint;
	const struct control_stream *stream;
	const struct control_queue *queue;
	uint32_t index; /* of the queue in the stream */
	struct notifier *notifier;
	sd_event_source *outbox;
	struct rx_stall stall;
	bool has_failed;        /* the device's queue, so that the worker has ended */
	bool is_matched_mailed; /* the worker knows the last reading, or gets it by mail */
};

/** Does the worker of a queue run? */
static inline bool rx_stream_runs(const struct rx_stream *stream)
{
	for (uint32_t i = 0; i < stream->n_queues; i++)
		if (!stream->queues[i]->endpoint.ended)
			return true;
	return false;
}

/** Mail again the removals that found the mailbox full. */
void rx_endpoint_retry(struct rx_endpoint *rx_endpoint);

/** A client asks to attach; it is answered now, or when the worker has answered. 0, or -errno: disconnect. */
int rx_endpoint_attach(struct session *session, const struct protocol_attach *request);

/* ---- rx_readings.c: readings of the flow counters -------------------------------------------------- */

/** Before the first stream. 0 or -errno. */
int rx_readings_init(struct control *control);

/** For struct reading: the context is the struct rx_stream. */
void rx_readings_take(void *context);

/** Show the last reading of what the interface lost before the flow rules. The first one is from before the capture. */
void rx_readings_note_interface(const struct control_stream *stream);

/** The worker of the queue has ended: show its last note, then close its ring. */
void rx_readings_end(struct rx_endpoint *rx_endpoint);

/** Mail the last reading to the worker, unless that was done. False: its mailbox is full. */
bool rx_readings_mail(struct rx_endpoint *rx_endpoint);

/* ---- rx_admit.c: consumers of one queue --------------------------------------------------------- */

/* Where a member of a group goes on. */
struct rx_takeover {
	uint64_t sequence;
	uint64_t abandoned; /* packets that the owner before had acquired and not released */
	bool had_owner;     /* another member had the queue before */
};

/** May the client have what the request says? As endpoint_admit_rights(). payer: or NULL. */
int rx_admit_check(struct session *session, const struct rx_endpoint *rx_endpoint,
                   const struct protocol_attach *request, struct payer *payer);

/**
 * Check and serve the request for a consumer or a tap. takeover NULL: it begins where the request says. The answer
 * comes now, or when the worker has answered; then the session has a client already. 0, or -errno: disconnect.
 */
int rx_admit(struct session *session, struct rx_endpoint *rx_endpoint, const struct protocol_attach *request,
             const struct rx_takeover *takeover);

#endif
