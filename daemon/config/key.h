// SPDX-License-Identifier: Apache-2.0
/*
 * A key of the configuration file is one row of a table. From the row come: how a value is read and checked, its
 * default, the field it is stored in, whether a reload may change it, and its entry in --dump-config, in a reload's
 * log, in the manual page and in the shells' completion. Pure, but for user names. Declares key_value.c.
 */
#ifndef DAEMON_CONFIG_KEY_H
#define DAEMON_CONFIG_KEY_H

#include "lib/base/failure.h"

#include <libconfig.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct config_reader;

/* The type of the value, and of the field that it is stored in. */
enum key_type {
	KEY_INTEGER,   /* an integer of 1, 2, 4 or 8 bytes */
	KEY_BOOLEAN,   /* bool */
	KEY_CHOICE,    /* a string, one of choices: an integer or enum */
	KEY_STRING,    /* not empty: char array */
	KEY_INTERFACE, /* a string, any name of an interface: char array for that which the kernel lists it under */
	KEY_NAME,      /* a string of letters, digits, '.', '_' and '-': char array */
	KEY_PATH,      /* an absolute path: char array */
	KEY_MODE,      /* a string of octal permissions: mode_t */
	KEY_ADDRESS,   /* a string, unicast or multicast: struct config_address */
	KEY_UNICAST,   /* a string: struct config_address, AF_UNSPEC if empty */
	KEY_PREFIX,    /* a string, an address or prefix: likewise; its length in bits goes to the uint8_t at .count */
	KEY_MAC,       /* a string, of a station or group: 6 bytes; the bool at .count is false if it is empty */
	KEY_STATION,   /* likewise, of a station */
	KEY_NUMBER,    /* an integer, also as a string, "0x" for hexadecimal, or one of choices: int32_t */
	KEY_BYTES,     /* a string of hexadecimal digits, two a byte: array of bytes; all 0xff if it is empty */
	KEY_GID,       /* a string, name or number: gid_t, (gid_t)-1 if empty */
	KEY_UIDS,      /* an array of strings and integers: pointer to uid_t, counted at .count */
	KEY_GIDS,      /* likewise gid_t */
	KEY_NUMBERS,   /* an array of integers from .min to .max: pointer to uint32_t, counted at .count */
	KEY_GROUP,     /* { … }: fields of the same struct */
	KEY_LIST,      /* ( { … }, … ): pointer to structs, counted at .count */
};

struct key_choice {
	const char *name; /* NULL ends the list */
	uint32_t value;
};

struct key {
	const char *name;
	enum key_type type;
	size_t offset; /* the field's, in the struct of its group */
	size_t bytes;  /* size of the field */
	size_t count;  /* offset of the uint32_t that counts what the field points at */
	bool required;
	bool live; /* a reload may change it; any other key is fixed as long as the daemon, stream or channel runs */
	int64_t number; /* default of an integer or boolean */
	int64_t min;
	int64_t max;
	int64_t multiple_of;              /* 0 = any */
	int64_t unit;                     /* the field holds the value times this; 0 = 1 */
	bool power_of_two;                /* only those */
	const char *string;               /* default of a string or choice; NULL = none */
	const struct key_choice *choices; /* the accepted words, if the type is a choice */
	const struct key_group *group;    /* if the type is a group or a list: the keys in it or in each entry */
	const char *help;
};

/* A kind of group, the keys it takes and the struct it is read into. */
struct key_group {
	const char *what; /* for messages: "a stream" */
	const struct key *keys;
	unsigned n_keys;
	size_t text; /* offset of the const char * with the keys in the file's syntax, a line each */

	/* If the type is a list: limits of its entries. */
	unsigned n_max;
	size_t bytes; /* size of the struct */
	size_t file;  /* offset of the const char * that says where the entry stands; 0 = none */
	size_t line;  /* offset of the int, likewise */

	/** Keys against each other. 0, or -errno with the failure at the setting's line. NULL: nothing to check. */
	int (*check)(const struct config_reader *reader, const config_setting_t *setting, const void *entry);

	/** An entry against those of its list that config has so far; likewise. */
	int (*check_among)(const struct config *config, const void *entry, struct failure *failure);
};

/** "an integer from 64 to 32768, a multiple of 64"; returns buffer. */
const char *key_accepted(const struct key *key, char *buffer, size_t bytes);

/** As it would be written in the file: "4096", "\"2M\"", "[]". A required key has none: "". Returns buffer. */
const char *key_default(const struct key *key, char *buffer, size_t bytes);

/** By its name. NULL: the group has no such key. */
const struct key *key_find(const struct key_group *group, const char *name);

/** The setting of the key in a group of the file. NULL: the key is at its default. */
config_setting_t *key_setting(const struct key *key, const config_setting_t *group);

/** The key of the group that has name in other programs, or that is near to name, or begins with it; NULL: none. */
const struct key *key_find_nearest(const struct key_group *group, const char *name);

/** A sentence on a text that the key does not take, "; …"; "": there is nothing to add to key_accepted(). */
const char *key_hint(const struct key *key, const char *text);

/** Is the field a pointer to words of 4 bytes, counted at .count? */
bool key_is_array(const struct key *key);

/** How many elements the field of an array or list has, in the struct at base. */
uint32_t key_count(const struct key *key, const void *base);

/** One entry of a list. */
const void *key_entry(const struct key *key, const void *base, uint32_t index);

/** The value of the key 'name' of an entry, or NULL: such entries have no name. */
const char *key_entry_name(const struct key_group *group, const void *entry);

/** The lines "key = value;" of a group. */
const char *key_group_text(const struct key_group *group, const void *base);

/* ---- key_value.c, inside the config room only --------------------------------------------------- */

/** Store a key's string value in its field of the struct at base. False: the value is not accepted. */
bool key_store_string(const struct key *key, const char *text, void *base);

/** Likewise an integer or boolean. */
bool key_store_number(const struct key *key, int64_t number, void *base);

/** The number that a text of a KEY_NUMBER stands for, in range or not. False: none. */
bool key_parse_number(const struct key *key, const char *text, int64_t *number);

/** The choice of a KEY_NUMBER that stands for the number; NULL: none does. */
const char *key_choice_name(const struct key *key, int64_t number);

/** A user or group by name or number. May block on a directory service. 0; -ENOENT: no such name; -errno. */
int user_names_find_user(const char *text, uint32_t *id);
int user_names_find_group(const char *text, uint32_t *id);

/* ---- key_table.c: all keys of the configuration file -------------------------------------------- */

extern const struct key_group top_keys;      /* struct config */
extern const struct key_group control_keys;  /* struct config */
extern const struct key_group stream_keys;   /* struct config_stream */
extern const struct key_group sequence_keys; /* struct config_stream */
extern const struct key_group sensor_time_keys;
extern const struct key_group flow_keys;    /* struct config_flow */
extern const struct key_group channel_keys; /* struct config_channel */
extern const struct key_group destination_keys;

#endif
