// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a recording of any size at once, as `ibvcap record` would have written it: one stream of equal packets at a
 * steady rate, in the recorder's pieces, with its index. For scripts/bench extract.
 *
 *     bench_recording FILE BYTES BYTES_PER_S
 *
 * BYTES and BYTES_PER_S are of the file. Half of each payload is random.
 * Prints one JSON line.
 */
#include "lib/recording/pcapng.h"
#include "tests/support/frames.h"
#include "tools/record/record_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PIECE_BYTES   (1u << 20) /* as the recorder's buffers */
#define PAYLOAD_BYTES 1472u
#define FIRST_NS      UINT64_C(1700000000000000000)

struct generator {
	struct record_file_options options;
	struct file_window window;
	struct record_file file;
	struct record_piece piece;
	uint8_t bytes[PIECE_BYTES];
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t frame_bytes;
	uint64_t n_packets;
	uint64_t time_ns;
	uint64_t random; /* state of xorshift */
};

static void require(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "bench_recording: %s: %s\n", what, strerror(-r));
	exit(EX_IOERR);
}

static uint64_t next_random(struct generator *generator)
{
	generator->random ^= generator->random << 13;
	generator->random ^= generator->random >> 7;
	generator->random ^= generator->random << 17;
	return generator->random;
}

static void fill_payload(struct generator *generator)
{
	uint8_t *payload = generator->frame + generator->frame_bytes - PAYLOAD_BYTES;

	for (uint32_t at = 0; at < PAYLOAD_BYTES / 2; at += sizeof(uint64_t))
		memcpy(payload + at, &(uint64_t){next_random(generator)}, sizeof(uint64_t));
}

static void write_piece(struct generator *generator)
{
	struct record_piece *piece = &generator->piece;

	if (piece->bytes)
		require(record_file_write(&generator->file, piece), "write");
	*piece = (struct record_piece){.at = generator->bytes};
}

static void write_head(struct generator *generator)
{
	const struct pcapng_section section = {.application = pcapng_text_of("bench_recording")};
	const struct pcapng_interface interface = {.link_type = PCAPNG_LINK_ETHERNET, .name = pcapng_text_of("lidar")};
	struct record_piece *piece = &generator->piece;

	piece->at = generator->bytes;
	piece->bytes = pcapng_write_section(generator->bytes, PIECE_BYTES, &section);
	piece->bytes += pcapng_write_interface(generator->bytes + piece->bytes, PIECE_BYTES - piece->bytes, &interface);
	write_piece(generator);
}

static size_t put_packet(struct generator *generator)
{
	const struct pcapng_packet packet = {
		.options = PCAPNG_PACKET_HAS_ID | PCAPNG_PACKET_HAS_QUEUE,
		.packet_id = generator->n_packets,
		.wire_bytes = generator->frame_bytes,
		.time_ns = generator->time_ns,
		.frame = {generator->frame},
		.frame_bytes = {generator->frame_bytes},
	};
	struct record_piece *piece = &generator->piece;

	return pcapng_write_packet(generator->bytes + piece->bytes, PIECE_BYTES - piece->bytes, &packet);
}

/* Returns the bytes of the packet's block. */
static size_t add_packet(struct generator *generator)
{
	struct record_piece *piece = &generator->piece;
	size_t n;

	fill_payload(generator);
	n = put_packet(generator);
	if (n > PIECE_BYTES - piece->bytes) {
		write_piece(generator);
		n = put_packet(generator);
	}
	if (!piece->n_packets++) {
		piece->first_ns = generator->time_ns;
		piece->first_sequence = generator->n_packets;
	}
	piece->last_ns = generator->time_ns;
	piece->last_sequence = generator->n_packets++;
	piece->bytes += n;
	return n;
}

int main(int argc, char **argv)
{
	static struct generator generator = {
		.options = {.format = &pcapng_format, .index = true}, .time_ns = FIRST_NS, .random = 1};
	const struct frame_options frame = {.payload_bytes = PAYLOAD_BYTES};
	uint64_t bytes, bytes_per_s, written = 0, last_ns = FIRST_NS;

	if (argc != 4) {
		fprintf(stderr, "usage: bench_recording FILE BYTES BYTES_PER_S\n");
		return EX_USAGE;
	}
	bytes = strtoull(argv[2], NULL, 10);
	bytes_per_s = strtoull(argv[3], NULL, 10);
	generator.frame_bytes = frame_build(&frame, 0, generator.frame);
	generator.window.pattern = argv[1];
	generator.window.may_replace = true;
	require(file_window_init(&generator.window), argv[1]);
	require(record_file_open(&generator.file, &generator.options, &generator.window, argv[1]), argv[1]);
	write_head(&generator);
	while (written < bytes) {
		last_ns = generator.time_ns;
		written += add_packet(&generator);
		generator.time_ns = FIRST_NS + (uint64_t)((double)written / (double)bytes_per_s * 1e9);
	}
	write_piece(&generator);
	bytes = generator.file.parts[0].bytes;
	require(record_file_finish(&generator.file, true), argv[1]);
	file_window_deinit(&generator.window);
	printf("{\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"first_ns\": %" PRIu64 ", \"last_ns\": %" PRIu64
	       "}\n",
	       generator.n_packets, bytes, FIRST_NS, last_ns);
	return EXIT_SUCCESS;
}
