// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a pcap file, and gives it as the blocks of a pcapng file: a section, an interface, packets. libpcap reads the
 * file; of a pcapng file it refuses interfaces of several link types, and tells neither comments nor losses.
 */
#ifndef LIB_RECORDING_PCAP_FILE_H
#define LIB_RECORDING_PCAP_FILE_H

#include "lib/recording/pcapng_read.h"

#define PCAP_FILE_HEAD_BYTES 24

struct pcap_file;

/** Do these bytes begin a pcap file? */
bool pcap_file_is_one(const uint8_t *head, size_t bytes);

/**
 * Begin to read a source, which begins with the head. The head is changed. 0; -ENOMEM; -EBADMSG: error says why.
 */
int pcap_file_new(uint8_t head[PCAP_FILE_HEAD_BYTES], pcapng_source *read, void *context, struct pcap_file **pcap,
                  char error[PCAPNG_ERROR_BYTES]);

/** The next block: as pcapng_read(). Blocks have no place in the file. */
int pcap_file_read(struct pcap_file *pcap, struct pcapng_block *block, char error[PCAPNG_ERROR_BYTES]);

/** libpcap's own number of a link type, and its words for it. */
int pcap_file_dlt(uint16_t link_type);
const char *pcap_file_link_text(uint16_t link_type);

/** NULL is fine. */
void pcap_file_free(struct pcap_file *pcap);

#endif
