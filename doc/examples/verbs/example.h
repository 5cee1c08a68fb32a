// SPDX-License-Identifier: Apache-2.0
/*
 * What the examples in this directory share: they end at the first call that fails, read and check their arguments, and
 * open a device by its name. If the name or the command line is wrong, they say which devices there are.
 */
#include <infiniband/verbs.h>

#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void check(int ok, const char *call)
{
	if (!ok)
		err(1, "%s", call);
}

static inline void list_devices(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	if (!devices || !devices[0])
		fputs("There is no RDMA device. One in software: softhca -i NETDEV -- COMMAND", stderr);
	for (int i = 0; devices && devices[i]; i++)
		fprintf(stderr, "%s%s", i == 0 ? "Devices: " : ", ", ibv_get_device_name(devices[i]));
	fputc('\n', stderr);
	if (devices)
		ibv_free_device_list(devices);
}

static inline void end_with_usage(const char *usage)
{
	fprintf(stderr, "usage: %s\n", usage);
	list_devices();
	exit(64);
}

/* Reads an argument. If it is wrong, the program ends with a line that has its name and what is accepted. */
static inline unsigned read_number(const char *name, const char *text, unsigned first, unsigned last)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || number < first || number > last)
		errx(64, "%s '%s': accepted is a number from %u to %u", name, text, first, last);
	return (unsigned)number;
}

static inline struct in_addr read_address(const char *name, const char *text)
{
	struct in_addr address;

	if (inet_pton(AF_INET, text, &address) != 1)
		errx(64, "%s '%s': accepted is an IPv4 address, such as 10.0.0.1", name, text);
	return address;
}

static inline void read_mac(const char *name, const char *text, uint8_t bytes[6])
{
	int end = 0, n = sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &bytes[0], &bytes[1], &bytes[2],
	                        &bytes[3], &bytes[4], &bytes[5], &end);

	if (n != 6 || text[end])
		errx(64, "%s '%s': accepted is a MAC address, such as 02:00:00:00:00:01", name, text);
}

/* Copies the argument to a buffer of `bytes` bytes. */
static inline void read_text(const char *name, const char *text, char *buffer, size_t bytes)
{
	if (strlen(text) >= bytes)
		errx(64, "%s of %zu bytes: accepted are up to %zu", name, strlen(text), bytes - 1);
	strcpy(buffer, text);
}

static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; devices && devices[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	if (!context) {
		warnx("there is no RDMA device '%s', or it cannot be opened", name);
		list_devices();
		exit(1);
	}
	ibv_free_device_list(devices);
	return context;
}
