// SPDX-License-Identifier: Apache-2.0
/* Reads from a program's file whether the dynamic linker will preload a library below it. */
#include "softhca_program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NAMES_BYTES (1 << 20) /* the names of needed libraries lie near the start, in .dynstr */

static const char *program_find(const char *name, char *path, size_t size)
{
	char *copy, *save = NULL;
	const char *search = getenv("PATH");

	if (strchr(name, '/') || !search)
		return name;
	copy = strdup(search);
	for (char *dir = strtok_r(copy, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
		snprintf(path, size, "%s/%s", dir, name);
		if (!access(path, X_OK)) {
			free(copy);
			return path;
		}
	}
	free(copy);
	return name;
}

/* AddressSanitizer's library has to be loaded first, and so has ThreadSanitizer's. */
static void program_find_sanitizer(struct program *p, const void *file, size_t bytes)
{
	size_t n = bytes < NAMES_BYTES ? bytes : NAMES_BYTES;
	const char *at = memmem(file, n, "libasan.so.", 11);

	if (!at)
		at = memmem(file, n, "libtsan.so.", 11);
	if (at)
		snprintf(p->sanitizer, sizeof(p->sanitizer), "%s", at);
}

static bool program_has_interpreter(const uint8_t *file, size_t bytes)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;

	memcpy(&head, file, sizeof(head));
	for (uint64_t i = 0; i < head.e_phnum; i++) {
		uint64_t at = head.e_phoff + i * sizeof(part);

		if (at > bytes - sizeof(part))
			return false;
		memcpy(&part, file + at, sizeof(part));
		if (part.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* exec(2), capabilities(7): AT_SECURE. With no_new_privs a set-uid program gains nothing. One with file capabilities
 * does not either, but the kernel sets AT_SECURE all the same. */
static bool program_gains_privileges(int fd, const struct stat *st)
{
	if (getuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return true;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	return ((st->st_mode & S_ISUID) && st->st_uid != geteuid()) ||
	       ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getegid());
}

void program_read(struct program *p, const char *command)
{
	char path[PATH_MAX];
	struct stat st;
	int fd = open(program_find(command, path, sizeof(path)), O_RDONLY | O_CLOEXEC);
	uint8_t *file;

	memset(p, 0, sizeof(*p));
	if (fd < 0)
		return;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(Elf64_Ehdr)) {
		close(fd);
		return;
	}
	p->is_privileged = program_gains_privileges(fd, &st);
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	if (!memcmp(file, ELFMAG, SELFMAG) && file[EI_CLASS] == ELFCLASS64) {
		program_find_sanitizer(p, file, (size_t)st.st_size);
		p->is_static = !program_has_interpreter(file, (size_t)st.st_size);
	}
	munmap(file, (size_t)st.st_size);
}
