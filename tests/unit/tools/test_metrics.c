// SPDX-License-Identifier: Apache-2.0
/* Names, units, labels and values of the metrics of a status. */
#include "tools/status/metrics.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

static struct ibvcap_counter of_stream[] = {{"matched", 7}, {"published", 5}, {"in_flight", UINT64_MAX}};
static struct ibvcap_counter of_consumer[] = {{"lag", 3}};
static struct ibvcap_counter of_channel[] = {{"timed_lateness_ns", 1500000000}, {"timed_lateness_max_ns", 42}};
static struct ibvcap_counter of_interface[] = {{"out_of_buffer", 1}};

static struct ibvcap_status_stream streams[3];
static struct ibvcap_status_consumer consumers[2];
static struct ibvcap_status_channel channels[1];
static struct ibvcap_status_interface interfaces[1];
static struct status_view view;
static char *text;

static void print(enum metrics_format format)
{
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	metrics_print(to, &view, (struct metrics_health){.is_up = true, .age_ns = 20000001}, format);
	fclose(to);
}

static void begin(void)
{
	for (uint32_t i = 0; i < 3; i++)
		streams[i] = (struct ibvcap_status_stream){.name = "lidar",
		                                           .interface = "eth0",
		                                           .epoch = i < 2 ? 1 : 2,
		                                           .queue = i % 2,
		                                           .reading_age_ms = 1020,
		                                           .counters = of_stream,
		                                           .n_counters = 3};
	for (int i = 0; i < 2; i++)
		consumers[i] = (struct ibvcap_status_consumer){
			.stream = "lidar", .pid = 11, .uid = 4000000001, .counters = of_consumer, .n_counters = 1};
	channels[0] = (struct ibvcap_status_channel){
		.name = "out", .rate_bps = 1001, .counters = of_channel, .n_counters = 2};
	interfaces[0] = (struct ibvcap_status_interface){
		.interface = "a\"b\\c\n\xff", .counters = of_interface, .n_counters = 1};
	view = (struct status_view){.streams = streams,
	                            .consumers = consumers,
	                            .channels = channels,
	                            .interfaces = interfaces,
	                            .n_streams = 3,
	                            .n_consumers = 2,
	                            .n_channels = 1,
	                            .n_interfaces = 1};
}

static void end(void)
{
	free(text);
}

TestSuite(metrics, .init = begin, .fini = end);

static unsigned count(const char *what)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static void expect_line(const char *line)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "\n%s\n", line);
	cr_expect(count(whole) == 1, "one line '%s' in\n%s", line, text);
}

Test(metrics, a_metric_has_a_base_unit)
{
	print(METRICS_TEXT);
	expect_line("ibvcap_channel_timed_lateness_seconds_total{channel=\"out\"} 1.500000000");
	expect_line("ibvcap_channel_timed_lateness_max_seconds{channel=\"out\"} 0.000000042");
	expect_line("ibvcap_channel_rate_bytes_per_second{channel=\"out\"} 125.125");
	expect_line("ibvcap_stream_reading_age_seconds{stream=\"lidar\",queue=\"1\"} 1.020");
	expect_line("ibvcap_status_age_seconds 0.020000001");
	expect_line("ibvcap_up 1");
}

Test(metrics, what_all_queues_share_is_a_metric_of_the_stream)
{
	view.n_streams = 2;
	print(METRICS_TEXT);
	expect_line("ibvcap_stream_matched_packets_total{stream=\"lidar\"} 7");
	expect_line("ibvcap_stream_in_flight_packets{stream=\"lidar\"} -1");
	expect_line("ibvcap_stream_published_packets_total{stream=\"lidar\",queue=\"0\"} 5");
	expect_line("ibvcap_stream_published_packets_total{stream=\"lidar\",queue=\"1\"} 5");
	cr_expect(eq(u32, count("\nibvcap_stream_matched_packets_total{"), 1));
}

Test(metrics, no_two_samples_have_the_same_labels)
{
	print(METRICS_TEXT);
	expect_line("ibvcap_stream_matched_packets_total{stream=\"lidar\",again=\"1\"} 7");
	expect_line("ibvcap_stream_matched_packets_total{stream=\"lidar\"} 7");
	expect_line("ibvcap_stream_published_packets_total{stream=\"lidar\",queue=\"0\",again=\"1\"} 5");
	expect_line("ibvcap_consumer_lag_packets{stream=\"lidar\",queue=\"0\",pid=\"11\",uid=\"4000000001\"} 3");
	expect_line(
		"ibvcap_consumer_lag_packets{stream=\"lidar\",queue=\"0\",pid=\"11\",uid=\"4000000001\",again=\"1\"} "
		"3");
}

Test(metrics, labels_are_escaped)
{
	print(METRICS_TEXT);
	expect_line("ibvcap_interface_out_of_buffer_packets_total{interface=\"a\\\"b\\\\c??\",backend=\"\"} 1");
}

Test(metrics, openmetrics_names_the_family_and_says_its_unit)
{
	print(METRICS_OPENMETRICS);
	expect_line("# TYPE ibvcap_stream_matched_packets counter\n# UNIT ibvcap_stream_matched_packets packets");
	expect_line("ibvcap_stream_published_packets_total{stream=\"lidar\",queue=\"1\"} 5");
	cr_expect(strcmp(text + strlen(text) - 6, "# EOF\n") == 0);
}

Test(metrics, without_a_daemon_there_are_names_and_no_samples)
{
	view = (struct status_view){0};
	print(METRICS_TEXT);
	expect_line("# TYPE ibvcap_stream_matched_packets_total counter");
	cr_expect(eq(u32, count("{"), 1));
}
