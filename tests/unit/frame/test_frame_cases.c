// SPDX-License-Identifier: Apache-2.0
/*
 * The walk, and all that decide by its result, give the answers of the table of frames: the reader of captures, the
 * tracker and the receive path. test_flow_frames has the BPF programs and the classic filter.
 */
#include "daemon/worker/rx_receive.h"
#include "lib/ibvcap/track/sequence_read.h"
#include "tests/support/frame_cases.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MIN            200
#define PLAIN_ROWS          73
#define TRACKER_HEADERS_MAX 256 /* bytes before the ports that the tracker walks */
#define WORKER_HEADERS_MAX  128 /* bytes before the payload that the worker walks: a row has a byte for their number */

/* The fast path finds the same as the walk, if it finds something. */
static bool expect_plain(const char *recipe, const uint8_t *bytes, uint32_t captured, const struct frame *walked)
{
	struct frame frame;

	if (!frame_find_plain(bytes, captured, &frame))
		return false;
	cr_expect(frame.ip_version == walked->ip_version && frame.protocol == walked->protocol &&
	                  frame.l3_at == walked->l3_at && frame.l4_at == walked->l4_at && frame.fragment_offset == 0 &&
	                  !frame_is_fragment(walked) && walked->n_extensions == 0,
	          "%s, %u bytes: not plain", recipe, captured);
	return true;
}

/* Walk a copy of exactly the captured bytes, so that a sanitizer finds a read behind them. */
static struct frame walk_copy(const struct frame_case *row, uint32_t captured, uint32_t wire_bytes)
{
	uint8_t *copy = malloc(captured ? captured : 1);
	struct frame frame;

	cr_assert(copy != NULL);
	memcpy(copy, row->bytes, captured);
	frame_walk(copy, captured, wire_bytes, &frame);
	expect_plain(row->recipe, copy, captured, &frame);
	free(copy);
	return frame;
}

static void expect_frame(const struct frame_case *row, const struct frame *is, uint32_t captured)
{
	const struct frame *is_to_be = &row->frame;

#define EXPECT(member)                                                                                          \
	cr_expect(is->member == is_to_be->member, "%s, %u bytes of %u: " #member " is %u, not %u", row->recipe, \
	          captured, row->wire_bytes, (unsigned)is->member, (unsigned)is_to_be->member)
	EXPECT(end);
	EXPECT(ip_version);
	EXPECT(n_tags);
	EXPECT(n_extensions);
	EXPECT(protocol);
	EXPECT(l3_at);
	EXPECT(l4_at);
	EXPECT(fragment_offset);
	EXPECT(more_fragments);
	EXPECT(payload_at);
	EXPECT(payload_bytes);
	EXPECT(datagram_bytes);
#undef EXPECT
	if (frame_is_fragment(is))
		cr_expect(eq(u32, is->fragment_id, is->ip_version == 4 ? 0x1234 : 0x12345678), "%s", row->recipe);
}

static void expect_walk(const struct frame_case *row, void *context)
{
	const struct frame frame = walk_copy(row, row->captured, row->wire_bytes);

	(void)context;
	expect_frame(row, &frame, row->captured);
}

Test(frame_cases, the_walk_answers_as_the_table)
{
	cr_expect(ge(u32, frame_cases_visit(TEST_DATA, expect_walk, NULL), ROWS_MIN));
}

static void count_plain(const struct frame_case *row, void *context)
{
	uint32_t *n = context;

	if (row->frame.end == FRAME_UDP)
		*n += expect_plain(row->recipe, row->bytes, row->captured, &row->frame);
}

/* All but options, extension headers, fragments, and more tags or other types of them. */
Test(frame_cases, the_fast_path_knows_plain_frames)
{
	uint32_t n = 0;

	frame_cases_visit(TEST_DATA, count_plain, &n);
	cr_expect(eq(u32, n, PLAIN_ROWS));
}

/* A large payload is cut near the headers only. */
static void expect_cuts(const struct frame_case *row, void *context)
{
	(void)context;
	if (row->needed == 0)
		return;
	for (uint32_t n = 0; n <= row->captured && n < row->needed + 64; n++) {
		struct frame of_cut = walk_copy(row, n, row->wire_bytes), of_short = walk_copy(row, n, n);

		if (n >= row->needed) {
			expect_frame(row, &of_cut, n);
			expect_frame(row, &of_short, n);
			continue;
		}
		cr_expect(of_cut.end == FRAME_CUT, "%s, %u captured: %d", row->recipe, n, of_cut.end);
		cr_expect(of_short.end == FRAME_SHORT, "%s, ends at %u: %d", row->recipe, n, of_short.end);
	}
}

Test(frame_cases, a_frame_cut_anywhere_is_known_as_cut_and_one_that_ends_anywhere_as_short)
{
	frame_cases_visit(TEST_DATA, expect_cuts, NULL);
}

/* ---- the reader of captures ---------------------------------------------------------------------- */

static void expect_datagram(const struct frame_case *row, void *context)
{
	struct datagram datagram = {0};
	enum datagram_verdict verdict =
		datagram_find(DATAGRAM_LINK_ETHERNET, row->bytes, row->captured, row->wire_bytes, &datagram);

	(void)context;
	cr_expect(verdict == row->verdict, "%s, %u bytes of %u: %d, not %d", row->recipe, row->captured,
	          row->wire_bytes, verdict, row->verdict);
	if (verdict != DATAGRAM_WHOLE)
		return;
	cr_expect(datagram.payload == row->bytes + row->frame.payload_at, "%s", row->recipe);
	cr_expect(datagram.bytes == row->frame.payload_bytes, "%s", row->recipe);
	cr_expect(datagram.destination_port == FRAME_CASE_PORT, "%s", row->recipe);
}

Test(frame_cases, the_reader_of_captures_answers_as_the_table)
{
	frame_cases_visit(TEST_DATA, expect_datagram, NULL);
}

/* ---- the tracker ----------------------------------------------------------------------------------- */

static struct sequence_key wanted_key(const struct frame_case *row)
{
	const struct frame *frame = &row->frame;
	struct sequence_key key = {0};

	if (frame->ip_version == 4) {
		memcpy(key.address, (const uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 9}, 16);
		memcpy(key.destination, (const uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 1}, 16);
	} else if (frame->ip_version == 6) {
		memcpy(key.address, (const uint8_t[16]){0xfd, [15] = 9}, 16);
		memcpy(key.destination, (const uint8_t[16]){0xfd, [15] = 1}, 16);
	}
	if (frame->l4_at && frame->l4_at <= TRACKER_HEADERS_MAX && frame->fragment_offset == 0 &&
	    row->captured >= frame->l4_at + 4 && (frame->protocol == IPPROTO_UDP || frame->protocol == IPPROTO_TCP)) {
		key.port = frame_be16(row->bytes + frame->l4_at);
		key.destination_port = frame_be16(row->bytes + frame->l4_at + 2);
	}
	return key;
}

/* Wherever the frame is split in two. Each frame has the number 0, of no bits. */
static void expect_key(const struct frame_case *row, void *context)
{
	const struct sequence_reader *reader = context;
	const struct sequence_key wanted = wanted_key(row);

	for (uint32_t split = 0; split <= 130 && split <= row->captured; split++) {
		const struct ibvcap_packet packet = {.headers = split ? row->bytes : NULL,
		                                     .row = row->bytes + split,
		                                     .header_bytes = split,
		                                     .row_bytes = row->captured - split,
		                                     .has_headers = true};
		struct sequence_reading reading;

		if (row->captured < 8) {
			cr_expect(not(sequence_read(reader, &packet, &reading)));
			continue;
		}
		cr_assert(sequence_read(reader, &packet, &reading));
		cr_expect(memcmp(&reading.key, &wanted, sizeof(wanted)) == 0,
		          "%s, %u bytes, split at %u: port %u, address …%u", row->recipe, row->captured, split,
		          reading.key.port, reading.key.address[15]);
	}
}

Test(frame_cases, the_tracker_knows_the_source_as_the_table)
{
	const struct ibvcap_sequence sequence = {
		.bytes = 8, .source = IBVCAP_SOURCE_FLOW, .step = 1, .window = 64, .jump = 1};
	struct sequence_reader reader;

	cr_assert(eq(int, sequence_reader_init(&reader, &sequence, "a test"), 0));
	frame_cases_visit(TEST_DATA, expect_key, &reader);
}

/* ---- the receive path ------------------------------------------------------------------------------ */

static uint8_t payload_row[FRAME_CASE_BYTES_MAX], header_row[FRAME_CASE_BYTES_MAX];

/* What the worker writes of a frame that the device split behind so many bytes. */
static struct ibvcap_meta describe(const struct frame_case *row, uint32_t header_bytes, struct rx_receive *receive)
{
	struct rx_ring ring = {.header_bytes = header_bytes,
	                       .header_stride = sizeof(header_row),
	                       .slot_bytes = sizeof(payload_row),
	                       .row_stride = sizeof(payload_row)};
	struct ibvcap_meta meta = {0};
	const struct rx_span span = {.n = 1, .payload = payload_row, .headers = header_row, .meta = &meta};
	const struct backend_event event = {.bytes = row->captured};
	struct rx_tally tally = {0};

	receive->ring = &ring;
	cr_assert(packet_plain_init(&receive->plain, header_bytes));
	memset(header_row, 0, header_bytes);
	memcpy(header_row, row->bytes, row->captured < header_bytes ? row->captured : header_bytes);
	if (row->captured > header_bytes)
		memcpy(payload_row, row->bytes + header_bytes, row->captured - header_bytes);
	rx_describe_unusual(receive, &event, &span, 0, &tally);
	return meta;
}

/* What the reader of captures names malformed is so in a row, and a fragment whose own lengths are wrong. */
static bool is_malformed(const struct frame_case *row)
{
	const struct frame *frame = &row->frame;

	return row->verdict == DATAGRAM_MALFORMED || frame->end == FRAME_MALFORMED || frame->end == FRAME_SHORT;
}

static void expect_meta(const struct frame_case *row, uint32_t header_bytes)
{
	const uint32_t malformed = IBVCAP_PACKET_FLAG_MALFORMED | IBVCAP_PACKET_FLAG_UNUSABLE;
	struct rx_receive receive = {0};
	const struct ibvcap_meta meta = describe(row, header_bytes, &receive);
	const struct frame *frame = &row->frame;
	uint32_t is_usable, wire_length, behind = row->captured > header_bytes ? row->captured - header_bytes : 0;

	if (row->captured < row->wire_bytes) /* the worker has the whole frame */
		return;
	if (is_malformed(row)) {
		cr_expect(eq(u32, meta.flags, malformed), "%s, split at %u", row->recipe, header_bytes);
		cr_expect(eq(u32, meta.length, behind), "%s", row->recipe);
		cr_expect(eq(u32, meta.wire_length, behind), "%s", row->recipe);
		return;
	}
	is_usable = (frame->end == FRAME_UDP || frame->end == FRAME_LATER_FRAGMENT) &&
	            frame->payload_at >= header_bytes && frame->payload_at <= WORKER_HEADERS_MAX;
	wire_length = frame->payload_at <= WORKER_HEADERS_MAX ? frame->datagram_bytes : 0;
	cr_expect(eq(u32, meta.flags & malformed, is_usable ? 0 : IBVCAP_PACKET_FLAG_UNUSABLE),
	          "%s, split at %u: flags %#x", row->recipe, header_bytes, meta.flags);
	cr_expect(eq(u32, meta.wire_length, wire_length), "%s", row->recipe);
	if (!is_usable)
		return;
	cr_expect(eq(u32, meta.flags & IBVCAP_PACKET_FLAG_IRREGULAR,
	             packet_is_plain(&receive.plain, header_row + receive.plain.l3) ? 0 : IBVCAP_PACKET_FLAG_IRREGULAR),
	          "%s", row->recipe);
	cr_expect(eq(u32, meta.header_length, frame->payload_at), "%s", row->recipe);
	cr_expect(eq(u32, meta.flags & IBVCAP_PACKET_FLAG_FRAGMENT,
	             frame_is_fragment(frame) ? IBVCAP_PACKET_FLAG_FRAGMENT : 0),
	          "%s", row->recipe);
}

static void expect_metas(const struct frame_case *row, void *context)
{
	static const uint32_t layouts[] = {42, 46, 62, 66};

	(void)context;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		expect_meta(row, layouts[i]);
}

Test(frame_cases, the_receive_path_answers_as_the_table)
{
	frame_cases_visit(TEST_DATA, expect_metas, NULL);
}
