// SPDX-License-Identifier: Apache-2.0
/* A wire that always has frames, in place of the one in wire.c. */
#include "softhca_stress.h"

#include <string.h>

#define BURST    2
#define HEADROOM 16

static struct stress_wire {
	struct wire base;
	unsigned int turn;
	uint8_t frames[BURST][HEADROOM + FRAME_BYTES];
} the_wire;

static int stress_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	static const uint8_t udp[42] = {2, 0,  0,  0, 0, 1,  2, 0, 0, 0,  0, 2, 8, 0, 0x45, 0, 0, 50, 0,  0, 0,
	                                0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 0,    2, 0, 0,  30, 0, 0};
	int n = the_wire.turn++ % 2 && max >= BURST ? BURST : 0;

	(void)wire;
	for (int i = 0; i < n; i++) {
		memcpy(the_wire.frames[i] + HEADROOM, udp, sizeof(udp));
		frames[i] = (struct wire_frame){
			.data = the_wire.frames[i] + HEADROOM, .len = FRAME_BYTES, .addressed = WIRE_TO_US};
	}
	return n;
}

static void stress_release(struct wire *wire)
{
	(void)wire;
}

static int stress_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	(void)wire;
	(void)iov;
	(void)iovcnt;
	return n;
}

static void stress_wait(struct wire *wire, unsigned int timeout_us)
{
	(void)wire;
	(void)timeout_us;
}

static void stress_stats(struct wire *wire, struct wire_stats *stats)
{
	(void)wire;
	*stats = (struct wire_stats){};
}

static void stress_close(struct wire *wire)
{
	(void)wire;
}

static const struct wire_ops stress_wire_ops = {
	.receive = stress_receive,
	.release = stress_release,
	.send = stress_send,
	.wait = stress_wait,
	.stats = stress_stats,
	.close = stress_close,
};

int wire_open(struct wire **wire, const struct wire_config *config)
{
	(void)config;
	the_wire.base.ops = &stress_wire_ops;
	*wire = &the_wire.base;
	return 0;
}
