// SPDX-License-Identifier: Apache-2.0
/* A wire that always has frames, in place of the one in wire.c. */
#include "softhca_stress.h"

#include "softhca/tests/support/fake_wire.h"

#include <string.h>

#define BURST    2
#define HEADROOM 16

static struct {
	unsigned int turn;
	uint8_t frames[BURST][HEADROOM + FRAME_BYTES];
} the_wire;

int fake_wire_receive(struct wire *wire, struct wire_frame *frames, int max)
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

void fake_wire_release(struct wire *wire)
{
	(void)wire;
}

int fake_wire_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	(void)wire;
	(void)iov;
	(void)iovcnt;
	return n;
}

void fake_wire_wait(struct wire *wire, unsigned int timeout_us)
{
	(void)wire;
	(void)timeout_us;
}
