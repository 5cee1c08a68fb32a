// SPDX-License-Identifier: Apache-2.0
/*
 * A service is a stream or a channel as the daemon sees it. All services of a list take one step before the next one,
 * so that a mistake is found before anything is taken, and no packet is received before everything that can fail is
 * done.
 *
 *   at start, and for a service that a reload adds
 *     OPEN → PREPARE → START → SERVE → CAPTURE → commit
 *   for a service that runs during a reload and stays
 *     plan → CHANGE_GROUPS → CHANGE_FLOWS → commit (or undo)
 *   for a service that a reload takes out, or whose interface was made anew
 *     remove → (its worker gives it back: ended) → free
 *   at the end of the daemon
 *     stop → (its worker ends: has_ended) → join → free
 *
 * Control thread only, but for PREPARE.
 */
#ifndef DAEMON_STATE_SERVICE_H
#define DAEMON_STATE_SERVICE_H

#include "daemon/base/reading.h"
#include "daemon/config/config.h"
#include "daemon/memory/memory_check.h"
#include "lib/base/failure.h"

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct daemon;
struct link_change;
struct service;

TAILQ_HEAD(service_list, service);

enum service_kind { SERVICE_STREAM, SERVICE_CHANNEL, SERVICE_N_KINDS };

enum service_step {
	SERVICE_OPEN,          /* open the device, unless it is open: can it do what the configuration asks for? */
	SERVICE_PREPARE,       /* memory and queues; any thread, beside other services', before the service runs */
	SERVICE_START,         /* the queue and the worker; nothing is received yet */
	SERVICE_SERVE,         /* clients may come */
	SERVICE_CAPTURE,       /* packets come */
	SERVICE_CHANGE_GROUPS, /* join the groups of the configuration to be */
	SERVICE_CHANGE_FLOWS,  /* add its flows */
	SERVICE_N_STEPS,
};

typedef int service_step_call(struct daemon *daemon, struct service *service, struct failure *failure);

/* A step may be NULL: there is nothing to do. */
struct service_ops {
	enum service_kind kind;
	service_step_call *steps[SERVICE_N_STEPS];

	void (*memory)(const struct service *service, struct service_memory *memory); /* adds to memory */

	/** Compare it with the configuration to be. False: that configuration does not have it. */
	bool (*plan)(struct service *service, const struct config *config);
	void (*undo)(struct service *service);
	/** 0; -EAGAIN and the failure: its device does not answer at present, so it cannot be taken out. */
	int (*can_remove)(const struct service *service, struct failure *failure);
	/**
	 * Its configuration is in force. 0, or -errno: the service manager did not take the sockets that it should
	 * keep.
	 */
	int (*commit)(struct daemon *daemon, struct service *service);
	/** Take it out while the daemon runs: it drains. Its clients are told the reason. */
	void (*remove)(struct daemon *daemon, struct service *service, enum ibvcap_disconnect reason);

	/** An interface came, changed or went. May be NULL. */
	void (*take_link_change)(struct daemon *daemon, struct service *service, const struct link_change *change);

	/** Bring its state, its worker and the log up to date. Once a second, and when something has changed. */
	void (*refresh)(struct daemon *daemon, struct service *service);

	/** No new packet comes, and its worker drains and ends. */
	void (*stop)(struct service *service);
	bool (*has_ended)(const struct service *service);
	void (*join)(struct service *service); /* wait for the worker's thread, if it runs */
	/** Out of the list, with everything it has. Its worker does not have it any more, or never had it. */
	void (*free)(struct daemon *daemon, struct service_list *list, struct service *service);
};

/* The first member of struct stream and struct channel. */
struct service {
	TAILQ_ENTRY(service) link; /* the daemon's, or a reconfiguration's */
	const struct service_ops *ops;
	const char *name; /* of its configuration */
	bool is_prepared; /* at the start: it has its memory */
	bool is_kept;     /* by the configuration to be, from plan on */
	bool removed;     /* taken out while the daemon runs: it drains */
	bool ended;       /* its worker does not have it any more */
	bool link_down;   /* at the last refresh */
	const struct reading
		*reading; /* as long as this is on its way, the service is not freed; NULL: there is none */
};

/** Each service of the list takes the steps from first to last, up to the first failure. */
int service_walk(struct daemon *daemon, struct service_list *list, enum service_step first, enum service_step last,
                 struct failure *failure);

/** NULL: the list has none of that kind and name that is not removed. */
struct service *service_find(const struct service_list *list, enum service_kind kind, const char *name);
/** Has it one that is removed and drains? */
bool service_is_ending(const struct service_list *list, enum service_kind kind, const char *name);

/** The sum over a list. Without draining: not those that are removed, whose memory goes soon. */
struct service_memory service_memory_of(const struct service_list *list, bool with_draining);

/** Refresh every service, and tell the service manager how many there are if that has changed. */
void service_refresh_all(struct daemon *daemon);

/** Tell the service manager that the daemon is up, and how many services there are. */
void service_tell_ready(struct daemon *daemon);

/** An epoch for new memory: random, so that no two runs have the same; never 0. 0 or -errno with the failure. */
int service_new_epoch(const struct service *service, uint64_t *epoch, struct failure *failure);

/* ---- requests to the event loop ----------------------------------------------------------------- */

/*
 * For a callback, which must not do such things at once. No effect before events.c has added its event sources, and
 * after it has dropped them.
 */

/**
 * Free the removed services that have ended, and the configurations that no service uses any more; close and open
 * services whose interface was made anew.
 */
void schedule_reap(struct daemon *daemon);

/** In a millisecond refresh the channels: mail again what found their worker's mailbox full. */
void schedule_mail(struct daemon *daemon);

/** End the loop, if the daemon is stopping and every worker has ended. */
void schedule_end(struct daemon *daemon);

#endif
