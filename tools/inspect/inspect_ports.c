// SPDX-License-Identifier: Apache-2.0
/* Counts the packets of a capture by their UDP destination port. */
#include "tools/inspect/inspect_ports.h"

#include "lib/recording/datagram.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define N_PORTS     65536u
#define PRINTED_MAX 8u

int inspect_ports_add(struct inspect_ports *ports, uint16_t link_type, const struct pcapng_packet *packet)
{
	enum datagram_link link = datagram_link_of(link_type);
	struct datagram datagram = {0};

	switch (datagram_find(link, packet->frame[0], packet->frame_bytes[0], packet->wire_bytes, &datagram)) {
	case DATAGRAM_WHOLE:
	case DATAGRAM_CUT:
	case DATAGRAM_FRAGMENT:
		break;
	default:
		ports->n_others++;
		return 0;
	}
	if (!datagram.payload || link == DATAGRAM_LINK_PAYLOAD) {
		ports->n_fragments += link != DATAGRAM_LINK_PAYLOAD;
		ports->n_others += link == DATAGRAM_LINK_PAYLOAD;
		return 0;
	}
	if (!ports->packets)
		ports->packets = calloc(N_PORTS, sizeof(ports->packets[0]));
	if (!ports->packets)
		return -ENOMEM;
	ports->packets[datagram.destination_port]++;
	return 0;
}

void inspect_ports_free(struct inspect_ports *ports)
{
	free(ports->packets);
	*ports = (struct inspect_ports){0};
}

/* The port with the most packets behind that one, in this order; N_PORTS: there is none. before: N_PORTS at first. */
static unsigned next_port(const struct inspect_ports *ports, unsigned before)
{
	uint64_t most = before == N_PORTS ? UINT64_MAX : ports->packets[before];
	unsigned next = N_PORTS;

	for (unsigned port = 0; port < N_PORTS; port++) {
		uint64_t n = ports->packets[port];
		bool is_behind = n < most || (n == most && port > before);

		if (n && is_behind && (next == N_PORTS || n > ports->packets[next]))
			next = port;
	}
	return next;
}

static unsigned count_ports(const struct inspect_ports *ports)
{
	unsigned n = 0;

	for (unsigned port = 0; port < N_PORTS; port++)
		n += ports->packets[port] != 0;
	return n;
}

void inspect_ports_print(const struct inspect_ports *ports)
{
	unsigned n = ports->packets ? count_ports(ports) : 0, port = N_PORTS;

	for (unsigned i = 0; i < n && i < PRINTED_MAX; i++) {
		port = next_port(ports, port);
		printf("%s%u (%" PRIu64 " packets)", i ? ", " : "  to UDP port ", port, ports->packets[port]);
	}
	if (n > PRINTED_MAX)
		printf(" and %u ports more: --json has all", n - PRINTED_MAX);
	if (n)
		putchar('\n');
	if (ports->n_fragments)
		printf("  IP fragments without a port: %" PRIu64 "\n", ports->n_fragments);
	if (ports->n_others)
		printf("  no UDP, or its headers are not there: %" PRIu64 " packets\n", ports->n_others);
}

static int compare_counts(const void *one_of, const void *other_of)
{
	const uint64_t *one = one_of, *other = other_of;

	if (one[1] != other[1])
		return one[1] > other[1] ? -1 : 1;
	return one[0] < other[0] ? -1 : 1;
}

json_t *inspect_ports_to_json(const struct inspect_ports *ports)
{
	unsigned n = ports->packets ? count_ports(ports) : 0, used = 0;
	uint64_t(*sorted)[2] = n ? malloc(n * sizeof(*sorted)) : NULL;
	json_t *all = json_array();

	for (unsigned port = 0; sorted && port < N_PORTS; port++)
		if (ports->packets[port]) {
			sorted[used][0] = port;
			sorted[used++][1] = ports->packets[port];
		}
	if (sorted)
		qsort(sorted, used, sizeof(*sorted), compare_counts);
	for (unsigned i = 0; i < used; i++)
		json_array_append_new(all, json_pack("{s:I, s:I}", "port", (json_int_t)sorted[i][0], "packets",
		                                     (json_int_t)sorted[i][1]));
	free(sorted);
	return all;
}
