// SPDX-License-Identifier: Apache-2.0
/* Compiles filters by libpcap, and runs them on packets in memory. */
#include "lib/recording/packet_filter.h"

#include "lib/recording/pcap_file.h"
#include "lib/recording/pcapng.h"

#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>

struct packet_filter {
	struct bpf_program program;
};

struct packet_filter *packet_filter_new(const char *text, char error[PACKET_FILTER_ERROR_BYTES])
{
	return packet_filter_new_of_link(text, PCAPNG_LINK_ETHERNET, error);
}

struct packet_filter *packet_filter_new_of_link(const char *text, uint16_t link_type,
                                                char error[PACKET_FILTER_ERROR_BYTES])
{
	struct packet_filter *filter = calloc(1, sizeof(*filter));
	pcap_t *link = pcap_open_dead(pcap_file_dlt(link_type), 65535);

	snprintf(error, PACKET_FILTER_ERROR_BYTES, "out of memory");
	if (filter && link && pcap_compile(link, &filter->program, text, 1, PCAP_NETMASK_UNKNOWN) < 0) {
		snprintf(error, PACKET_FILTER_ERROR_BYTES, "%s; see pcap-filter(7)", pcap_geterr(link));
		free(filter);
		filter = NULL;
	}
	if (link)
		pcap_close(link);
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
