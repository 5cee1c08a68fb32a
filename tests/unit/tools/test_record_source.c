// SPDX-License-Identifier: Apache-2.0
/* How the recorder attaches, what it says of a stream, and how far the past of a ring goes back. */
#include "lib/base/time.h"
#include "tests/unit/ibvcap/attached.h"
#include "tests/unit/tools/captured.h"
#include "tools/record/account.h"
#include "tools/status/status_view.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sysexits.h>

/* What the handle says of itself, in place of what it is. */
static uint32_t n_queues, failed_queues, disconnected, info_flags;
static uint64_t n_failures, n_skipped;

/* Of the calls to attach. */
static struct ibvcap_rx_options asked;
static char asked_stream[64];
static unsigned n_asked;
static int open_errors[4];
static struct attached opened[4];
static uint64_t n_earlier, oldest_ns;

static int status_error;
static struct source sources[3];
static struct record_options options;

int __wrap_ibvcap_rx_open(const char *socket, const char *stream, const struct ibvcap_rx_options *with,
                          struct ibvcap_rx **rx);
int __real_ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info);
int __wrap_ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info);
int __real_ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts);
int __wrap_ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts);
int __wrap_status_view_ask(struct status_view *view, const char *socket_path, uint32_t timeout_ms);
void __wrap_status_view_deinit(struct status_view *view);

int __wrap_ibvcap_rx_open(const char *socket, const char *stream, const struct ibvcap_rx_options *with,
                          struct ibvcap_rx **rx)
{
	struct attached *attached = &opened[n_asked];

	(void)socket;
	cr_assert_lt(n_asked, 4);
	asked = *with;
	snprintf(asked_stream, sizeof(asked_stream), "%s", stream);
	if (open_errors[n_asked])
		return open_errors[n_asked++];
	*attached = (struct attached){.n_earlier = n_earlier, .start = {.where = with->start}};
	attached_init(attached);
	for (uint32_t i = 0; i < attached->ring.n_blocks * N; i++)
		attached->ring.meta[i].timestamp_ns = oldest_ns;
	*rx = attached->rx;
	attached->rx = NULL; /* the caller closes it */
	n_asked++;
	return 0;
}

int __wrap_ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	int r = __real_ibvcap_rx_info(rx, info);

	info->n_queues = n_queues;
	info->failed_queues = failed_queues;
	info->disconnected = disconnected;
	info->flags |= info_flags;
	return r;
}

int __wrap_ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts)
{
	int r = __real_ibvcap_rx_counts(rx, counts);

	counts->failures = n_failures;
	counts->skipped += n_skipped;
	return r;
}

int __wrap_status_view_ask(struct status_view *view, const char *socket_path, uint32_t timeout_ms)
{
	static struct ibvcap_status_stream streams[] = {
		{.name = "other", .interface = "eth9", .backend = "xdp", .device = "wrong"},
		{.name = "test", .queue = 1, .interface = "eth8", .backend = "xdp", .device = "wrong"},
		{.name = "test", .queue = 0, .interface = "eth7", .backend = "verbs", .device = "mlx5_0"},
		{.name = "zzz", .queue = 0, .interface = "eth6", .backend = "verbs", .device = "wrong"}};
	static struct ibvcap_status_flow flows[] = {{.stream = "test", .queue = 0, .text = "10.0.0.1 port 5"},
	                                            {.stream = "other", .queue = 0, .text = "wrong"},
	                                            {.stream = "test", .queue = 1, .text = "wrong"},
	                                            {.stream = "test", .queue = 0, .text = "10.0.0.2"}};

	(void)socket_path;
	(void)timeout_ms;
	*view = (struct status_view){.streams = streams, .n_streams = 4, .flows = flows, .n_flows = 4};
	return status_error;
}

void __wrap_status_view_deinit(struct status_view *view)
{
	*view = (struct status_view){0};
}

static void begin(void)
{
	n_queues = 1;
}

static void end(void)
{
	for (unsigned i = 0; i < 3; i++)
		if (sources[i].rx)
			source_close(&sources[i]);
	for (unsigned i = 0; i < 4; i++)
		if (opened[i].ring.ring)
			attached_deinit(&opened[i]);
}

TestSuite(record_source, .init = begin, .fini = end, .timeout = 20);

/* ---- attaching ----------------------------------------------------------------------------------- */

Test(record_source, lossless_if_the_stream_permits_it)
{
	cr_assert_eq(source_open(&sources[0], &options, "lidar", 0), 0);
	cr_assert_eq(source_begin(&sources[0], 1), 0);
	cr_expect(n_asked == 1 && asked.policy == IBVCAP_POLICY_LOSSLESS && sources[0].is_lossless);
	cr_expect_str_eq(asked_stream, "lidar");
	cr_expect_str_eq(sources[0].name, "lidar");
	cr_expect_str_eq(sources[0].stream, "lidar");
	cr_expect(sources[0].n_queues == 1 && !sources[0].has_flow_numbers && sources[0].from.epoch == EPOCH);
	cr_expect_eq(asked.start, IBVCAP_START_NEWEST);
	cr_expect_eq(asked.back, 0);
	cr_expect_gt(sources[0].losses.behind_since_ns, 0);
	open_errors[1] = -EACCES;
	cr_assert_eq(source_open(&sources[1], &options, "lidar", 0), 0);
	cr_expect(n_asked == 3 && asked.policy == IBVCAP_POLICY_LOSSY && !sources[1].is_lossless);
}

Test(record_source, lossless_or_lossy_as_the_user_says)
{
	options.policy = RECORD_POLICY_LOSSLESS;
	open_errors[0] = -EACCES;
	cr_expect_eq(source_open(&sources[0], &options, "lidar", 0), -EACCES);
	cr_expect_eq(n_asked, 1);
	options.policy = RECORD_POLICY_LOSSY;
	cr_assert_eq(source_open(&sources[0], &options, "lidar", 0), 0);
	cr_expect(asked.policy == IBVCAP_POLICY_LOSSY && !sources[0].is_lossless);
	options.policy = RECORD_POLICY_AUTO;
	open_errors[2] = -ESRCH;
	cr_expect_eq(source_open(&sources[1], &options, "lidar", 0), -ESRCH);
	cr_expect_eq(n_asked, 3);
}

Test(record_source, each_queue_of_a_stream_is_a_source)
{
	n_queues = 3;
	info_flags = IBVCAP_RING_FLAG_FLOWS;
	options.reattach_ms = 1234;
	cr_assert_eq(source_open(&sources[1], &options, "lidar", 1), 0);
	cr_expect_str_eq(sources[1].name, "lidar/1");
	cr_expect_str_eq(sources[1].stream, "lidar");
	cr_expect(sources[1].n_queues == 3 && sources[1].queue == 1 && sources[1].has_flow_numbers);
	cr_expect_eq(asked.queue, 1);
	cr_expect_eq(asked.reattach_ms, 1234);
	n_queues = 0;
	cr_assert_eq(source_open(&sources[2], &options, "imu", 0), 0);
	cr_expect_eq(sources[2].n_queues, 1);
}

Test(record_source, it_begins_where_the_options_say)
{
	uint64_t now_ns = time_utc_ns();

	options.oldest = true;
	cr_assert_eq(source_open(&sources[0], &options, "lidar", 0), 0);
	cr_expect_eq(asked.start, IBVCAP_START_OLDEST);
	options = (struct record_options){.back_ns = 77};
	cr_assert_eq(source_open(&sources[1], &options, "lidar", 0), 0);
	cr_expect(asked.start == IBVCAP_START_NS_BACK && asked.back == 77);
	options = (struct record_options){.from_ns = now_ns - 5 * TIME_SECOND_NS};
	cr_assert_eq(source_open(&sources[2], &options, "lidar", 0), 0);
	cr_expect_eq(asked.start, IBVCAP_START_NS_BACK);
	cr_expect(asked.back >= 5 * TIME_SECOND_NS && asked.back < 15 * TIME_SECOND_NS);
	source_close(&sources[0]);
	options.from_ns = now_ns + 100 * TIME_SECOND_NS;
	cr_assert_eq(source_open(&sources[0], &options, "lidar", 0), 0);
	cr_expect(asked.start == IBVCAP_START_NS_BACK && asked.back == 0, "the time has not come yet");
}

/* ---- descriptions -------------------------------------------------------------------------------- */

Test(record_source, a_stream_is_described_by_its_status)
{
	cr_assert_eq(source_open(&sources[0], &options, "test", 0), 0);
	source_describe(&sources[0], &options);
	cr_expect_str_eq(sources[0].interface, "interface eth7, backend verbs");
	cr_expect_str_eq(sources[0].device, "mlx5_0");
	cr_expect_str_eq(sources[0].flows, "10.0.0.1 port 5; 10.0.0.2");
	cr_expect_eq(strncmp(sources[0].clock, "clock ", 6), 0);
	cr_expect(strstr(sources[0].clock, "; epoch 0000000000000063, first packet 0"), "%s", sources[0].clock);
	cr_expect_not(sources[0].sequence);
	status_error = -ENOENT;
	cr_assert_eq(source_open(&sources[1], &options, "test", 0), 0);
	source_describe(&sources[1], &options);
	cr_expect_str_eq(sources[1].interface, "");
	cr_expect_str_eq(sources[1].flows, "");
	cr_expect_eq(strncmp(sources[1].clock, "clock ", 6), 0);
}

Test(record_source, a_stamp_of_the_systems_clock_is_no_later_than_a_reading_of_it)
{
	struct status_clock clock = STATUS_CLOCK_NONE;

	cr_assert_eq(source_open(&sources[0], &options, "test", 0), 0);
	clock.clock_source = IBVCAP_CLOCK_SOURCE_KERNEL;
	daemon_store_clock(opened[0].ring.ring, &clock);
	cr_expect_eq(source_clock_error_ns(&sources[0]), 0, "the end of a recording waits for no clock");
	source_describe_again(&sources[0], &options);
	cr_expect(strstr(sources[0].clock, "error not known"), "%s", sources[0].clock);
	clock.clock_source = IBVCAP_CLOCK_SOURCE_DEVICE;
	clock.clock_error_ns = 700;
	daemon_store_clock(opened[0].ring.ring, &clock);
	cr_expect_eq(source_clock_error_ns(&sources[0]), 700);
}

static const char *changes_of(struct source *source)
{
	captured_begin();
	source_tell_changes(source);
	return captured_end();
}

Test(record_source, changes_are_told_once)
{
	const char *said;

	cr_assert_eq(source_open(&sources[0], &options, "test", 0), 0);
	cr_expect_str_eq(changes_of(&sources[0]), "");
	n_queues = 2;
	disconnected = 1;
	cr_expect_str_eq(changes_of(&sources[0]), "", "the next daemon has not said it yet");
	disconnected = 0;
	said = changes_of(&sources[0]);
	cr_expect(strstr(said, "stream 'test' has 2 queues now, and this recording has 1"), "%s", said);
	cr_expect_str_eq(changes_of(&sources[0]), "");
	n_failures = 1;
	said = changes_of(&sources[0]);
	cr_expect(strstr(said, "test: its queue has failed"), "%s", said);
	cr_expect_str_eq(changes_of(&sources[0]), "");
	n_failures = 0;
	cr_assert_eq(source_open(&sources[1], &options, "test", 1), 0);
	n_queues = 5;
	cr_expect_str_eq(changes_of(&sources[1]), "", "the first queue tells it");
}

Test(record_source, the_end_of_a_handle)
{
	struct losses losses = {.last_row_ns = UINT64_C(1795334400123456789)};
	struct source_end found;

	cr_assert_eq(source_open(&sources[0], &options, "test", 0), 0);
	attached_publish(&opened[0], 10);
	n_skipped = 4;
	found = losses_find_end(sources[0].rx, 3);
	cr_expect(found.skipped == 4 && found.lag == 13 && !found.is_disconnected && !found.has_failed);
	failed_queues = 1;
	disconnected = 1;
	found = losses_find_end(sources[0].rx, 0);
	cr_expect(found.is_disconnected && found.has_failed && found.lag == 10);
	losses_skipped_at_end(&losses, &found, 0);
	losses_at_end(&losses, &found, 0, 0);
	cr_expect(strstr(losses.before.text, "4 packets lost (skipped)"), "%s", losses.before.text);
	cr_expect(strstr(losses.before.text,
	                 "; the card's queue had failed when the recording ended: how many packets were "
	                 "lost since 2026-11-22T08:00:00.123456789"),
	          "%s", losses.before.text);
	losses = (struct losses){.sum = {.skipped = 3, .disk_wait = 1}};
	found.has_failed = false;
	found.is_removed = true;
	losses_skipped_at_end(&losses, &found, 0);
	losses_at_end(&losses, &found, 2, 0);
	cr_expect_not(strstr(losses.before.text, "skipped"), "%s", losses.before.text);
	cr_expect(strstr(losses.before.text, "2 packets lost (no_buffer)"), "%s", losses.before.text);
	cr_expect(strstr(losses.before.text, "; the administrator removed the stream"), "%s", losses.before.text);
	cr_expect(strstr(losses.before.text,
	                 "; ibvcapd was away when the recording ended: how many packets were lost since "
	                 "when the recording began is not known"),
	          "%s", losses.before.text);
	cr_expect(losses.no_buffer == 2 && losses.before.n == 2);
	losses = (struct losses){0};
	found = (struct source_end){0};
	losses_skipped_at_end(&losses, &found, 0);
	losses_at_end(&losses, &found, 0, 0);
	cr_expect_str_eq(losses.before.text, "");
}

Test(record_source, an_end_is_put_off_only_while_nothing_comes)
{
	struct source *source = &sources[0];
	struct source_end at;

	cr_assert_eq(source_open(source, &options, "test", 0), 0);
	at = losses_find_end(source->rx, 0);
	source->until.utc_ns = 1;
	attached_publish(&opened[0], 1);
	source_end_later(source, &at);
	cr_expect_eq(source->until.utc_ns, 1, "a packet came");
	at.lag = 1;
	source_end_later(source, &at);
	cr_expect_eq(source->until.utc_ns, 1, "and is left in the ring");
	source_close(source);
	cr_assert_eq(source_open(source, &options, "test", 0), 0);
	at = losses_find_end(source->rx, 0);
	n_skipped = 1;
	source_end_later(source, &at);
	cr_expect_neq(source->until.epoch, EPOCH, "a packet was skipped");
	n_skipped = 0;
	source_end_later(source, &at);
	cr_expect_eq(source->until.epoch, EPOCH);
}

static uint32_t unknown_after(int error)
{
	struct account_parts parts = {0};

	sources[0].end_error = error;
	source_end_parts(&sources[0], (struct row_counts){0}, &parts);
	return parts.unknown;
}

Test(record_source, what_an_error_leaves_unknown)
{
	cr_expect_eq(unknown_after(0), 0);
	cr_expect_eq(unknown_after(-ENODEV), IBVCAP_UNKNOWN_REMOVED);
	cr_expect_eq(unknown_after(-EIO), IBVCAP_UNKNOWN_FAILED);
	cr_expect_eq(unknown_after(-ESHUTDOWN), IBVCAP_UNKNOWN_AWAY);
}

/* ---- the reach of a ring ------------------------------------------------------------------------- */

static const char *reach(uint64_t wanted_ns, int code)
{
	static char lidar[] = "lidar", *streams[] = {lidar};

	options.streams = streams;
	options.n_streams = 1;
	captured_begin();
	cr_expect_eq(ring_reach_print(&options, wanted_ns, "--last"), code);
	return captured_end();
}

Test(record_source, the_reach_of_a_ring_at_its_rate)
{
	const char *said;

	n_earlier = 32;
	oldest_ns = time_utc_ns() - 200 * TIME_SECOND_NS;
	said = reach(700 * TIME_SECOND_NS, EX_OK);
	cr_expect(strstr(said,
	                 "lidar: the ring has the last 200 s, 32 packets; room for 128 lasts for 800 s at this rate\n"),
	          "%s", said);
	cr_expect_not(strstr(said, "warning"), "%s", said);
	cr_expect(asked.start == IBVCAP_START_OLDEST && asked.reattach_ms == IBVCAP_NO_REATTACH && n_asked == 1);
	options.quiet = true;
	oldest_ns = time_utc_ns() - 200 * TIME_SECOND_NS;
	said = reach(1200 * TIME_SECOND_NS, EX_OK);
	cr_expect_not(strstr(said, "lidar: the ring has"), "%s", said);
	cr_expect(strstr(said,
	                 "warning: lidar: --last 1200 is more than the 800 s that the ring lasts: set history_blocks "
	                 "of the stream to 4 or more, from 2\n"),
	          "%s", said);
}

Test(record_source, the_reach_of_an_empty_ring_and_of_all_queues)
{
	const char *said;

	n_queues = 2;
	said = reach(TIME_SECOND_NS, EX_OK);
	cr_expect_str_eq(said, "lidar/0: the ring is empty, and has room for 128 packets\n"
	                       "lidar/1: the ring is empty, and has room for 128 packets\n");
	cr_expect(n_asked == 2 && asked.queue == 1);
	open_errors[2] = -ESRCH;
	reach(TIME_SECOND_NS, EX_UNAVAILABLE);
}
