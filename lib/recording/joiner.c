// SPDX-License-Identifier: Apache-2.0
/* Gives the fragments of a capture to the table of datagrams, and makes a frame of each datagram that becomes whole. */
#include "lib/recording/joiner.h"

#include "lib/fragments/datagrams.h"
#include "lib/frame/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DATAGRAM_BYTES_MAX 65535
#define FRAME_BYTES_MAX    (256 + DATAGRAM_BYTES_MAX) /* the table takes no longer headers */

static bool wants_any_port(const void *context, uint16_t port_be)
{
	(void)context;
	(void)port_be;
	return true;
}

static int begin_joining(struct joiner *joiner)
{
	joiner->frame = malloc(FRAME_BYTES_MAX);
	if (!joiner->frame)
		return -ENOMEM;
	return datagrams_new(DATAGRAM_BYTES_MAX, wants_any_port, NULL, &joiner->datagrams);
}

/* One that is not whole in the capture is left to datagram_find(), for which it is a fragment, too. */
static bool find_fragment(enum datagram_link link, const struct joiner_frame *frame, struct frame *headers)
{
	if (link == DATAGRAM_LINK_PAYLOAD || link == DATAGRAM_LINK_FRAGMENT || link == DATAGRAM_LINK_UNKNOWN ||
	    (link == DATAGRAM_LINK_ETHERNET && frame_find_plain(frame->at, frame->captured, headers)))
		return false;
	datagram_walk(link, frame->at, frame->captured, frame->wire_bytes, headers);
	return frame_is_fragment(headers) && (headers->end == FRAME_UDP || headers->end == FRAME_LATER_FRAGMENT) &&
	       (headers->ip_end <= frame->captured || frame->captured >= frame->wire_bytes);
}

int joiner_take(struct joiner *joiner, enum datagram_link link, struct joiner_frame *frame, uint64_t time_ns)
{
	struct datagram_frame whole;
	struct frame headers;

	if (!find_fragment(link, frame, &headers))
		return JOINER_NO_FRAGMENT;
	if (!joiner->datagrams && begin_joining(joiner) < 0)
		return -ENOMEM;
	joiner->counts.fragments++;
	joiner->latest_ns = time_ns > joiner->latest_ns ? time_ns : joiner->latest_ns;
	datagrams_expire(joiner->datagrams, joiner->latest_ns);
	if (!datagrams_add(joiner->datagrams, frame->at, frame->captured, &headers, 0, joiner->latest_ns, &whole))
		return JOINER_FRAGMENT;
	memcpy(joiner->frame, whole.headers, whole.header_bytes);
	memcpy(joiner->frame + whole.header_bytes, whole.bytes, whole.n_kept);
	*frame = (struct joiner_frame){.at = joiner->frame,
	                               .captured = whole.header_bytes + whole.n_kept,
	                               .wire_bytes = whole.header_bytes + whole.n_bytes};
	return JOINER_WHOLE;
}

void joiner_end(struct joiner *joiner)
{
	if (joiner->datagrams)
		datagrams_give_up(joiner->datagrams);
}

struct joiner_counts joiner_counts(const struct joiner *joiner)
{
	struct joiner_counts counts = joiner->counts;
	const struct datagram_counts *table;

	if (!joiner->datagrams)
		return counts;
	table = datagrams_counts(joiner->datagrams);
	counts.joined = table->whole;
	counts.incomplete = table->incomplete;
	counts.refused = table->refused;
	return counts;
}

void joiner_deinit(struct joiner *joiner)
{
	joiner->counts = joiner_counts(joiner);
	datagrams_free(joiner->datagrams);
	joiner->datagrams = NULL;
	free(joiner->frame);
	joiner->frame = NULL;
}
