// SPDX-License-Identifier: Apache-2.0
/* Faults of the device that files in a directory, or `softhca inject`, switch on and off. */
#include "injection.h"

#include "../wire/complain.h"
#include "../wire/lines.h"
#include "clock.h"
#include "device.h"
#include "hw.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COMMAND_TIMEOUT_S 60 /* mlx5_core: MLX5_CMD_TIMEOUT_MSEC */
#define HANG_POLL_NS      10000000
#define NS_PER_MS         1000000ull
#define NS_PER_S          1000000000ull
#define LOOK_NS           1000000u /* how often the directory is looked at */
#define VALUE_BYTES       32
#define ENTRIES_BYTES     4096
#define DEFAULT_STATUS    ((unsigned int)HW_SYNDROME_LOCAL_PROT << 24)

static const struct fault_row {
	const char *name;
	enum { FAULT_NUMBER, FAULT_STATUS_AND_NUMBER, FAULT_SWITCH } kind;
	unsigned int fallback; /* the value if none is given */
} faults[N_FAULTS] = {
	[FAULT_SLOW] = {"slow", .fallback = 0},
	[FAULT_HANG] = {"hang", .fallback = COMMAND_TIMEOUT_S},
	[FAULT_FATAL] = {"fatal", FAULT_SWITCH, 0},
	[FAULT_RECEIVE_ERROR] = {"receive-error", FAULT_STATUS_AND_NUMBER, DEFAULT_STATUS | 1},
	[FAULT_SEND_ERROR] = {"send-error", FAULT_STATUS_AND_NUMBER, DEFAULT_STATUS | 1},
	[FAULT_POISON] = {"poison", FAULT_SWITCH, 1},
	[FAULT_SHUFFLE] = {"shuffle", FAULT_SWITCH, 1},
	[FAULT_REUSE] = {"reuse", FAULT_SWITCH, 1},
	[FAULT_LOSE] = {"lose", .fallback = 1},
	[FAULT_DUPLICATE] = {"duplicate", .fallback = 1},
	[FAULT_REORDER] = {"reorder", .fallback = 2},
	[FAULT_CORRUPT] = {"corrupt", .fallback = 1},
	[FAULT_DELAY] = {"delay", .fallback = 1000},
	[FAULT_BANDWIDTH] = {"bandwidth", .fallback = 100},
};

/* NUMBER, or for completions STATUS, STATUS/NUMBER. False if it is neither. An empty text is the default, and all that
 * a switch takes. */
static bool fault_parse(const struct fault_row *row, const char *text, unsigned int *value)
{
	bool has_status = row->kind == FAULT_STATUS_AND_NUMBER;
	size_t word = strcspn(text, "/\n");
	uint8_t status = has_status ? status_find(text, word) : 0;
	unsigned long number;
	char *end;

	*value = row->fallback;
	if (status) {
		*value = (unsigned int)status << 24 | 1;
		text += word + (text[word] == '/');
	}
	if (!*text || *text == '\n')
		return true;
	number = strtoul(text, &end, 10);
	if (row->kind == FAULT_SWITCH || end == text || *text < '0' || *text > '9' || (*end && *end != '\n') ||
	    number > (has_status ? FAULT_EVERY(UINT_MAX) : UINT_MAX))
		return false;
	*value = has_status ? (*value & ~0xffffffu) | (unsigned int)number : (unsigned int)number;
	return true;
}

/* System calls, since the C library's functions are the interposed ones. A descriptor, or -1. */
static long injection_open(const char *path)
{
	return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* What is accepted in a file, and as a word of `softhca inject`. */
static const struct {
	const char *in_file, *as_word;
} accepted[] = {
	[FAULT_NUMBER] = {"accepted is a number", "accepted is a number, or off"},
	[FAULT_STATUS_AND_NUMBER] = {"accepted is [STATUS][/NUMBER]",
                                     "accepted is [STATUS][/NUMBER], as LOC_PROT_ERR/100, or off"},
	[FAULT_SWITCH] = {"accepted is an empty file", "accepted is the fault without a value, or off"},
};

/* One line for each fault, though the file is read again and again. */
static void injection_refuse_file(const struct fault_row *row, const char *path, const char *text)
{
	static atomic_uint told;
	unsigned int bit = 1u << (row - faults);

	if (!(atomic_fetch_or(&told, bit) & bit))
		complain("%s: '%.*s': %s; the fault stays off", path, (int)strcspn(text, "\n"), text,
		         accepted[row->kind].in_file);
}

/* A file in the directory is for all devices, one in its directory NETDEV for the device of that interface. */
static bool injection_has_file(const struct device *d, const struct fault_row *row, unsigned int *value)
{
	char path[PATH_MAX], text[VALUE_BYTES] = "";
	long fd;

	snprintf(path, sizeof(path), "%s/%s", d->config.faults, row->name);
	fd = injection_open(path);
	if (fd < 0) {
		snprintf(path, sizeof(path), "%s/%s/%s", d->config.faults, d->config.netdev, row->name);
		fd = injection_open(path);
	}
	if (fd < 0)
		return false;
	syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	if (fault_parse(row, text, value))
		return true;
	injection_refuse_file(row, path, text);
	return false;
}

bool injection_is_on(const struct device *d, enum fault fault, unsigned int *value)
{
	uint64_t told = d->faults_told[fault];
	unsigned int unused;

	if (!value)
		value = &unused;
	*value = (unsigned int)told;
	return told || (d->config.faults && *d->config.faults && injection_has_file(d, &faults[fault], value));
}

static void injection_sleep_ns(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

	/* The driver waits without being interruptible. */
	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

int injection_command(const struct device *d)
{
	int saved = errno;
	unsigned int ms, seconds;
	uint64_t start_ns = clock_raw_ns();

	if (injection_is_on(d, FAULT_SLOW, &ms))
		injection_sleep_ns(ms * NS_PER_MS);
	while (injection_is_on(d, FAULT_HANG, &seconds)) {
		if (clock_raw_ns() - start_ns >= seconds * NS_PER_S)
			return -ETIMEDOUT;
		injection_sleep_ns(HANG_POLL_NS);
	}
	errno = saved;
	return injection_is_on(d, FAULT_FATAL, NULL) ? -EIO : 0;
}

/* The fault whose name is `n` bytes long, or NULL. */
static const struct fault_row *fault_find(const char *name, size_t n)
{
	for (unsigned int i = 0; i < N_FAULTS; i++)
		if (strlen(faults[i].name) == n && !memcmp(faults[i].name, name, n))
			return &faults[i];
	return NULL;
}

const char *injection_parse(const char *text, enum fault *fault, uint64_t *told)
{
	size_t n = strcspn(text, "=");
	const char *value_text = text[n] ? text + n + 1 : "";
	const struct fault_row *row = fault_find(text, n);
	unsigned int value;

	if (!row)
		return "there is no such fault; FAULT=VALUE is one word; see softhca(1), FAULTS";
	*fault = (enum fault)(row - faults);
	*told = 0;
	if (!strcmp(value_text, "off"))
		return NULL;
	if (!fault_parse(row, value_text, &value))
		return accepted[row->kind].as_word;
	*told = FAULT_TOLD | value;
	return NULL;
}

void injection_tell(struct device *d, enum fault fault, uint64_t told)
{
	d->faults_told[fault] = told;
	d->next_look_ns = 0;
}

/* The number of files in a directory whose names are no faults; the last is in `name`. Negative errno if it cannot be
 * read. Its directories are those of interfaces. */
static int injection_count_strange(const char *path, char name[NAME_MAX + 1])
{
	union {
		struct dirent64 first;
		char bytes[ENTRIES_BYTES];
	} entries;
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_DIRECTORY), n;
	int count = 0;

	if (fd < 0)
		return -errno;
	while ((n = syscall(SYS_getdents64, fd, &entries, sizeof(entries))) > 0)
		for (const char *at = entries.bytes; at < entries.bytes + n;) {
			const struct dirent64 *entry = (const void *)at;

			at += entry->d_reclen;
			if (entry->d_type == DT_DIR || fault_find(entry->d_name, strlen(entry->d_name)))
				continue;
			snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
			count++;
		}
	syscall(SYS_close, fd);
	return count;
}

void injection_check_files(struct device *d)
{
	char path[PATH_MAX], name[NAME_MAX + 1];
	int shared, own, strange;

	if (!d->config.faults || !*d->config.faults)
		return;
	shared = injection_count_strange(d->config.faults, name);
	snprintf(path, sizeof(path), "%s/%s", d->config.faults, d->config.netdev);
	own = injection_count_strange(path, name);
	strange = shared < 0 ? 1 : shared + (own > 0 ? own : 0);
	if (strange > d->n_strange_files && shared < 0 && !d->index)
		complain("SOFTHCA_FAULTS=%s: %s; until it can be read, its faults are off", d->config.faults,
		         strerror(-shared));
	else if (strange > d->n_strange_files && shared >= 0)
		complain("%s: SOFTHCA_FAULTS: the file '%s' has the name of no fault; see softhca(1), FAULTS", d->name,
		         name);
	d->n_strange_files = strange;
}

void injection_list(struct device *d, struct lines *lines)
{
	unsigned int value;
	char number[8];

	for (unsigned int i = 0; i < N_FAULTS; i++) {
		if (!injection_is_on(d, (enum fault)i, &value))
			continue;
		lines_begin(lines, "fault");
		lines_text(lines, "device", d->name);
		lines_text(lines, "name", faults[i].name);
		if (faults[i].kind == FAULT_STATUS_AND_NUMBER)
			lines_text(lines, "status", status_name(FAULT_STATUS(value), number, sizeof(number)));
		lines_number(lines, "value", faults[i].kind == FAULT_STATUS_AND_NUMBER ? FAULT_EVERY(value) : value);
		lines_end(lines);
	}
}

/* The number of a fault, 0 if it is off. */
static unsigned int injection_value(const struct device *d, enum fault fault)
{
	unsigned int value;

	return injection_is_on(d, fault, &value) ? value : 0;
}

void injection_look(struct device *d)
{
	unsigned int receive = injection_value(d, FAULT_RECEIVE_ERROR), send = injection_value(d, FAULT_SEND_ERROR);
	bool has_files = d->config.faults && *d->config.faults;

	injection_check_files(d);
	d->injected.receive_every = FAULT_EVERY(receive);
	d->injected.receive_status = FAULT_STATUS(receive);
	d->injected.send_every = FAULT_EVERY(send);
	d->injected.send_status = FAULT_STATUS(send);
	d->injected.poison = injection_is_on(d, FAULT_POISON, NULL);
	d->injected.shuffle = injection_is_on(d, FAULT_SHUFFLE, NULL);
	d->rough.config = (struct rough_config){
		.lose_every = injection_value(d, FAULT_LOSE),
		.duplicate_every = injection_value(d, FAULT_DUPLICATE),
		.reorder_every = injection_value(d, FAULT_REORDER),
		.corrupt_every = injection_value(d, FAULT_CORRUPT),
		.delay_us = injection_value(d, FAULT_DELAY),
		.mbit_per_s = injection_value(d, FAULT_BANDWIDTH),
	};
	/* A bad wire that is good again is taken away when it is empty. */
	d->next_look_ns = has_files || rough_is_used(&d->rough) ? clock_raw_ns() + LOOK_NS : UINT64_MAX;
}
