// SPDX-License-Identifier: Apache-2.0
/* The options that bench_ring can measure, one at a time. */
#include "tests/bench/ring_options.h"

#include "tests/support/flows.h"

#include <ibvcap/layout.h>
#include <string.h>

static void name_source(struct config_flow *flow)
{
	flow_set_source(flow, "10.0.0.2");
	flow->source_port = 1000;
}

static void take_prefix(struct config_flow *flow)
{
	flow_set_destination(flow, "10.0.0.0");
	flow->destination_bits = 24;
	flow->destination_port = 0;
}

static void take_all(struct config_flow *flow)
{
	*flow = (struct config_flow){.match = CONFIG_MATCH_ALL, FLOW_DEFAULTS};
}

static void copy_packets(struct config_flow *flow)
{
	flow->copy = true;
}

static const struct ring_option ring_options[] = {
	{.name = "plain"},
	{.name = "application_header_bytes", .application_header_bytes = 16},
	{.name = "row_stride", .gap_bytes = 64},
	{.name = "short", .empty_bytes = 64},
	{.name = "zero_rest", .flags = IBVCAP_RING_FLAG_ZERO_REST, .empty_bytes = 64},
	{.name = "flow_numbers", .flags = IBVCAP_RING_FLAG_FLOWS},
	{.name = "frame", .flags = IBVCAP_RING_FLAG_FRAMES},
	{.name = "verify_checksums", .verifies = true},
	{.name = "sequence", .has_sequence = true},
	{.name = "lengths", .length_change = 8},
	{.name = "queues", .in_group = true},
	{.name = "queue", .in_group = true, .is_flow_of_queue = true},
	{.name = "source", .set_flow = name_source},
	{.name = "prefix", .set_flow = take_prefix},
	{.name = "all", .set_flow = take_all},
	{.name = "copy", .set_flow = copy_packets},
};

const struct ring_option *ring_option_find(const char *name)
{
	for (size_t i = 0; i < sizeof(ring_options) / sizeof(ring_options[0]); i++)
		if (!strcmp(name, ring_options[i].name))
			return &ring_options[i];
	return NULL;
}
