// SPDX-License-Identifier: Apache-2.0
/*
 * The program behind `ibvcap produce`: attaches to a stream and gives its packets to Kafka. It is a program of its own,
 * because no other subcommand needs librdkafka.
 */
#include "tools/produce/produce.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#define SLEEP_MS    50
#define BATCH_LEAST 64 /* packets, or what comes while this sleeps */
#define NUMBERS_MAX (1u << 20)
#define SOURCES_MAX 65536

static const char usage[] =
	"usage: ibvcap produce STREAM [OPTIONS...]\n"
	"Send a stream to Kafka until it ends, or until SIGINT or SIGTERM: whole blocks of packets as pcapng, or, "
	"with\n"
	"--array, arrays of their payloads by their own numbers. Print what became of them at the end, as JSON. Exit "
	"status 1:\n"
	"not all of them were delivered. Defaults are in parentheses.\n";

#define AT(member) OPTION_AT(struct produce_options, member)

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct produce_options, socket),
	{"brokers", 'b', "LIST", "HOST:PORT of brokers to begin with, separated by commas", OPTION_TEXT, AT(brokers)},
	{"topic", 'T', "NAME", "the topic (as the stream)", OPTION_TEXT, AT(topic)},
	{"config", 'C', "FILE", "lines KEY=VALUE for librdkafka: passwords, compression, acks, …", OPTION_TEXT,
         AT(config)},
	{"array", 'a', "N", "arrays of N numbers of each source; the stream's 'sequence' says where the number is",
         OPTION_COUNT, AT(numbers), .max = NUMBERS_MAX},
	{"sources", 'S', "N", "of so many sources at most; the packets of others are left out (64)", OPTION_COUNT,
         AT(sources), .max = SOURCES_MAX},
	{"wait", 'w', "S", "send a block or an array S seconds after its first packet, though it is not full (1)",
         OPTION_SECONDS, AT(wait_ns)},
	{"count", 'c', "N", "end after N packets", OPTION_COUNT, AT(count), .max = UINT64_MAX - 1},
	{"duration", 't', "S", "end after S seconds", OPTION_SECONDS, AT(duration_ns)},
	OPTION_REATTACH(struct produce_options, reattach_ms),
};

static const struct option_rule rules[] = {{"sources", OPTION_ONLY_WITH, "array", NULL}};

static const struct options_table table = {
	.command = "produce",
	.usage = usage,
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.words = {{"which stream? 'ibvcap status' lists them", offsetof(struct produce_options, stream)}},
};

struct producer {
	const struct produce_options *options;
	struct ibvcap_rx *rx;
	struct ibvcap_rx_losses losses; /* of the card */
	struct kafka kafka;
	struct blocks blocks;
	struct arrays arrays; /* placer is NULL without --array */
};

/* ---- packets --------------------------------------------------------------------------------------- */

static int take_batch(struct producer *producer, uint64_t *left)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	const uint32_t max = *left < UINT32_MAX ? (uint32_t)*left : UINT32_MAX;
	int r = ibvcap_rx_acquire(producer->rx, &batch, max, BATCH_LEAST, SLEEP_MS);
	uint64_t missing;

	if (r <= 0)
		return r;
	*left -= batch.n;
	missing = batch.gap;
	if (ibvcap_rx_add_losses(producer->rx, &batch, &producer->losses) > 0)
		missing += producer->losses.before;
	r = producer->arrays.placer ? arrays_add(&producer->arrays, producer->rx, &batch)
	                            : blocks_add(&producer->blocks, &batch, missing);
	ibvcap_rx_release(producer->rx, &batch);
	return r;
}

static void send_old(struct producer *producer)
{
	const uint64_t now_ns = time_monotonic_ns(), wait_ns = producer->options->wait_ns;

	rd_kafka_poll(producer->kafka.handle, 0);
	if (producer->arrays.placer) {
		ibvcap_place_expire(producer->arrays.placer, time_utc_ns());
		arrays_send(&producer->arrays);
	} else if (now_ns > wait_ns) {
		blocks_send(&producer->blocks, now_ns - wait_ns);
	}
}

/* 0 if a signal or an option ends it. */
static int take_packets(struct producer *producer)
{
	const struct produce_options *options = producer->options;
	const uint64_t begun_ns = time_monotonic_ns();
	uint64_t left = options->count;
	bool silence_told = false;
	int r = 0;

	producer->kafka.end_ns = options->duration_ns == UINT64_MAX ? UINT64_MAX : begun_ns + options->duration_ns;
	while (r >= 0 && left && !stop_signal_came() && time_monotonic_ns() < producer->kafka.end_ns &&
	       rd_kafka_fatal_error(producer->kafka.handle, NULL, 0) == RD_KAFKA_RESP_ERR_NO_ERROR) {
		r = take_batch(producer, &left);
		send_old(producer);
		if (left == options->count && !silence_told && time_monotonic_ns() - begun_ns >= REPORT_SILENCE_NS) {
			silence_told = true;
			report_silence("produce", options->stream, options->socket);
		}
	}
	return r == -EINTR || r > 0 ? 0 : r;
}

static void send_rest(struct producer *producer)
{
	if (producer->arrays.placer) {
		ibvcap_place_flush(producer->arrays.placer);
		arrays_send(&producer->arrays);
	} else {
		blocks_send(&producer->blocks, UINT64_MAX);
	}
	kafka_finish(&producer->kafka);
}

/* ---- the command ----------------------------------------------------------------------------------- */

static int open_producer(struct producer *producer)
{
	const struct produce_options *options = producer->options;
	const struct ibvcap_rx_options attach = {
		.size = sizeof(attach), .queue = IBVCAP_QUEUE_ALL, .reattach_ms = options->reattach_ms};
	int code = kafka_open(&producer->kafka, options), r;

	if (code != EX_OK)
		return code;
	r = ibvcap_rx_open(options->socket, options->stream, &attach, &producer->rx);
	if (r < 0)
		return report_stream_failure("produce", options->stream, r);
	producer->losses = (struct ibvcap_rx_losses)IBVCAP_INIT(struct ibvcap_rx_losses);
	producer->blocks = (struct blocks){.kafka = &producer->kafka, .stream = options->stream};
	producer->arrays = (struct arrays){.kafka = &producer->kafka, .stream = options->stream};
	return options->numbers ? arrays_open(&producer->arrays, producer->rx, options) : EX_OK;
}

static int run_producer(struct producer *producer)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	int r = take_packets(producer), code;
	char fatal[256];

	if (rd_kafka_fatal_error(producer->kafka.handle, fatal, sizeof(fatal)) != RD_KAFKA_RESP_ERR_NO_ERROR)
		fprintf(stderr, "ibvcap produce: %s: start this again\n", fatal);
	send_rest(producer);
	ibvcap_rx_counts(producer->rx, &counts);
	produce_print_sum(&counts, producer->losses.packets, &producer->kafka.sum, &producer->blocks,
	                  &producer->arrays);
	if (r == -ESTALE)
		fprintf(stderr,
		        "ibvcap produce: stream '%s' has another sequence or payload_size now: start this again\n",
		        producer->options->stream);
	code = r == -ESTALE ? EX_CONFIG : report_end("produce", "stream", producer->options->stream, r);
	return code == EX_OK && producer->kafka.sum.has_failed ? 1 : code;
}

int main(int argc, char **argv)
{
	static struct producer producer;
	struct produce_options options = {
		.wait_ns = TIME_SECOND_NS, .sources = 64, .count = UINT64_MAX, .duration_ns = UINT64_MAX};
	int code;

	standard_files_open();
	code = options_parse(&table, argc, argv, &options);
	if (code >= 0)
		return code;
	producer.options = &options;
	stop_signal_catch();
	code = open_producer(&producer);
	if (code == EX_OK)
		code = run_producer(&producer);
	ibvcap_rx_close(producer.rx);
	ibvcap_placer_free(producer.arrays.placer);
	kafka_close(&producer.kafka);
	return code;
}
