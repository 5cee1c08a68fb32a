// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of `ibvcap produce`: packets become messages, in one of two ways, and Kafka gets these. Declares arrays.c,
 * blocks.c, kafka.c, sum.c.
 */
#ifndef TOOLS_PRODUCE_PRODUCE_H
#define TOOLS_PRODUCE_PRODUCE_H

#include <ibvcap/place.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

/* The part of a message's limit that is kept for its key and headers. */
#define PRODUCE_HEAD_BYTES 4096u

struct produce_options {
	const char *stream;
	const char *socket;
	const char *brokers;
	const char *topic;  /* NULL: the stream's name */
	const char *config; /* path; may be NULL */
	uint64_t wait_ns;   /* a message that is not full is sent after this time */
	uint64_t count;     /* packets; UINT64_MAX = no end */
	uint64_t duration_ns;
	uint32_t numbers; /* of an array; 0: blocks of packets */
	uint32_t sources; /* at most, of an array */
	uint32_t reattach_ms;
};

/* ---- Kafka ----------------------------------------------------------------------------------------- */

#define KAFKA_N_ERRORS ((unsigned)(RD_KAFKA_RESP_ERR_END_ALL - RD_KAFKA_RESP_ERR__BEGIN))

/* What became of packets, or of numbers. */
struct kafka_sum {
	uint64_t messages; /* delivered */
	uint64_t delivered;
	uint64_t unread; /* rows of the batch at which a failure ended this */
	bool has_failed; /* the next two are not all 0 */
	/* By the error, less RD_KAFKA_RESP_ERR__BEGIN. */
	uint64_t not_delivered[KAFKA_N_ERRORS];
	uint64_t unknown[KAFKA_N_ERRORS]; /* sent, but no broker acknowledged it */
};

struct kafka {
	rd_kafka_t *handle;
	rd_kafka_topic_t *topic;
	size_t message_bytes; /* limit of a message with its key and its headers */
	uint64_t end_ns;      /* when the duration ends, by CLOCK_MONOTONIC; UINT64_MAX: never */
	uint64_t stopped_ns;  /* when the signal to stop, or the end of the duration, was seen; 0: not yet */
	bool is_failing;
	struct kafka_sum sum;
};

/** Zero-initialised. EX_OK, or the exit code of a failure, which is printed. */
int kafka_open(struct kafka *kafka, const struct produce_options *options);
void kafka_close(struct kafka *kafka);

/** Decimal, as tools of Kafka show it. */
void kafka_put_number(rd_kafka_headers_t *headers, const char *name, uint64_t value);

/**
 * Take over the headers and, with RD_KAFKA_MSG_F_FREE, the value. Waits while librdkafka's queue is full: then the ring
 * fills, and the daemon counts what this consumer skips. n is what the message has of packets or numbers.
 */
void kafka_send(struct kafka *kafka, int flags, const char *key, void *value, size_t bytes, rd_kafka_headers_t *headers,
                uint64_t n);

/** Wait until each message is delivered, or has failed; for some seconds at most after a signal or the duration. */
void kafka_finish(struct kafka *kafka);

/* ---- messages -------------------------------------------------------------------------------------- */

/** A message of a queue that is being filled: a file of pcapng. */
struct block {
	uint8_t *value; /* NULL: none */
	size_t bytes;
	uint64_t begun_ns;
	uint64_t epoch;
	uint64_t first; /* number of its first packet in the queue */
	uint64_t n;
	uint64_t missing; /* before it */
};

struct blocks {
	struct kafka *kafka;
	const char *stream;
	uint64_t errored; /* rows without a packet */
	struct block open[IBVCAP_QUEUES_MAX];
};

/** missing: packets before the batch. 0 or a negative errno. */
int blocks_add(struct blocks *blocks, const struct ibvcap_rx_batch *batch, uint64_t missing);
/** Send what was begun before this time. */
void blocks_send(struct blocks *blocks, uint64_t before_ns);

struct arrays {
	struct kafka *kafka;
	const char *stream;
	struct ibvcap_placer *placer;
	struct ibvcap_sequence sequence;
	uint32_t row_bytes;
	uint64_t epoch;
};

/** EX_OK, or the exit code of a failure, which is printed. */
int arrays_open(struct arrays *arrays, const struct ibvcap_rx *rx, const struct produce_options *options);
/** 0 or a negative errno; -ESTALE: the stream has another sequence or longer payloads now. */
int arrays_add(struct arrays *arrays, struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch);
/** Send the arrays that are closed. */
void arrays_send(struct arrays *arrays);

/* ---- the end --------------------------------------------------------------------------------------- */

/** Print it as JSON. */
void produce_print_sum(const struct ibvcap_rx_counts *counts, uint64_t no_buffer, const struct kafka_sum *kafka,
                       const struct blocks *blocks, const struct arrays *arrays);

#endif
