// SPDX-License-Identifier: Apache-2.0
/*
 * The UDP that arrives on this machine if none of it matches a stream, and how it differs from the stream's flows.
 * Declares why_look_print.c.
 */
#ifndef TOOLS_STATUS_WHY_LOOK_H
#define TOOLS_STATUS_WHY_LOOK_H

#include "tools/arrivals/arrivals.h"
#include "tools/status/why.h"

enum why_differs {
	WHY_INTERFACE = 1,
	WHY_VLAN = 2,
	WHY_DESTINATION = 4,
	WHY_PORT = 8,
	WHY_SOURCE = 16,
	WHY_SOURCE_PORT = 32,
};

/* A destination of packets that arrive, and the flow that is nearest to it. */
struct why_arrival {
	const struct arrival *arrival;
	const struct ibvcap_status_flow *flow; /* NULL: compared with none */
	unsigned differs;                      /* enum why_differs */
	unsigned port_distance;
};

struct why_look {
	const char *interface;                     /* the wanted one */
	unsigned interface_index;                  /* 0: it is not in this network namespace */
	const struct ibvcap_status_stream *stream; /* NULL: a look without one */
	int error;                                 /* of arrivals_look() */
	char advice[WHY_TEXT_BYTES];               /* how to look, or what to do if nothing arrives; may be empty */
	struct arrivals arrivals;
	struct why_arrival nearest[ARRIVALS_MAX]; /* the nearest one first */
	unsigned n_nearest;
};

/**
 * Look for a second, and compare what arrives with the flows of the stream; NULL: look at this interface, and compare
 * with nothing. view may be NULL without a stream. The caller frees the look; NULL: no memory.
 */
struct why_look *why_look_new(const struct status_view *view, const struct ibvcap_status_stream *stream,
                              const char *interface);

/** The part of why_look_new() after the look. Pure. */
void why_look_compare(const struct status_view *view, struct why_look *look);

/** Write a sentence on how it differs from the flow; empty: it does not. */
void why_look_write_difference(const struct why_look *look, const struct why_arrival *at, char text[WHY_TEXT_BYTES]);

/** The keys of a stream in ibvcapd.conf that take what arrives. */
void why_look_write_keys(const struct why_look *look, const struct why_arrival *at, char text[WHY_TEXT_BYTES]);

void why_look_print(const struct why_look *look);
json_t *why_look_to_json(const struct why_look *look);

#endif
