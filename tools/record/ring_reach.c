// SPDX-License-Identifier: Apache-2.0
/* Says how far back in time the ring of a stream has packets, and how far it would at their rate. */
#include "tools/record/source.h"

#include "lib/base/time.h"
#include "tools/common/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

struct ring_reach {
	uint64_t n_packets; /* in the ring */
	uint64_t room;      /* rows that it has room for */
	uint64_t age_ns;    /* the oldest row's; 0: there is none */
	uint32_t blocks;
	uint32_t queue;
	uint32_t n_queues;
};

static int ring_reach_find(const char *socket, const char *stream, uint32_t queue, struct ring_reach *reach)
{
	struct ibvcap_rx_options attach = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_rx *rx;
	uint64_t now_ns;
	int r;

	attach.queue = queue;
	attach.start = IBVCAP_START_OLDEST;
	attach.reattach_ms = IBVCAP_NO_REATTACH;
	r = ibvcap_rx_open(socket, stream, &attach, &rx);
	if (r < 0)
		return r;
	ibvcap_rx_info(rx, &info);
	*reach = (struct ring_reach){.n_packets = info.attach_back,
	                             .room = (uint64_t)info.history_blocks * info.slots_per_block,
	                             .blocks = info.history_blocks,
	                             .queue = queue,
	                             .n_queues = info.n_queues};
	now_ns = time_utc_ns();
	if (info.attach_back && ibvcap_rx_acquire(rx, &batch, 1, 1, 0) == 1) {
		if (batch.meta[0].timestamp_ns < now_ns)
			reach->age_ns = now_ns - batch.meta[0].timestamp_ns;
		ibvcap_rx_release(rx, &batch);
	}
	ibvcap_rx_close(rx);
	return 0;
}

static void ring_reach_describe(const struct record_options *options, const char *stream,
                                const struct ring_reach *reach, uint64_t wanted_ns, const char *option)
{
	/* How long the ring's room lasts at the rate of the packets in it. */
	double seconds = (double)reach->age_ns * 1e-9;
	double lasts = reach->n_packets ? seconds * (double)reach->room / (double)reach->n_packets : 0;
	double wanted = (double)wanted_ns * 1e-9;
	char name[SOURCE_NAME_BYTES];

	source_print_name(name, stream, reach->queue, reach->n_queues);
	if (!options->quiet && !reach->age_ns)
		fprintf(stderr, "%s: the ring is empty, and has room for %" PRIu64 " packets\n", name, reach->room);
	else if (!options->quiet)
		fprintf(stderr,
		        "%s: the ring has the last %.3g s, %" PRIu64 " packets; room for %" PRIu64
		        " lasts for %.3g s at this rate\n",
		        name, seconds, reach->n_packets, reach->room, lasts);
	if (reach->age_ns && lasts < wanted)
		fprintf(stderr,
		        "ibvcap record: warning: %s: %s %.6g is more than the %.3g s that the ring lasts: set "
		        "history_blocks of the stream to %.0f or more, from %u\n",
		        name, option, wanted, lasts, (double)reach->blocks * wanted / lasts + 1, reach->blocks);
}

int ring_reach_print(const struct record_options *options, uint64_t wanted_ns, const char *option)
{
	for (unsigned i = 0; i < options->n_streams; i++) {
		struct ring_reach reach = {.n_queues = 1};

		for (uint32_t queue = 0; queue < reach.n_queues; queue++) {
			int r = ring_reach_find(options->socket, options->streams[i], queue, &reach);

			if (r < 0)
				return report_failure("record", r);
			ring_reach_describe(options, options->streams[i], &reach, wanted_ns, option);
		}
	}
	return EX_OK;
}
