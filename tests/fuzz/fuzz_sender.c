// SPDX-License-Identifier: Apache-2.0
/*
 * What a hostile sender may write into its page, at any time, while an honest one shares its channel. Input: steps of
 * two bytes, some with more behind them. Whatever it writes, the honest one's packets all leave, in order, none of them
 * with an error; no sum is ever wrong; nothing outside of the hostile one's own rows is sent for it. With a last byte
 * that is no step, the channel cuts packets of full length into two fragments.
 */
#include "daemon/worker/tx_worker.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/senders.h"
#include "tests/fuzz/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS   64u
#define BYTES   64u
#define HEADERS 42u
#define IP_AT   14u
#define MTU     76u /* 56 bytes of a datagram in a fragment */

enum { HONEST, HOSTILE, SENDERS };

struct scene {
	struct backend *backend;
	struct tx_queue *channel;
	struct worker *transmit;
	struct test_sender senders[SENDERS];
	struct tx_clock_sample now;
	uint64_t honest_seen; /* frames of the honest one on the wire */
	bool put_out;         /* the hostile one */
	bool removal_asked;
	bool removed; /* … and answered */
	bool cuts;
	_Atomic uint32_t identification;
	uint8_t joined[HEADERS + BYTES]; /* the first fragment of a packet */
	uint32_t n_joined;               /* 0: the next frame begins a packet */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the worker's side ---------------------------------------------------------------------------- */

static void take_mail(struct scene *s)
{
	struct mail mail;

	while (mailbox_receive(s->transmit->outbox, &mail)) {
		if (mail.type != MAIL_SENDER_BAD && mail.type != MAIL_SENDER_REMOVED)
			continue;
		require(mail.sender == &s->senders[HOSTILE].sender, "an honest sender is not put out");
		require(!s->removed, "a removal is the last that is heard of a sender");
		require(mail.type == MAIL_SENDER_REMOVED ? s->removal_asked : !s->put_out, "told once, and as asked");
		s->removed = mail.type == MAIL_SENDER_REMOVED;
		s->put_out |= mail.type == MAIL_SENDER_BAD;
	}
}

static void work(struct scene *s)
{
	int n = tx_worker_do_work(s->transmit, &s->now);

	require(n >= 0 && n <= 4096, "a round is bounded");
	take_mail(s);
}

static void mail(struct scene *s, struct mail question)
{
	question.tx_queue = s->channel;
	require(mailbox_send(s->transmit->inbox, &question) == 0, "room for mail");
	work(s);
}

static void look_at_frame(struct scene *s, const uint8_t *frame, uint32_t bytes)
{
	uint64_t number;

	require(bytes >= HEADERS && bytes <= HEADERS + BYTES, "no payload is longer than a row");
	require(frame[37] == 2, "to the channel's destination");
	/* The hostile one's rows are 0xff and nothing else. */
	for (uint32_t i = HEADERS; i < bytes; i++) {
		if (frame[i] != 0xff)
			break;
		if (i == bytes - 1)
			return;
	}
	if (bytes == HEADERS)
		return;
	require(bytes == HEADERS + BYTES, "an honest packet has its length");
	memcpy(&number, frame + HEADERS, sizeof(number));
	require(number == s->honest_seen, "honest packets leave in order, each once");
	s->honest_seen++;
}

/* Fragments follow each other; with the last one the frame is as if it had not been cut. */
static void join_frame(struct scene *s, const uint8_t *frame, uint32_t bytes)
{
	uint32_t flags = (uint32_t)(frame[IP_AT + 6] << 8 | frame[IP_AT + 7]);
	uint32_t offset = (flags & 0x1fff) * 8, headers = IP_AT + 20;

	require(s->cuts || flags == 0x4000, "a channel that does not cut sends no fragments");
	require(bytes <= IP_AT + (s->cuts ? MTU : 1500), "no frame is longer than the MTU");
	require(offset == (s->n_joined ? s->n_joined - headers : 0), "fragments follow each other");
	if (s->n_joined == 0)
		memcpy(s->joined, frame, headers);
	memcpy(s->joined + headers + offset, frame + headers, bytes - headers);
	s->n_joined = offset + bytes;
	if (flags & 0x2000)
		return;
	look_at_frame(s, s->joined, s->n_joined);
	s->n_joined = 0;
}

static void send_some(struct scene *s, uint32_t n)
{
	uint8_t frame[HEADERS + BYTES + 8];
	uint32_t bytes;

	while (n-- > 0 && (bytes = scripted_take_frame(s->channel->queue, frame)) > 0)
		join_frame(s, frame, bytes);
}

/* ---- the scene ------------------------------------------------------------------------------------ */

static void set_up(struct scene *s, bool cuts)
{
	struct tx_queue_options options = {.name = "s",
	                                   .queue_slots = 48,
	                                   .slot_bytes = BYTES,
	                                   .cut_bytes = cuts ? MTU : 0,
	                                   .n_destinations = 1,
	                                   .late_after_ns = 1000};
	struct tx_queue_destination to = test_destination(0, PACKET_CHECKSUMS_DEVICE);

	*s = (struct scene){.now = {.monotonic_ns = 1000, .utc_ns = 1000000}, .cuts = cuts};
	to.mtu = MTU;
	to.identification = &s->identification;
	require(scripted_backend_ops.open(NULL, &s->backend, NULL) == 0, "a backend");
	options.backend = s->backend;
	require(tx_queue_new(&s->channel, &options, NULL) == 0, "a channel");
	require(tx_worker_new(&s->transmit, &(struct worker_options){.name = "s", .cpu = -1}) == 0, "a worker");
	mail(s, (struct mail){.type = MAIL_ADD_TX_QUEUE});
	mail(s, (struct mail){.type = MAIL_DESTINATION, .destination = to});
	for (int i = 0; i < SENDERS; i++) {
		require(test_sender_init(&s->senders[i], s->backend, s->transmit, SLOTS, BYTES) == 0, "a sender");
		mail(s, (struct mail){.type = MAIL_ADD_SENDER, .sender = &s->senders[i].sender});
	}
	memset(s->senders[HOSTILE].sender.arena.address, 0xff, SLOTS * BYTES);
}

static void take_down(struct scene *s)
{
	tx_worker_free(s->transmit);
	tx_queue_free(s->channel);
	for (int i = 0; i < SENDERS; i++)
		test_sender_deinit(&s->senders[i]);
	scripted_backend_ops.close(s->backend);
}

static void submit_honestly(struct scene *s, uint32_t n)
{
	struct test_sender *sender = &s->senders[HONEST];

	while (n-- > 0 && test_sender_has_room(sender))
		test_sender_write(sender, (struct ibvcap_tx_descriptor){.length = BYTES});
	test_sender_submit(sender);
}

static uint64_t ended(const struct test_sender *sender)
{
	return test_sender_count(sender, IBVCAP_TX_COUNTER_COMPLETED) +
	       test_sender_count(sender, IBVCAP_TX_COUNTER_ERRORED) +
	       test_sender_count(sender, IBVCAP_TX_COUNTER_FLUSHED) +
	       test_sender_count(sender, IBVCAP_TX_COUNTER_LATE_DROPPED);
}

static void check(const struct scene *s)
{
	for (int i = 0; i < SENDERS; i++) {
		const struct test_sender *sender = &s->senders[i];
		uint64_t submitted = test_sender_count(sender, IBVCAP_TX_COUNTER_SUBMITTED);

		require(ended(sender) == sender_load_completed(sender->sender.state), "the cursor is the sum");
		require(ended(sender) <= submitted && submitted - ended(sender) <= SLOTS, "pending is bounded");
	}
	require(test_sender_count(&s->senders[HONEST], IBVCAP_TX_COUNTER_ERRORED) == 0, "no honest packet errs");
	if (s->removed || s->put_out)
		require(ended(&s->senders[HOSTILE]) ==
		                test_sender_count(&s->senders[HOSTILE], IBVCAP_TX_COUNTER_SUBMITTED),
		        "who is gone has nothing pending");
}

/* Whatever was done, the honest one's packets all leave. */
static void check_that_it_goes_on(struct scene *s)
{
	submit_honestly(s, SLOTS);
	for (int i = 0; i < 200; i++) {
		s->now.monotonic_ns += 1000;
		s->now.utc_ns += 1000;
		work(s);
		send_some(s, 32);
	}
	require(s->honest_seen == s->senders[HONEST].submitted, "what was submitted honestly is sent");
	check(s);
	require(s->removed == s->removal_asked, "a removal is answered");
}

/* One word of the page: as it is, or near to what would be right. */
static void lie(struct scene *s, uint8_t where, bool near, uint64_t value)
{
	struct sender *sender = &s->senders[HOSTILE].sender;
	uint64_t *words = (uint64_t *)(void *)sender->page;
	size_t n_bytes = sizeof(struct ibvcap_sender_page) + SLOTS * sizeof(struct ibvcap_tx_descriptor);

	if (where == 0)
		sender_store_submitted(sender->page, near ? sender->submitted + value % (SLOTS + 4) - 1 : value);
	else
		words[(where * 7u + value) % (n_bytes / sizeof(*words))] = near ? s->now.utc_ns + value % 4096 : value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scene s;

	set_up(&s, size % 2);
	while (size >= 2) {
		uint8_t step = data[0] % 8, argument = data[1];
		uint64_t value = 0;

		data += 2;
		size -= 2;
		if (step < 4 && !s.removed && !s.put_out) {
			size_t bytes = size < sizeof(value) ? size : sizeof(value);

			memcpy(&value, data, bytes);
			data += bytes;
			size -= bytes;
			lie(&s, step < 2 ? 0 : argument, step % 2, value);
		} else if (step == 4) {
			submit_honestly(&s, argument % SLOTS);
		} else if (step == 5) {
			send_some(&s, argument);
		} else if (step == 6 && argument == 0 && !s.removal_asked) {
			s.removal_asked = true;
			mail(&s, (struct mail){.type = MAIL_REMOVE_SENDER, .sender = &s.senders[HOSTILE].sender});
		} else {
			s.now.monotonic_ns += argument;
			s.now.utc_ns += argument;
			work(&s);
		}
		check(&s);
	}
	check_that_it_goes_on(&s);
	take_down(&s);
	return 0;
}
