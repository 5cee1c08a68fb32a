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

/* MESSAGE_IDs of events, which systemd/ibvcap.catalog explains. An id never changes, because alerts are set on it. */
#define LOG_EVENT_READY               "1c523a4a540740f988e12fbc3ea9e333"
#define LOG_EVENT_FAILED              "2f5aaeaf5e6d41b7a4d4ca34f383a608"
#define LOG_EVENT_RELOADED            "7e929f93d7f74f5d984e32155b3006e7"
#define LOG_EVENT_RELOAD_FAILED       "0a9f6c70f72b42fdb21b397ed1a00e99"
#define LOG_EVENT_WAITING_FOR_MEMORY  "04251727eede4d14b59b7e2941bf9459"
#define LOG_EVENT_LINK_DOWN           "b14112eb41284127b567e5de4a8d84bd"
#define LOG_EVENT_LINK_UP             "4a2ca4a570a64b7c9424dfdf35675cd1"
#define LOG_EVENT_DEVICE              "f19f3c39931143b0a50dc1d87fbeb7dd"
#define LOG_EVENT_PACKETS_LOST        "f695e6ce7806413ca1a0ccb17828f665"
#define LOG_EVENT_LOSS_ENDED          "f5d27a59462a41cbb745c3242b40d0d5"
#define LOG_EVENT_INTERFACE_LOSES     "13bf61d506c342c2b97d1a582cb6c4de"
#define LOG_EVENT_INTERFACE_LOSS_END  "445dbe2b5e0942e187209f21fd9f4646"
#define LOG_EVENT_STREAM_ENDED        "fa587a8669f9420da4c4373f1a7d7adf"
#define LOG_EVENT_CONSUMER_BAD        "af66331c83c94e1c81417d6abf48f13b"
#define LOG_EVENT_CONSUMER_DEMOTED    "e595737ec7cd439099a08e82712999ba"
#define LOG_EVENT_CONSUMER_LOSES      "e08214f1b09e4092b203f0a875f3a78c"
#define LOG_EVENT_CONSUMER_LOSS_ENDED "02d76f1b57ad4dc5b4978ca07a9a427b"
#define LOG_EVENT_CHANNEL_FAILED      "c7f951cccafa410dbbe0fb4c31952ce4"
#define LOG_EVENT_CHANNEL_ENDED       "6ae52e79aecc43b197cfe996e3b3d91a"
#define LOG_EVENT_DESTINATION_LOST    "518cba9ea1e349ffbf06642fe105fafc"
#define LOG_EVENT_DESTINATION_FOUND   "784883425cba4b14863ab7aa9835295b"
#define LOG_EVENT_SENDER_BAD          "bd092fad0b17420e9d6b61f30cee9fe0"
#define LOG_EVENT_CLIENT_REFUSED      "f13b1d646d6d4f36b2c6758557544053"
#define LOG_EVENT_CLIENT_BAD          "7cc3db2063574ef5894492a145f08c64"
#define LOG_EVENT_RIGHTS_LOST         "e0c5a7e69d614a8e84a705446c6ccb01"
#define LOG_EVENT_STUCK               "29b52fdf2e6648c486191e150772d4fa"
#define LOG_EVENT_WAKE_BUDGET         "44bdfbfbc8784ac391aba5b869d4bc0d"

/* A field IBVCAP_NAME, the name in capital letters. */
struct log_counter {
	const char *name;
	uint64_t value;
};

#define LOG_COUNTERS_MAX 8

/* The objects that a message is about. A member that is NULL or 0 becomes no field. */
struct log_about {
	const char *event; /* LOG_EVENT_… */
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
