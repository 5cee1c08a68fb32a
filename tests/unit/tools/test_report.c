// SPDX-License-Identifier: Apache-2.0
/* What the subcommands print when a stream or channel ends, and their exit codes. */
#include "tools/common/report.h"

#include "lib/ibvcap/track/tracker.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdio.h>
#include <sysexits.h>

Test(report, each_end_has_its_words, .init = cr_redirect_stderr)
{
	cr_expect(eq(int, report_end("recv", "stream", "lidar", -ESHUTDOWN), EX_UNAVAILABLE));
	cr_expect(eq(int, report_end("recv", "stream", "lidar", -ENODEV), EX_UNAVAILABLE));
	cr_expect(eq(int, report_end("send", "channel", "out", -EIO), EX_UNAVAILABLE));
	cr_expect(eq(int, report_end("send", "channel", "out", -ECONNABORTED), EX_UNAVAILABLE));
	cr_expect(eq(int, report_end("recv", "stream", "lidar", -ENOMEM), EX_OSERR));
	fflush(stderr);
	cr_assert_stderr_eq_str("ibvcap recv: stream 'lidar': the daemon has ended\n"
	                        "ibvcap recv: stream 'lidar': the administrator has removed it\n"
	                        "ibvcap send: channel 'out': its device failed; the daemon's log says more\n"
	                        "ibvcap send: channel 'out': the daemon disconnected this client; its log says why\n"
	                        "ibvcap recv: stream 'lidar': Cannot allocate memory\n");
}

Test(report, no_error_says_nothing, .init = cr_redirect_stderr)
{
	cr_expect(eq(int, report_end("recv", "stream", "lidar", 0), EX_OK));
	fputs("end\n", stderr);
	fflush(stderr);
	cr_assert_stderr_eq_str("end\n");
}

Test(report, each_error_has_its_exit_code)
{
	static const struct {
		int error;
		int code;
	} cases[] = {{-EINVAL, EX_USAGE},    {-EACCES, EX_NOPERM},     {-EPERM, EX_NOPERM},  {-EAGAIN, EX_TEMPFAIL},
	             {-EPROTO, EX_PROTOCOL}, {-EBUSY, EX_CONFIG},      {-EEXIST, EX_CONFIG}, {-E2BIG, EX_CONFIG},
	             {-ENOMEM, EX_OSERR},    {-ENOENT, EX_UNAVAILABLE}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect(eq(int, report_exit_code(cases[i].error), cases[i].code), "errno %d", -cases[i].error);
}

/* The number is in byte 0 of the payload, and the source in bytes 1 and 2. Source i loses i % 7 numbers. */
static struct ibvcap_tracker *track_300_sources(void)
{
	static const struct ibvcap_sequence sequence = {.bytes = 1,
	                                                .source = IBVCAP_SOURCE_NONE,
	                                                .source_offset = 1,
	                                                .source_bytes = 2,
	                                                .source_mask = {255, 255},
	                                                .step = 1,
	                                                .upper_step = 1,
	                                                .window = 64,
	                                                .jump = 50};
	const struct ibvcap_tracker_options options = {.size = sizeof(options), .max_sources = 512};
	struct ibvcap_tracker *tracker;

	cr_assert(eq(int, ibvcap_tracker_new(&sequence, &options, &tracker), 0), "%s", ibvcap_error_text());
	for (unsigned source = 0; source < 300; source++)
		for (unsigned number = 0; number < 2; number++) {
			const uint8_t row[] = {(uint8_t)(number * (1 + source % 7)), (uint8_t)(source >> 8),
			                       (uint8_t)source};
			const struct ibvcap_packet packet = {.row = row, .row_bytes = sizeof(row), .has_headers = true};

			cr_assert(eq(int, ibvcap_tracker_add(tracker, &packet, NULL), 0));
		}
	return tracker;
}

Test(report, of_many_sources_the_worst_are_printed_and_the_rest_is_a_number, .init = cr_redirect_stdout)
{
	struct ibvcap_tracker *tracker = track_300_sources();

	tracker_print(tracker, 0, 2);
	fflush(stdout);
	cr_assert_stdout_eq_str(
		"source 6: field 0006\n"
		"  sent 8 = once 2 + lost 6; arrived 2 = once 2 + repeated 0\n"
		"  reordered 0, late 0, stray 0, restarted 0\n"
		"source 13: field 000d\n"
		"  sent 8 = once 2 + lost 6; arrived 2 = once 2 + repeated 0\n"
		"  reordered 0, late 0, stray 0, restarted 0\n"
		"and 298 sources more, of which some lost numbers, but no more than these: --sources all prints them\n"
		"numbers of 300 sources, 600 packets:\n"
		"  sent 1497 = once 600 + lost 897; arrived 600 = once 600 + repeated 0\n"
		"  reordered 0, late 0, stray 0, restarted 0\n");
	ibvcap_tracker_free(tracker);
}

Test(report, json_has_all_sources)
{
	struct ibvcap_tracker *tracker = track_300_sources();
	json_t *json = tracker_to_json(tracker);

	json_t *sources = json_object_get(json, "sources");

	cr_expect(eq(sz, json_array_size(sources), 300));
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(sources, 258), "name")), "field 0102");
	json_decref(json);
	ibvcap_tracker_free(tracker);
}
