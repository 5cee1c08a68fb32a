// SPDX-License-Identifier: Apache-2.0
/* How every subcommand reports failures, times and users, and prints JSON. Declares tracker_print.c. */
#ifndef TOOLS_COMMON_REPORT_H
#define TOOLS_COMMON_REPORT_H

#include "lib/base/time.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** The exit code for a negative errno of the library: EX_UNAVAILABLE unless the error has one of its own. */
int report_exit_code(int error);

/** Print why the library's last call failed. Returns the exit code for its error. */
int report_failure(const char *command, int error);

/** The same of a stream of this name, which is maybe that of a file or of a network interface. */
int report_stream_failure(const char *command, const char *stream, int error);

/**
 * Print why the stream or channel can be used no longer. kind is "stream" or "channel". Returns the exit code; 0 for 0.
 */
int report_end(const char *command, const char *kind, const char *name, int error);

#define REPORT_SILENCE_NS (3 * TIME_SECOND_NS)

/** Print that no packet of the stream came in REPORT_SILENCE_NS, and the command that tells why. socket: or NULL. */
void report_silence(const char *command, const char *stream, const char *socket);

/** The socket that the user chose, by the option or by IBVCAP_SOCKET, which sudo drops. NULL: the default. */
const char *report_chosen_socket(const char *option);

#define REPORT_UTC_BYTES 32

/** "2026-11-22T08:17:45.402Z" of a time in ns since 1970, with 1 to 9 decimals; "unknown" of 0. */
void report_format_utc(uint64_t ns, unsigned decimals, char text[REPORT_UTC_BYTES]);

#define USER_NAME_BYTES 48

#define USER_PROCESS_BYTES 112

/**
 * "process 4711 of user ana (1000)", or "… of user 1000" if the user has no name here; returns text. Process 0 is one
 * that ibvcapd cannot name. May ask a directory service.
 */
const char *user_process(pid_t pid, uid_t uid, char text[USER_PROCESS_BYTES]);

/** "ana", or "user 1000", for where there is little room; returns text. */
const char *user_name_or_number(uid_t uid, char text[USER_NAME_BYTES]);

/** Print json and a line feed on standard output, and free it. flags are jansson's. */
void report_json(json_t *json, size_t flags);

/* ---- counts of a tracker, of packets that come or of those in a recording ------------------------ */

#define REPORT_SOURCE_BYTES 192

/** "10.0.0.1:5000 > 239.1.2.3:7502, field 1a2b3c4d"; empty if nothing tells the stream's sources apart. */
void report_source(const struct ibvcap_tracker_source *source, char text[REPORT_SOURCE_BYTES]);

#define REPORT_SOURCES 10 /* that are printed unless an option says how many */

/**
 * Print the account of each source, those with the worst numbers first and so many at most, and that of all.
 * unexplained: of the lost numbers, those that no count of the stream, of its reader or of the interface explains.
 */
void tracker_print(const struct ibvcap_tracker *tracker, uint64_t unexplained, uint64_t most);

/**
 * Sources that a command's tracker has room for: 65536, with a long window as many as 64 MiB hold. Packets of a
 * stranger take places, too.
 */
uint32_t tracker_max_sources(const struct ibvcap_sequence *sequence);

#define TRACKER_MISSING_MAX 1000 /* ranges of missing numbers that a command keeps */

/** Print the tracker's ranges of missing numbers, max at most, and how many numbers more are missing. */
void tracker_print_missing(const struct ibvcap_tracker *tracker, uint64_t max);

/** The same. The caller frees it. */
json_t *tracker_to_json(const struct ibvcap_tracker *tracker);

#endif
