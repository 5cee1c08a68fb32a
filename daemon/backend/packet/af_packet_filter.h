// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the packet backend that make classic BPF filters. Declares af_packet_filter_read.c. */
#ifndef DAEMON_BACKEND_PACKET_AF_PACKET_FILTER_H
#define DAEMON_BACKEND_PACKET_AF_PACKET_FILTER_H

#include "daemon/backend/packet/af_packet.h"

/* Parts of a frame's headers, each as large as a filter can compare at once. */
enum filter_field {
	FIELD_MAC,
	FIELD_MAC_TAIL,
	FIELD_SOURCE_MAC,
	FIELD_SOURCE_MAC_TAIL,
	FIELD_ETHER_TYPE,
	FIELD_VLAN,
	FIELD_VERSION,
	FIELD_PROTOCOL,
	FIELD_TRAFFIC_CLASS,
	FIELD_FRAGMENT,
	FIELD_TARGET,
	FIELD_SOURCE = FIELD_TARGET + 4,
	FIELD_SOURCE_PORT = FIELD_SOURCE + 4,
	FIELD_TARGET_PORT,
	N_FIELDS,
};

/* How the filter treats a field. */
enum filter_use {
	USE_NONE,   /* no condition asks for it */
	USE_COMMON, /* all ask for the same: it is compared when it is read */
	USE_WORD,   /* it goes to a scratch word */
};

struct filter_writer {
	struct sock_filter *code;
	uint32_t n;
	uint32_t rule_at; /* the first instruction of the rule being written */
	bool has_ethernet;
	uint32_t data_at; /* bytes of the frame before the packet's data, where loads begin */
	bool too_long;
	enum filter_use use[N_FIELDS];
	uint8_t word[N_FIELDS];   /* with USE_WORD */
	uint32_t value[N_FIELDS]; /* with USE_COMMON; likewise mask */
	uint32_t mask[N_FIELDS];
	bool is_whole[N_FIELDS]; /* the mask has all bits */
	uint8_t next_word;       /* a scratch word for the next header of IPv6 */
	bool takes_version[2];   /* IPv4, IPv6: some condition can hold for it */
	bool takes_others;       /* some condition holds for frames without IP */
};

static inline void filter_put(struct filter_writer *writer, uint16_t code, uint8_t jump_true, uint8_t jump_false,
                              uint32_t k)
{
	if (writer->n == AF_PACKET_FILTER_MAX) {
		writer->too_long = true;
		return;
	}
	writer->code[writer->n++] = (struct sock_filter){code, jump_true, jump_false, k};
}

/* Take no frame that comes here. */
static inline void filter_refuse(struct filter_writer *writer)
{
	filter_put(writer, BPF_RET | BPF_K, 0, 0, 0);
}

/** Write instructions that read a frame: they compare fields that are USE_COMMON, and store those that are USE_WORD. */
void filter_read_frame(struct filter_writer *writer);

#endif
