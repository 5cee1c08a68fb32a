// SPDX-License-Identifier: Apache-2.0
/*
 * A network interface as one backend drives it: the kernel's view of it, the device behind it, and the fit of the
 * device's clock. All streams and channels on the interface with that backend share it; those with another backend have
 * one of their own, which knows nothing of this one. Control thread only.
 *
 * Commands to the device wait for its firmware, and many requests to the kernel wait for a lock (rtnl) that the driver
 * of any device holds while it waits for its firmware. So while the interface serves, two threads take its readings:
 * one of its own for the device, and one that all interfaces share for the kernel. A device that hangs then makes its
 * own readings old, and those of the kernel, but not those of another device. Declares
 * interface_losses.c, interface_readings.c.
 */
#ifndef DAEMON_PORT_INTERFACE_H
#define DAEMON_PORT_INTERFACE_H

#include "daemon/backend/backend.h"
#include "daemon/backend/choice/choice.h"
#include "daemon/base/background.h"
#include "daemon/base/loss_span.h"
#include "daemon/base/reading.h"
#include "daemon/clock/clock.h"
#include "daemon/clock/system_clock.h"
#include "daemon/control/control.h"
#include "daemon/net/link_losses.h"
#include "daemon/net/link_watch.h"
#include "daemon/net/net.h"

#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>

struct daemon;

/* The kernel's readings. On the heap, because the thread may hang in a reading when the interface is gone. */
struct interface_kernel {
	struct reading lost; /* packets, before the flow rules; and everything else that the kernel says */
	struct interface *interface;
	char name[IFNAMSIZ];
	pthread_mutex_t lock;    /* of backend */
	struct backend *backend; /* NULL: it is closed, or queues lose no packets that the interface counts, too */
	_Atomic bool is_net_due; /* the next reading renews net */
	/* The thread's while the reading is on its way. */
	struct link_losses *links; /* NULL: the device does not get its packets from the kernel */
	bool may_have_discards;
	bool has_discards;
	uint64_t discards;
	uint64_t discards_at_open;
	bool is_complete;        /* the driver counts all packets that are lost before the flow rules */
	bool may_lose_uncounted; /* the backend, since the reading before */
	uint32_t xdp_program;
	struct net_interface net;
	int net_result;
	uint64_t stamp_delay_ns; /* net_stamp_delay_ns() */
};

/* Packets that were lost before the flow rules. */
struct interface_losses {
	const char *uncounted; /* what may lose some that no counter has, as in struct ibvcap_status_interface */
	uint64_t seen;         /* at the last reading */
	uint64_t seen_utc_ns;
	struct losses_last last;
	struct loss_told {
		uint64_t seen;
		uint64_t before; /* the span */
		struct loss_span span;
	} told[INTERFACE_COUNTER_N]; /* what the log has of each counter */
};

#define INTERFACE_NOTICES_MAX 16

/* The device's notices. The thread has result, n and at while the job is on its way. */
struct interface_notices {
	struct interface *interface;
	sd_event_source *source;
	struct background_job job;
	int result;
	uint32_t n;
	struct backend_notice at[INTERFACE_NOTICES_MAX];
};

/*
 * Up to this number of streams, and of CPUs, each stream has a thread of its own, which can take more packets than the
 * kernel delivers.
 */
#define INTERFACE_CREWS 4

struct interface {
	TAILQ_ENTRY(interface) link; /* the daemon's */
	char name[IFNAMSIZ];
	const struct backend_ops *ops;
	struct backend_open_options open_options;
	struct backend_choice choice; /* of ops, and why */
	bool is_auto;                 /* services with backend = "auto" have it */
	bool is_named;                /* services whose configuration names the backend have it */
	bool has_packet_beside;       /* the daemon has the interface by packet, too */
	struct backend *backend;      /* NULL: not open */
	struct backend_capabilities capabilities;
	struct net_interface net;
	int32_t numa_node;                       /* of its device, or NUMA_ANY */
	struct background *device_thread;        /* reads the device; NULL: the interface does not serve yet */
	struct backend_port_statistics port_now; /* the thread's while the reading is on its way */
	struct reading out_of_buffer;            /* and everything else of the port */
	uint64_t counters[INTERFACE_COUNTER_N];  /* as of the last readings; COUNTER_ABSENT: not known */
	bool counts_all_losses;                  /* before the flow rules, likewise */
	struct interface_losses losses;
	uint64_t uncounted;              /* as interface_uncounted of struct ibvcap_ring */
	bool has_foreign_program;        /* another process has attached an XDP program, by the last event */
	bool port_active;                /* as the device sees it; true if it does not say */
	struct interface_kernel *kernel; /* NULL: not open */
	uint64_t silent_ns;              /* how long the device has not answered, if that is too long; 0: it answers */
	bool is_abandoned; /* the daemon ends without it: its memory and its device are left to the kernel */
	bool link_up;
	unsigned opened_index; /* index when the device was opened; a new interface of this name may have another */
	uint64_t deleted_ns;   /* when that was deleted, CLOCK_MONOTONIC; 0: it was not */
	bool is_missing;       /* there is no interface of this name now */
	const char *failure;   /* the device's word for its failure, static; NULL: it works */
	uint64_t failed_ns;    /* when that was, CLOCK_MONOTONIC */
	struct daemon *daemon; /* NULL: it does not serve yet */
	bool has_clock;        /* line is valid */
	bool lost_clock;       /* the device's clock has gone, and the line serves for none of its readings */
	struct clock_fit fit;
	struct clock_line line;
	struct system_clock system_clock;
	uint64_t stamp_delay_ns;       /* of the kernel's timestamps: net_stamp_delay_ns() */
	uint32_t n_clock_misses;       /* the last readings of the clock gave no pair */
	struct control_interface port; /* as control sees it */
	bool in_control;
	struct interface_notices notices;
	struct interface_tx *tx;                /* NULL: it has no channel */
	struct rx_crew *crews[INTERFACE_CREWS]; /* threads that streams share; NULL: not needed yet */
	uint32_t n_users;                       /* streams, channels */
};

/* The configuration's demands that the choice of a backend depends on. */
struct interface_wishes {
	bool leaves_packets;  /* flows of streams with backend = "auto" do */
	bool wants_card_time; /* streams with backend = "auto" have timestamps = "hardware" */
	bool has_xdp;         /* the daemon has the interface by xdp already, for a service that names it */
};

/** Look the interface up; does not open the device. -ENODEV: the failure lists the interfaces that exist. */
int interface_init(struct interface *interface, const char *name, enum config_backend backend,
                   const struct interface_wishes *wishes, struct failure *failure);

/**
 * Open the device behind it, and read its clock for the first time if it has one. Falls back from xdp to packet,
 * unless this interface already has a packet entry.
 */
int interface_open(struct interface *interface, struct failure *failure);
/** Any state. */
void interface_close(struct interface *interface);

/** The thread with the fewest workers, for one more. NULL: none has room, or there is no memory for it. */
struct rx_crew *interface_crew(struct interface *interface);

/** Prepare the readings, and take the first ones at once. The device is open. 0 or -ENOMEM. */
int interface_init_readings(struct interface *interface);
/** Any state. Waits for a reading of the device that is on its way, unless the interface is abandoned. */
void interface_deinit_readings(struct interface *interface);
/** Let the threads take the readings from now on. shared: the thread for the kernel. 0 or -errno. */
int interface_start_readings(struct interface *interface, sd_event *event, struct background *shared);

/** The flow rules change: packets may have passed them by now, uncounted. */
void interface_note_rules(struct interface *interface);

/** Ask for new readings; link_up follows them, and a change is logged. */
void interface_watch_link(struct interface *interface);

/** A reading of the kernel was taken: note what was lost since the one before. */
void interface_note_losses(struct interface *interface);
/** Log the beginning and the end of each loss before the flow rules. Every second. */
void interface_tell_losses(struct interface *interface, uint64_t now_ns);

/** Interfaces came, changed or went: ask for new readings, if this one may be among them. */
void interface_take_link_change(struct interface *interface, const struct link_change *change);

/** There is none of this name, or it is not the one whose device is open. */
static inline bool interface_is_gone(const struct interface *interface)
{
	return interface->is_missing || interface->deleted_ns;
}

/**
 * It was deleted, or moved away, and there is one of its name again: the device that is open went with the old one. The
 * services of it are closed, and opened again with another struct interface (reload/reopen.h).
 */
static inline bool interface_is_replaced(const struct interface *interface)
{
	return interface->deleted_ns && !interface->is_missing;
}

/** Note that the device, or what it did for a stream, has failed. text is static. */
void interface_fail(struct interface *interface, const char *text);

/**
 * The device has failed, and its interface is there: it is not a card that is unplugged, which says the one and the
 * other within a second. Its services are closed and opened again, too.
 */
bool interface_has_failed(const struct interface *interface);

/** Renew silent_ns, and log once that the device does not answer, and that it does again. Every second. */
void interface_watch_silence(struct interface *interface);

/** 0, or -EAGAIN and the failure: the device does not answer, so a change would wait for it. */
int interface_check_answers(const struct interface *interface, struct failure *failure);

/** The daemon ends and the device does not answer: nothing of it is destroyed or freed any more. */
void interface_abandon(struct interface *interface);
/** The daemon ends: wait for the readings of the device that are on their way, and abandon it if they take longer. */
void interface_end_readings(struct interface *interface, uint64_t wait_us);

/**
 * Read the system's clock's state, and the device's clock again, and renew line; its error bound grows if it cannot be
 * read. No effect on the line without has_clock. Not a command.
 */
void interface_renew_clock(struct interface *interface);

#endif
