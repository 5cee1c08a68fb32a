// SPDX-License-Identifier: Apache-2.0
/* The lines and the JSON that `ibvcap recv` prints. */
#include "tools/ibvcap/recv.h"

#include "tools/ibvcap/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>

#define SCHEMA_VERSION 1

/* Indexed by the bit of the flag. */
static const char *const flag_names[RECV_FLAGS] = {
	"short", "truncated", "irregular", "fragment", "bad_checksum", "error", "unusable",
};
static_assert(IBVCAP_PACKET_FLAG_UNUSABLE == 1 << (RECV_FLAGS - 1), "a flag wants its name here");

static void print_dump_line(const uint8_t *bytes, size_t offset, size_t n)
{
	printf("  %04zx ", offset);
	for (size_t i = 0; i < 16; i++) {
		if (i < n)
			printf(" %02x", bytes[offset + i]);
		else
			printf("   ");
	}
	printf("  |");
	for (size_t i = 0; i < n; i++)
		putchar(isprint(bytes[offset + i]) ? bytes[offset + i] : '.');
	printf("|\n");
}

static void print_dump(const char *what, const uint8_t *bytes, size_t n)
{
	printf(" %s, %zu bytes\n", what, n);
	for (size_t offset = 0; offset < n; offset += 16)
		print_dump_line(bytes, offset, n - offset < 16 ? n - offset : 16);
}

void recv_dump(const struct ibvcap_rx_batch *batch, uint32_t i)
{
	const struct ibvcap_meta *meta = &batch->meta[i];
	uint32_t header_bytes = meta->header_length < batch->header_stride ? meta->header_length : batch->header_stride;

	printf("packet %" PRIu64 ": timestamp %" PRIu64 " ns, %u of %u bytes", batch->sequence + i, meta->timestamp_ns,
	       meta->length, meta->wire_length);
	for (unsigned bit = 0; bit < RECV_FLAGS; bit++)
		if (meta->flags & 1u << bit)
			printf(", %s", flag_names[bit]);
	putchar('\n');
	if (meta->flags & IBVCAP_PACKET_FLAG_ERROR)
		return;
	print_dump("headers", ibvcap_rx_headers(batch, i), header_bytes);
	print_dump("payload", ibvcap_rx_payload(batch, i), meta->length);
}

void recv_print_rate(double seconds, double interval, const struct recv_totals *now, const struct recv_totals *before)
{
	printf("%6.1f s  %10.0f packets/s  %8.3f Gb/s  gaps %" PRIu64 " (%" PRIu64 " packets skipped)\n", seconds,
	       (double)(now->packets - before->packets) / interval,
	       (double)(now->bytes - before->bytes) * 8e-9 / interval, now->gaps - before->gaps,
	       now->skipped - before->skipped);
}

static json_t *tally_to_json(const struct pattern_tally *tally)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "received", (json_int_t)tally->received, "missing",
	                 (json_int_t)tally->missing, "reordered", (json_int_t)tally->reordered, "repeated",
	                 (json_int_t)tally->repeated, "restarts", (json_int_t)tally->restarts, "corrupt",
	                 (json_int_t)tally->corrupt);
}

static void print_recv_json(const struct recv_options *options, double seconds, const struct recv_totals *totals,
                            const struct ibvcap_rx_counts *counts, const struct pattern_tally *tally)
{
	json_t *flagged = json_object();
	json_t *all = json_pack("{s:i, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "schema_version",
	                        SCHEMA_VERSION, "stream", options->stream, "seconds", seconds, "packets",
	                        (json_int_t)totals->packets, "bytes", (json_int_t)totals->bytes, "gaps",
	                        (json_int_t)totals->gaps, "published", (json_int_t)counts->published, "delivered",
	                        (json_int_t)counts->delivered, "skipped", (json_int_t)counts->skipped, "lag",
	                        (json_int_t)counts->lag, "unknown_gaps", (json_int_t)counts->epochs);

	for (unsigned bit = 0; bit < RECV_FLAGS; bit++)
		json_object_set_new(flagged, flag_names[bit], json_integer((json_int_t)totals->flagged[bit]));
	json_object_set_new(all, "flags", flagged);
	if (tally)
		json_object_set_new(all, "pattern", tally_to_json(tally));
	report_json(all, JSON_INDENT(2));
}

static void print_recv_flags(const struct recv_totals *totals)
{
	unsigned n_printed = 0;

	for (unsigned bit = 0; bit < RECV_FLAGS; bit++)
		if (totals->flagged[bit])
			printf("%s %s %" PRIu64, n_printed++ ? "," : "marked:", flag_names[bit], totals->flagged[bit]);
	if (n_printed)
		putchar('\n');
}

void recv_print_summary(const struct recv_options *options, double seconds, const struct recv_totals *totals,
                        const struct ibvcap_rx_counts *counts, const struct pattern_tally *tally)
{
	if (options->json) {
		print_recv_json(options, seconds, totals, counts, tally);
		return;
	}
	printf("%s: %" PRIu64 " packets, %" PRIu64 " payload bytes, %" PRIu64 " gaps in %.1f s\n", options->stream,
	       totals->packets, totals->bytes, totals->gaps, seconds);
	printf("published %" PRIu64 " = delivered %" PRIu64 " + skipped %" PRIu64 " + lag %" PRIu64 "\n",
	       counts->published, counts->delivered, counts->skipped, counts->lag);
	if (counts->epochs)
		printf("and %" PRIu64 " unknown gaps, between runs of the daemon\n", counts->epochs);
	print_recv_flags(totals);
	if (tally)
		printf("pattern: %" PRIu64 " intact, %" PRIu64 " missing, %" PRIu64 " repeated, %" PRIu64
		       " reordered, %" PRIu64 " restarts, %" PRIu64 " corrupt\n",
		       tally->received, tally->missing, tally->repeated, tally->reordered, tally->restarts,
		       tally->corrupt);
}
