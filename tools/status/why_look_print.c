// SPDX-License-Identifier: Apache-2.0
/* Says what arrives, what differs from the configuration, and what to write there. */
#include "tools/status/why_look.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#define PRINTED_MAX_ARRIVALS 8

/* "10.0.0.1:7502", "[ff05::1]:7502". */
static void append_address(char text[WHY_TEXT_BYTES], const struct arrival_address *address)
{
	char ip[INET6_ADDRSTRLEN];

	inet_ntop(address->family, &address->ip, ip, sizeof(ip));
	why_append(text, address->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, address->port);
}

static const char *interface_name(unsigned index, char name[IF_NAMESIZE])
{
	return if_indextoname(index, name) ? name : "an interface that is gone";
}

static void append_difference(char text[WHY_TEXT_BYTES], const char *what, const char *found, const char *wanted)
{
	why_append(text, "%s%s %s and not %s", *text ? ", " : "", what, found, wanted);
}

static void append_numbers(char text[WHY_TEXT_BYTES], const char *what, int found, int wanted)
{
	char numbers[2][16];

	snprintf(numbers[0], sizeof(numbers[0]), "%d", found);
	snprintf(numbers[1], sizeof(numbers[1]), "%d", wanted);
	append_difference(text, what, found < 0 ? "none" : numbers[0], wanted < 0 ? "none" : numbers[1]);
}

static bool is_longer_than_row(const struct why_look *look, const struct arrival *arrival)
{
	return look->stream && arrival->bytes_max > look->stream->slot_bytes;
}

void why_look_write_difference(const struct why_look *look, const struct why_arrival *at, char text[WHY_TEXT_BYTES])
{
	const struct arrival *arrival = at->arrival;
	char name[IF_NAMESIZE], ip[INET6_ADDRSTRLEN];

	*text = '\0';
	if (at->differs & WHY_INTERFACE)
		append_difference(text, "arrives on", interface_name(arrival->interface, name), look->interface);
	if (at->differs & WHY_VLAN)
		append_numbers(text, "VLAN", arrival->vlan, at->flow->vlan);
	if (at->differs & WHY_DESTINATION) {
		inet_ntop(arrival->destination.family, &arrival->destination.ip, ip, sizeof(ip));
		append_difference(text,
		                  arrival->is_broadcast   ? "broadcast"
		                  : arrival->is_multicast ? "group"
		                                          : "destination",
		                  ip, at->flow->destination);
	}
	if (at->differs & WHY_PORT)
		append_numbers(text, "port", arrival->destination.port, at->flow->destination_port);
	if (at->differs & WHY_SOURCE) {
		inet_ntop(arrival->sources[0].family, &arrival->sources[0].ip, ip, sizeof(ip));
		append_difference(text, "source", ip, at->flow->source);
	}
	if (at->differs & WHY_SOURCE_PORT)
		append_numbers(text, "source port", arrival->sources[0].port, at->flow->source_port);
	if (is_longer_than_row(look, arrival))
		why_append(text, "%s%s%" PRIu32 " bytes, and payload_size is %" PRIu32, *text ? ", " : "",
		           arrival->is_fragmented ? "fragments of datagrams of " : "", arrival->bytes_max,
		           look->stream->slot_bytes);
}

void why_look_write_keys(const struct why_look *look, const struct why_arrival *at, char text[WHY_TEXT_BYTES])
{
	const struct arrival *arrival = at->arrival;
	char name[IF_NAMESIZE], ip[INET6_ADDRSTRLEN];

	*text = '\0';
	if (!look->stream || at->differs & WHY_INTERFACE)
		why_append(text, "interface = \"%s\"; ", interface_name(arrival->interface, name));
	if (!look->stream || is_longer_than_row(look, arrival))
		why_append(text, "payload_size = %" PRIu32 "; ", arrival->bytes_max ? arrival->bytes_max : 1);
	inet_ntop(arrival->destination.family, &arrival->destination.ip, ip, sizeof(ip));
	why_append(text, "flows = ({ destination = \"%s\"; port = %u;", ip, arrival->destination.port);
	if (arrival->vlan > 0)
		why_append(text, " vlan = %" PRId32 ";", arrival->vlan);
	why_append(text, " });");
}

/* "10.0.0.1:7502 on eth0, VLAN 5: 1280 datagrams of 48 to 8448 bytes, in fragments, from 10.0.0.7:7502". */
static void write_arrival(const struct arrival *arrival, char text[WHY_TEXT_BYTES])
{
	char name[IF_NAMESIZE];

	*text = '\0';
	append_address(text, &arrival->destination);
	why_append(text, " on %s", interface_name(arrival->interface, name));
	if (arrival->vlan > 0)
		why_append(text, ", VLAN %" PRId32, arrival->vlan);
	why_append(text, "%s: %" PRIu64 " datagram%s of ", arrival->is_broadcast ? ", broadcast" : "",
	           arrival->n_datagrams, arrival->n_datagrams == 1 ? "" : "s");
	if (arrival->bytes_min < arrival->bytes_max)
		why_append(text, "%" PRIu32 " to ", arrival->bytes_min);
	why_append(text, "%" PRIu32 " bytes%s, from ", arrival->bytes_max,
	           arrival->is_fragmented ? " in fragments" : "");
	for (unsigned i = 0; i < arrival->n_sources; i++) {
		why_append(text, i ? ", " : "");
		append_address(text, &arrival->sources[i]);
	}
	why_append(text, arrival->has_more_sources ? " and others" : "");
}

static void print_arrival(const struct why_look *look, const struct why_arrival *at)
{
	char text[WHY_TEXT_BYTES];

	write_arrival(at->arrival, text);
	printf("  %s\n", text);
	why_look_write_difference(look, at, text);
	if (at->flow && *text)
		printf("        %s\n", text);
	else if (at->flow)
		printf("        as flow %s: it began just now, or the flow compares more\n", at->flow->text);
	why_look_write_keys(look, at, text);
	if (!at->flow || at->differs || is_longer_than_row(look, at->arrival))
		printf("        -> %s\n", text);
}

void why_look_print(const struct why_look *look)
{
	const struct arrivals *arrivals = &look->arrivals;

	if (look->error == 0)
		printf("UDP that arrived on all interfaces in %.1f s: %" PRIu64 " datagrams%s%s\n",
		       (double)arrivals->ns / 1e9, arrivals->n_datagrams,
		       arrivals->n_datagrams && !look->n_nearest ? ", none of them on " : "",
		       arrivals->n_datagrams && !look->n_nearest ? look->interface
		       : look->stream && look->n_nearest         ? "; nearest to the flows first"
		                                                 : "");
	for (unsigned i = 0; i < look->n_nearest && i < PRINTED_MAX_ARRIVALS; i++)
		print_arrival(look, &look->nearest[i]);
	if (look->n_nearest > PRINTED_MAX_ARRIVALS)
		printf("  and %u destinations more: --json has all\n", look->n_nearest - PRINTED_MAX_ARRIVALS);
	if (arrivals->n_unread + arrivals->n_forgotten)
		printf("  not shown: %" PRIu64 " datagrams that came faster than the look reads, %" PRIu64
		       " to rare destinations\n",
		       arrivals->n_unread, arrivals->n_forgotten);
	if (*look->advice)
		printf("  -> %s\n", look->advice);
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static json_t *arrival_to_json(const struct why_look *look, const struct why_arrival *at)
{
	const struct arrival *arrival = at->arrival;
	char name[IF_NAMESIZE], ip[INET6_ADDRSTRLEN], difference[WHY_TEXT_BYTES], keys[WHY_TEXT_BYTES];
	json_t *sources = json_array(), *object;

	for (unsigned i = 0; i < arrival->n_sources; i++) {
		inet_ntop(arrival->sources[i].family, &arrival->sources[i].ip, ip, sizeof(ip));
		json_array_append_new(sources,
		                      json_pack("{s:s, s:i}", "address", ip, "port", arrival->sources[i].port));
	}
	inet_ntop(arrival->destination.family, &arrival->destination.ip, ip, sizeof(ip));
	why_look_write_difference(look, at, difference);
	why_look_write_keys(look, at, keys);
	object = json_pack("{s:s, s:s, s:i, s:i, s:b, s:b, s:b, s:I, s:I, s:I, s:o, s:b, s:s, s:s}", "interface",
	                   interface_name(arrival->interface, name), "destination", ip, "port",
	                   arrival->destination.port, "vlan", arrival->vlan, "broadcast", arrival->is_broadcast,
	                   "multicast", arrival->is_multicast, "fragments", arrival->is_fragmented, "datagrams",
	                   (json_int_t)arrival->n_datagrams, "bytes_min", (json_int_t)arrival->bytes_min, "bytes_max",
	                   (json_int_t)arrival->bytes_max, "sources", sources, "more_sources",
	                   arrival->has_more_sources, "differs", difference, "configuration", keys);
	if (at->flow)
		json_object_set_new(object, "flow", json_string(at->flow->text));
	return object;
}

json_t *why_look_to_json(const struct why_look *look)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < look->n_nearest; i++)
		json_array_append_new(all, arrival_to_json(look, &look->nearest[i]));
	return json_pack("{s:b, s:f, s:I, s:I, s:I, s:s?, s:o}", "looked", look->error == 0, "seconds",
	                 (double)look->arrivals.ns / 1e9, "datagrams", (json_int_t)look->arrivals.n_datagrams, "unread",
	                 (json_int_t)look->arrivals.n_unread, "forgotten", (json_int_t)look->arrivals.n_forgotten,
	                 "advice", *look->advice ? look->advice : NULL, "arrivals", all);
}
