// SPDX-License-Identifier: Apache-2.0
/*
 * Tells a client of the control socket what the device does: commands, doorbells, work requests, completions and
 * frames. While nobody listens, a packet costs nothing: the device thread looks once a turn, and compares the indexes
 * of its queues before and after the turn only while somebody listens. Frames come from a wire in front of the real
 * one, which is put in for as long. Declares trace_queue.c.
 */
#ifndef SOFTHCA_DEVICE_TRACE_H
#define SOFTHCA_DEVICE_TRACE_H

#include "../wire/lines.h"
#include "../wire/wire.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#define TRACE_PACKET_BYTES 32768

enum trace_kind {
	TRACE_TEXT = '+',  /* whole lines */
	TRACE_FRAMES = 'F' /* struct trace_frame and its bytes, several times */
};

struct trace_frame {
	uint64_t realtime_ns;
	uint32_t bytes;  /* of the frame */
	uint16_t caught; /* of these the ones that follow */
	uint8_t device;  /* its number */
	uint8_t flags;   /* enum trace_frame_flags */
};
static_assert(sizeof(struct trace_frame) == 16, "no holes");

enum trace_frame_flags {
	TRACE_FRAME_SENT = 1,
	TRACE_FRAME_MARK = 2, /* a bookmark and no frame; the bytes are its text */
};

struct cq;
struct device;

/* The client that gets the trace: one for all devices of the process. */
struct trace {
	pthread_mutex_t lock;
	atomic_int client; /* -1: nobody */
	bool json, frames;
	uint64_t n_lost; /* lines and frames that the client had no room for, since it was told the last time */
};

/* What one device has to tell; used by its thread. */
struct device_trace {
	struct trace *trace;
	struct lines lines;
	uint64_t now_ns; /* CLOCK_REALTIME, of the turn */
	size_t n_frame_bytes;
	char text[TRACE_PACKET_BYTES];
	uint8_t frames[TRACE_PACKET_BYTES];
};

void trace_init(struct trace *t);
/* False if somebody listens already. */
bool trace_start(struct trace *t, int client, bool json, bool frames);
void trace_stop(struct trace *t);
/* Sends a packet, or counts what is lost if the client has no room. */
void trace_send(struct trace *t, enum trace_kind kind, const void *bytes, size_t n, uint64_t n_items);

/* A bookmark. False if nobody listens. */
bool trace_mark(struct trace *t, const char *text);
/* A command: its name, or its number if it has none; its result and when it began. */
struct refusal;
void trace_command(struct device *d, const char *name, uint32_t number, int result, const struct refusal *why,
                   uint64_t began_ns);

/* What a device needs to tell. NULL if there is no memory; freed by free(). */
struct device_trace *trace_new(struct trace *t);
/* The device's queues are shown from now on. */
void trace_forget_past(struct device *d);
/* In a turn, under the guard: what was posted since the last call; and also what was completed. */
void trace_posted(struct device *d);
void trace_completed(struct device *d);
/* What the queue holds and is about to give away. */
void trace_held(struct cq *cq);

/* The operations of device.tap, the wire in front of the real one. */
extern const struct wire_ops trace_tap_ops;

#endif
