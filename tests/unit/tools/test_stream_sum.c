// SPDX-License-Identifier: Apache-2.0
#include "tools/status/status_view.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct ibvcap_counter first[] = {{"matched", 100}, {"published", 30}, {"no_buffer", 20},
                                              {"errored", 1},   {"fill_max", 9},   {"in_flight", 4}};
static const struct ibvcap_counter second[] = {{"matched", 100}, {"published", 45}, {"no_buffer", 20},
                                               {"errored", 0},   {"fill_max", 7},   {"in_flight", 4}};
static struct ibvcap_status_stream streams[] = {
	{.name = "lidar", .epoch = 5, .state = "capturing", .n_queues = 2, .counters = first, .n_counters = 6},
	{.name = "lidar",
         .epoch = 5,
         .state = "failed",
         .queue = 1,
         .n_queues = 2,
         .counters = second,
         .n_counters = 6},
	{.name = "radar", .epoch = 6, .state = "capturing", .n_queues = 1, .counters = second, .n_counters = 6},
	{.name = "lidar", .epoch = 7, .state = "capturing", .n_queues = 1, .counters = second, .n_counters = 6},
};
static const struct status_view view = {.streams = streams, .n_streams = 4};

Test(stream_sum, what_queues_share_is_counted_once_and_the_rest_is_added_up)
{
	struct stream_sum sum;
	struct counters counters = stream_sum_of(&view, &streams[0], &sum);

	cr_expect_eq(counters_value(counters, "matched"), 100);
	cr_expect_eq(counters_value(counters, "published"), 75);
	cr_expect_eq(counters_value(counters, "no_buffer"), 20);
	cr_expect_eq(counters_value(counters, "errored"), 1);
	cr_expect_eq(counters_value(counters, "fill_max"), 9);
	cr_expect_eq(counters_value(counters, "in_flight"), 4);
}

Test(stream_sum, each_stream_has_one_first_entry)
{
	cr_expect(stream_sum_is_first(&view, 0));
	cr_expect(!stream_sum_is_first(&view, 1));
	cr_expect(stream_sum_is_first(&view, 2));
	cr_expect(stream_sum_is_first(&view, 3));
}

Test(stream_sum, a_queue_has_what_is_its_own)
{
	struct stream_sum own;
	struct counters counters = stream_sum_queue(&streams[1], &own);

	cr_expect_eq(counters_value(counters, "published"), 45);
	cr_expect(!counters_have(counters, "matched"));
	cr_expect(!counters_have(counters, "no_buffer"));
}
