// SPDX-License-Identifier: Apache-2.0
/* Compiles the filter of an extract for a link type when its first packet comes. */
#include "tools/inspect/extract_filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct extract_filter_link {
	uint16_t type;
	struct packet_filter *program; /* NULL: the filter has no meaning for it */
};

/* NULL: no memory. */
static struct extract_filter_link *add_link(struct extract_filter *filter, uint16_t type,
                                            char error[PACKET_FILTER_ERROR_BYTES])
{
	struct extract_filter_link *links = realloc(filter->links, (filter->n_links + 1) * sizeof(*links));

	if (!links)
		return NULL;
	filter->links = links;
	links += filter->n_links++;
	links->type = type;
	links->program = packet_filter_new_of_link(filter->text, type, error);
	return links;
}

bool extract_filter_init(struct extract_filter *filter, const char *text, char error[PACKET_FILTER_ERROR_BYTES])
{
	const struct extract_filter_link *ethernet;

	*filter = (struct extract_filter){.text = text};
	snprintf(error, PACKET_FILTER_ERROR_BYTES, "out of memory");
	if (!text)
		return true;
	ethernet = add_link(filter, PCAPNG_LINK_ETHERNET, error);
	return ethernet && ethernet->program;
}

void extract_filter_deinit(struct extract_filter *filter)
{
	for (uint32_t i = 0; i < filter->n_links; i++)
		packet_filter_free(filter->links[i].program);
	free(filter->links);
	*filter = (struct extract_filter){0};
}

int extract_filter_takes(struct extract_filter *filter, uint16_t link_type, const struct pcapng_packet *packet)
{
	char error[PACKET_FILTER_ERROR_BYTES];
	const struct extract_filter_link *link = NULL;

	if (!filter->text)
		return 1;
	for (uint32_t i = 0; i < filter->n_links && !link; i++)
		link = filter->links[i].type == link_type ? &filter->links[i] : NULL;
	if (!link)
		link = add_link(filter, link_type, error);
	if (!link)
		return -ENOMEM;
	if (!link->program) {
		filter->n_unjudged++;
		return 0;
	}
	return packet_filter_takes(link->program, packet->frame[0], packet->frame_bytes[0], packet->wire_bytes);
}
