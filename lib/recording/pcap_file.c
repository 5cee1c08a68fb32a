// SPDX-License-Identifier: Apache-2.0
/* Makes blocks of the packets that libpcap reads from a pcap file, whose bytes may come from a decompressor. */
#include "lib/recording/pcap_file.h"

#include "lib/base/time.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>

#define BUFFER_BYTES  (64u << 10)
#define SNAP_BYTES_AT 16
#define LINK_AT       20
#define LINK_RAW      101 /* IP without a link header */

struct pcap_file {
	pcap_t *pcap;
	FILE *file; /* libpcap's, once it has taken it */
	pcapng_source *read;
	void *context;
	struct pcapng_interface interface;
	unsigned n_blocks; /* before the packets: read so far */
};

/* Is it one, and are its numbers in the other byte order? */
static bool find_order(const uint8_t *head, bool *is_swapped)
{
	/* Times in us, in ns, and with longer headers of packets, as old patches to Linux wrote them. */
	static const uint32_t magics[] = {0xa1b2c3d4, 0xa1b23c4d, 0xa1b2cd34};
	uint32_t magic;

	memcpy(&magic, head, sizeof(magic));
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		*is_swapped = magic != magics[i];
		if (magic == magics[i] || __builtin_bswap32(magic) == magics[i])
			return true;
	}
	return false;
}

bool pcap_file_is_one(const uint8_t *head, size_t bytes)
{
	bool is_swapped;

	return bytes >= 4 && find_order(head, &is_swapped);
}

static void read_interface(struct pcap_file *pcap, const uint8_t *head)
{
	uint32_t link, snap_bytes;
	bool is_swapped;

	find_order(head, &is_swapped);
	memcpy(&snap_bytes, head + SNAP_BYTES_AT, sizeof(snap_bytes));
	memcpy(&link, head + LINK_AT, sizeof(link));
	pcap->interface.snap_bytes = is_swapped ? __builtin_bswap32(snap_bytes) : snap_bytes;
	/* The upper bits say whether frames have an FCS. */
	pcap->interface.link_type = (uint16_t)(is_swapped ? __builtin_bswap32(link) : link);
}

static ssize_t read_for_libpcap(void *cookie, char *to, size_t n)
{
	struct pcap_file *pcap = cookie;
	ssize_t r = pcap->read(pcap->context, to, n);

	if (r < 0)
		errno = (int)-r;
	return r < 0 ? -1 : r;
}

int pcap_file_new(uint8_t head[PCAP_FILE_HEAD_BYTES], pcapng_source *read, void *context, struct pcap_file **made,
                  char error[PCAPNG_ERROR_BYTES])
{
	struct pcap_file *pcap = calloc(1, sizeof(*pcap));
	char text[PCAP_ERRBUF_SIZE];

	*made = NULL;
	if (!pcap)
		return -ENOMEM;
	pcap->read = read;
	pcap->context = context;
	read_interface(pcap, head);
	/* With a limit, libpcap would cut packets that are longer than it, and writers do not keep to theirs. */
	memset(head + SNAP_BYTES_AT, 0, sizeof(uint32_t));
	pcap->file = fopencookie(pcap, "r", (cookie_io_functions_t){.read = read_for_libpcap});
	if (!pcap->file) {
		free(pcap);
		return -ENOMEM;
	}
	setvbuf(pcap->file, NULL, _IOFBF, BUFFER_BYTES);
	pcap->pcap = pcap_fopen_offline_with_tstamp_precision(pcap->file, PCAP_TSTAMP_PRECISION_NANO, text);
	if (pcap->pcap) {
		*made = pcap;
		return 0;
	}
	pcap_file_free(pcap);
	snprintf(error, PCAPNG_ERROR_BYTES, "%.*s", PCAPNG_ERROR_BYTES - 1, text);
	return -EBADMSG;
}

void pcap_file_free(struct pcap_file *pcap)
{
	if (!pcap)
		return;
	if (pcap->pcap)
		pcap_close(pcap->pcap);
	else if (pcap->file)
		fclose(pcap->file);
	free(pcap);
}

/* Other numbers are the same, or of links that nobody has. */
int pcap_file_dlt(uint16_t link_type)
{
	return link_type == LINK_RAW ? DLT_RAW : link_type;
}

const char *pcap_file_link_text(uint16_t link_type)
{
	return pcap_datalink_val_to_description_or_dlt(pcap_file_dlt(link_type));
}

/* With PCAP_TSTAMP_PRECISION_NANO libpcap stores nanoseconds in tv_usec. */
static bool find_time(const struct timeval *time, uint64_t *ns)
{
	if (time->tv_sec < 0 || time->tv_usec < 0 || (uint64_t)time->tv_usec >= TIME_SECOND_NS)
		return false;
	*ns = (uint64_t)time->tv_sec * TIME_SECOND_NS + (uint64_t)time->tv_usec;
	return true;
}

int pcap_file_read(struct pcap_file *pcap, struct pcapng_block *block, char error[PCAPNG_ERROR_BYTES])
{
	struct pcap_pkthdr *header;
	const u_char *frame;
	int r;

	*block = (struct pcapng_block){.type = pcap->n_blocks ? PCAPNG_BLOCK_INTERFACE : PCAPNG_BLOCK_SECTION};
	if (pcap->n_blocks)
		block->interface = pcap->interface;
	if (pcap->n_blocks < 2) {
		pcap->n_blocks++;
		return 1;
	}
	r = pcap_next_ex(pcap->pcap, &header, &frame);
	if (r == PCAP_ERROR_BREAK)
		return 0;
	if (r != 1) {
		snprintf(error, PCAPNG_ERROR_BYTES, "%.*s", PCAPNG_ERROR_BYTES - 1, pcap_geterr(pcap->pcap));
		return feof(pcap->file) ? -ENODATA : -EBADMSG;
	}
	block->type = PCAPNG_BLOCK_PACKET;
	block->packet =
		(struct pcapng_packet){.frame = {frame}, .frame_bytes = {header->caplen}, .wire_bytes = header->len};
	if (!find_time(&header->ts, &block->packet.time_ns))
		block->packet.options |= PCAPNG_PACKET_NO_TIME;
	return 1;
}
