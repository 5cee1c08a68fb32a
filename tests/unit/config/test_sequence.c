// SPDX-License-Identifier: Apache-2.0
/*
 * The shipped descriptions of packet numbers, included into a configuration, on packets as their formats have them. And
 * what is refused in descriptions of numbers and of the sensor's time.
 */
#include "daemon/config/config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <ibvcap/ibvcap.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAYLOAD_BYTES 128

static struct failure failure;

/* A stream with these keys in its sequence. NULL: refused. */
static struct config *load(const char *keys)
{
	char text[2048], path[] = SHIPPED_DIRECTORY "/test.conf";
	struct config *config = NULL;

	snprintf(text, sizeof(text),
	         "streams = ( { name = \"a\"; interface = \"lo\"; payload_size = %d;\n"
	         "flows = ( { destination = \"239.1.2.3\"; port = 1; } );\n"
	         "sequence = {\n%s\n}; } );\n",
	         PAYLOAD_BYTES, keys);
	config_load_text(path, text, &config, &failure);
	return config;
}

static struct ibvcap_tracker *track(const char *keys)
{
	struct config *config = load(keys);
	struct ibvcap_sequence sequence;
	struct ibvcap_tracker *tracker = NULL;

	cr_assert(config != NULL, "%s", failure.text);
	sequence = config->streams[0].sequence;
	config_free(config);
	cr_assert(eq(int, ibvcap_tracker_new(&sequence, NULL, &tracker), 0), "%s", ibvcap_error_text());
	return tracker;
}

static void put(uint8_t *to, uint64_t value, unsigned bytes, bool little)
{
	for (unsigned i = 0; i < bytes; i++)
		to[little ? i : bytes - 1 - i] = (uint8_t)(value >> 8 * i);
}

static void add(struct ibvcap_tracker *tracker, const uint8_t payload[PAYLOAD_BYTES])
{
	const struct ibvcap_packet packet = {.row = payload, .row_bytes = PAYLOAD_BYTES, .has_headers = true};

	cr_assert(eq(int, ibvcap_tracker_add(tracker, &packet, NULL), 0));
}

/* Ends the tracker. */
static void expect_numbers(struct ibvcap_tracker *tracker, uint32_t n_sources, uint64_t once, uint64_t lost)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	cr_assert(eq(int, ibvcap_tracker_counts(tracker, &counts), 0));
	cr_expect(eq(u32, counts.n_sources, n_sources));
	cr_expect(eq(u64, counts.numbers.once, once));
	cr_expect(eq(u64, counts.numbers.lost, lost));
	cr_expect(eq(u64, counts.numbers.repeated + counts.numbers.restarted + counts.numbers.reordered, 0));
	cr_expect(eq(u64, counts.numbers.late + counts.numbers.stray + counts.unread, 0));
	ibvcap_tracker_free(tracker);
}

/* RFC 3550, 5.1. Two synchronisation sources, over a wrap; packet 70000 of one is lost. */
Test(sequence, rtp)
{
	struct ibvcap_tracker *tracker = track("@include \"rtp.conf\"");

	for (unsigned i = 65000; i < 140000; i++)
		for (unsigned ssrc = 1; ssrc <= 2; ssrc++) {
			uint8_t p[PAYLOAD_BYTES] = {0x80, 96};

			put(p + 2, i, 2, false);
			put(p + 8, ssrc, 4, false);
			if (i != 70000 || ssrc == 1)
				add(tracker, p);
		}
	expect_numbers(tracker, 2, 2 * 75000 - 1, 1);
}

/* Data packets, and one context packet after each 10 of them, with a count of its own. */
Test(sequence, vita49)
{
	struct ibvcap_tracker *tracker = track("@include \"vita49.conf\"");

	for (unsigned i = 0; i < 1000; i++) {
		uint8_t p[PAYLOAD_BYTES] = {0x18, (uint8_t)(0x60 | i % 16)};

		put(p + 4, 0xabcd, 4, false);
		if (i % 100 < 95 || i > 990)
			add(tracker, p);
		p[0] = 0x48;
		p[1] = (uint8_t)(0x60 | i / 10 % 16);
		if (i % 10 == 9)
			add(tracker, p);
	}
	expect_numbers(tracker, 2, 1000 - 9 * 5 + 100, 9 * 5);
}

/* Two threads, 50 frames a second. A whole second is lost, but for the last frame of thread 1. */
Test(sequence, vdif)
{
	struct ibvcap_tracker *tracker = track("@include \"vdif.conf\"\nmodulus = 50;");

	for (unsigned i = 0; i < 250; i++)
		for (unsigned thread = 0; thread < 2; thread++) {
			uint8_t p[PAYLOAD_BYTES] = {0};

			put(p, 1000000 + i / 50, 4, true);
			put(p + 4, i % 50 | 41u << 24, 4, true);
			put(p + 12, 0x4242u | thread << 16 | (1u << 26), 4, true);
			if (i / 50 != 2 || (i == 149 && thread == 1))
				add(tracker, p);
		}
	expect_numbers(tracker, 2, 401, 99);
}

Test(sequence, vtp_and_pattern)
{
	struct ibvcap_tracker *vtp = track("@include \"vtp.conf\""), *pattern = track("@include \"pattern.conf\"");

	for (unsigned i = 0; i < 300; i++) {
		uint8_t p[PAYLOAD_BYTES];

		put(p, i, 8, true);
		if (i != 100)
			add(vtp, p);
		put(p, i, 8, false);
		if (i != 100)
			add(pattern, p);
	}
	expect_numbers(vtp, 1, 299, 1);
	expect_numbers(pattern, 1, 299, 1);
}

/* Heaps of 8 packets of 512 bytes; heap counters grow by 3. The end of one heap and the start of the next are lost. */
Test(sequence, spead)
{
	struct ibvcap_tracker *tracker = track("@include \"spead.conf\"\nmodulus = 4096; step = 512; upper_step = 3;");

	for (unsigned i = 0; i < 200; i++) {
		uint8_t p[PAYLOAD_BYTES] = {0x53, 4, 2, 6, 0, 0, 0, 4};

		put(p + 8, UINT64_C(0x8001) << 48 | (9000 + 3 * (i / 8)), 8, false);
		put(p + 16, UINT64_C(0x8002) << 48 | 4096, 8, false);
		put(p + 24, UINT64_C(0x8003) << 48 | (512 * (i % 8)), 8, false);
		put(p + 32, UINT64_C(0x8004) << 48 | 512, 8, false);
		if (i < 21 || i > 26)
			add(tracker, p);
	}
	expect_numbers(tracker, 1, 194, 6);
}

/* Three messages a packet; then a heartbeat tells of two lost packets; then the end of the session. */
Test(sequence, moldudp64)
{
	struct ibvcap_tracker *tracker = track("@include \"moldudp64.conf\"");
	uint8_t p[PAYLOAD_BYTES] = "000000042A";

	for (unsigned i = 0; i < 100; i++) {
		put(p + 10, 1 + 3 * i, 8, false);
		put(p + 18, 3, 2, false);
		if (i < 98 && i != 50)
			add(tracker, p);
	}
	put(p + 10, 301, 8, false);
	put(p + 18, 0, 2, false);
	add(tracker, p);
	put(p + 18, 0xffff, 2, false);
	add(tracker, p);
	expect_numbers(tracker, 1, 97 * 3, 3 * 3);
}

/* The number wraps; packet 65540 is lost. */
Test(sequence, livox)
{
	struct ibvcap_tracker *tracker = track("@include \"livox.conf\"");

	for (unsigned i = 65000; i < 66000; i++) {
		uint8_t p[PAYLOAD_BYTES] = {0};

		put(p + 7, i, 2, true);
		if (i != 65540)
			add(tracker, p);
	}
	expect_numbers(tracker, 1, 999, 1);
}

/* Blocks of a leader, data and a trailer, 50 packets in all. The trailer of one and the leader of the next are lost. */
Test(sequence, gvsp)
{
	struct ibvcap_tracker *plain = track("@include \"gvsp.conf\"\nmodulus = 50;");
	struct ibvcap_tracker *extended = track("@include \"gvsp-extended.conf\"\nmodulus = 50;");

	for (unsigned i = 0; i < 500; i++) {
		const unsigned format = i % 50 == 0 ? 1 : i % 50 == 49 ? 2 : 3;
		uint8_t p[PAYLOAD_BYTES] = {0}, q[PAYLOAD_BYTES] = {0};

		put(p + 2, 1 + i / 50, 2, false);
		put(p + 4, format << 24 | i % 50, 4, false);
		put(q + 4, (0x80 | format) << 24, 4, false);
		put(q + 8, UINT64_C(0xfffffffe) + i / 50, 8, false);
		put(q + 16, i % 50, 4, false);
		if (i == 149 || i == 150)
			continue;
		add(plain, p);
		add(extended, q);
	}
	expect_numbers(plain, 1, 498, 2);
	expect_numbers(extended, 1, 498, 2);
}

/* Frames of 1024 columns, 16 a packet; frame identifiers wrap. */
static void add_columns(struct ibvcap_tracker *tracker, unsigned frame_at, unsigned column_at)
{
	for (unsigned i = 0; i < 640; i++) {
		uint8_t p[PAYLOAD_BYTES] = {1};

		put(p + frame_at, 65530 + i / 64, 2, true);
		put(p + column_at, 16 * (i % 64), 2, true);
		if (i != 64)
			add(tracker, p);
	}
}

Test(sequence, ouster)
{
	struct ibvcap_tracker *tracker = track("@include \"ouster.conf\"\nmodulus = 1024; step = 16;");

	add_columns(tracker, 2, 40);
	expect_numbers(tracker, 1, 639, 1);
	tracker = track("@include \"ouster-legacy.conf\"\nmodulus = 1024; step = 16;");
	add_columns(tracker, 10, 8);
	expect_numbers(tracker, 1, 639, 1);
}

Test(sequence, keys_that_do_not_fit_are_refused_with_what_is_accepted)
{
	static const struct {
		const char *keys;
		const char *said;
	} wrong[] = {
		{"offset = 4;", "needs 'bytes'"},
		{"bytes = 8; offset = 121;", "offset = 120 at most"},
		{"bytes = 2; bits = 17;", "16 bits at most"},
		{"bytes = 2; shift = 16;", "shift = 16"},
		{"bytes = 2; step = 3;", "a divisor of the modulus, 65536"},
		{"bytes = 2; modulus = 65537;", "65536 at most"},
		{"bytes = 2; upper_offset = 2;", "accepted is upper_bytes"},
		{"bytes = 8; upper_bytes = 8;", "fewer upper_bits"},
		{"bytes = 4; count_bytes = 2; step = 2;", "accepted is one of them"},
		{"bytes = 2; count_bytes = 2;", "20 bits or more"},
		{"bytes = 1; bits = 1;", "accepted are more"},
		{"bytes = 2; source_bytes = 4; source_offset = 125;", "source_offset = 124 at most"},
		{"bytes = 2; frame_bytes = 4; frame_offset = 125;", "frame_offset = 124 at most"},
		{"bytes = 2; frame_offset = 4;", "frame_offset = 4 without frame_bytes"},
		{"bytes = 2; frame_bytes = 2; frame_bits = 17;", "frame_bits = 17 of a field of 16 bits"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect(eq(ptr, (void *)load(wrong[i].keys), NULL), "accepted: %s", wrong[i].keys);
		cr_expect(strstr(failure.text, wrong[i].said) != NULL, "%s: %s", wrong[i].keys, failure.text);
	}
}

static struct config *load_sensor_time(const char *keys)
{
	struct config *config = NULL;
	char text[2048];

	snprintf(text, sizeof(text),
	         "streams = ( { name = \"a\"; interface = \"lo\"; payload_size = %d; application_header_bytes = 16;\n"
	         "flows = ( { destination = \"239.1.2.3\"; port = 1; } ); sensor_time = { %s }; } );\n",
	         PAYLOAD_BYTES, keys);
	config_load_text("/etc/test.conf", text, &config, &failure);
	return config;
}

Test(sensor_time, keys_that_do_not_fit_are_refused_with_what_is_accepted)
{
	static const struct {
		const char *keys;
		const char *said;
	} wrong[] = {
		{"offset = 4;", "needs 'bytes'"},
		{"bytes = 8; offset = 121;", "accepted is 120 at most"},
		{"bytes = 8; offset = 10;", "in the 16 application_header_bytes nor behind them"},
		{"bytes = 9;", "accepted is 1 to 8"},
		{"bytes = 4; format = \"seconds+ns\";", "accepted is 5 to 12"},
		{"bytes = 8; format = \"seconds+us\"; period_s = 3600;", "period_s without format"},
		{"bytes = 4; hz = 1000000; period_s = 4295;", "too short for it"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect(eq(ptr, (void *)load_sensor_time(wrong[i].keys), NULL), "accepted: %s", wrong[i].keys);
		cr_expect(strstr(failure.text, wrong[i].said) != NULL, "%s: %s", wrong[i].keys, failure.text);
	}
}

Test(sensor_time, keys_that_fit_are_taken)
{
	struct config *config =
		load_sensor_time("offset = 8; bytes = 8; format = \"seconds+fraction\"; epoch = \"ntp\";");

	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(u8, config->streams[0].sensor_time.format, SENSOR_TIME_SECONDS_FRACTION));
	cr_expect(eq(u8, config->streams[0].sensor_time.epoch, SENSOR_TIME_NTP));
	config_free(config);
}
