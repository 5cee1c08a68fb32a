// SPDX-License-Identifier: Apache-2.0
/* Writes the blocks of an extract. A packet tells the losses that packets before it, which were left out, told. */
#include "tools/inspect/extract_copy.h"

#include "lib/recording/verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void extract_keep_error(struct extract *extract)
{
	if (!extract->out_error)
		extract->out_error = errno ? errno : EIO;
}

static int put_block(struct extract *extract, size_t bytes)
{
	errno = 0;
	if (fwrite(extract->block, 1, bytes, extract->out) == bytes)
		return 0;
	extract_keep_error(extract);
	return -EIO;
}

int extract_copy_section(struct extract *extract, const struct pcapng_section *section)
{
	extract->section_due = false;
	return put_block(extract, pcapng_write_section(extract->block, BLOCK_BYTES_MAX, section));
}

int extract_copy_interface(struct extract *extract, const struct pcapng_interface *interface)
{
	uint32_t n = extract->n_interfaces + 1;
	struct pending *pending = realloc(extract->pending, n * sizeof(*pending));
	uint16_t *links;
	int r = extract->section_due ? extract_copy_section(extract, &(struct pcapng_section){0}) : 0;

	if (!pending)
		return -ENOMEM;
	extract->pending = pending;
	if (r < 0)
		return r;
	links = realloc(extract->links, n * sizeof(*links));
	if (!links)
		return -ENOMEM;
	extract->links = links;
	memset(&pending[n - 1], 0, sizeof(*pending));
	links[n - 1] = interface->link_type;
	extract->n_interfaces = n;
	return put_block(extract, pcapng_write_interface(extract->block, BLOCK_BYTES_MAX, interface));
}

/* The last section has no packets: its comment says what the file is. Wireshark's capinfos shows it. */
void extract_put_summary(struct extract *extract)
{
	char text[PENDING_BYTES], judged[80];
	struct pcapng_section section = {0};
	struct verdict verdict = {0};

	verdict_find(&verdict, FINDING_DOUBT, "nothing proves what was left out");
	verdict_print(judged, sizeof(judged), &verdict);
	snprintf(text, sizeof(text),
	         RECORDING_EXTRACTED ": %" PRIu64
	                             " packets, from %s to %s%s%s; the losses before each packet are those of the "
	                             "recording; %s",
	         extract->n_found, extract->options.from ? extract->options.from : "the beginning",
	         extract->options.to ? extract->options.to : "the end", extract->options.filter ? ", filter " : "",
	         extract->options.filter ? extract->options.filter : "", judged);
	section.comment = pcapng_text_of(text);
	put_block(extract, pcapng_write_section(extract->block, BLOCK_BYTES_MAX, &section));
}

void extract_leave_out_packet(struct extract *extract, const struct pcapng_packet *packet)
{
	struct pending *pending = &extract->pending[packet->interface];
	size_t used = strlen(pending->text), n;
	struct recording_losses losses;

	if (packet->options & PCAPNG_PACKET_HAS_DROPS)
		pending->drops += packet->drop_count;
	if (!extract->is_ours)
		return;
	if (recording_losses_find(packet->comment.at, packet->comment.bytes, &losses, &n)) {
		recording_losses_add(&pending->losses, &losses);
		pending->has_losses = true;
	}
	if (n && used < sizeof(pending->text) - 1)
		snprintf(pending->text + used, sizeof(pending->text) - used, "%s%.*s", used ? "; " : "",
		         (int)(n < PENDING_BYTES ? n : PENDING_BYTES), packet->comment.at);
}

int extract_copy_packet(struct extract *extract, struct pcapng_packet *packet)
{
	struct pending *pending = &extract->pending[packet->interface];
	char text[PENDING_BYTES + RECORDING_LOSSES_TEXT_SIZE];
	size_t bytes;

	if (pending->drops || pending->text[0]) {
		extract_leave_out_packet(extract, packet); /* adds what this packet says itself */
		packet->options |= PCAPNG_PACKET_HAS_DROPS;
		packet->drop_count = pending->drops;
	}
	if (pending->text[0]) {
		strcpy(text, pending->text);
		if (pending->has_losses)
			recording_losses_append(text, sizeof(text), &pending->losses);
		packet->comment = pcapng_text_of(text);
	}
	*pending = (struct pending){0};
	bytes = pcapng_write_packet(extract->block, BLOCK_BYTES_MAX, packet);
	packet->comment = pcapng_text_of(NULL); /* it may be in text, which ends here */
	if (bytes > BLOCK_BYTES_MAX)
		return -EMSGSIZE;
	extract->n_found++;
	return put_block(extract, bytes);
}
