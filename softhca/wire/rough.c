// SPDX-License-Identifier: Apache-2.0
/* Keeps copies of the received frames, sorted by the time at which the device may have them. */
#include "rough.h"

#include "clock_now.h"

#include <stdlib.h>
#include <string.h>

#define HEADROOM_BYTES 16 /* the device may move the start of a frame */
#define MAX_WAITING    65536
#define SWAP_NS        10000000u /* a frame that waits for another one comes alone after this time */

struct rough_frame {
	TAILQ_ENTRY(rough_frame) link;
	uint64_t due_ns; /* CLOCK_MONOTONIC */
	struct wire_frame frame;
	uint8_t bytes[];
};

bool rough_is_used(const struct rough *r)
{
	static const struct rough_config good;

	return memcmp(&r->config, &good, sizeof(good)) != 0 || r->swapped || !TAILQ_EMPTY(&r->waiting) ||
	       !TAILQ_EMPTY(&r->given);
}

/* Is it the turn of the Nth frame? */
static bool rough_hits(unsigned int every, unsigned int *n)
{
	if (!every || ++*n < every)
		return false;
	*n = 0;
	return true;
}

static struct rough_frame *rough_copy(const struct wire_frame *f)
{
	struct rough_frame *c = malloc(sizeof(*c) + HEADROOM_BYTES + f->len);

	if (!c)
		return NULL;
	c->frame = *f;
	c->frame.data = c->bytes + HEADROOM_BYTES;
	memcpy(c->frame.data, f->data, f->len);
	return c;
}

/* The frame leaves the bad wire after the delay, and after the frames before it at the limited rate. */
static void rough_queue(struct rough *r, struct rough_frame *f, uint64_t now_ns)
{
	f->due_ns = now_ns + r->config.delay_us * 1000ull;
	if (r->config.mbit_per_s) {
		if (f->due_ns < r->link_free_ns)
			f->due_ns = r->link_free_ns;
		f->due_ns += f->frame.len * 8000ull / r->config.mbit_per_s;
		r->link_free_ns = f->due_ns;
	}
	f->frame.realtime_ns += f->due_ns - now_ns;
	TAILQ_INSERT_TAIL(&r->waiting, f, link);
	r->n_waiting++;
}

static void rough_take(struct rough *r, const struct wire_frame *f, uint64_t now_ns)
{
	unsigned int times = 1 + rough_hits(r->config.duplicate_every, &r->n_duplicate);
	bool corrupt = rough_hits(r->config.corrupt_every, &r->n_corrupt);
	bool swaps = rough_hits(r->config.reorder_every, &r->n_reorder);

	if (rough_hits(r->config.lose_every, &r->n_lose))
		times = 0;
	if (!times || r->n_waiting >= MAX_WAITING)
		r->n_lost++;
	for (; times && r->n_waiting < MAX_WAITING; times--) {
		struct rough_frame *c = rough_copy(f);

		if (!c)
			return;
		if (corrupt) {
			c->frame.data[f->len - 1] ^= 1;
			c->frame.csum_trusted = c->frame.csum_missing = false;
		}
		if (swaps && !r->swapped) {
			r->swapped = c;
			c->due_ns = now_ns + SWAP_NS;
		} else {
			rough_queue(r, c, now_ns);
		}
	}
	if (!swaps && r->swapped) {
		rough_queue(r, r->swapped, now_ns);
		r->swapped = NULL;
	}
}

static int rough_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	struct rough *r = (struct rough *)wire;
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	int n = r->inner->ops->receive(r->inner, frames, max);
	struct rough_frame *f;

	if (n > 0 && frames[0].up_to) /* the generator has no wire */
		return n;
	for (int i = 0; i < n; i++)
		rough_take(r, &frames[i], now_ns);
	r->inner->ops->release(r->inner);
	if (r->swapped && r->swapped->due_ns <= now_ns) {
		rough_queue(r, r->swapped, now_ns);
		r->swapped = NULL;
	}
	for (n = 0; n < max && (f = TAILQ_FIRST(&r->waiting)) && f->due_ns <= now_ns; n++) {
		TAILQ_REMOVE(&r->waiting, f, link);
		TAILQ_INSERT_TAIL(&r->given, f, link);
		r->n_waiting--;
		frames[n] = f->frame;
	}
	return n;
}

static void rough_free(struct rough_frames *frames)
{
	struct rough_frame *f;

	while ((f = TAILQ_FIRST(frames))) {
		TAILQ_REMOVE(frames, f, link);
		free(f);
	}
}

static void rough_release(struct wire *wire)
{
	struct rough *r = (struct rough *)wire;

	rough_free(&r->given);
	r->inner->ops->release(r->inner);
}

static int rough_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	struct rough *r = (struct rough *)wire;

	return r->inner->ops->send(r->inner, iov, iovcnt, n);
}

static void rough_wait(struct wire *wire, unsigned int timeout_us)
{
	struct rough *r = (struct rough *)wire;
	const struct rough_frame *next = TAILQ_FIRST(&r->waiting);
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), left_us;

	if (next) {
		left_us = next->due_ns > now_ns ? (next->due_ns - now_ns) / 1000 : 0;
		timeout_us = left_us < timeout_us ? (unsigned int)left_us : timeout_us;
	}
	if (timeout_us)
		r->inner->ops->wait(r->inner, timeout_us);
}

static void rough_hear_sent(struct wire *wire, bool hear)
{
	struct rough *r = (struct rough *)wire;

	if (r->inner->ops->hear_sent)
		r->inner->ops->hear_sent(r->inner, hear);
}

void rough_init(struct rough *r)
{
	static const struct wire_ops ops = {
		.receive = rough_receive,
		.release = rough_release,
		.send = rough_send,
		.wait = rough_wait,
		.hear_sent = rough_hear_sent,
	};

	*r = (struct rough){.base.ops = &ops};
	TAILQ_INIT(&r->waiting);
	TAILQ_INIT(&r->given);
}

void rough_clear(struct rough *r)
{
	rough_free(&r->waiting);
	rough_free(&r->given);
	free(r->swapped);
	r->swapped = NULL;
	r->n_waiting = 0;
	r->n_lost = 0;
}
