// SPDX-License-Identifier: Apache-2.0
/* A file that somebody calls a capture, as ibvcap replay reads it: what it finds lies within the frame, times go on. */
#include "lib/recording/capture.h"
#include "tools/send/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PACKETS_MAX 1000

static int file;
static char path[64];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	file = memfd_create("ibvcap-fuzz-capture", MFD_CLOEXEC);
	if (file < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return 0;
}

static void look(const struct capture_packet *packet)
{
	struct datagram datagram = {0};
	enum datagram_verdict verdict =
		datagram_find(packet->link, packet->frame, packet->captured, packet->wire_bytes, &datagram);

	if (!datagram.payload && verdict != DATAGRAM_WHOLE)
		return;
	if (datagram.payload < packet->frame || datagram.bytes > packet->captured ||
	    datagram.bytes > datagram.whole_bytes ||
	    (size_t)(datagram.payload - packet->frame) > packet->captured - datagram.bytes)
		abort();
}

static void read_all(struct capture *capture, struct timing_capture *timing, uint64_t *last_ns)
{
	struct capture_packet packet;
	uint64_t offset_ns;

	while (capture->n_packets < PACKETS_MAX && capture_next(capture, &packet) > 0) {
		look(&packet);
		if (timing_of_packet(timing, packet.time_ns, &offset_ns) < 0)
			continue;
		if (offset_ns < *last_ns)
			abort();
		*last_ns = offset_ns;
	}
}

/* The first byte is how fast. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct timing_capture timing = {.speed = size ? (data[0] + 1) / 16.0 : 1};
	struct capture capture;
	uint64_t last_ns = 0;

	if (ftruncate(file, 0) < 0 || (size > 1 && pwrite(file, data + 1, size - 1, 0) != (ssize_t)size - 1))
		abort();
	for (int pass = 0; pass < 2; pass++) {
		if (capture_open(&capture, path, "") != 0)
			return 0;
		read_all(&capture, &timing, &last_ns);
		capture_close(&capture);
		timing_next_pass(&timing);
	}
	return 0;
}
