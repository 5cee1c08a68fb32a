// SPDX-License-Identifier: Apache-2.0
/* Recordings that tests make block by block, as ibvcap record writes them, or as it never would. */
#ifndef TESTS_UNIT_TOOLS_MADE_RECORDING_H
#define TESTS_UNIT_TOOLS_MADE_RECORDING_H

#include "lib/recording/account_json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MADE_PACKETS_MAX 16
#define MADE_SOURCES_MAX 3
#define MADE_EPOCH       7
#define MADE_TIME_NS     UINT64_C(1795334400000000000) /* 2026-11-22T08:00:00 */

struct made_packet {
	uint64_t id;
	uint64_t drops;
	const char *comment;
	uint64_t number; /* its own, big-endian in the first 4 bytes of the payload; UINT64_MAX: no payload */
	uint16_t port;   /* of its sender */
	uint64_t later_ns;
};

/* An interface. made_source() fills it in. */
struct made_source {
	const char *name;
	const char *description;
	const char *device;
	const char *flows;
	const char *comment;
	struct made_packet packets[MADE_PACKETS_MAX];
	unsigned n_packets;
	bool has_statistics;
	uint64_t delivered;
	uint64_t received;
	uint64_t accepted;
	uint64_t dropped;
	uint64_t os_dropped;
	const char *sum;
	const char *account_text; /* in place of the account */
	bool has_account;
	struct recording_account account;
};

struct made_recording {
	const char *application;
	struct made_source sources[MADE_SOURCES_MAX];
	unsigned n_sources;
	const char *closing;    /* NULL: there is no closing section */
	bool has_packet_behind; /* an interface follows the closing section */
};

/** A whole source of packets first to until - 1, with an account that is complete. */
struct made_source made_source(const char *name, uint64_t first, uint64_t until);

/** One source "lidar" with packets 10 to 13, and nothing is missing. */
struct made_recording made_recording(void);

/** Write the recording to the file. Its size. */
size_t made_write(const struct made_recording *recording, const char *path);

/** Write these bytes to the file. */
void made_write_bytes(const char *path, const void *bytes, size_t n);

#endif
