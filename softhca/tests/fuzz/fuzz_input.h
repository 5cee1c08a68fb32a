// SPDX-License-Identifier: Apache-2.0
/* All fuzzers of softhca read the bytes of an input in turn, and run a device on "lo". */
#ifndef TESTS_SOFTHCA_FUZZ_FUZZ_INPUT_H
#define TESTS_SOFTHCA_FUZZ_FUZZ_INPUT_H

#include "softhca/settings.h"
#include "softhca/tests/fuzz/must.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *data;
	size_t left;
};

/* The next n bytes; what the input lacks is 0. Returns how many it had. */
static inline size_t input_bytes(struct input *in, void *to, size_t n)
{
	size_t got = n < in->left ? n : in->left;

	memset(to, 0, n);
	memcpy(to, in->data, got);
	in->data += got;
	in->left -= got;
	return got;
}

static inline struct settings fuzz_settings(struct clock *clock)
{
	struct settings settings;
	char message[256];

	must(settings_read(&settings, message, sizeof(message)));
	settings.device.netdev = "lo";
	settings.device.clock = clock;
	return settings;
}

#endif
