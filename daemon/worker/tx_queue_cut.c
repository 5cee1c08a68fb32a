// SPDX-License-Identifier: Apache-2.0
/*
 * The part of a transmit queue that cuts packets which are longer than the MTU into IP fragments. The path of packets
 * that fit is in tx_queue_send.c and passes nothing of this.
 */
#include "daemon/worker/tx_queue.h"

#include "daemon/packet/packet_plain.h"
#include "lib/base/min.h"
#include "lib/frame/checksum.h"
#include "lib/ibvcap/ring.h"

#include <stdatomic.h>
#include <string.h>

static uint32_t destination_mtu(const struct tx_queue *txq, const struct tx_queue_destination *destination)
{
	return u32_min(destination->mtu, txq->cut_bytes);
}

static uint32_t destination_whole_bytes(const struct tx_queue *txq, const struct tx_queue_destination *destination)
{
	uint32_t headers = destination->headers.header_bytes - destination->headers.l3;
	uint32_t mtu = destination_mtu(txq, destination);

	return mtu > headers ? mtu - headers : 0;
}

void tx_queue_find_whole_bytes(struct tx_queue *txq)
{
	uint32_t whole = txq->slot_bytes;

	for (uint32_t i = 0; i < txq->n_destinations && txq->cut_bytes; i++) {
		const struct tx_queue_destination *destination = &txq->destinations[i];

		if (destination->error == 0)
			whole = u32_min(whole, destination_whole_bytes(txq, destination));
	}
	txq->whole_bytes = whole;
	if (txq->plain_bytes >= 0)
		txq->plain_bytes = (int32_t)whole;
}

void tx_queue_cut(const struct tx_queue *txq, const struct ibvcap_tx_descriptor *descriptor, struct packet_cut *cut)
{
	const struct tx_queue_destination *to = &txq->destinations[descriptor->destination];

	packet_cut_init(cut, to->headers.ipv6, descriptor->length, destination_mtu(txq, to));
}

/* Fragments are filled up to the multiple of 8, so all of them but the last one are as long. */
uint32_t tx_queue_long_frame_bytes(const struct tx_queue *txq, const struct ibvcap_tx_descriptor *descriptor)
{
	const struct packet_template *headers;
	struct packet_fragment first, last;
	struct packet_cut cut;

	if (descriptor->destination >= txq->n_destinations || descriptor->length > txq->slot_bytes)
		return txq->frames_bytes;
	tx_queue_cut(txq, descriptor, &cut);
	headers = &txq->destinations[descriptor->destination].headers;
	if (cut.n == 1)
		return pacing_frame_bytes(headers->header_bytes + descriptor->length);
	if (cut.n == 0 || cut.n > TX_QUEUE_FRAGMENTS_MAX)
		return txq->frames_bytes;
	first = packet_cut_fragment(&cut, headers, 0);
	last = packet_cut_fragment(&cut, headers, cut.n - 1);
	return (cut.n - 1) * pacing_frame_bytes(first.header_bytes + first.payload_bytes) +
	       pacing_frame_bytes(last.header_bytes + last.payload_bytes);
}

/* ---- making fragments ----------------------------------------------------------------------------- */

static uint8_t *tx_queue_copy_row(const struct tx_queue *txq, uint64_t number)
{
	return (uint8_t *)txq->copies.address + (number & txq->inflight_mask) * (size_t)txq->copy_bytes;
}

/*
 * Each fragment's part of the payload is copied before it is summed, because the client could change it meanwhile.
 * Returns the sum: all parts but the last are of an even length.
 */
static uint64_t tx_queue_copy_payload(const struct tx_queue *txq, const uint8_t *payload, const struct packet_cut *cut,
                                      const struct packet_template *headers)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < cut->n; i++) {
		struct packet_fragment part = packet_cut_fragment(cut, headers, i);
		uint8_t *copy = tx_queue_copy_row(txq, txq->next + i);

		memcpy(copy, payload + part.payload_at, part.payload_bytes);
		sum += checksum_sum_bytes(copy, part.payload_bytes);
	}
	return sum;
}

void tx_queue_make_fragments(struct tx_queue *txq, struct sender *sender, const uint8_t *payload,
                             const struct ibvcap_tx_descriptor *descriptor, const struct packet_cut *cut,
                             uint32_t cost_bytes)
{
	const struct tx_queue_destination *to = &txq->destinations[descriptor->destination];
	uint32_t identification = atomic_fetch_add_explicit(to->identification, 1, memory_order_relaxed);
	bool copies = to->headers.checksums != PACKET_CHECKSUMS_ZERO;
	uint16_t checksum = 0;

	if (copies)
		checksum =
			packet_cut_checksum(cut, &to->headers, tx_queue_copy_payload(txq, payload, cut, &to->headers));
	for (uint32_t i = 0; i < cut->n; i++, txq->next++) {
		struct packet_fragment part = packet_cut_fragment(cut, &to->headers, i);
		size_t row = txq->next & txq->inflight_mask;
		uint8_t *headers = (uint8_t *)txq->headers.address + row * TX_QUEUE_HEADER_BYTES;

		packet_write_fragment(cut, &to->headers, headers, i, identification, checksum);
		txq->inflight[row] = (struct tx_inflight){
			.sender = sender,
			.status = i + 1 < cut->n ? TX_INFLIGHT_FRAGMENT : TX_INFLIGHT_LAST_FRAGMENT,
			.payload_bytes = descriptor->length,
			.frame_bytes = cost_bytes,
		};
		txq->deadlines[txq->n_ready].sender = NULL;
		txq->ready[txq->n_ready++] = (struct backend_packet){
			.headers = headers,
			.payload = copies ? tx_queue_copy_row(txq, txq->next) : payload + part.payload_at,
			.not_before_ns = descriptor->not_before_ns,
			.payload_memory = copies ? txq->copies_memory : sender->registration,
			.header_bytes = part.header_bytes,
			.payload_bytes = part.payload_bytes,
		};
	}
	txq->plain_bytes = -1;
}

void tx_queue_end_fragment(struct tx_queue *txq, const struct tx_inflight *fragment, int32_t status)
{
	struct sender *sender = fragment->sender;

	txq->n_ended_fragments++;
	if (txq->ended_error == 0)
		txq->ended_error = status;
	if (fragment->status != TX_INFLIGHT_LAST_FRAGMENT)
		return;
	sender_complete(sender, txq->ended_error, fragment->payload_bytes, fragment->frame_bytes);
	if (txq->ended_error == 0) {
		sender->tally[IBVCAP_TX_COUNTER_FRAGMENTED]++;
		sender->tally[IBVCAP_TX_COUNTER_FRAGMENTS] += txq->n_ended_fragments;
	}
	txq->n_ended_fragments = 0;
	txq->ended_error = 0;
}
