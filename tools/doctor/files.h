// SPDX-License-Identifier: Apache-2.0
/* Files of sysfs and /proc. Inside the doctor only. */
#ifndef TOOLS_DOCTOR_FILES_H
#define TOOLS_DOCTOR_FILES_H

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*files_entry_fn)(const char *directory, const char *name, void *context);

void files_join(char path[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The kernel bounds its names as the facts do; a longer one would be cut. */
void files_copy_name(char *to, size_t bytes, const char *name);

bool files_exist(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** The first line, "" if there is none. */
void files_read_line(char *line, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/** The whole of a small file as a text; "" if it can't be read. */
void files_read_text(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/** The number in directory/name; 0 if there is none. */
uint64_t files_read_number(const char *directory, const char *name);

/** The same where "max" is UINT64_MAX, and so is no file. */
uint64_t files_read_limit(const char *directory, const char *name);

/** A list of CPUs as the kernel writes it: "0-3,8". What can't be read is none. */
void files_read_cpus(cpu_set_t *cpus, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The text after a line's label: "Max locked memory" in limits, "CapEff:" in status; "" if there is none. */
void files_read_labelled(const char *path, const char *label, char *text, size_t bytes);

/** The last part of where a link points to; "" if it is none. */
void files_read_link_name(const char *path, char *name, size_t bytes);

/** Whatever does not begin with a dot. */
void files_for_each(const char *directory, files_entry_fn visit, void *context);

#endif
