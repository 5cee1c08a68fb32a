// SPDX-License-Identifier: Apache-2.0
/* Writes the frames of a trace as pcapng: an interface for each device, and bookmarks as comments of frames. */
#ifndef SOFTHCA_CONSOLE_PCAPNG_H
#define SOFTHCA_CONSOLE_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct pcapng {
	FILE *file;
	char mark[256]; /* goes with the next frame; "": none */
};

/* Begins the file. False if writing fails. */
bool pcapng_begin(struct pcapng *p, FILE *file);
/* The next device: its name and its network device. */
bool pcapng_add_interface(struct pcapng *p, const char *name, const char *netdev);
/* Writes the records of a packet of kind TRACE_FRAMES. */
bool pcapng_write(struct pcapng *p, const void *records, size_t bytes);

#endif
