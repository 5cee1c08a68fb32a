// SPDX-License-Identifier: Apache-2.0
/*
 * A program that test_library.py builds against three headers: today's, an older one whose structs end after their
 * first fields (OLDER), and a newer one whose structs have a field more, called "later" (NEWER). It receives three
 * packets, tracks one and sends one, with today's library, and exits 0 if all is right.
 *
 *     other_version SOCKET
 */
#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                               \
	do {                                                                                             \
		if (!(condition)) {                                                                      \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, ibvcap_error_text()); \
			exit(1);                                                                         \
		}                                                                                        \
	} while (0)

/* A struct with bytes after it that the library must not write to. */
#define GUARDED(type, name)               \
	struct {                          \
		type it;                  \
		unsigned char guard[256]; \
	} name = {.it = IBVCAP_INIT(type)}
#define CHECK_GUARD(name) REQUIRE(!memcmp((name).guard, (const unsigned char[256]){0}, 256))

#ifdef OLDER /* its batch lacks what today's function needs, and of these packets a row has nothing but the payload */
#define ibvcap_rx_payload(batch, i) ((batch)->payload + (size_t)(i) * (batch)->stride)
#endif

#ifdef NEWER
#define REFUSES_LATER(options, call)       \
	do {                               \
		(options).later = 1;       \
		REQUIRE((call) == -E2BIG); \
		(options).later = 0;       \
	} while (0)
#else
#define REFUSES_LATER(options, call) (void)0
#endif

static void receive(const char *socket)
{
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	GUARDED(struct ibvcap_rx_batch, batch);
	GUARDED(struct ibvcap_rx_info, info);
	GUARDED(struct ibvcap_rx_counts, counts);
	GUARDED(struct ibvcap_rx_losses, losses);
	GUARDED(struct ibvcap_rx_moment, from);
	GUARDED(struct ibvcap_rx_moment, until);
	GUARDED(struct ibvcap_rx_account, account);
	struct ibvcap_rx *rx;

	REFUSES_LATER(options, ibvcap_rx_open(socket, "lidar", &options, &rx));
#ifdef TODAY
	options.queue = 1;
	REQUIRE(ibvcap_rx_open(socket, "lidar", &options, &rx) == -EINVAL && strstr(ibvcap_error_text(), "no queue 1"));
	options.queue = 0;
#endif
	options.start = IBVCAP_START_OLDEST;
	REQUIRE(ibvcap_rx_open(socket, "lidar", &options, &rx) == 0);
	REQUIRE(ibvcap_rx_take_moment(rx, &from.it) == 0);
	REQUIRE(ibvcap_rx_acquire(rx, &batch.it, 3, 3, 10000) == 3);
	for (uint32_t i = 0; i < batch.it.n; i++)
		REQUIRE(batch.it.meta[i].length == 5 && !memcmp(ibvcap_rx_payload(&batch.it, i), "hello", 5));
	REQUIRE(ibvcap_rx_add_losses(rx, &batch.it, &losses.it) == 0 && losses.it.before == 0);
	REQUIRE(ibvcap_rx_release(rx, &batch.it) == 0);
	REQUIRE(ibvcap_rx_info(rx, &info.it) == 0 && !strcmp(info.it.stream, "lidar"));
#ifdef TODAY
	REQUIRE(info.it.queue == 0 && info.it.n_queues == 1);
#endif
	REQUIRE(ibvcap_rx_counts(rx, &counts.it) == 0 && counts.it.published == 3);
	REQUIRE(ibvcap_rx_take_moment(rx, &until.it) == 0 && ibvcap_rx_settle_moment(rx, &until.it) >= 0);
	REQUIRE(ibvcap_rx_account_between(&from.it, &until.it, &account.it) == 0);
	REQUIRE(account.it.until_ns >= account.it.from_ns && account.it.from_ns > 0);
	ibvcap_rx_close(rx);
	CHECK_GUARD(from);
	CHECK_GUARD(until);
	CHECK_GUARD(account);
	CHECK_GUARD(batch);
	CHECK_GUARD(info);
	CHECK_GUARD(counts);
	CHECK_GUARD(losses);
}

static void track(void)
{
	const struct ibvcap_sequence sequence = {
		.bytes = 1, .step = 1, .window = 64, .jump = 100, .source = IBVCAP_SOURCE_NONE};
	const struct ibvcap_packet packet = {.row = (const uint8_t *)"hello", .row_bytes = 5};
	struct ibvcap_tracker_options options = IBVCAP_INIT(struct ibvcap_tracker_options);
	GUARDED(struct ibvcap_tracker_counts, counts);
	GUARDED(struct ibvcap_tracker_source, source);
	struct ibvcap_tracker *tracker;

	REFUSES_LATER(options, ibvcap_tracker_new(&sequence, &options, &tracker));
	REQUIRE(ibvcap_tracker_new(&sequence, &options, &tracker) == 0);
	REQUIRE(ibvcap_tracker_add(tracker, &packet, NULL) == 0);
	REQUIRE(ibvcap_tracker_counts(tracker, &counts.it) == 0 && counts.it.numbers.arrived == 1);
	REQUIRE(ibvcap_tracker_source(tracker, 0, &source.it) == 1 && source.it.numbers.arrived == 1);
	REQUIRE(ibvcap_tracker_source(tracker, 1, &source.it) == 0);
	ibvcap_tracker_free(tracker);
	CHECK_GUARD(counts);
	CHECK_GUARD(source);
}

static void send_one(const char *socket)
{
	struct ibvcap_tx_options options = IBVCAP_INIT(struct ibvcap_tx_options);
	GUARDED(struct ibvcap_tx_slots, slots);
	GUARDED(struct ibvcap_tx_info, info);
	GUARDED(struct ibvcap_tx_counts, counts);
	struct ibvcap_tx *tx;

	REFUSES_LATER(options, ibvcap_tx_open(socket, "out", &options, &tx));
	REQUIRE(ibvcap_tx_open(socket, "out", &options, &tx) == 0);
	REQUIRE(ibvcap_tx_info(tx, &info.it) == 0 && !strcmp(info.it.channel, "out"));
	REQUIRE(ibvcap_tx_reserve(tx, &slots.it, 1, 1, 10000) == 1);
	memcpy(slots.it.payload, "hello", 5);
	slots.it.packets[0].length = 5;
	REQUIRE(ibvcap_tx_submit(tx, 1) == 0);
	REQUIRE(ibvcap_tx_flush(tx, 10000) == 0);
	REQUIRE(ibvcap_tx_counts(tx, &counts.it) == 0 && counts.it.submitted == 1);
	ibvcap_tx_close(tx);
	CHECK_GUARD(slots);
	CHECK_GUARD(info);
	CHECK_GUARD(counts);
}

static void ask(const char *socket)
{
	GUARDED(struct ibvcap_status_daemon, daemon);
	GUARDED(struct ibvcap_status_stream, stream);
	GUARDED(struct ibvcap_status_channel, channel);
	struct ibvcap_status *status;

	REQUIRE(ibvcap_status(socket, 0, &status) == 0);
	REQUIRE(ibvcap_status_daemon(status, &daemon.it) == 0 && daemon.it.version[0]);
	REQUIRE(ibvcap_status_stream(status, 0, &stream.it) == 1 && !strcmp(stream.it.name, "lidar"));
	REQUIRE(ibvcap_status_stream(status, 1, &stream.it) == 0);
	REQUIRE(ibvcap_status_channel(status, 0, &channel.it) == 1 && !strcmp(channel.it.name, "out"));
	ibvcap_status_free(status);
	CHECK_GUARD(daemon);
	CHECK_GUARD(stream);
	CHECK_GUARD(channel);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	receive(argv[1]);
	track();
	send_one(argv[1]);
	ask(argv[1]);
	return 0;
}
