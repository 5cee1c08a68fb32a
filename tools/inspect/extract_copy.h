// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap extract` knows while it copies, and how it writes blocks. */
#ifndef TOOLS_INSPECT_EXTRACT_COPY_H
#define TOOLS_INSPECT_EXTRACT_COPY_H

#include "lib/recording/account_json.h"
#include "lib/recording/joiner.h"
#include "lib/recording/pcapng.h"
#include "lib/recording/recording.h"
#include "lib/recording/recording_words.h"
#include "tools/inspect/extract.h"
#include "tools/inspect/extract_filter.h"

#include <stdio.h>

#define BLOCK_BYTES_MAX (PCAPNG_BLOCK_MAX + 4096) /* of a packet that gets the comments of others */
#define PENDING_BYTES   1024

/* What happened before the next packet of an interface, told by packets that were left out. */
struct pending {
	uint64_t drops;
	bool has_losses;
	struct recording_losses losses;
	char text[PENDING_BYTES];
};

struct extract {
	struct extract_options options;
	struct extract_filter filter;
	FILE *out; /* NULL: no block has come yet */
	bool is_out_refused;
	int out_error;      /* errno of the first write that failed; 0: none has */
	uint8_t *block;     /* BLOCK_BYTES_MAX bytes */
	unsigned n_indexes; /* files that are the index of a recording, and are passed over */
	uint64_t n_found;
	uint64_t n_read;
	uint64_t n_untimed; /* of these: they get the time of the packet before, as other packets must have one */
	uint64_t passed[PCAPNG_PASSED_N];
	uint64_t n_incomplete; /* datagrams of which the recordings lack fragments */

	/* Of one recording. */
	struct recording recording;
	struct joiner joiner;
	struct pending *pending; /* of each interface of the section */
	uint16_t *links;
	uint32_t n_interfaces;
	uint64_t last_ns; /* time of the packet before */
	bool is_ours;     /* ibvcap wrote it: comments of packets say what was lost */
	bool section_due; /* the recording has begun another section, which is copied if it has packets */
	uint64_t from_ns;
	uint64_t to_ns;
	bool has_begun;  /* the times are known, and a jump was made if one can be */
	uint64_t n_left; /* packets until the pieces end that the index names */
};

/** Write the section. 0; -EIO. */
int extract_copy_section(struct extract *extract, const struct pcapng_section *section);

/** Write the interface, behind the section that is due. 0; -EIO, -ENOMEM. */
int extract_copy_interface(struct extract *extract, const struct pcapng_interface *interface);

/** Write the packet, with what the packets before it that were left out say of losses. 0; -EIO. */
int extract_copy_packet(struct extract *extract, struct pcapng_packet *packet);

/** Do not write the packet: the next one of its interface says what it says of losses. */
void extract_leave_out_packet(struct extract *extract, const struct pcapng_packet *packet);

/** Write the last section, whose comment says what the file is. */
void extract_put_summary(struct extract *extract);

/** Keep errno as out_error, if no write failed before. */
void extract_keep_error(struct extract *extract);

#endif
