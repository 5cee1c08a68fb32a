// SPDX-License-Identifier: Apache-2.0
/* Files of sysfs and /proc. If one cannot be read, the result is empty, zero or none. */
#ifndef LIB_BASE_FILES_H
#define LIB_BASE_FILES_H

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void files_join(char path[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Copy a name. The kernel's names fit into the facts; a longer one is cut off. */
void files_copy_name(char *to, size_t bytes, const char *name);

bool files_exist(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Read the first line. Characters that are not printable become question marks. False: there is none. */
bool files_read_line(char *line, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/** Read the number in the file directory/name. */
uint64_t files_read_number(const char *directory, const char *name);

/** Read a limit of a cgroup. "max" and a missing file are UINT64_MAX. */
uint64_t files_read_limit(const char *directory, const char *name);

/** Read a list of CPUs, or of nodes, as the kernel writes it, "0-3,8". False: there are none. */
bool files_read_cpus(cpu_set_t *cpus, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Copy the text behind label from the line that begins with it, for example "CapEff:" in /proc/PID/status. */
void files_read_labelled(const char *path, const char *label, char *text, size_t bytes);

/** Read a symbolic link, and copy the last component of its target. */
void files_read_link_name(const char *path, char *name, size_t bytes);

/* The entries of a directory whose names do not begin with a dot, in the order of the numbers in them. */
struct files_list {
	const char *name; /* of the entry */
	char **names;
	size_t n, next;
	char directory[PATH_MAX];
	char path[PATH_MAX]; /* of the entry */
};

/** Read a directory. False: it cannot be opened, and the list is empty. Call files_next() until it returns false. */
bool files_list(struct files_list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Go to the next entry. False: there is none, and the list is freed. */
bool files_next(struct files_list *list);

#endif
