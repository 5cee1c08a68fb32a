// SPDX-License-Identifier: Apache-2.0
/* The listener of a trace: sends it lines and frames, and counts what it has no room for. */
#include "trace.h"

#include "../wire/clock_now.h"
#include "device.h"
#include "refuse.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

void trace_init(struct trace *t)
{
	pthread_mutex_init(&t->lock, NULL);
	t->client = -1;
}

bool trace_start(struct trace *t, int client, bool json, bool frames)
{
	bool idle;

	pthread_mutex_lock(&t->lock);
	idle = t->client < 0;
	if (idle) {
		t->json = json;
		t->frames = frames;
		t->n_lost = 0;
		t->client = client;
	}
	pthread_mutex_unlock(&t->lock);
	return idle;
}

void trace_stop(struct trace *t)
{
	pthread_mutex_lock(&t->lock);
	t->client = -1;
	pthread_mutex_unlock(&t->lock);
}

static bool trace_send_packet(const struct trace *t, char kind, const void *bytes, size_t n)
{
	struct iovec parts[2] = {{.iov_base = &kind, .iov_len = 1}, {.iov_base = (void *)bytes, .iov_len = n}};
	struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};

	return sendmsg(t->client, &packet, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

/* make_room() of lines that are sent one at a time: the text is empty. */
static void trace_no_room(struct lines *lines)
{
	(void)lines;
}

static void trace_begin(const struct trace *t, struct lines *lines, char *text, size_t size, const char *what)
{
	*lines = (struct lines){.text = text, .size = size, .json = t->json, .make_room = trace_no_room};
	lines_begin(lines, what);
	lines_time(lines, "time", clock_now_ns(CLOCK_REALTIME));
}

static bool trace_send_losses(struct trace *t)
{
	char text[LINES_LONGEST];
	struct lines lines;

	if (!t->n_lost)
		return true;
	trace_begin(t, &lines, text, sizeof(text), "lost");
	lines_number(&lines, "events", t->n_lost);
	lines_end(&lines);
	if (!trace_send_packet(t, TRACE_TEXT, text, lines.bytes))
		return false;
	t->n_lost = 0;
	return true;
}

void trace_send(struct trace *t, enum trace_kind kind, const void *bytes, size_t n, uint64_t n_items)
{
	if (!n)
		return;
	pthread_mutex_lock(&t->lock);
	if (t->client >= 0 && !(trace_send_losses(t) && trace_send_packet(t, (char)kind, bytes, n)))
		t->n_lost += n_items;
	pthread_mutex_unlock(&t->lock);
}

bool trace_mark(struct trace *t, const char *mark)
{
	struct {
		struct trace_frame head;
		char text[LINES_LONGEST / 8];
	} frame = {.head = {.flags = TRACE_FRAME_MARK, .realtime_ns = clock_now_ns(CLOCK_REALTIME)}};
	char text[LINES_LONGEST];
	struct lines lines;

	if (t->client < 0)
		return false;
	trace_begin(t, &lines, text, sizeof(text), "mark");
	lines_text(&lines, "text", mark);
	lines_end(&lines);
	trace_send(t, TRACE_TEXT, text, lines.bytes, 1);
	if (!t->frames)
		return true;
	frame.head.caught = (uint16_t)strnlen(mark, sizeof(frame.text));
	memcpy(frame.text, mark, frame.head.caught);
	trace_send(t, TRACE_FRAMES, &frame, sizeof(frame.head) + frame.head.caught, 1);
	return true;
}

void trace_command(struct device *d, const char *name, uint32_t number, int result, const struct refusal *why,
                   uint64_t began_ns)
{
	struct trace *t = d->config.trace;
	char text[LINES_LONGEST];
	struct lines lines;

	if (!t || t->client < 0)
		return;
	trace_begin(t, &lines, text, sizeof(text), "command");
	lines_text(&lines, "device", d->name);
	if (name)
		lines_text(&lines, "name", name);
	else
		lines_hex(&lines, "number", number);
	lines_text(&lines, "result", result < 0 ? strerrorname_np(-result) : "0");
	if (why->rule) {
		lines_text(&lines, "attribute", why->attribute);
		lines_text(&lines, "rule", why->rule);
		lines_text(&lines, "source", why->source);
	}
	lines_number(&lines, "us", (clock_now_ns(CLOCK_MONOTONIC_RAW) - began_ns) / 1000);
	lines_number(&lines, "thread", (uint64_t)syscall(SYS_gettid));
	lines_end(&lines);
	trace_send(t, TRACE_TEXT, text, lines.bytes, 1);
}
