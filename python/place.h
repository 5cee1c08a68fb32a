// SPDX-License-Identifier: Apache-2.0
/* Shared by a placer and its arrays. Declares placed_array.c. */
#ifndef IBVCAP_PYTHON_PLACE_H
#define IBVCAP_PYTHON_PLACE_H

#include "python/binding.h"

#include <ibvcap/place.h>

/* An array that was given up while its placer was busy. */
struct returned {
	struct ibvcap_place_array array;
	struct returned *next;
};

/* It is no object of Python, as a receiver is none: so a Placer that keeps its arrays makes no cycle of references. */
struct placer {
	uint32_t n_references; /* of its Placer, and of its arrays */
	struct ibvcap_placer *placer;
	bool is_busy;              /* a thread places packets */
	struct returned *returned; /* while it did */
	struct batch *batch;       /* whose rows are not all placed yet: a reference, and a buffer of it */
	uint32_t row;
	uint32_t side;
};

/** Without a reference there is no Placer and no array. */
void placer_unref(struct placer *placer);

/** An array of a closed one, whose memory it returns. NULL: it is returned, and an exception is set. */
PyObject *placed_array_new(struct placer *placer, const struct ibvcap_place_array *of);

#endif
