// SPDX-License-Identifier: Apache-2.0
/*
 * Makes messages of packets in the order of the ring. The value of a message is a file of pcapng, which Wireshark and
 * libpcap read: no format of its own.
 */
#include "tools/produce/produce.h"

#include "lib/base/time.h"
#include "lib/recording/pcapng.h"
#include "lib/recording/row_frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void block_send(struct blocks *blocks, struct block *block, uint32_t queue)
{
	char key[IBVCAP_STREAM_NAME_MAX + 16];
	rd_kafka_headers_t *headers = rd_kafka_headers_new(6);

	snprintf(key, sizeof(key), "%s/%u", blocks->stream, queue);
	rd_kafka_header_add(headers, "stream", -1, blocks->stream, -1);
	kafka_put_number(headers, "queue", queue);
	kafka_put_number(headers, "epoch", block->epoch);
	kafka_put_number(headers, "first", block->first);
	kafka_put_number(headers, "packets", block->n);
	kafka_put_number(headers, "missing", block->missing);
	kafka_send(blocks->kafka, RD_KAFKA_MSG_F_FREE, key, block->value, block->bytes, headers, block->n);
	*block = (struct block){0};
}

static int block_begin(struct blocks *blocks, struct block *block, uint64_t epoch, uint64_t first)
{
	/* Not as record names itself: of its files ibvcap info expects a sum at the end. */
	const struct pcapng_section section = {.application = pcapng_text_of("ibvcap-produce " IBVCAP_BUILD_VERSION)};
	const struct pcapng_interface interface = {.link_type = PCAPNG_LINK_ETHERNET,
	                                           .name = pcapng_text_of(blocks->stream)};
	const size_t room = blocks->kafka->message_bytes - PRODUCE_HEAD_BYTES;

	block->value = malloc(room);
	if (!block->value)
		return -ENOMEM;
	block->bytes = pcapng_write_section(block->value, room, &section);
	block->bytes += pcapng_write_interface(block->value + block->bytes, room - block->bytes, &interface);
	block->begun_ns = time_monotonic_ns();
	block->epoch = epoch;
	block->first = first;
	return 0;
}

static int block_add_row(struct blocks *blocks, const struct ibvcap_rx_batch *batch, uint32_t i)
{
	struct block *block = &blocks->open[batch->queue];
	const size_t room = blocks->kafka->message_bytes - PRODUCE_HEAD_BYTES;
	struct row_frame frame;
	struct pcapng_packet packet;
	size_t bytes;
	int r;

	row_frame_of(batch, i, &frame);
	packet = (struct pcapng_packet){
		.options = PCAPNG_PACKET_HAS_ID,
		.packet_id = batch->sequence + i,
		.wire_bytes = frame.wire_bytes,
		.time_ns = batch->meta[i].timestamp_ns,
		.frame = {frame.at[0], frame.at[1]},
		.frame_bytes = {frame.bytes[0], frame.bytes[1]},
		.checksum_at = frame.checksum_at,
		.checksum = frame.checksum,
	};
	for (;;) {
		r = block->value ? 0 : block_begin(blocks, block, batch->epoch, packet.packet_id);
		if (r < 0)
			return r;
		bytes = pcapng_write_packet(block->value + block->bytes, room - block->bytes, &packet);
		if (bytes <= room - block->bytes)
			break;
		block_send(blocks, block, batch->queue); /* and the next has room for any packet */
	}
	block->bytes += bytes;
	block->n++;
	return 0;
}

int blocks_add(struct blocks *blocks, const struct ibvcap_rx_batch *batch, uint64_t missing)
{
	struct block *block = &blocks->open[batch->queue];
	uint32_t i;
	int r = 0;

	if (block->value && (missing || block->epoch != batch->epoch))
		block_send(blocks, block, batch->queue);
	block->missing += missing;
	for (i = 0; i < batch->n && r >= 0; i++) {
		if (batch->meta[i].flags & IBVCAP_PACKET_FLAG_ERROR)
			blocks->errored++;
		else
			r = block_add_row(blocks, batch, i);
	}
	if (r < 0)
		blocks->kafka->sum.unread += batch->n - i + 1;
	return r;
}

void blocks_send(struct blocks *blocks, uint64_t before_ns)
{
	for (uint32_t queue = 0; queue < IBVCAP_QUEUES_MAX; queue++)
		if (blocks->open[queue].value && blocks->open[queue].begun_ns < before_ns)
			block_send(blocks, &blocks->open[queue], queue);
}
