// SPDX-License-Identifier: Apache-2.0
/* Commands of a queue that receives. */
#include "tests/support/backend_probe.h"
#include "tests/support/flows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROW_DUMP_MAX 256
#define BATCH        64

/* A queue of a device has an event for each slot that it takes, and holds none. */
static void check_use(const struct backend_use *use, uint64_t posted, uint64_t taken, const char *call)
{
	if (use->posted == posted && use->given == posted && use->taken == taken && !use->held && !use->joined)
		return;
	fprintf(stderr, "backend_probe: the use of a queue is wrong after %s\n", call);
	exit(EXIT_FAILURE);
}

static int probe_post(struct probe *probe, const struct backend_run *run)
{
	const struct backend_use before = probe->queue->use;
	int n = probe->queue->ops->post(probe->queue, run);

	if (n >= 0)
		check_use(&probe->queue->use, before.posted + (uint64_t)n, before.taken, "post()");
	return n;
}

static int probe_poll(struct probe *probe, struct backend_event *events, uint32_t max)
{
	const struct backend_use before = probe->queue->use;
	int n = probe->queue->ops->poll(probe->queue, events, max);

	if (n >= 0)
		check_use(&probe->queue->use, before.posted, before.taken + (uint64_t)n, "poll()");
	return n;
}

/* Post the next n rows; a run never goes past the last row. Returns how many were taken, or -errno. */
static int post_rows(struct probe *probe, uint32_t n)
{
	uint32_t posted = 0;

	while (posted < n) {
		uint32_t to_end = probe->n_rows - probe->next_row;
		struct backend_run run = {
			.slot = probe->next_row,
			.n = n - posted < to_end ? n - posted : to_end,
			.payload = probe->payload + (size_t)probe->next_row * probe->options.slot_bytes,
			.headers = probe->headers + (size_t)probe->next_row * HEADER_STRIDE,
		};
		int taken = probe_post(probe, &run);

		if (taken < 0)
			return taken;
		posted += (uint32_t)taken;
		probe->next_row = (probe->next_row + (uint32_t)taken) % probe->n_rows;
		if ((uint32_t)taken < run.n)
			break;
	}
	return (int)posted;
}

/* post N: hand N rows over */
static void command_post(struct probe *probe, char *arguments)
{
	int posted = post_rows(probe, (uint32_t)atoi(arguments));

	if (posted < 0)
		answer(posted);
	else
		printf("{\"error\": 0, \"posted\": %d}\n", posted);
}

/* post_unregistered: one row that the device may not write */
static void command_post_unregistered(struct probe *probe, char *arguments)
{
	struct backend_run run = {
		.slot = probe->next_row,
		.n = 1,
		.payload = probe->payload + probe->payload_bytes,
		.headers = probe->headers + probe->headers_bytes,
	};

	(void)arguments;
	answer(probe_post(probe, &run));
}

/* receive N MS: poll until N events came or MS milliseconds passed; rows are not posted again */
static void command_receive(struct probe *probe, char *arguments)
{
	uint32_t wanted = 0, n = 0, ms = 0;
	struct backend_event events[BATCH];
	int got = 0;

	if (sscanf(arguments, "%u %u", &wanted, &ms) != 2) {
		answer(-EINVAL);
		return;
	}
	uint64_t deadline_ns = now_ns(CLOCK_MONOTONIC) + ms * 1000000ull;

	printf("{\"events\": [");
	while (n < wanted && got >= 0 && now_ns(CLOCK_MONOTONIC) < deadline_ns) {
		got = probe_poll(probe, events, wanted - n < BATCH ? wanted - n : BATCH);
		for (int i = 0; i < got; i++, n++)
			printf("%s[%u, %u, %u, %" PRIu64 ", %u]", n ? ", " : "", events[i].slot, events[i].bytes,
			       events[i].status, events[i].timestamp_raw, events[i].flags);
	}
	printf("], \"error\": %d}\n", got < 0 ? got : 0);
}

/* stream N MS: as a worker does, poll and post again in chunks, until N packets or MS without one */
static void command_stream(struct probe *probe, char *arguments)
{
	uint64_t wanted = 0, n = 0, bytes = 0, bad = 0;
	struct backend_event events[BATCH];
	uint32_t ms = 0, to_post = 0;
	int r = 0;

	if (sscanf(arguments, "%" SCNu64 " %u", &wanted, &ms) != 2) {
		answer(-EINVAL);
		return;
	}
	uint64_t start_ns = now_ns(CLOCK_MONOTONIC), last_ns = start_ns;

	while (n < wanted && r >= 0) {
		r = probe_poll(probe, events, BATCH);
		if (r <= 0) {
			if (now_ns(CLOCK_MONOTONIC) - last_ns > ms * 1000000ull)
				break;
			continue;
		}
		for (int i = 0; i < r; i++) {
			bytes += events[i].bytes;
			bad += events[i].status != BACKEND_OK;
		}
		n += (uint64_t)r;
		for (to_post += (uint32_t)r; to_post >= BATCH && r >= 0; to_post -= BATCH)
			r = post_rows(probe, BATCH);
		last_ns = now_ns(CLOCK_MONOTONIC);
	}
	printf("{\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"bad\": %" PRIu64 ", \"ns\": %" PRIu64
	       ", \"not_posted\": %u, \"error\": %d}\n",
	       n, bytes, bad, last_ns - start_ns, to_post, r < 0 ? r : 0);
}

static void print_hex(const char *name, const uint8_t *bytes, size_t n)
{
	printf("\"%s\": \"", name);
	for (size_t i = 0; i < n; i++)
		printf("%02x", bytes[i]);
	printf("\", ");
}

/* row SLOT: what is in its header row and at the start of its payload row */
static void command_row(struct probe *probe, char *arguments)
{
	uint32_t slot = (uint32_t)atoi(arguments) % probe->n_rows;
	size_t slot_bytes = probe->options.slot_bytes;

	printf("{");
	print_hex("headers", probe->headers + (size_t)slot * HEADER_STRIDE, HEADER_STRIDE);
	print_hex("payload", probe->payload + slot * slot_bytes, slot_bytes < ROW_DUMP_MAX ? slot_bytes : ROW_DUMP_MAX);
	printf("\"error\": 0}\n");
}

/* flow I ADDRESS PORT [VLAN [SOURCE]]: add flow number I, and join its group */
static void command_flow(struct probe *probe, char *arguments)
{
	char destination[64], source[64];
	struct config_flow flow = {FLOW_DEFAULTS};
	struct flow_rule rule;
	unsigned i = 0;
	int n = sscanf(arguments, "%u %63s %" SCNu16 " %" SCNd32 " %63s", &i, destination, &flow.destination_port,
	               &flow.vlan, source);
	int error;

	if (n < 3 || i >= FLOWS_MAX || probe->flows[i]) {
		answer(-EINVAL);
		return;
	}
	flow_set_destination(&flow, destination);
	if (n == 5)
		flow_set_source(&flow, source);
	flow_resolve(&flow, probe->interface.mac, &rule);
	error = probe->queue->ops->add_flow(probe->queue, &rule, &probe->flows[i], &probe->failure);
	if (!error)
		error = membership_join(probe->membership, probe->interface.index, &rule, &probe->failure);
	if (error < 0)
		answer_fault(probe, error);
	else
		answer(0);
}

/* rule I KEYS: likewise, from a flow as it stands in the configuration; no group is joined */
static void command_rule(struct probe *probe, char *arguments)
{
	char text[1024];
	struct config *config;
	struct flow_rule rule;
	unsigned i = 0;
	int n = 0, error;

	if (sscanf(arguments, "%u %n", &i, &n) != 1 || n == 0 || i >= FLOWS_MAX || probe->flows[i]) {
		answer(-EINVAL);
		return;
	}
	snprintf(text, sizeof(text),
	         "streams = ( { name = \"s\"; interface = \"i\"; payload_size = 100; flows = ( { %s } ); } );",
	         arguments + n);
	error = config_load_text("rule", text, &config, &probe->failure);
	if (!error) {
		flow_resolve(&config->streams[0].flows[0], probe->interface.mac, &rule);
		error = probe->queue->ops->add_flow(probe->queue, &rule, &probe->flows[i], &probe->failure);
		config_free(config);
	}
	if (error < 0)
		answer_fault(probe, error);
	else
		answer(0);
}

/* unflow I */
static void command_unflow(struct probe *probe, char *arguments)
{
	unsigned i = (unsigned)atoi(arguments) % FLOWS_MAX;

	probe->ops->remove_flow(probe->flows[i]);
	probe->flows[i] = NULL;
	answer(0);
}

static void command_matched(struct probe *probe, char *arguments)
{
	uint64_t matched = 0;
	int error = probe->queue->ops->read_matched(probe->queue, &matched);

	(void)arguments;
	printf("{\"matched\": %" PRIu64 ", \"error\": %d}\n", matched, error);
}

const struct probe_command probe_receive_commands[] = {
	{"post", command_post},       {"post_unregistered", command_post_unregistered},
	{"receive", command_receive}, {"stream", command_stream},
	{"row", command_row},         {"flow", command_flow},
	{"rule", command_rule},       {"unflow", command_unflow},
	{"matched", command_matched}, {0},
};
