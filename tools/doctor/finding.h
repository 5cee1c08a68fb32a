// SPDX-License-Identifier: Apache-2.0
/* The findings of `ibvcap doctor`: one entry for each thing that a check looked at, right or not. */
#ifndef TOOLS_DOCTOR_FINDING_H
#define TOOLS_DOCTOR_FINDING_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#define FINDING_TEXT_BYTES 1024
#define FINDINGS_MAX       704

/* The worst level of all findings is the exit status. */
enum finding_level { FINDING_OK, FINDING_WARNING, FINDING_ERROR };

struct finding {
	enum finding_level level;
	const char *check; /* its name in JSON and in ibvcap-tuning(7) */
	pid_t holder;      /* the process that it is about, if it is one of many; the text has one line for all at ok */
	char subject[FINDING_TEXT_BYTES];
	char found[FINDING_TEXT_BYTES];
	/* empty where level is FINDING_OK: */
	char wanted[FINDING_TEXT_BYTES];
	char why[FINDING_TEXT_BYTES];
	/* One of the two: */
	char fix[FINDING_TEXT_BYTES];    /* a shell command; what follows a # is for the reader */
	char advice[FINDING_TEXT_BYTES]; /* a sentence, where no command mends it */
	bool fix_survives_reboot;
	bool fix_is_edit; /* of the configuration, or leads to one: nobody expects that a reboot undoes it */
	bool fix_is_host; /* a container shares what it changes with the host, and only the host can change it */
};

struct findings {
	struct finding entries[FINDINGS_MAX];
	unsigned int n;
};

/** A new finding at level ok, about a subject. If the array is full, its last entry is used again. */
struct finding *finding_add(struct findings *findings, const char *check, const char *subject, ...)
	__attribute__((format(printf, 3, 4)));

/** Raise the level of a finding, and say why, and what is wanted. */
void finding_fail(struct finding *finding, enum finding_level level, const char *why, const char *wanted, ...)
	__attribute__((format(printf, 4, 5)));

/* A fix that survives a reboot; one of what a container shares with its host, which only the host can change. */
enum finding_fix_kind { FIX_LASTS = 1, FIX_ON_HOST = 2 };
/** The fix is this command, of that kind. */
void finding_fix(struct finding *finding, unsigned int kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** The fix is an edit of the configuration at that line; the format names the key and what to write. */
void finding_fix_by_edit(struct finding *finding, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** In a container: make each fix that belongs to the host a comment that says so. */
void findings_name_host(struct findings *findings);

/** Format one text of a finding. Control characters become blanks, because file names can contain them. */
void finding_write(char text[FINDING_TEXT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The same behind the text that is there already. */
void finding_append(char text[FINDING_TEXT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Format CPUs as the kernel does, "0-3,8", or "none"; returns text. */
const char *finding_format_cpus(const cpu_set_t *cpus, char text[FINDING_TEXT_BYTES]);

/** The worst level of all entries. */
enum finding_level findings_worst_level(const struct findings *findings);

#endif
