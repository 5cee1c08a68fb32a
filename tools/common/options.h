// SPDX-License-Identifier: Apache-2.0
/*
 * The command line of a subcommand as a table: a row for each option. --help, the checks of values and their messages
 * are made of the rows. A test compares the manual page with --help. The shells complete options from --help.
 */
#ifndef TOOLS_COMMON_OPTIONS_H
#define TOOLS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
	OPTION_FLAG,    /* no argument; sets the member to value, or to 1 if that is 0 */
	OPTION_TEXT,    /* const char * */
	OPTION_COUNT,   /* an integer from 1 to max */
	OPTION_NUMBER,  /* an integer from 0 to max */
	OPTION_SECONDS, /* a decimal fraction of more than 0, stored as uint64_t in ns */
	OPTION_SIZE,    /* millions of bytes, or a number with k, M or G (2^10, …), stored as uint64_t in bytes */
	OPTION_CHOICE,  /* one of choices, stored as its index */
	OPTION_CALL,    /* take() */
	/* --help leaves these out, and their help says what to do instead: */
	OPTION_TCPDUMP, /* an option of tcpdump that users try; it has a letter */
};

/*
 * An option, or, without a name, a line of text in --help. The member of the subcommand's struct that gets the value is
 * a bool, or an integer of 4 or 8 bytes.
 */
struct option_row {
	const char *name;
	char letter;          /* 0: it has none */
	const char *argument; /* as --help calls the value; NULL: the option has none */
	const char *help;     /* a line feed begins another line in the same column */
	enum option_type type;
	size_t at; /* offset of the member, with bytes: OPTION_AT() */
	size_t bytes;
	uint64_t max;               /* 0: as much as the member holds */
	uint64_t unit;              /* stored: the integer times this; 0: 1 */
	uint64_t value;             /* value of a flag, or of word */
	const char *word;           /* a word that an integer option takes, too, and stores as value */
	const char *const *choices; /* NULL ends them */
	const char *instead;        /* behind the message of a wrong value: what to do instead; NULL: nothing */
	/* NULL: the value is taken. Otherwise why it is wrong, for a message. text is NULL if there is no argument. */
	const char *(*take)(void *options, const char *text);
};

#define OPTION_AT(type, member) .at = offsetof(type, member), .bytes = sizeof(((type *)NULL)->member)

/* Rows of several subcommands. Their files include <ibvcap/ibvcap.h>. */
#define OPTION_SOCKET(option_letter, type, member)                                                           \
	{                                                                                                    \
		"socket", option_letter, "PATH",                                                             \
			"the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")", \
			OPTION_TEXT, OPTION_AT(type, member)                                                 \
	}

/* How long a consumer waits for the daemon's next run, in the member's ms. */
#define OPTION_REATTACH(type, member)                                                                         \
	{                                                                                                     \
		"reattach", 'r', "S", "when the daemon ends, wait S seconds for its next run; 0: end (30)",   \
			OPTION_NUMBER, OPTION_AT(type, member),                                               \
			.max = UINT32_MAX / 1000 - 1, .unit = 1000, .word = "0", .value = IBVCAP_NO_REATTACH, \
			.instead = "'ibvcap info', 'ibvcap extract' and 'ibvcap replay' read files"           \
	}

/* The most lines of a list, in a member of 8 bytes. N stands in help. */
#define OPTION_AT_MOST(option_name, option_help, type, member)                                                \
	{                                                                                                     \
		option_name, 0, "N", option_help, OPTION_NUMBER, OPTION_AT(type, member), .word = "all",      \
											  .value = UINT64_MAX \
	}

/* Two options that contradict each other, or of which one means nothing without the other. */
struct option_rule {
	const char *option;
	enum { OPTION_NOT_WITH, OPTION_ONLY_WITH } kind;
	const char *other;
	const char *why; /* the reason, for the message; may be NULL */
};

/* A word that is no option. */
struct option_word {
	const char *missing; /* the message if the word is missing */
	size_t at;           /* offset of a const char * */
};

#define OPTION_WORDS_MAX 2

struct options_table {
	const char *command; /* "recv" */
	const char *usage;   /* the text of --help in front of the options */
	const struct option_row *rows;
	const struct option_rule *rules;
	size_t n_rows;
	size_t n_rules;
	struct option_word words[OPTION_WORDS_MAX];
	bool takes_more;     /* words behind these: from optind on */
	const char *no_more; /* else what to say of one; NULL: nothing */
};

#define OPTION_ROWS(array)  .rows = (array), .n_rows = sizeof(array) / sizeof((array)[0])
#define OPTION_RULES(array) .rules = (array), .n_rules = sizeof(array) / sizeof((array)[0])

/* The options of a subcommand that asks the daemon one question. */
struct query_options {
	const char *socket; /* NULL: the default one */
	const char *stream;
	bool json;
};

/**
 * Parse the command line into options, which has the defaults. -1: the subcommand goes on, and its further words begin
 * at optind. Other values: the subcommand ends with this exit code, after the output of --help or an error message.
 */
int options_parse(const struct options_table *table, int argc, char **argv, void *options);

/** Whether --help lists the long option that a word of a command line names: "--write", "--write=x". */
bool options_has(const struct options_table *table, const char *argument);

/** Print the fault of the command line, and how the subcommand is called. Returns EX_USAGE. */
int options_refuse(const struct options_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
