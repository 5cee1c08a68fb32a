// SPDX-License-Identifier: Apache-2.0
/* Makes messages of placed arrays: one for each source that has brought a packet to the array. */
#include "tools/produce/produce.h"

#include "tools/common/report.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define MISSING UINT16_MAX /* as the length of a packet: no UDP packet is so long */

int arrays_open(struct arrays *arrays, const struct ibvcap_rx *rx, const struct produce_options *options)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct ibvcap_placer_options placer = IBVCAP_INIT(struct ibvcap_placer_options);
	size_t bytes;
	int r = ibvcap_rx_sequence(rx, &arrays->sequence);

	if (r <= 0) {
		fprintf(stderr,
		        "ibvcap produce: stream '%s': its configuration does not say where the packets have their "
		        "number: give it a sequence (ibvcapd.conf(5)), or leave out --array\n",
		        options->stream);
		return EX_CONFIG;
	}
	ibvcap_rx_info(rx, &info);
	placer.numbers = options->numbers;
	placer.row_bytes = arrays->row_bytes = info.slot_bytes + info.application_header_bytes;
	placer.deadline_ns = options->wait_ns;
	placer.max_sources = options->sources;
	bytes = (size_t)placer.numbers * (placer.row_bytes + sizeof(uint16_t)) + PRODUCE_HEAD_BYTES;
	if (bytes > arrays->kafka->message_bytes) {
		fprintf(stderr,
		        "ibvcap produce: --array %u: a message of %zu bytes is more than message.max.bytes, %zu: "
		        "raise that in --config and in the brokers, or take fewer numbers\n",
		        placer.numbers, bytes, arrays->kafka->message_bytes);
		return EX_CONFIG;
	}
	r = ibvcap_placer_new(&arrays->sequence, &placer, &arrays->placer);
	return r < 0 ? report_failure("produce", r) : EX_OK;
}

/* The length of each packet as the header "lengths", in little endian. Returns how many numbers are present. */
static uint64_t put_lengths(rd_kafka_headers_t *headers, const struct ibvcap_place_array *array, uint64_t from)
{
	static uint16_t lengths[1u << 20]; /* an array has no more numbers */
	uint64_t n = 0;

	for (uint32_t i = 0; i < array->n_numbers; i++) {
		const bool is_present = array->present[from + i] != 0;

		lengths[i] = htole16(is_present ? array->lengths[from + i] : MISSING);
		n += is_present;
	}
	rd_kafka_header_add(headers, "lengths", -1, lengths, (ssize_t)(array->n_numbers * sizeof(*lengths)));
	return n;
}

static void name_source(const struct ibvcap_placer *placer, uint32_t index, char text[REPORT_SOURCE_BYTES])
{
	struct ibvcap_place_source source = {0};
	struct ibvcap_tracker_source named = IBVCAP_INIT(struct ibvcap_tracker_source);

	ibvcap_place_source(placer, index, &source);
	memcpy(named.address, source.address, sizeof(named.address));
	memcpy(named.destination, source.destination, sizeof(named.destination));
	memcpy(named.field, source.field, sizeof(named.field));
	named.port = source.port;
	named.destination_port = source.destination_port;
	named.field_bytes = source.field_bytes;
	report_source(&named, text);
}

static void send_source(struct arrays *arrays, const struct ibvcap_place_array *array, uint32_t source)
{
	const uint64_t from = source * array->stride_numbers;
	rd_kafka_headers_t *headers = rd_kafka_headers_new(9);
	char key[REPORT_SOURCE_BYTES];
	uint64_t n = put_lengths(headers, array, from);
	char first[24];

	if (n == 0) { /* the first number of the next message shows the gap */
		rd_kafka_headers_destroy(headers);
		return;
	}
	name_source(arrays->placer, source, key);
	snprintf(first, sizeof(first), "%lld", (long long)array->first);
	rd_kafka_header_add(headers, "stream", -1, arrays->stream, -1);
	rd_kafka_header_add(headers, "first", -1, first, -1); /* may be negative */
	kafka_put_number(headers, "epoch", arrays->epoch);
	kafka_put_number(headers, "run", array->run);
	kafka_put_number(headers, "numbers", array->n_numbers);
	kafka_put_number(headers, "missing", array->n_numbers - n);
	kafka_put_number(headers, "row_bytes", array->row_bytes);
	kafka_put_number(headers, "frame", array->frame);
	kafka_send(arrays->kafka, RD_KAFKA_MSG_F_COPY, key[0] ? key : arrays->stream,
	           array->payload + from * array->row_bytes, array->n_numbers * array->row_bytes, headers, n);
}

void arrays_send(struct arrays *arrays)
{
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);

	while (ibvcap_place_next(arrays->placer, &array) > 0) {
		for (uint32_t source = 0; source < array.n_sources; source++)
			send_source(arrays, &array, source);
		ibvcap_place_release(arrays->placer, &array);
	}
}

/* Whether the stream is still the one that the placer was made for. */
static bool arrays_fit_stream(const struct arrays *arrays, const struct ibvcap_rx *rx)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct ibvcap_sequence sequence;

	ibvcap_rx_info(rx, &info);
	return ibvcap_rx_sequence(rx, &sequence) >= 0 && memcmp(&sequence, &arrays->sequence, sizeof(sequence)) == 0 &&
	       info.slot_bytes + info.application_header_bytes <= arrays->row_bytes;
}

int arrays_add(struct arrays *arrays, struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	int r = batch->epoch == arrays->epoch || arrays_fit_stream(arrays, rx) ? 0 : -ESTALE;
	uint32_t i = 0;

	arrays->epoch = batch->epoch;
	while (r >= 0 && i < batch->n) {
		r = ibvcap_place_add(arrays->placer, batch, i, 0, NULL);
		if (r > 0)
			i += (uint32_t)r;
		arrays_send(arrays);
	}
	arrays->kafka->sum.unread += batch->n - i;
	return r < 0 ? r : 0;
}
