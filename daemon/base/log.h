// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's log: one line for each message. If stderr is the journal, a message goes there with fields for the
 * stream, client and so on that it is about (IBVCAP_STREAM=…), and a message that an administrator may set an alert
 * on has a MESSAGE_ID that systemd/ibvcap.catalog explains. If not, it goes to stderr. The same message is logged at
 * most LOG_LIMIT_N times in LOG_LIMIT_S seconds; the next one says how many were left out. Any thread.
 */
#ifndef DAEMON_BASE_LOG_H
#define DAEMON_BASE_LOG_H

#include <stdint.h>
#include <sys/types.h>
#include <syslog.h>

enum log_event {
	LOG_EVENT_NONE,
	LOG_EVENT_READY,
	LOG_EVENT_FAILED,
	LOG_EVENT_RELOADED,
	LOG_EVENT_RELOAD_FAILED,
	LOG_EVENT_WAITING_FOR_MEMORY,
	LOG_EVENT_LINK_DOWN,
	LOG_EVENT_LINK_UP,
	LOG_EVENT_DEVICE,
	LOG_EVENT_PACKETS_LOST,
	LOG_EVENT_LOSS_ENDED,
	LOG_EVENT_STREAM_ENDED,
	LOG_EVENT_CONSUMER_BAD,
	LOG_EVENT_CONSUMER_DEMOTED,
	LOG_EVENT_CONSUMER_LOSES,
	LOG_EVENT_CONSUMER_LOSS_ENDED,
	LOG_EVENT_CHANNEL_FAILED,
	LOG_EVENT_CHANNEL_ENDED,
	LOG_EVENT_DESTINATION_LOST,
	LOG_EVENT_DESTINATION_FOUND,
	LOG_EVENT_SENDER_BAD,
	LOG_EVENT_CLIENT_REFUSED,
	LOG_EVENT_CLIENT_BAD,
	LOG_EVENT_RIGHTS_LOST,
	LOG_EVENT_STUCK,
	LOG_EVENT_WAKE_BUDGET,
	LOG_EVENT_N
};

/* A field IBVCAP_NAME, the name in capital letters. */
struct log_counter {
	const char *name;
	uint64_t value;
};

#define LOG_COUNTERS_MAX 8

/* The objects that a message is about. A member that is NULL or 0 becomes no field. */
struct log_about {
	enum log_event event;
	const char *stream;
	const char *channel;
	const char *interface;
	const char *peer; /* "CONSUMER", "SENDER" or "CLIENT": whose pid and uid the next two are */
	pid_t pid;
	uid_t uid;
	const struct log_counter *counters;
	unsigned n_counters; /* at most LOG_COUNTERS_MAX */
};

/** Messages less important than this syslog(3) priority are not logged. Before the first call it is LOG_INFO. */
void log_set_level(int priority);

/** priority: syslog(3)'s. about: NULL is fine. errno is kept. */
void log_message(int priority, const struct log_about *about, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** A message for each line of the text; behind the last one it says what follows. */
void log_lines(int priority, const struct log_about *about, const char *text, const char *behind);

#define log_error(...)   log_message(LOG_ERR, NULL, __VA_ARGS__)
#define log_warning(...) log_message(LOG_WARNING, NULL, __VA_ARGS__)
#define log_info(...)    log_message(LOG_INFO, NULL, __VA_ARGS__)
#define log_debug(...)   log_message(LOG_DEBUG, NULL, __VA_ARGS__) /* rare events only, never one for each packet */

#endif
