// SPDX-License-Identifier: Apache-2.0
/* Faults of the device that files in a directory, or `softhca inject`, switch on and off. */
#include "injection.h"

#include "../wire/lines.h"
#include "clock.h"
#include "device.h"
#include "hw.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#define DEFAULT_STATUS    ((unsigned int)HW_SYNDROME_LOCAL_PROT << 24)

static const struct fault_row {
	const char *name;
	bool has_status;
	unsigned int fallback; /* the value if none is given */
} faults[N_FAULTS] = {
	[FAULT_SLOW] = {"slow", .fallback = 0},
	[FAULT_HANG] = {"hang", .fallback = COMMAND_TIMEOUT_S},
	[FAULT_FATAL] = {"fatal", .fallback = 0},
	[FAULT_RECEIVE_ERROR] = {"receive-error", true, DEFAULT_STATUS | 1},
	[FAULT_SEND_ERROR] = {"send-error", true, DEFAULT_STATUS | 1},
	[FAULT_POISON] = {"poison", .fallback = 1},
	[FAULT_SHUFFLE] = {"shuffle", .fallback = 1},
	[FAULT_REUSE] = {"reuse", .fallback = 1},
	[FAULT_LOSE] = {"lose", .fallback = 1},
	[FAULT_DUPLICATE] = {"duplicate", .fallback = 1},
	[FAULT_REORDER] = {"reorder", .fallback = 2},
	[FAULT_CORRUPT] = {"corrupt", .fallback = 1},
	[FAULT_DELAY] = {"delay", .fallback = 1000},
	[FAULT_BANDWIDTH] = {"bandwidth", .fallback = 100},
};

/* NUMBER, or for completions STATUS, STATUS/NUMBER. False if it is neither. An empty text is the default. */
static bool fault_parse(const struct fault_row *row, const char *text, unsigned int *value)
{
	size_t word = strcspn(text, "/\n");
	uint8_t status = row->has_status ? status_find(text, word) : 0;
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
	if (end == text || *text < '0' || *text > '9' || (*end && *end != '\n') ||
	    number > (row->has_status ? FAULT_EVERY(UINT_MAX) : UINT_MAX))
		return false;
	*value = row->has_status ? (*value & ~0xffffffu) | (unsigned int)number : (unsigned int)number;
	return true;
}

/* System calls, since the C library's functions are the interposed ones. A descriptor, or -1. */
static long injection_open(const char *path)
{
	return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
	if (!fault_parse(row, text, value))
		*value = row->fallback;
	return true;
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

const char *injection_tell(struct device *d, const char *text)
{
	size_t n = strcspn(text, "=");
	const char *value_text = text[n] ? text + n + 1 : "";
	unsigned int value;

	for (unsigned int i = 0; i < N_FAULTS; i++) {
		if (strlen(faults[i].name) != n || memcmp(faults[i].name, text, n) != 0)
			continue;
		if (!strcmp(value_text, "off"))
			d->faults_told[i] = 0;
		else if (fault_parse(&faults[i], value_text, &value))
			d->faults_told[i] = FAULT_TOLD | value;
		else
			return faults[i].has_status ? "the value is [STATUS][/NUMBER], or off"
			                            : "the value is a number, or off";
		d->next_look_ns = 0;
		return NULL;
	}
	return "there is no such fault; see softhca(1), FAULTS";
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
		if (faults[i].has_status)
			lines_text(lines, "status", status_name(FAULT_STATUS(value), number, sizeof(number)));
		lines_number(lines, "value", faults[i].has_status ? FAULT_EVERY(value) : value);
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
