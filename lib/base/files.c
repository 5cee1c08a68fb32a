// SPDX-License-Identifier: Apache-2.0
/* Reads the small files of sysfs and /proc. A file that cannot be read has no content. */
#include "lib/base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a function with a format and its values: make the path of them. */
#define FILES_FORMAT(path, format)                                \
	do {                                                      \
		va_list arguments;                                \
		va_start(arguments, format);                      \
		vsnprintf((path), PATH_MAX, (format), arguments); \
		va_end(arguments);                                \
	} while (0)

void files_join(char path[PATH_MAX], const char *format, ...)
{
	FILES_FORMAT(path, format);
}

void files_copy_name(char *to, size_t bytes, const char *name)
{
	size_t n = strnlen(name, bytes - 1);

	memmove(to, name, n);
	to[n] = '\0';
}

bool files_exist(const char *format, ...)
{
	char path[PATH_MAX];

	FILES_FORMAT(path, format);
	return access(path, F_OK) == 0;
}

static void read_path(char *text, size_t bytes, const char *path)
{
	size_t n = 0;
	ssize_t r = 1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && r > 0 && n < bytes - 1) {
		r = read(fd, text + n, bytes - 1 - n);
		n += r > 0 ? (size_t)r : 0;
	}
	if (fd >= 0)
		close(fd);
	text[n] = '\0';
}

bool files_read_line(char *line, size_t bytes, const char *format, ...)
{
	char path[PATH_MAX];

	FILES_FORMAT(path, format);
	read_path(line, bytes, path);
	line[strcspn(line, "\n")] = '\0';
	/* A process chooses its own name: it must not send control sequences to the terminal. */
	for (char *c = line; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return *line;
}

uint64_t files_read_number(const char *directory, const char *name)
{
	char line[32];

	files_read_line(line, sizeof(line), "%s/%s", directory, name);
	return strtoull(line, NULL, 0);
}

uint64_t files_read_limit(const char *directory, const char *name)
{
	char line[32];

	files_read_line(line, sizeof(line), "%s/%s", directory, name);
	return *line && strcmp(line, "max") != 0 ? strtoull(line, NULL, 10) : UINT64_MAX;
}

bool files_read_cpus(cpu_set_t *cpus, const char *format, ...)
{
	char path[PATH_MAX], list[4096];
	unsigned long first, last;
	char *at = list;

	FILES_FORMAT(path, format);
	read_path(list, sizeof(list), path);
	CPU_ZERO(cpus);
	while (*at >= '0' && *at <= '9') {
		first = last = strtoul(at, &at, 10);
		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (; first <= last && first < CPU_SETSIZE; first++)
			CPU_SET(first, cpus);
		at += *at == ',';
	}
	return CPU_COUNT(cpus) > 0;
}

void files_read_labelled(const char *path, const char *label, char *text, size_t bytes)
{
	FILE *file = fopen(path, "re");
	char line[256];

	*text = '\0';
	while (file && !*text && fgets(line, sizeof(line), file))
		if (strncmp(line, label, strlen(label)) == 0)
			snprintf(text, bytes, "%.*s", (int)strcspn(line, "\n") - (int)strlen(label),
			         line + strlen(label));
	if (file)
		fclose(file);
}

void files_read_link_name(const char *path, char *name, size_t bytes)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	const char *slash;

	target[n > 0 ? n : 0] = '\0';
	slash = strrchr(target, '/');
	files_copy_name(name, bytes, slash ? slash + 1 : target);
}

static int compare_entries(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

bool files_list(struct files_list *list, const char *format, ...)
{
	struct dirent *entry;
	DIR *directory;
	char **grown;

	*list = (struct files_list){0};
	FILES_FORMAT(list->directory, format);
	directory = opendir(list->directory);
	if (!directory)
		return false;
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		grown = reallocarray(list->names, list->n + 1, sizeof(*grown));
		if (!grown)
			break;
		list->names = grown;
		if (!(grown[list->n] = strdup(entry->d_name)))
			break;
		list->n++;
	}
	closedir(directory);
	if (list->n)
		qsort(list->names, list->n, sizeof(*list->names), compare_entries);
	return true;
}

bool files_next(struct files_list *list)
{
	if (list->next < list->n) {
		list->name = list->names[list->next++];
		files_join(list->path, "%s/%s", list->directory, list->name);
		return true;
	}
	while (list->n)
		free(list->names[--list->n]);
	free(list->names);
	*list = (struct files_list){0};
	return false;
}
