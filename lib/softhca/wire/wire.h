// SPDX-License-Identifier: Apache-2.0
/*
 * A wire brings frames to a device and takes them away. One thread, the device's, calls
 * everything but stats(), and hear_sent() under the device's lock.
 */
#ifndef SOFTHCA_WIRE_H
#define SOFTHCA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define WIRE_SEND_MAX 64 /* frames in one call of send() */

/* How the frame was addressed, as the link sees it. */
enum wire_addressed {
	WIRE_TO_US,
	WIRE_TO_OTHER,
	WIRE_MULTICAST,
	WIRE_BROADCAST,
	WIRE_OUTGOING, /* sent by this host: only after hear_sent() */
};

struct wire_frame {
	uint8_t *data; /* from the destination MAC on, VLAN tags as on the wire; the device may
			* move the start by 4 bytes either way */
	uint32_t len;  /* without FCS */
	/* The generator's: this frame as often as a receive is posted for it, at most so often.
	 * 0: a frame from a wire, once, whether or not there is room for it. */
	uint32_t up_to;
	bool unwritten;    /* the generator's: leave the program's buffers as they are */
	bool csum_trusted; /* the sender left the checksum to be filled in, or it was verified */
	enum wire_addressed addressed;
	uint64_t realtime_ns; /* arrival, CLOCK_REALTIME */
};

struct wire_stats {
	uint64_t discards; /* lost before the device saw them: the port's rx_discards_phy */
};

/* Their names, in the same order, are wire_engine_names. */
enum wire_engine { WIRE_AFPACKET, WIRE_AFPACKET_THROUGHPUT, WIRE_MEMORY, WIRE_GENERATOR };

enum wire_generator_writes { WIRE_WRITES_PAYLOAD, WIRE_WRITES_COMPLETIONS };

struct wire_config {
	enum wire_engine engine;
	const char *netdev;
	const char *peer; /* memory: the netdev at the other end, or NULL: no cable */
	size_t ring_bytes;
	struct {
		enum wire_generator_writes writes;
		unsigned int payload_bytes; /* of UDP */
		const char *destination;    /* IPv4 address */
		unsigned int port;
	} generator;
};

struct wire;

struct wire_ops {
	/* Up to `max` frames, valid until release(); returns the count. */
	int (*receive)(struct wire *wire, struct wire_frame *frames, int max);
	void (*release)(struct wire *wire);
	/* Sends at most WIRE_SEND_MAX frames in order, each given as a gather list; returns how
	 * many went out. A frame the link will not take (too long, link down) counts as gone: so
	 * does a cable. */
	int (*send)(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n);
	/* Sleep until a frame may be there, at most `timeout_us`. */
	void (*wait)(struct wire *wire, unsigned int timeout_us);
	/* From now on, or no more: bring what others of this host send on the netdev, too. NULL
	 * where there are no others. */
	void (*hear_sent)(struct wire *wire, bool hear);
	/* Any thread. */
	void (*stats)(struct wire *wire, struct wire_stats *stats);
	void (*close)(struct wire *wire);
	/* In a child of the program that opened it: what would keep the wire taken is let go of. The
	 * wire is of no use then. NULL where there is nothing. */
	void (*forked)(struct wire *wire);
};

struct wire {
	const struct wire_ops *ops;
};

/* The engines' names, ended by NULL. */
extern const char *const wire_engine_names[];

/*
 * 0 or negative errno: -EPERM without CAP_NET_RAW, -ENODEV without such a netdev, -EBUSY where
 * another process has this end of a memory wire.
 */
int wire_open(struct wire **wire, const struct wire_config *config);

#endif
