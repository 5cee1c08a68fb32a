// SPDX-License-Identifier: Apache-2.0
/*
 * Placement: a placer puts packets into arrays by their own numbers. It reads the numbers as a tracker does (ibvcap.h),
 * but a tracker only counts.
 *
 * An array has a row for each number of each source: a packet that is missing is a row that was filled, and every other
 * packet is where its number says. Without the field 'frame' in the description, an array has a fixed count of numbers
 * and begins at a multiple of it. With the field, an array has the packets with one value of the field, such as a video
 * frame, and ends where the next value begins. The sources of a placer count together: the same number is at the same
 * place in each source. Sources with numbers of their own need placers of their own.
 *
 * Sides. One placer takes the batches of any number of receive handles. Packets that come twice by plan, as in the A
 * and B feeds of an exchange or in SMPTE ST 2022-7, come on two sides: the row has the packet of the side that was
 * first, and the array says of each number which sides brought it. The addresses of the sides differ, so the
 * description of such a placer has the source IBVCAP_SOURCE_NONE; a field of the payload can tell sources apart.
 *
 * Runs. A position is a number that is counted on where the field begins again at 0. A packet far from the others is
 * left out: ahead by more than the description's jump and what the consumer skipped before it, or behind by more than
 * its window, unless it is new and has a place in the arrays that are open or can be. A tracker of one source sees a
 * restart at the same packet. If one source on one side sends, two such packets in a row that are near each other show
 * a restart: all arrays are closed, and a new run begins with the first of the two. If several sources, or sides,
 * brought packets to the arrays that are open, each of them has to come with such a packet before the run ends. So one
 * source that is restarted alone does not disturb the others, nor does a side with other packets. If nothing but far
 * and late packets comes, a new run begins after as many numbers as may be behind.
 *
 * Sums, in numbers, exact at any time:
 * - of an array, and of all together: expected = present + missing.
 * - of a side: arrived = open + present + duplicate + late + far + outside, and expected = present + missing.
 * Expected are the numbers from the first to the last of a run; of a source that was learnt in that run, from its first
 * packet on, or from the first array that is still open if that packet was late. Numbers can be missing between arrays,
 * too: see before.
 *
 * Memory. The payload of arrays can lie in memory of the caller, which a GPU or a disk reads by DMA for example. An
 * array is begun only if there is memory for it. If there is none, the oldest open array is closed, as if the window
 * were full, and the packet waits until the caller has taken that array: see ibvcap_place_add(). If there still is no
 * memory, since the caller holds it, the packet is late, and counted as no_memory.
 *
 * A placer works in the calling thread and knows no clock but the packets' timestamps. One thread at a time uses it.
 */
#ifndef IBVCAP_PLACE_H
#define IBVCAP_PLACE_H

#include <ibvcap/ibvcap.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

#define IBVCAP_PLACE_SIDES_MAX 8
#define IBVCAP_PLACE_NOWHERE   UINT32_MAX

struct ibvcap_placer;

/** What a source's packets have in common. Parts that the description does not use are 0. This does not grow. */
struct ibvcap_place_source {
	uint8_t address[16]; /* of the sender; IPv4 as ::ffff:a.b.c.d */
	uint8_t destination[16];
	uint16_t port;
	uint16_t destination_port;
	uint32_t field_bytes;                   /* as the description says; not read */
	uint8_t field[IBVCAP_SOURCE_BYTES_MAX]; /* of the payload, masked; its first byte first */
};

/** Options of ibvcap_placer_new(). 0 means the default for every field. */
struct ibvcap_placer_options {
	size_t size;
	/*
	 * Of a source in an array, at most 2^20; with frames, the most that a frame has. 0: a cycle of the number if
	 * the description has an upper field, else 1024.
	 */
	uint32_t numbers;
	uint32_t row_bytes;  /* of an array's row, at most 65535; longer packets are cut. 0: no payload, only places */
	uint32_t skip_bytes; /* of each payload, left out: a header in front of the samples */
	uint32_t window;     /* arrays open at once: when one more begins, the oldest is closed; 0 = 4, at most 64 */
	uint32_t sides;      /* 0 = 1, at most IBVCAP_PLACE_SIDES_MAX */
	uint32_t fill;       /* the byte that missing rows, and the rest of short ones, consist of */
	/*
	 * So long after an array's first packet it is closed, with the older ones; 0: never. It ends at the highest
	 * number that came, if the array would have more, and what comes later begins another one.
	 */
	uint64_t deadline_ns;
	/*
	 * Learnt as they come, at most 65536; 0 = 16; 1 if the description has nothing that tells them apart. The
	 * packets of others are unlisted.
	 */
	uint32_t max_sources;
	uint32_t n_sources; /* not 0: these sources and no others, in this order */
	const struct ibvcap_place_source *sources;
	uint32_t align; /* of an array's payload: a power of two, at most 2 MiB; 0 = 64 */
	uint32_t reserved;
	/*
	 * Memory of the caller for the payload of arrays: both functions or none, and row_bytes. take() gives memory
	 * for one array that begins, ibvcap_place_bytes() of it, at a multiple of align; NULL: there is none now.
	 * give_back() gets what take() gave, once: when the array is released, or the placer is freed. The placer
	 * calls them in the thread that calls it, and they may not call it. take() may wait for memory.
	 */
	void *(*take)(void *context, size_t align, size_t bytes);
	void (*give_back)(void *context, void *memory);
	void *context;
};

/** Why an array was closed. */
enum ibvcap_place_end {
	IBVCAP_PLACE_COMPLETE = 0, /* each side has brought each number of each source */
	IBVCAP_PLACE_WINDOW = 1,   /* more arrays than the window has, or than there is memory of the caller for */
	IBVCAP_PLACE_DEADLINE = 2,
	IBVCAP_PLACE_RESET = 3, /* the sources were restarted */
	IBVCAP_PLACE_FLUSH = 4, /* ibvcap_place_flush() */
	IBVCAP_PLACE_END_N
};

/**
 * A closed array; arrays come in the order of their numbers. Number first + i of source s has its row at payload +
 * (s * stride_numbers + i) * row_bytes, and its entry of present and lengths at [s * stride_numbers + i]. The caller
 * may change the array until ibvcap_place_release().
 */
struct ibvcap_place_array {
	size_t size;
	uint8_t *payload;  /* NULL: row_bytes is 0 */
	uint8_t *present;  /* bit k: side k brought the number; 0: it is missing */
	uint16_t *lengths; /* bytes of the packet in the row; 0 for a number in the row of an earlier one */
	uint64_t row_bytes;
	uint64_t stride_numbers;
	uint32_t n_sources;
	uint32_t n_numbers;
	int64_t first;       /* counted on from the run's first packet; below 0: from before the number was 0 */
	uint64_t run;        /* from 1 */
	uint64_t frame;      /* value of the description's frame; 0: it has none */
	uint64_t n_expected; /* n_numbers of each source, but see above */
	uint64_t n_present;  /* brought by any side */
	uint64_t before;     /* numbers between the last array and this one, missing in each source */
	uint64_t first_ns;   /* timestamp of the packet that began the array */
	uint64_t last_ns;    /* timestamp of the last packet that was placed in it */
	enum ibvcap_place_end end;
	uint32_t index; /* of the array's memory: what struct ibvcap_placed calls array */
	uint32_t at;    /* row of number first in that memory: rows before it are not the array's */
	uint32_t reserved;
};

enum ibvcap_placed_kind {
	IBVCAP_PLACED_FIRST = 0,     /* the number came for the first time: the packet belongs into its row */
	IBVCAP_PLACED_SECOND = 1,    /* another side had brought it */
	IBVCAP_PLACED_DUPLICATE = 2, /* the same side had brought it */
	/* Its array was closed, or was not begun: all open ones are newer, or there was no memory for it. */
	IBVCAP_PLACED_LATE = 3,
	IBVCAP_PLACED_FAR = 4,      /* far from the others, perhaps after a restart */
	IBVCAP_PLACED_OUTSIDE = 5,  /* the packet has more numbers than an array; or a frame has */
	IBVCAP_PLACED_UNREAD = 6,   /* without a number that can be read: too short, or a row in error */
	IBVCAP_PLACED_UNLISTED = 7, /* of a source for which there is no room */
	IBVCAP_PLACED_EMPTY = 8,    /* it takes no number */
};

/** Where a packet belongs. Does not grow. */
struct ibvcap_placed {
	uint32_t kind; /* enum ibvcap_placed_kind */
	/* Index of the array's memory: below window + 4 + the arrays that the caller holds or has not taken. */
	uint32_t array;
	uint32_t source; /* index */
	uint32_t row;    /* of the source in the array, less than ibvcap_place_rows(); IBVCAP_PLACE_NOWHERE: none */
};

/** Of one side. In numbers, unless said. */
struct ibvcap_place_side {
	size_t size;
	uint64_t packets;  /* given */
	uint64_t unread;   /* of packets */
	uint64_t unlisted; /* of packets */
	uint64_t empty;    /* of packets */
	uint64_t cut;      /* of packets: longer than a row */
	uint64_t arrived;
	uint64_t open;      /* in arrays that are open */
	uint64_t expected;  /* of closed arrays, and between them, as the next two */
	uint64_t present;   /* that this side brought */
	uint64_t missing;   /* that this side did not bring: charged when the array is closed */
	uint64_t only;      /* of present: that no other side brought */
	uint64_t duplicate; /* that this side had brought before */
	uint64_t late;
	uint64_t far;
	uint64_t outside;
	uint64_t no_memory; /* of late: the caller had no memory for their array */
};

/** The counts cover all sides. They cover the numbers of closed arrays and those between them, unless said. */
struct ibvcap_place_counts {
	size_t size;
	uint64_t expected;
	uint64_t present;
	uint64_t missing;
	uint64_t between;                    /* of missing: between two arrays */
	uint64_t arrays[IBVCAP_PLACE_END_N]; /* closed, by reason */
	uint64_t runs;                       /* begun */
	uint32_t n_open;                     /* arrays */
	uint32_t n_sources;
};

/**
 * Make a placer. The description is the stream's (ibvcap_rx_sequence()) or one of the caller's own. options NULL:
 * defaults. 0; -EINVAL: the description is unsound or empty, or an option is out of range; -E2BIG; -ENOMEM.
 */
int ibvcap_placer_new(const struct ibvcap_sequence *sequence, const struct ibvcap_placer_options *options,
                      struct ibvcap_placer **placer);

/** Its arrays become invalid. NULL is allowed. */
void ibvcap_placer_free(struct ibvcap_placer *placer);

/**
 * Place the rows of a batch, from row first on, that came on this side. The batch may be of any handle; the caller
 * holds it. placed, if not NULL, has batch->n entries and gets those of the rows.
 *
 * Returns how many rows were taken, at least 1: it stops behind a row that closed arrays. So call it with the next row
 * until all are taken, and ibvcap_place_next() in between, until it returns 0. Arrays that the caller does not take are
 * kept, and need memory. Allocates only if more arrays are in use than ever before. With memory of the caller, it also
 * stops before a row that waits for memory, after arrays were closed for it: take these, release what can be released,
 * and call it again. A row does not wait if the caller has not taken the arrays that were closed before the call.
 *
 * 0: first is behind the last row, or the first row waits; -EINVAL: a side or a size that is out of range, or the row
 * has no headers, and its source is in them; -ENOMEM: no row was taken.
 */
int ibvcap_place_add(struct ibvcap_placer *placer, const struct ibvcap_rx_batch *batch, uint32_t first, uint32_t side,
                     struct ibvcap_placed *placed);

/**
 * Place one packet from elsewhere, a file for example. Otherwise as ibvcap_place_add(). 1; 0: it waits; -EINVAL;
 * -ENOMEM.
 */
int ibvcap_place_add_packet(struct ibvcap_placer *placer, const struct ibvcap_packet *packet, uint64_t timestamp_ns,
                            uint32_t side, struct ibvcap_placed *placed);

/**
 * Take the next array that is closed. Never blocks. 1; 0: none; -EINVAL: the size is not set. The array is the caller's
 * until it is released.
 */
int ibvcap_place_next(struct ibvcap_placer *placer, struct ibvcap_place_array *array);

/** Return an array's memory, each array once, in any order. 0; -EINVAL: the caller does not hold it. */
int ibvcap_place_release(struct ibvcap_placer *placer, const struct ibvcap_place_array *array);

/** Close the arrays whose deadline is over at this time, UTC: for the time in which no packets come. */
void ibvcap_place_expire(struct ibvcap_placer *placer, uint64_t now_ns);

/** Close all arrays. The next packet begins a new run. */
void ibvcap_place_flush(struct ibvcap_placer *placer);

/** Rows of a source in an array's memory: numbers of the options, with frames 2 * numbers - 1. */
uint32_t ibvcap_place_rows(const struct ibvcap_placer *placer);
/** Bytes of an array's payload: its rows of as many sources as there may be. 0: row_bytes is 0. */
uint64_t ibvcap_place_bytes(const struct ibvcap_placer *placer);

/** Never blocks. 0; -EINVAL: the size is not set. */
int ibvcap_place_counts(const struct ibvcap_placer *placer, struct ibvcap_place_counts *counts);
/** Of one side. 1; 0: there is no such side; -EINVAL: the size is not set. */
int ibvcap_place_side(const struct ibvcap_placer *placer, uint32_t side, struct ibvcap_place_side *counts);
/** Copy the source of that index, from 0. 1; 0: there is none. */
int ibvcap_place_source(const struct ibvcap_placer *placer, uint32_t index, struct ibvcap_place_source *source);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
