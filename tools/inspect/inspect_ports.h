// SPDX-License-Identifier: Apache-2.0
/* Counts the packets of a capture file for each UDP port. Any program may have written the file. */
#ifndef TOOLS_INSPECT_INSPECT_PORTS_H
#define TOOLS_INSPECT_INSPECT_PORTS_H

#include "lib/recording/pcapng.h"

#include <jansson.h>
#include <stdint.h>

/* Zero-initialise it. */
struct inspect_ports {
	uint64_t *packets;    /* by port; NULL: no UDP has come */
	uint64_t n_others;    /* packets that are no UDP, malformed, cut within their headers, or of an unknown link */
	uint64_t n_fragments; /* of UDP, without a port: later IP fragments */
};

/** Count a packet of an interface of that link type. 0; -ENOMEM. */
int inspect_ports_add(struct inspect_ports *ports, uint16_t link_type, const struct pcapng_packet *packet);
void inspect_ports_free(struct inspect_ports *ports);

/** Print a line: the ports that most packets go to. */
void inspect_ports_print(const struct inspect_ports *ports);

/** All ports, that of the most packets first. The caller frees it. */
json_t *inspect_ports_to_json(const struct inspect_ports *ports);

#endif
