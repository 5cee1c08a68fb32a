// SPDX-License-Identifier: Apache-2.0
/* Hands messages to librdkafka, whose threads send and retry them, and counts what became of each. */
#include "tools/produce/produce.h"

#include "lib/base/time.h"
#include "tools/common/stop_signal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <syslog.h>

#define STEP_MS             50
#define FINISH_NS           (10 * TIME_SECOND_NS)
#define MESSAGE_BYTES_LEAST (128u << 10) /* the longest packet, and its head */
#define ERROR_BYTES         512

/* ---- configuration --------------------------------------------------------------------------------- */

static char *trim(char *text)
{
	size_t n;

	while (isspace((unsigned char)*text))
		text++;
	for (n = strlen(text); n && isspace((unsigned char)text[n - 1]); n--)
		text[n - 1] = '\0';
	return text;
}

static int set_property(rd_kafka_conf_t *conf, const char *place, const char *key, const char *value)
{
	char error[ERROR_BYTES];

	if (rd_kafka_conf_set(conf, key, value, error, sizeof(error)) == RD_KAFKA_CONF_OK)
		return EX_OK;
	fprintf(stderr, "ibvcap produce: %s: %s\n", place, error);
	return EX_CONFIG;
}

static int refuse_file(const char *path)
{
	fprintf(stderr, "ibvcap produce: --config '%s': %s\n", path, strerror(errno));
	return EX_NOINPUT;
}

/* Lines "key=value", as in the files of properties that Kafka's own tools read. */
static int read_properties(rd_kafka_conf_t *conf, const char *path)
{
	FILE *file = fopen(path, "re");
	char place[PATH_MAX + 32], *line = NULL;
	size_t room = 0;
	int code = EX_OK;

	if (!file)
		return refuse_file(path);
	for (unsigned n = 1; code == EX_OK && getline(&line, &room, file) >= 0; n++) {
		char *key = trim(line), *value = strchr(key, '=');

		if (!*key || *key == '#')
			continue;
		snprintf(place, sizeof(place), "%s:%u", path, n);
		if (!value) {
			fprintf(stderr, "ibvcap produce: %s: '%s' is not KEY=VALUE\n", place, key);
			code = EX_CONFIG;
			break;
		}
		*value++ = '\0';
		code = set_property(conf, place, trim(key), trim(value));
	}
	if (ferror(file))
		code = refuse_file(path);
	free(line);
	fclose(file);
	return code;
}

/* Properties without which nothing is sent, or nothing says what became of a message. */
static int check_properties(const rd_kafka_conf_t *conf)
{
	static const struct {
		const char *key, *value, *text;
	} refused[] = {
		{"bootstrap.servers", "", "which brokers? --brokers HOST:PORT, or bootstrap.servers in --config"},
		{"acks", "0", "acks=0: no broker would say that it has a message: use 1 or all"},
		{"delivery.report.only.error", "true",
	         "delivery.report.only.error=true: the sum needs the report of each message: leave this out"},
	};

	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		char value[8] = ""; /* as of a property that is not set; a longer value is none of these */
		size_t size = sizeof(value);

		rd_kafka_conf_get(conf, refused[i].key, value, &size);
		if (strcmp(value, refused[i].value) == 0) {
			fprintf(stderr, "ibvcap produce: %s\n", refused[i].text);
			return EX_CONFIG;
		}
	}
	return EX_OK;
}

static int configure(rd_kafka_conf_t *conf, const struct produce_options *options)
{
	/* No repetitions and no other order by retries, and a bound of memory. A file may change all of these. */
	static const char *const defaults[][2] = {
		{"client.id", "ibvcap"}, {"enable.idempotence", "true"}, {"queue.buffering.max.kbytes", "65536"}};
	int code = EX_OK;

	for (unsigned i = 0; code == EX_OK && i < sizeof(defaults) / sizeof(defaults[0]); i++)
		code = set_property(conf, "a default", defaults[i][0], defaults[i][1]);
	if (code == EX_OK && options->config)
		code = read_properties(conf, options->config);
	if (code == EX_OK && options->brokers)
		code = set_property(conf, "--brokers", "bootstrap.servers", options->brokers);
	return code == EX_OK ? check_properties(conf) : code;
}

/* ---- what became of a message ---------------------------------------------------------------------- */

static void count_failure(struct kafka *kafka, rd_kafka_resp_err_t error, bool is_unknown, uint64_t n)
{
	(is_unknown ? kafka->sum.unknown : kafka->sum.not_delivered)[error - RD_KAFKA_RESP_ERR__BEGIN] += n;
	kafka->sum.has_failed = true;
	if (!kafka->is_failing)
		fprintf(stderr, "ibvcap produce: messages are not delivered: %s\n", rd_kafka_err2str(error));
	kafka->is_failing = true;
}

/* Called by rd_kafka_poll() and rd_kafka_flush(). */
static void note_delivery(rd_kafka_t *, const rd_kafka_message_t *message, void *context)
{
	struct kafka *kafka = context;
	const uint64_t n = (uintptr_t)message->_private;

	if (message->err) {
		count_failure(kafka, message->err,
		              rd_kafka_message_status(message) == RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED, n);
		return;
	}
	kafka->sum.messages++;
	kafka->sum.delivered += n;
	if (kafka->is_failing)
		fputs("ibvcap produce: messages are delivered again\n", stderr);
	kafka->is_failing = false;
}

static void print_log(const rd_kafka_t *, int level, const char *facility, const char *text)
{
	if (level <= LOG_WARNING)
		fprintf(stderr, "ibvcap produce: %s: %s\n", facility, text);
}

/* ---- the producer ---------------------------------------------------------------------------------- */

/* conf is the producer's, or freed. */
static int start(struct kafka *kafka, rd_kafka_conf_t *conf, const char *topic)
{
	char error[ERROR_BYTES], bytes[32] = "";
	size_t size = sizeof(bytes);

	rd_kafka_conf_get(conf, "message.max.bytes", bytes, &size);
	kafka->message_bytes = strtoul(bytes, NULL, 10);
	if (kafka->message_bytes < MESSAGE_BYTES_LEAST) {
		fprintf(stderr, "ibvcap produce: message.max.bytes has to be at least %u\n", MESSAGE_BYTES_LEAST);
		rd_kafka_conf_destroy(conf);
		return EX_CONFIG;
	}
	rd_kafka_conf_set_opaque(conf, kafka);
	rd_kafka_conf_set_log_cb(conf, print_log);
	rd_kafka_conf_set_dr_msg_cb(conf, note_delivery);
	kafka->handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof(error));
	if (!kafka->handle) {
		rd_kafka_conf_destroy(conf);
		fprintf(stderr, "ibvcap produce: %s\n", error);
		return EX_CONFIG;
	}
	kafka->topic = rd_kafka_topic_new(kafka->handle, topic, NULL);
	if (kafka->topic)
		return EX_OK;
	fprintf(stderr, "ibvcap produce: topic '%s': %s\n", topic, rd_kafka_err2str(rd_kafka_last_error()));
	return EX_CONFIG;
}

int kafka_open(struct kafka *kafka, const struct produce_options *options)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	const int code = configure(conf, options);

	if (code == EX_OK)
		return start(kafka, conf, options->topic ? options->topic : options->stream);
	rd_kafka_conf_destroy(conf);
	return code;
}

void kafka_close(struct kafka *kafka)
{
	if (kafka->topic)
		rd_kafka_topic_destroy(kafka->topic);
	if (kafka->handle)
		rd_kafka_destroy(kafka->handle);
}

static bool is_too_late(struct kafka *kafka)
{
	const uint64_t now_ns = time_monotonic_ns();

	if (!kafka->stopped_ns && (stop_signal_came() || now_ns >= kafka->end_ns))
		kafka->stopped_ns = now_ns;
	return kafka->stopped_ns && now_ns - kafka->stopped_ns > FINISH_NS;
}

void kafka_put_number(rd_kafka_headers_t *headers, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	rd_kafka_header_add(headers, name, -1, text, -1);
}

void kafka_send(struct kafka *kafka, int flags, const char *key, void *value, size_t bytes, rd_kafka_headers_t *headers,
                uint64_t n)
{
	rd_kafka_resp_err_t error;

	do {
		error = rd_kafka_producev(kafka->handle, RD_KAFKA_V_RKT(kafka->topic), RD_KAFKA_V_MSGFLAGS(flags),
		                          RD_KAFKA_V_KEY(key, strlen(key)), RD_KAFKA_V_VALUE(value, bytes),
		                          RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE((void *)(uintptr_t)n),
		                          RD_KAFKA_V_END);
	} while (error == RD_KAFKA_RESP_ERR__QUEUE_FULL && !is_too_late(kafka) &&
	         rd_kafka_poll(kafka->handle, STEP_MS) >= 0);
	if (!error)
		return;
	rd_kafka_headers_destroy(headers);
	if (flags & RD_KAFKA_MSG_F_FREE)
		free(value);
	count_failure(kafka, error, false, n);
}

static void say_undelivered(struct kafka *kafka, const char *what)
{
	char brokers[ERROR_BYTES] = "";
	size_t size = sizeof(brokers);

	rd_kafka_conf_get(rd_kafka_conf(kafka->handle), "bootstrap.servers", brokers, &size);
	fprintf(stderr, "ibvcap produce: %d messages of topic '%s' %s %s\n", rd_kafka_outq_len(kafka->handle),
	        rd_kafka_topic_name(kafka->topic), what, brokers);
}

void kafka_finish(struct kafka *kafka)
{
	const uint64_t begun_ns = time_monotonic_ns();
	bool is_told = false;

	while (rd_kafka_flush(kafka->handle, STEP_MS) == RD_KAFKA_RESP_ERR__TIMED_OUT && !is_too_late(kafka)) {
		if (!is_told && time_monotonic_ns() - begun_ns >= TIME_SECOND_NS) {
			is_told = true;
			say_undelivered(kafka, "wait for the brokers");
		}
	}
	if (rd_kafka_outq_len(kafka->handle))
		say_undelivered(kafka, "are given up: the brokers did not take them:");
	rd_kafka_purge(kafka->handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
	rd_kafka_flush(kafka->handle, STEP_MS * 20);
}
