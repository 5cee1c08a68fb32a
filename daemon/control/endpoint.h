// SPDX-License-Identifier: Apache-2.0
/*
 * The common part of rx_endpoint and tx_endpoint. An endpoint is a stream or channel as control offers it to clients;
 * it has one endpoint_client for each consumer or sender, from the request until nothing of the client's memory is
 * left. Control thread only.
 */
#ifndef DAEMON_CONTROL_ENDPOINT_H
#define DAEMON_CONTROL_ENDPOINT_H

#include "daemon/base/log.h"
#include "daemon/control/retained_memory.h"
#include "daemon/control/rights.h"
#include "daemon/control/session.h"
#include "daemon/control/user.h"

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct control;

static_assert(IBVCAP_STREAM_NAME_MAX >= IBVCAP_CHANNEL_NAME_MAX, "an endpoint has the name of either");

struct endpoint_client;

/* One constant for streams and one for channels. */
struct endpoint_kind {
	const char *noun;       /* "stream", "channel" */
	const char *client;     /* "consumer", "sender" */
	const char *peer;       /* the same in the journal's fields */
	const char *places_key; /* the configuration's limits on clients: of all users, … */
	const char *user_key;   /* … and of one */
	const char *until;      /* a client that has left counts until: a clause */
	bool is_channel;
	const char *bad_event; /* LOG_EVENT_… */
	/** The session of the client ends: take the client's memory back from the worker. The client is freed later. */
	void (*close)(struct endpoint_client *client);
	/** Nothing is left but retained memory that no process has any more: free it. */
	void (*free)(struct endpoint_client *client);
	/** Disconnect the session if the present configuration no longer grants it what it does. */
	void (*check_rights)(struct session *session);
};

/* First in struct rx_endpoint and struct tx_endpoint. */
struct endpoint {
	const struct endpoint_kind *kind;
	struct control *control;
	char name[IBVCAP_STREAM_NAME_MAX];
	LIST_HEAD(, endpoint_client) clients;
	uint32_t n_clients;            /* those on their way out included */
	uint64_t n_bad;                /* clients disconnected because they wrote invalid values into their pages */
	bool ended;                    /* the worker has nothing of it any more */
	enum ibvcap_disconnect ending; /* why it will end, or has ended; IBVCAP_DISCONNECT_NONE: it goes on */
};

/* First in struct rx_session and struct tx_session. */
struct endpoint_client {
	LIST_ENTRY(endpoint_client) link;
	struct endpoint *endpoint;
	struct session *session;  /* NULL: disconnected, and on its way out */
	struct user *user;        /* of its connection: CPU time is charged to it */
	struct user_share *share; /* one place and lease_blocks are charged to it */
	uint32_t lease_blocks;
	pid_t pid;
	uid_t uid;
	bool served;        /* the worker has it, and the client was told so */
	bool remove_mailed; /* the worker was asked to give it back */
	bool is_retained;   /* nothing is left of it but memory that a process still has: */
	struct retained_memory retained;
};

/* Limits by the present configuration. */
struct endpoint_limits {
	uint32_t places;
	uint32_t places_per_user;
	const char *file; /* where an administrator raises them */
	int line;
};

/** The part of an endpoint that both kinds have; name is copied. */
void endpoint_init(struct endpoint *endpoint, const struct endpoint_kind *kind, struct control *control,
                   const char *name);

#define ENDPOINT_ADMITTED 1

/*
 * Checks of a request, in this order. ENDPOINT_ADMITTED; else it is refused, and the client has its answer: 0, or
 * -errno: disconnect.
 */
int endpoint_admit_connection(struct session *session, uint16_t abi_major, uint16_t abi_minor);
int endpoint_admit_rights(struct session *session, const char *noun, const char *name, enum rights rights,
                          const char *file, int line);
int endpoint_admit_place(struct session *session, struct endpoint *endpoint, const struct user_share *share,
                         const struct endpoint_limits *limits);

/** The payer's share at the endpoint. NULL: out of memory; endpoint_admit_place() says so to the client. */
struct user_share *endpoint_share(const struct endpoint *endpoint, const struct payer *payer);

/**
 * Add the session's client, and charge one place and its lease blocks to the share, which endpoint_share() returned.
 */
void endpoint_add_client(struct endpoint *endpoint, struct endpoint_client *client, struct session *session,
                         struct user_share *share, uint32_t lease_blocks);

/** The worker has the client now, and the client got its answer. */
void endpoint_serve_client(struct endpoint_client *client);

/** Its session goes on without it, or ends. No effect if it has none. */
void endpoint_detach_client(struct endpoint_client *client);

/** Its leases are over, though its place may be taken for longer: take them off its payer. */
void endpoint_discharge_leases(struct endpoint_client *client);

/** Take it off the list, and take its charges off its payer. */
void endpoint_remove_client(struct endpoint_client *client);

/** Free the clients of which only memory was left that no process has any more. */
void endpoint_free_retained(struct endpoint *endpoint);

/** Why the session's client is disconnected. */
enum ibvcap_disconnect endpoint_disconnect_reason(const struct endpoint *endpoint, const struct session *session);

/** The worker found the client's page to be wrong: log it. */
void endpoint_log_bad(const struct endpoint_client *client, uint32_t reason);

#endif
