// SPDX-License-Identifier: Apache-2.0
/*
 * A wire brings frames to a device and takes them away. The device thread calls all its functions, except stats(),
 * which any thread may call, and hear_sent(), which is called under the device's lock.
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
	WIRE_OUTGOING, /* sent by this host; comes only after hear_sent() */
};

struct wire_frame {
	/* begins with the destination MAC, VLAN tags as on the wire; the device may move the start by 4 bytes either
	 * way */
	uint8_t *data;
	uint32_t len; /* without FCS */
	/* Generator: the frame comes as often as receives are posted for it, and at most so often. 0: a frame from a
	 * wire, which comes once, whether or not there is room for it. */
	uint32_t up_to;
	bool unwritten;    /* Generator: do not write into the program's buffers */
	bool csum_missing; /* the sender left the checksum to the device, so the frame has none */
	bool csum_trusted; /* the sender left the checksum to the device, or the kernel has verified it */
	enum wire_addressed addressed;
	uint64_t realtime_ns; /* arrival, CLOCK_REALTIME */
};

struct wire_stats {
	uint64_t discards; /* frames that were lost before the device saw them; the port's rx_discards_phy */
};

/* wire_engine_names has their names in the same order. */
enum wire_engine { WIRE_AFPACKET, WIRE_AFPACKET_THROUGHPUT, WIRE_GENERATOR };

enum wire_generator_writes { WIRE_WRITES_PAYLOAD, WIRE_WRITES_COMPLETIONS };

struct wire_config {
	enum wire_engine engine;
	const char *netdev;
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
	/* Receives up to `max` frames, which are valid until release(). Returns their number. */
	int (*receive)(struct wire *wire, struct wire_frame *frames, int max);
	void (*release)(struct wire *wire);
	/* Sends at most WIRE_SEND_MAX frames in order, each given as a gather list. Returns the number that went
	 * out. A frame that the link refuses (too long, link down) counts as sent, as on a cable. */
	int (*send)(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n);
	/* Sleeps until there may be a frame, at most `timeout_us`. */
	void (*wait)(struct wire *wire, unsigned int timeout_us);
	/* Begins or ceases to bring the frames that others of this host send on the netdev. NULL if there are no
	 * others. */
	void (*hear_sent)(struct wire *wire, bool hear);
	/* Any thread may call this. */
	void (*stats)(struct wire *wire, struct wire_stats *stats);
	void (*close)(struct wire *wire);
	/* In a forked child: lets go of what would keep the wire occupied. The wire is unusable then. NULL if there
	 * is nothing to let go of. */
	void (*forked)(struct wire *wire);
};

struct wire {
	const struct wire_ops *ops;
};

/* The engines' names, ended by NULL. */
extern const char *const wire_engine_names[];

/* wire_open() opens the engine that the configuration names, by that engine's function. 0 or negative errno: -EPERM
 * without CAP_NET_RAW, -ENODEV if there is no such netdev. */
typedef int wire_opener(struct wire **wire, const struct wire_config *config);
wire_opener wire_open, afpacket_open_v2, afpacket_open_v3, generator_open;

#endif
