// SPDX-License-Identifier: Apache-2.0
/*
 * The inside of a placer. Each file uses only those above it:
 *
 *   place_array.c   memory of arrays; which are open; what a closed one says
 *   place_run.c     where a packet's number lies, and whether the sources were restarted
 *   place_new.c     makes a placer
 *   place.c         the other calls of place.h: from rows to arrays
 *
 * A position is a number that is counted on where the field begins again at 0. Positions are compared by the sign of
 * their difference, so they may pass 2^64.
 */
#ifndef IBVCAP_PLACE_INSIDE_H
#define IBVCAP_PLACE_INSIDE_H

#include "lib/ibvcap/track/source_table.h"

#include <ibvcap/place.h>

#define PLACE_WINDOW_MAX 64
#define PLACE_RESERVE    4 /* arrays that one row can begin: two of its own, two of the row that it confirms */

/* What else a packet is, inside of a placer: there is no memory for its array; it waits for that, as if not given. */
#define PLACE_NO_MEMORY ((enum ibvcap_placed_kind)(IBVCAP_PLACED_EMPTY + 1))
#define PLACE_WAITS     ((enum ibvcap_placed_kind)(IBVCAP_PLACED_EMPTY + 2))
#define PLACE_ALIGN     64 /* a cache line */

enum place_use {
	PLACE_FREE,
	PLACE_OPEN,
	PLACE_CLOSED, /* to be taken */
	PLACE_HELD,   /* by the caller */
};

/* An array, and its memory, which the next array gets when the caller has released it. */
struct place_array {
	struct place_array *next; /* of the free ones, or of the closed ones */
	enum place_use use;
	uint32_t index;
	void *memory;     /* of the placer */
	uint8_t *payload; /* in memory of the caller, only while the array is in use; else in memory */
	uint8_t *present;
	uint16_t *lengths;

	uint64_t base; /* position of row 0 */
	uint64_t low;  /* the lowest position that came, and the highest */
	uint64_t high;
	uint64_t frame;
	uint64_t serial; /* arrays begun before it, plus 1 */
	uint64_t n_present;
	uint64_t n_brought; /* by each side, added up */
	uint64_t n_wanted;  /* n_brought of a complete array, as of version */
	uint64_t version;
	uint64_t first_ns;
	uint64_t last_ns;
	struct ibvcap_place_array closed;
};

/* From one restart of the sources to the next. */
struct place_run {
	uint64_t id; /* 0: none yet */
	bool is_begun;
	bool has_closed; /* an array of it */
	uint64_t first;  /* the lowest position that came */
	uint64_t next;   /* the position after the highest, and its number as the packets have it */
	uint64_t next_number;
	uint64_t closed_end; /* the position after the last closed array */
};

/* A source on a side. */
struct place_lane {
	uint64_t serial;  /* of the array that it last brought a packet to; 0: to none in this run */
	uint64_t next;    /* the position after its highest */
	uint64_t suspect; /* number of its last far packet */
	bool has_next;    /* in this run */
	bool has_suspect; /* no packet of the run came since */
};

/* A source that was learnt is expected from its first position on, in the run in which it was learnt. */
struct place_source {
	uint64_t run; /* 0: no packet was placed yet */
	uint64_t first;
};

/* What a packet brings. Its bytes can be in two pieces. */
struct place_item {
	uint64_t number;
	uint64_t frame;
	uint64_t timestamp_ns;
	uint32_t n;
	uint32_t source;
	uint32_t side;
	const uint8_t *pieces[2];
	uint32_t piece_bytes[2];
};

struct ibvcap_placer {
	struct ibvcap_placer_options options; /* none is 0 by default any more */
	struct sequence_reader reader;
	struct source_table table;
	struct place_source *sources;
	struct place_lane *lanes; /* of a source: sides of them */
	uint32_t rows;            /* of a source in an array */
	bool may_wait;            /* in this call: the caller had taken all closed arrays */
	bool is_waiting;          /* the last packet of this call */
	uint64_t ahead_max;
	uint64_t behind_max;
	uint64_t near_max;

	struct place_array **arrays; /* all, by index */
	struct place_array *free;
	struct place_array *first_closed;
	struct place_array *last_closed;
	struct place_array *open[PLACE_WINDOW_MAX]; /* in the order of their positions */
	struct place_array *last;                   /* of open: that a packet was last placed in; NULL: none */
	uint32_t n_open;
	uint32_t n_arrays;
	uint32_t n_free;
	uint64_t serial;
	uint64_t version;        /* grows when other numbers are expected */
	uint64_t expire_next_ns; /* UINT64_MAX: no open array has a deadline */

	struct place_run run;
	uint64_t slack;         /* packets skipped by the consumer since one was placed: a gap may be longer by them */
	uint64_t n_astray;      /* numbers far or late since a packet was placed */
	struct place_item held; /* the last far packet, n = 0: none; its first piece is memory of the placer */
	uint8_t *held_bytes;

	struct ibvcap_place_counts counts;
	struct ibvcap_place_side sides[IBVCAP_PLACE_SIDES_MAX];
};

/** How far it is from position a to b; below 0: b is lower. */
static inline int64_t place_offset(uint64_t a, uint64_t b)
{
	return (int64_t)(b - a);
}

/* ---- place_array.c ------------------------------------------------------------------------------- */

/** Have so much memory that a row can be placed. 0, -ENOMEM. */
int place_arrays_reserve(struct ibvcap_placer *placer);
void place_arrays_free(struct ibvcap_placer *placer);
/** Bytes of an array's payload. */
uint64_t place_payload_bytes(const struct ibvcap_placer *placer);
/** The caller has done with the array. Memory of the caller goes back. */
void place_array_put_free(struct ibvcap_placer *placer, struct place_array *array);

/** The open array for n numbers, which is begun if it may. NULL: *kind says why not. */
struct place_array *place_array_find(struct ibvcap_placer *placer, const struct place_item *item, uint64_t position,
                                     uint32_t n, enum ibvcap_placed_kind *kind);

/** Close the oldest arrays that are complete. */
void place_arrays_close_complete(struct ibvcap_placer *placer);
/** Close the n oldest. */
void place_arrays_close(struct ibvcap_placer *placer, uint32_t n, enum ibvcap_place_end end);

/* ---- place_run.c --------------------------------------------------------------------------------- */

/** Begin a run with the packet of this number. */
void place_run_begin(struct ibvcap_placer *placer, uint64_t number);
/** False: the number is far from the run's. */
bool place_run_locate(const struct ibvcap_placer *placer, uint64_t number, uint64_t *position);
/** Is the number as far behind the others of its source and side as after a restart, and brings nothing new? */
bool place_run_is_stepped_back(const struct ibvcap_placer *placer, const struct place_item *item, uint64_t position);
/** The source is expected from this position on, if it was learnt in this run and is not expected yet. */
void place_run_learn(struct ibvcap_placer *placer, uint32_t source, uint64_t position);
/** A packet was placed: the run has its numbers, and its source. */
void place_run_extend(struct ibvcap_placer *placer, uint32_t source, uint64_t position, uint32_t n);
/** A far packet: was its source restarted, and all others that are active? */
bool place_run_is_over(struct ibvcap_placer *placer, const struct place_item *item);
/** Are they so near each other that one confirms the other? */
bool place_run_is_near(const struct ibvcap_placer *placer, uint64_t a, uint64_t b);
/** All arrays are closed for this reason, and no far packet is remembered. */
void place_run_end(struct ibvcap_placer *placer, enum ibvcap_place_end end);

#endif
