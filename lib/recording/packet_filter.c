// SPDX-License-Identifier: Apache-2.0
/* Compiles filters by libpcap, and runs them on packets in memory. */
#include "lib/recording/packet_filter.h"

#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>

struct packet_filter {
	struct bpf_program program;
};

struct packet_filter *packet_filter_new(const char *text, char error[PACKET_FILTER_ERROR_BYTES])
{
	struct packet_filter *filter = calloc(1, sizeof(*filter));
	pcap_t *ethernet = pcap_open_dead(DLT_EN10MB, 65535);

	snprintf(error, PACKET_FILTER_ERROR_BYTES, "out of memory");
	if (filter && ethernet && pcap_compile(ethernet, &filter->program, text, 1, PCAP_NETMASK_UNKNOWN) < 0) {
		snprintf(error, PACKET_FILTER_ERROR_BYTES, "%s; see pcap-filter(7)", pcap_geterr(ethernet));
		free(filter);
		filter = NULL;
	}
	if (ethernet)
		pcap_close(ethernet);
	return filter;
}

void packet_filter_free(struct packet_filter *filter)
{
	if (filter)
		pcap_freecode(&filter->program);
	free(filter);
}

bool packet_filter_takes(const struct packet_filter *filter, const uint8_t *frame, uint32_t bytes, uint32_t wire_bytes)
{
	const struct pcap_pkthdr head = {.caplen = bytes, .len = wire_bytes};

	return pcap_offline_filter(&filter->program, &head, frame) > 0;
}
