// SPDX-License-Identifier: Apache-2.0
/* Rates between two answers of the daemon, and the cases in which there is no rate. */
#include "tools/status/top.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

/* [0] is the earlier answer, [1] the one two seconds later. */
static struct ibvcap_counter stream_counters[2][6] = {
	{{"published", 100},
         {"published_bytes", 100000},
         {"no_buffer", 3},
         {"errored", 1},
         {"in_flight", 9},
         {"fill_max", 200}},
	{{"published", 300},
         {"published_bytes", 300000},
         {"no_buffer", 7},
         {"errored", 1},
         {"in_flight", 0},
         {"fill_max", 320}},
};
static struct ibvcap_counter consumer_counters[2][2][4] = {
	{{{"published", 100}, {"delivered", 90}, {"skipped", 0}, {"lag", 10}},
         {{"published", 50}, {"delivered", 10}, {"skipped", 0}, {"lag", 40}}},
	{{{"published", 300}, {"delivered", 290}, {"skipped", 0}, {"lag", 10}},
         {{"published", 250}, {"delivered", 20}, {"skipped", 70}, {"lag", 160}}},
};
static struct ibvcap_counter channel_counters[2][9] = {
	{{"completed", 10},
         {"wire_bytes", 1000},
         {"pending", 5},
         {"timed", 10},
         {"timed_lateness_ns", 10000},
         {"timed_lateness_max_ns", 9000},
         {"paced", 0},
         {"paced_lateness_ns", 0},
         {"flushed", 0}},
	{{"completed", 30},
         {"wire_bytes", 3000},
         {"pending", 0},
         {"timed", 20},
         {"timed_lateness_ns", 50000},
         {"timed_lateness_max_ns", 9000},
         {"paced", 10},
         {"paced_lateness_ns", 10},
         {"flushed", 2}},
};
static struct ibvcap_counter port_counters[2][1] = {{{"port_discards", 1}}, {{"port_discards", 2}}};

static struct ibvcap_status_stream streams[2][1];
static struct ibvcap_status_consumer consumers[2][2];
static struct ibvcap_status_channel channels[2][1];
static struct ibvcap_status_sender senders[2][1];
static struct ibvcap_status_interface ports[2][1];
static struct top_view view;
static char text[8192];

static void fill(struct status_view *part, int at)
{
	streams[at][0] = (struct ibvcap_status_stream){.name = "lidar",
	                                               .state = "capturing",
	                                               .epoch = 42,
	                                               .slots_per_block = 64,
	                                               .history_blocks = 10,
	                                               .counters = stream_counters[at],
	                                               .n_counters = 6};
	for (int i = 0; i < 2; i++)
		consumers[at][i] = (struct ibvcap_status_consumer){.stream = "lidar",
		                                                   .pid = 11 + i,
		                                                   .uid = 4000000001,
		                                                   .counters = consumer_counters[at][i],
		                                                   .n_counters = 4};
	channels[at][0] = (struct ibvcap_status_channel){
		.name = "out", .state = "sending", .epoch = 42, .counters = channel_counters[at], .n_counters = 9};
	senders[at][0] = (struct ibvcap_status_sender){
		.channel = "out", .pid = 13, .counters = channel_counters[at], .n_counters = 9};
	ports[at][0] =
		(struct ibvcap_status_interface){.interface = "eth0", .counters = port_counters[at], .n_counters = 1};
	*part = (struct status_view){.streams = streams[at],
	                             .consumers = consumers[at],
	                             .channels = channels[at],
	                             .senders = senders[at],
	                             .interfaces = ports[at],
	                             .n_streams = 1,
	                             .n_consumers = 2,
	                             .n_channels = 1,
	                             .n_senders = 1,
	                             .n_interfaces = 1,
	                             .daemon.version = "0.1.0",
	                             .daemon.pid = 7};
}

static void begin(void)
{
	fill(&view.before, 0);
	fill(&view.now, 1);
	view.interval_ns = 2 * SECOND_NS;
	text[0] = '\0';
}

TestSuite(top, .init = begin);

static double stream_rate(const char *label)
{
	const char *const labels[] = {label, NULL};

	return top_rate(&view, COUNTERS_OF(&streams[1][0]), top_before(&view, STATUS_STREAM, &streams[1][0]), labels);
}

Test(top, a_rate_is_what_came_in_the_interval)
{
	cr_expect(eq(dbl, stream_rate("published"), 100));
	cr_expect(eq(dbl, stream_rate("published_bytes"), 100000));
	cr_expect(eq(dbl, stream_rate("no_buffer"), 2));
	cr_expect(eq(dbl, stream_rate("errored"), 0));
}

Test(top, what_there_is_nothing_to_compare_with_has_no_rate)
{
	streams[0][0].epoch = 41;
	cr_expect(lt(dbl, stream_rate("published"), 0), "another run of the daemon");
	cr_expect(eq(u32, top_before(&view, STATUS_CONSUMER, &consumers[1][0]).n, 0),
	          "so its consumers are others, too");
	channels[0][0].epoch = 41;
	cr_expect(eq(u32, top_before(&view, STATUS_CHANNEL, &channels[1][0]).n, 0));
	cr_expect(eq(u32, top_before(&view, STATUS_SENDER, &senders[1][0]).n, 0));
	view.before.daemon.pid = 8;
	cr_expect(eq(u32, top_before(&view, STATUS_INTERFACE, &ports[1][0]).n, 0));
	begin();
	streams[0][0].queue = 1;
	cr_expect(lt(dbl, stream_rate("published"), 0), "another queue");
	begin();
	stream_counters[0][0].value = 301;
	cr_expect(lt(dbl, stream_rate("no_buffer"), 0), "a stream of the same name that was added again");
	memset(&view.before, 0, sizeof(view.before));
	cr_expect(lt(dbl, stream_rate("published"), 0), "the first look");
}

Test(top, each_consumer_of_a_process_is_compared_with_itself)
{
	consumers[0][0].pid = consumers[1][0].pid = 12;
	cr_expect(eq(ptr, (void *)top_before(&view, STATUS_CONSUMER, &consumers[1][0]).at, consumer_counters[0][0]));
	cr_expect(eq(ptr, (void *)top_before(&view, STATUS_CONSUMER, &consumers[1][1]).at, consumer_counters[0][1]));
	view.before.consumers = &consumers[0][1];
	view.before.n_consumers = 1;
	cr_expect(eq(u32, top_before(&view, STATUS_CONSUMER, &consumers[1][0]).n, 0), "who came last is first");
	cr_expect(eq(ptr, (void *)top_before(&view, STATUS_CONSUMER, &consumers[1][1]).at, consumer_counters[0][1]));
}

Test(top, the_fill_is_the_slowest_consumers_and_of_the_history)
{
	cr_expect(eq(u64, top_stream_lag(&view.now, &streams[1][0]), 160));
	cr_expect(eq(u32, top_fill_percent(&streams[1][0], 160), 25));
	cr_expect(eq(u32, top_fill_percent(&streams[1][0], 640), 100));
	cr_expect(eq(u32, top_fill_percent(&streams[1][0], UINT64_MAX), 100));
	strcpy(consumers[1][1].stream, "other");
	cr_expect(eq(u64, top_stream_lag(&view.now, &streams[1][0]), 10));
}

Test(top, lateness_is_the_intervals_mean_of_own_times_else_of_the_rate)
{
	struct counters now = {channel_counters[1], 9, STATUS_CHANNEL},
			before = {channel_counters[0], 9, STATUS_CHANNEL};

	cr_expect(eq(dbl, top_lateness_ns(now, before), 4000));
	channel_counters[0][3].value = 20;
	cr_expect(eq(dbl, top_lateness_ns(now, before), 1));
	channel_counters[0][6].value = 10;
	cr_expect(lt(dbl, top_lateness_ns(now, before), 0), "none left");
	cr_expect(lt(dbl, top_lateness_ns(now, (struct counters){0}), 0));
}

static void put(void *context, enum top_style style, const char *line)
{
	(void)context;
	cr_expect(le(sz, strlen(line), 80), "%s", line);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d|%s\n", (int)style, line);
}

static void expect_line(const char *line)
{
	cr_expect(strstr(text, line) != NULL, "no '%s' in\n%s", line, text);
}

Test(top, a_view_fits_80_columns_and_what_is_lost_now_stands_out)
{
	top_print(&view, put, NULL);
	expect_line("0|ibvcapd 0.1.0, process 7, over 2.0 s\n");
	expect_line("2|lidar 0              capturing         100   0.001       160   25%   50%      2\n");
	expect_line("0|  history: 6.40 s at this rate\n");
	expect_line("2|  7 no_buffer (+2.0/s), 1 errored\n");
	expect_line("0|  11 user 4000000001 lossy             100                10    1%            0\n");
	expect_line("2|  12 user 4000000001 lossy               5               160   25%           35\n");
	expect_line("2|    70 skipped\n");
	expect_line("2|out                  sending           10  0.000       0     4.0     9.0      1\n");
	expect_line("2|  2 flushed (+1.0/s)\n");
	expect_line("2|  2 port_discards (+0.5/s)\n");
}

Test(top, what_is_gone_is_lost_at_once_and_not_again_when_it_is_skipped)
{
	struct ibvcap_counter stopped[] = {
		{"published", 250}, {"delivered", 10}, {"skipped", 0}, {"lag", 240}, {"gone", 70}};

	consumers[1][1].counters = stopped;
	consumers[1][1].n_counters = 5;
	top_print(&view, put, NULL);
	expect_line("2|  12 user 4000000001 lossy               0               240   37%           35\n");
	expect_line("2|    70 of its lag are gone: it will skip them\n");
	consumers[0][1].counters = stopped;
	consumers[0][1].n_counters = 5;
	consumers[1][1].counters = consumer_counters[1][1];
	consumers[1][1].n_counters = 4;
	text[0] = '\0';
	top_print(&view, put, NULL);
	expect_line("0|  12 user 4000000001 lossy               5               160   25%            0\n");
}

Test(top, packets_that_left_in_fragments_are_no_trouble)
{
	struct ibvcap_counter sent[] = {{"completed", 30}, {"fragmented", 12}, {"fragments", 48}};

	channels[1][0].counters = sent;
	channels[1][0].n_counters = 3;
	top_print(&view, put, NULL);
	expect_line("0|  12 fragmented: longer than the MTU, sent as 48 fragments\n");
}

Test(top, a_tap_has_no_numbers)
{
	consumers[0][0].policy = consumers[1][0].policy = IBVCAP_POLICY_TAP;
	consumers[0][0].n_counters = consumers[1][0].n_counters = 0;
	top_print(&view, put, NULL);
	expect_line("0|  11 user 4000000001 tap                 -                 -     -            -\n");
}

Test(top, a_first_look_says_what_it_does_not_know_yet)
{
	memset(&view.before, 0, sizeof(view.before));
	view.interval_ns = 0;
	top_print(&view, put, NULL);
	expect_line("0|lidar 0              capturing           -       -       160   25%   50%      -\n");
	expect_line("0|  7 no_buffer, 1 errored\n");
}

Test(top, json_has_rates_of_totals_alone)
{
	json_t *all = top_to_json(&view);
	json_t *stream = json_array_get(json_object_get(all, "streams"), 0);
	json_t *rates = json_object_get(stream, "per_s");

	cr_expect(eq(dbl, json_real_value(json_object_get(all, "interval_s")), 2));
	cr_expect(eq(dbl, json_real_value(json_object_get(rates, "published")), 100));
	cr_expect(eq(ptr, json_object_get(rates, "in_flight"), NULL));
	cr_expect(eq(ptr, json_object_get(rates, "fill_max"), NULL));
	cr_expect(eq(int, (int)json_integer_value(json_object_get(stream, "fill_max")), 320));
	json_decref(all);
	streams[0][0].epoch = 41;
	all = top_to_json(&view);
	stream = json_array_get(json_object_get(all, "streams"), 0);
	cr_expect(eq(int, (int)json_typeof(json_object_get(stream, "per_s")), JSON_NULL));
	json_decref(all);
}
