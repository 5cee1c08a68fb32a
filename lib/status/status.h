// SPDX-License-Identifier: Apache-2.0
/*
 * The table of a status: each part that a status has, and each field and counter of the part. The check of messages,
 * the JSON of a status, what top knows of totals, and the lists in the manual page are made of it. A part is a public
 * struct of ibvcap.h, and its counters.
 */
#ifndef STATUS_STATUS_H
#define STATUS_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum status_type {
	STATUS_TEXT, /* char[], terminated */
	STATUS_U16,
	STATUS_U32,
	STATUS_I32,
	STATUS_U64,
	STATUS_I64,
	STATUS_HEX,  /* uint64_t; shown as 16 hexadecimal digits, since many readers of JSON cannot hold it */
	STATUS_BOOL, /* uint32_t */
	STATUS_WORD, /* uint32_t; shown as its word */
};

enum status_kind {
	STATUS_LABEL,   /* names or describes the part */
	STATUS_LEVEL,   /* goes up and down, or is set by the configuration */
	STATUS_MAXIMUM, /* the largest level within an epoch */
	STATUS_TOTAL,   /* only grows within an epoch */
	STATUS_TIME,    /* ns since 1970, UTC; 0: none */
};

/* A field of a part, or a counter, which has no place in the struct. */
struct status_field {
	const char *name; /* also the JSON key */
	const char *unit; /* "packets", "bytes", "ns", "ms", "s", "bps"; NULL: none */
	const char *help; /* a sentence or two without the full stop at the end */
	enum status_kind kind;
	bool is_shared;   /* a stream's, and the same in the entries of all its queues */
	bool is_optional; /* shown only if it is above 0, or not empty */
	bool may_lack;    /* a number that may not be known, which all bits 1 say: null in JSON, no metric */
	bool is_hidden;   /* no view shows it: reserved, counted by the library, or known by the place of the part */
	/* For a field: */
	enum status_type type;
	uint16_t offset;
	uint16_t bytes;
	const char *const *words; /* of STATUS_WORD; the last entry is NULL */
	/* The explanation of `ibvcap why` for a counter that is not 0; NULL: none, or it depends on other facts. */
	const char *cause;
	const char *remedy;
};

enum status_kind_of_part {
	STATUS_DAEMON,
	STATUS_STREAM, /* a queue of a stream; fields with is_shared are of the whole stream */
	STATUS_FLOW,
	STATUS_CONSUMER,
	STATUS_CHANNEL,
	STATUS_SENDER,
	STATUS_INTERFACE,
	STATUS_N_PARTS
};

struct status_part {
	const char *name;                    /* of the struct */
	const char *list;                    /* the JSON key of the part, or of all such parts */
	const struct status_field *fields;   /* ends with one without a name */
	const struct status_field *counters; /* by index; one without a name is not in use */
	uint32_t n_counters;
	uint16_t bytes;       /* of the struct */
	uint16_t counters_at; /* offset of its pointer to counters, which n_counters follows; 0: it has none */
};
extern const struct status_part status_parts[STATUS_N_PARTS];

#define STATUS_COUNTERS_MAX 64

#define STATUS_REMEDY_BYTES 384

/** Write the remedy of a counter of an interface, with that interface's name. Returns the text, which may be cut. */
const char *status_write_remedy(const struct status_field *counter, const char *interface,
                                char text[STATUS_REMEDY_BYTES]);

/** The counter of that name; NULL: there is none. */
const struct status_field *status_find_counter(const struct status_part *part, const char *name);

/**
 * Check a part as it came in a message: the struct, as long as its size says, and as many values of counters as it
 * says, in so many bytes together. A struct of another version may be longer or shorter. Pure.
 */
bool status_is_sound(uint32_t kind, const void *part, size_t bytes);

/** The word of a value; "unknown": there is none. */
const char *status_word(const char *const *words, uint64_t value);
extern const char *const status_clock_words[];        /* of enum ibvcap_clock_source */
extern const char *const status_system_clock_words[]; /* of enum ibvcap_system_clock */
extern const char *const status_policy_words[];       /* of enum ibvcap_policy */

struct ibvcap_counter;
/** The counters of a part, NULL and 0 if the part has none. */
const struct ibvcap_counter *status_counters(const struct status_part *known, const void *part, uint32_t *n);

/** Does a view of the part show the field? */
bool status_is_shown(const struct status_field *field, const void *part);

/** The number in a field that is no text; IBVCAP_NOT_KNOWN, if the field may_lack and the daemon does not know it. */
uint64_t status_number(const struct status_field *field, const void *part);

#endif
