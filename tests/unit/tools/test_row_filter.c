// SPDX-License-Identifier: Apache-2.0
/* What a filter takes, of frames and of rows in which the end of the frame is missing. */
#include "tools/record/row_filter.h"

#include <criterion/criterion.h>
#include <string.h>

#define PAYLOAD_BYTES 40
#define ROWS          4

/* From 10.0.0.1 to port 7502, with a payload of 1, 2, 3, … */
static uint8_t frame[42 + PAYLOAD_BYTES] = {
	[12] = 0x08, [14] = 0x45, [17] = 68,   [22] = 64, [23] = 17, [26] = 10, [29] = 1, [30] = 10,
	[33] = 2,    [36] = 0x1d, [37] = 0x4e, [39] = 48, [42] = 1,  [43] = 2,  [44] = 3};
static char error[PACKET_FILTER_ERROR_BYTES];

Test(packet_filter, takes_ethernet_frames_as_tcpdump_does)
{
	struct packet_filter *filter = packet_filter_new("udp dst port 7502", error);

	cr_assert(filter != NULL);
	cr_expect(packet_filter_takes(filter, frame, 60, 60));
	packet_filter_free(filter);
	filter = packet_filter_new("udp port 7503", error);
	cr_expect(!packet_filter_takes(filter, frame, 60, 60));
	packet_filter_free(filter);
	cr_expect(packet_filter_new("udp port", error) == NULL);
	cr_expect(strstr(error, "pcap-filter(7)") != NULL, "%s", error);
}

/* bytes[0] of the frame are in the header row, bytes[1] behind them. */
static bool takes(const char *text, uint32_t headers, uint32_t row, uint32_t wire)
{
	const struct row_frame pieces = {.at = {frame, frame + headers}, .bytes = {headers, row}, .wire_bytes = wire};
	struct row_filter *filter = row_filter_new(text, error);
	bool is_taken;

	cr_assert(filter != NULL, "%s", error);
	is_taken = row_filter_takes(filter, &pieces);
	row_filter_free(filter);
	return is_taken;
}

Test(row_filter, sees_both_pieces_of_a_frame)
{
	cr_expect(takes("udp port 7502", 42, PAYLOAD_BYTES, sizeof(frame)));
	cr_expect(takes("udp[9] == 2", 42, PAYLOAD_BYTES, sizeof(frame)));
	cr_expect(!takes("udp[9] == 3", 42, PAYLOAD_BYTES, sizeof(frame)));
	cr_expect(takes("udp[9] == 2", 0, sizeof(frame), sizeof(frame)), "a stream of whole frames");
	cr_expect(takes("udp[9] == 2", 36, sizeof(frame) - 36, sizeof(frame)), "cut in the UDP header");
	cr_expect(takes("greater 82", 42, PAYLOAD_BYTES, sizeof(frame)));
	cr_expect(!takes("greater 83", 42, PAYLOAD_BYTES, sizeof(frame)));
}

Test(row_filter, leaves_out_no_frame_that_may_match)
{
	/* Of 82 bytes, 50 are in the row. */
	cr_expect(takes("udp[20] == 7", 42, 8, sizeof(frame)), "the byte is not there");
	cr_expect(takes("not udp[20] == 7", 42, 8, sizeof(frame)), "nor its contrary is known");
	cr_expect(takes("src host 10.0.0.9 or udp[20] == 7", 42, 8, sizeof(frame)));
	cr_expect(!takes("src host 10.0.0.9 and udp[20] == 7", 42, 8, sizeof(frame)), "the address decides");
	cr_expect(!takes("udp[9] == 3", 42, 8, sizeof(frame)), "the byte is there");
	cr_expect(!takes("udp[20] == 7", 42, 8, 50),
	          "a whole frame has no such byte, so it does not match: as tcpdump");
}

Test(row_filter, a_wrong_text_is_refused)
{
	cr_expect(row_filter_new("src hots 10.0.0.1", error) == NULL);
	cr_expect(strstr(error, "pcap-filter(7)") != NULL, "%s", error);
	cr_expect(row_filter_new("udp) or (tcp", error) == NULL, "only its contrary would be one");
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static uint8_t headers[ROWS][64], rows[ROWS][PAYLOAD_BYTES];
static struct ibvcap_meta meta[ROWS];

/* Row i has the payload i, 2, 3, … */
static struct ibvcap_rx_batch make_batch(void)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		memcpy(headers[i], frame, 42);
		memcpy(rows[i], frame + 42, PAYLOAD_BYTES);
		rows[i][0] = (uint8_t)i;
		meta[i] = (struct ibvcap_meta){.timestamp_ns = 100 + i,
		                               .length = PAYLOAD_BYTES,
		                               .wire_length = PAYLOAD_BYTES,
		                               .header_length = 42};
	}
	return (struct ibvcap_rx_batch){.payload = rows[0],
	                                .meta = meta,
	                                .sequence = 70,
	                                .n = ROWS,
	                                .stride = PAYLOAD_BYTES,
	                                .headers = headers[0],
	                                .header_stride = 64,
	                                .header_bytes = 42};
}

static struct ibvcap_rx_batch cut(struct row_filter *filter, const struct ibvcap_rx_batch *batch)
{
	struct ibvcap_rx_batch taken;

	cr_assert(filter != NULL, "%s", error);
	cr_assert(row_filter_cut_batch(filter, batch, &taken));
	return taken;
}

Test(row_filter, cuts_rows_out_of_a_batch)
{
	const struct ibvcap_rx_batch batch = make_batch();
	struct row_filter *filter = row_filter_new("udp[8] == 1 or udp[8] == 3", error);
	const struct ibvcap_rx_batch taken = cut(filter, &batch);

	cr_assert_eq(taken.n, 2);
	cr_expect_eq(taken.sequence, 71);
	for (uint32_t i = 0; i < 2; i++) {
		cr_expect_eq(memcmp(taken.payload + (size_t)i * taken.stride, rows[1 + 2 * i], PAYLOAD_BYTES), 0);
		cr_expect_eq(memcmp(ibvcap_rx_headers(&taken, i), headers[1 + 2 * i], 42), 0);
		cr_expect_eq(taken.meta[i].timestamp_ns, 101 + 2 * i);
	}
	row_filter_free(filter);
}

Test(row_filter, keeps_rows_in_error_and_copies_no_whole_batch)
{
	const struct ibvcap_rx_batch batch = make_batch();
	struct row_filter *all = row_filter_new("udp", error), *none = row_filter_new("tcp", error);
	struct ibvcap_rx_batch taken = cut(all, &batch);

	cr_expect_eq(taken.n, ROWS);
	cr_expect_eq(taken.payload, batch.payload);
	cr_expect_eq(cut(none, &batch).n, 0);
	meta[2].flags = IBVCAP_PACKET_FLAG_ERROR;
	taken = cut(none, &batch);
	cr_expect_eq(taken.n, 1);
	cr_expect_eq(taken.sequence, 72);
	row_filter_free(all);
	row_filter_free(none);
}
