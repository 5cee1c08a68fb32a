// SPDX-License-Identifier: Apache-2.0
/*
 * A wire in front of the real one, which shows a trace the frames that pass. It is part of the device, so that it stays
 * there while the device thread still waits in it.
 */
#include "../wire/clock_now.h"
#include "../wire/dma.h"
#include "device.h"
#include "trace.h"

#include <stdio.h>
#include <string.h>

static struct device *trace_tap_device(struct wire *wire)
{
	return (struct device *)((char *)wire - offsetof(struct device, tap));
}

static struct wire *trace_tap_inner(struct wire *wire)
{
	return trace_tap_device(wire)->tapped;
}

static size_t trace_gather(uint8_t *to, size_t room, const struct iovec *iov, int n)
{
	size_t bytes = 0;

	for (int i = 0; i < n && bytes < room; i++) {
		size_t part = iov[i].iov_len < room - bytes ? iov[i].iov_len : room - bytes;

		dma_copy(to + bytes, iov[i].iov_base, part);
		bytes += part;
	}
	return bytes;
}

static void trace_frame_line(struct device *d, const uint8_t *p, uint32_t bytes, bool sent)
{
	struct lines *lines = &d->tracing->lines;
	char macs[2][18];

	for (int i = 0; i < 2; i++)
		snprintf(macs[i], sizeof(macs[i]), "%02x:%02x:%02x:%02x:%02x:%02x", p[6 * i], p[6 * i + 1],
		         p[6 * i + 2], p[6 * i + 3], p[6 * i + 4], p[6 * i + 5]);
	lines_begin(lines, "frame");
	lines_time(lines, "time", d->tracing->now_ns);
	lines_text(lines, "device", d->name);
	lines_text(lines, "way", sent ? "out" : "in");
	lines_number(lines, "bytes", bytes);
	lines_text(lines, "to", macs[0]);
	lines_text(lines, "from", macs[1]);
	lines_hex(lines, "type", (uint64_t)p[12] << 8 | p[13]);
	lines_end(lines);
}

/* Keeps a record of the frame for the client. What does not fit into a packet is cut off. */
static void trace_frame(struct device *d, const struct iovec *iov, int n, uint64_t realtime_ns, bool sent)
{
	struct device_trace *x = d->tracing;
	struct trace_frame head = {
		.realtime_ns = realtime_ns, .device = (uint8_t)d->index, .flags = sent ? TRACE_FRAME_SENT : 0};
	uint8_t start[14] = {0};

	for (int i = 0; i < n; i++)
		head.bytes += (uint32_t)iov[i].iov_len;
	trace_gather(start, sizeof(start), iov, n);
	trace_frame_line(d, start, head.bytes, sent);
	if (!x->trace->frames)
		return;
	if (x->n_frame_bytes && sizeof(x->frames) - x->n_frame_bytes < sizeof(head) + head.bytes) {
		trace_send(x->trace, TRACE_FRAMES, x->frames, x->n_frame_bytes, 1);
		x->n_frame_bytes = 0;
	}
	head.caught = (uint16_t)trace_gather(x->frames + x->n_frame_bytes + sizeof(head),
	                                     sizeof(x->frames) - x->n_frame_bytes - sizeof(head), iov, n);
	memcpy(x->frames + x->n_frame_bytes, &head, sizeof(head));
	x->n_frame_bytes += sizeof(head) + head.caught;
}

static int trace_tap_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	struct device *d = trace_tap_device(wire);
	int n = d->tapped->ops->receive(d->tapped, frames, max);

	for (int i = 0; i < n; i++) {
		struct iovec frame = {.iov_base = frames[i].data, .iov_len = frames[i].len};

		trace_frame(d, &frame, 1, frames[i].realtime_ns, frames[i].addressed == WIRE_OUTGOING);
	}
	return n;
}

static void trace_tap_release(struct wire *wire)
{
	trace_tap_inner(wire)->ops->release(trace_tap_inner(wire));
}

/* One at a time: a frame is shown before it leaves, since its memory may be gone afterwards, and not if the link is too
 * busy to take it. */
static int trace_tap_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	struct device *d = trace_tap_device(wire);
	struct device_trace *x = d->tracing;
	int sent = 0;

	trace_posted(d); /* what was posted since the turn began, before its frames */
	for (; sent < n; sent++) {
		size_t lines = x->lines.bytes, frames = x->n_frame_bytes;

		trace_frame(d, iov[sent], iovcnt[sent], clock_now_ns(CLOCK_REALTIME), true);
		if (d->tapped->ops->send(d->tapped, iov + sent, iovcnt + sent, 1))
			continue;
		if (x->lines.bytes >= lines && x->n_frame_bytes >= frames) { /* neither was sent meanwhile */
			x->lines.bytes = lines;
			x->n_frame_bytes = frames;
		}
		break;
	}
	return sent;
}

static void trace_tap_wait(struct wire *wire, unsigned int timeout_us)
{
	trace_tap_inner(wire)->ops->wait(trace_tap_inner(wire), timeout_us);
}

static void trace_tap_hear_sent(struct wire *wire, bool hear)
{
	if (trace_tap_inner(wire)->ops->hear_sent)
		trace_tap_inner(wire)->ops->hear_sent(trace_tap_inner(wire), hear);
}

const struct wire_ops trace_tap_ops = {
	.receive = trace_tap_receive,
	.release = trace_tap_release,
	.send = trace_tap_send,
	.wait = trace_tap_wait,
	.hear_sent = trace_tap_hear_sent,
};
