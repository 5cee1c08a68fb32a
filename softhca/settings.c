// SPDX-License-Identifier: Apache-2.0
/* The settings: one table of environment variables, which reads, checks and describes them. */
#include "settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct setting;

/* Returns NULL, or what is wrong with the value. */
typedef const char *setting_parser(const struct setting *row, const char *value, void *field);

struct setting {
	const char *name, *fallback; /* fallback: the default, as a user would write it */
	setting_parser *parse;
	size_t offset; /* of the field in struct settings */
	unsigned int min, max;
	const char *const *choices; /* ended by NULL */
	const char *meaning;
};

static const char *setting_parse_number(const struct setting *row, const char *value, void *field)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(value, &end, 10);
	if (*end || end == value || *value < '0' || *value > '9')
		return "not a number";
	if (errno || v < row->min || v > row->max)
		return "out of range";
	*(unsigned int *)field = (unsigned int)v;
	return NULL;
}

static const char *setting_parse_mib(const struct setting *row, const char *value, void *field)
{
	unsigned int mib = 0;
	const char *wrong = setting_parse_number(row, value, &mib);

	*(size_t *)field = (size_t)mib << 20;
	return wrong;
}

static const char *setting_parse_flag(const struct setting *row, const char *value, void *field)
{
	(void)row;
	if ((*value != '0' && *value != '1') || value[1])
		return "neither 0 nor 1";
	*(bool *)field = *value == '1';
	return NULL;
}

/* The field is an enum; its values are the places in the list. */
static const char *setting_parse_choice(const struct setting *row, const char *value, void *field)
{
	for (unsigned int i = 0; row->choices[i]; i++)
		if (!strcmp(row->choices[i], value)) {
			*(unsigned int *)field = i;
			return NULL;
		}
	return "not known";
}

static const char *setting_parse_profile(const struct setting *row, const char *value, void *field)
{
	const struct profile *p = profile_find(value);

	(void)row;
	*(const struct profile **)field = p;
	return p ? NULL : "not known";
}

static const char *setting_parse_ipv4(const struct setting *row, const char *value, void *field)
{
	struct in_addr address;

	(void)row;
	*(const char **)field = value;
	return inet_pton(AF_INET, value, &address) == 1 ? NULL : "not an IPv4 address";
}

static const char *setting_parse_netdev(const struct setting *row, const char *value, void *field)
{
	(void)row;
	*(const char **)field = value;
	return strlen(value) < IFNAMSIZ && !strchr(value, '/') ? NULL : "not a network device";
}

/* IB_DEVICE_NAME_MAX is 64. */
static const char *setting_parse_prefix(const struct setting *row, const char *value, void *field)
{
	(void)row;
	*(const char **)field = value;
	return strlen(value) <= 60 && !value[strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_")]
	               ? NULL
	               : "not the beginning of a device's name";
}

/* The directory need not exist yet. */
static const char *setting_parse_path(const struct setting *row, const char *value, void *field)
{
	(void)row;
	*(const char **)field = value;
	return !*value || *value == '/' ? NULL : "not an absolute path";
}

/* The kernel knows which CPUs there are, are online and are in the cpuset, so it is asked by going there and back. */
static bool setting_can_run_on(unsigned int cpu)
{
	cpu_set_t before, one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_getaffinity(0, sizeof(before), &before))
		return true;
	if (sched_setaffinity(0, sizeof(one), &one))
		return errno != EINVAL;
	sched_setaffinity(0, sizeof(before), &before);
	return true;
}

/* -1 stands for any. */
static const char *setting_parse_cpu(const struct setting *row, const char *value, void *field)
{
	unsigned int cpu = 0;
	bool any = !strcmp(value, "any");
	const char *wrong = any ? NULL : setting_parse_number(row, value, &cpu);

	*(int *)field = any ? -1 : (int)cpu;
	if (any || wrong)
		return wrong;
	return setting_can_run_on(cpu) ? NULL : "no thread of this process can run there; see: lscpu -e";
}

/* Does the list have the name whose `len` bytes begin at `name` before it, too? */
static bool setting_is_repeated(const char *list, const char *name, size_t len)
{
	for (const char *p = list; p < name; p += strcspn(p, ",") + 1)
		if (strcspn(p, ",") == len && !memcmp(p, name, len))
			return true;
	return false;
}

static const char *setting_parse_netdevs(const struct setting *row, const char *value, void *field)
{
	unsigned int n = 0;

	for (const char *p = value; *value; p++, n++) {
		size_t len = strcspn(p, ",");

		if (!len || len >= IFNAMSIZ)
			return "not a list of network devices";
		if (setting_is_repeated(value, p, len))
			return "the same network device twice";
		p += len;
		if (!*p)
			break;
	}
	*(const char **)field = value;
	return n < row->max ? NULL : "too many";
}

#define OFFSET(field) .offset = offsetof(struct settings, field)
#define TYPED(field, type) \
	(0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((struct settings *)0)->field), type) ? 1 : -1]))
#define NETDEVS(field, n) .parse = setting_parse_netdevs, OFFSET(field) + TYPED(field, const char *), .max = (n)
#define NUMBER(field, lo, hi) \
	.parse = setting_parse_number, OFFSET(field) + TYPED(field, unsigned int), .min = (lo), .max = (hi)
#define MIB(field, lo, hi)   .parse = setting_parse_mib, OFFSET(field) + TYPED(field, size_t), .min = (lo), .max = (hi)
#define FLAG(field)          .parse = setting_parse_flag, OFFSET(field) + TYPED(field, bool)
#define CHOICE(field, names) .parse = setting_parse_choice, OFFSET(field), .choices = (names)
#define IPV4(field)          .parse = setting_parse_ipv4, OFFSET(field) + TYPED(field, const char *)
#define NETDEV(field)        .parse = setting_parse_netdev, OFFSET(field) + TYPED(field, const char *)
#define PREFIX(field)        .parse = setting_parse_prefix, OFFSET(field) + TYPED(field, const char *)
#define PATH(field)          .parse = setting_parse_path, OFFSET(field) + TYPED(field, const char *)
#define CPU(field, n)        .parse = setting_parse_cpu, OFFSET(field) + TYPED(field, int), .max = (n)
#define PROFILE(field)       .parse = setting_parse_profile, OFFSET(field) + TYPED(field, const struct profile *)

/* In the order of the enums. */
static const char *const kernel_drop_modes[] = {"auto", "require", "off", NULL};
static const char *const loopbacks[] = {"auto", "off", "own-mac", "multicast", "both", NULL};
static const char *const flow_duplicates[] = {"copy", "first", "refuse", NULL};
static const char *const long_sends[] = {"error", "drop", NULL};
static const char *const real_times[] = {"0", "1", "only", NULL};
static const char *const eswitches[] = {"legacy", "switchdev", "switchdev-vport", NULL};
static const char *const generator_writes[] = {"payload", "completions", NULL};

static const struct setting settings[] = {
	{"SOFTHCA_INTERFACES", "", NETDEVS(interfaces, SETTINGS_MAX_NETDEVS),
         .meaning = "the network devices, separated by commas; empty: nothing is emulated"},
	{"SOFTHCA_NAME", "mlx5_", PREFIX(device.name_prefix),
         .meaning = "names of the devices; a number follows, which is 0 for the first"},
	{"SOFTHCA_BOND", "", NETDEV(device.bond),
         .meaning =
                 "the netdev of a bond, of which SOFTHCA_INTERFACES are the ports: there is one device, mlx5_bond_0; "
                 "it gets the frames of the first port, and GIDs and port state are the bond's"},
	{"SOFTHCA_PROFILE", "connectx5", PROFILE(device.profile), .meaning = "the model"},
	{"SOFTHCA_ENGINE", "afpacket", CHOICE(device.wire.engine, wire_engine_names),
         .meaning = "the wire: the netdev (afpacket for low latency, afpacket-throughput for high rates); or"
                    " no wire, and frames from a generator (generator)"},
	{"SOFTHCA_GENERATOR", "payload", CHOICE(device.wire.generator.writes, generator_writes),
         .meaning = "what the generator writes into memory: whole frames and completions, or completions only"},
	{"SOFTHCA_GENERATOR_PAYLOAD", "64", NUMBER(device.wire.generator.payload_bytes, 0, 65000),
         .meaning = "bytes of UDP payload in the generator's frames"},
	{"SOFTHCA_GENERATOR_ADDRESS", "10.0.0.1", IPV4(device.wire.generator.destination),
         .meaning = "destination address of the generator's frames; the destination MAC address is the netdev's "
                    "or, for a group, the group's"},
	{"SOFTHCA_GENERATOR_PORT", "4000", NUMBER(device.wire.generator.port, 0, 65535),
         .meaning = "destination UDP port of the generator's frames"},
	{"SOFTHCA_RING_MIB", "32", MIB(device.wire.ring_bytes, 1, 4096),
         .meaning = "size of the wire's receive ring; a frame that finds no room is lost and counted as a port "
                    "discard"},
	{"SOFTHCA_NAP_US", "50", NUMBER(device.nap_us, 1, 100000),
         .meaning = "longest nap of the device thread between two bursts; after 10 ms without work it sleeps on "
                    "the socket"},
	{"SOFTHCA_CPU", "any", CPU(device.cpu, 1023),
         .meaning = "the core that device threads are pinned to; any: they are not pinned"},
	{"SOFTHCA_CLOCK_US", "500", NUMBER(clock_us, 1, 100000),
         .meaning = "period in which the clock page is written; `ibv_query_rt_values_ex` may be stale by that "
                    "time while no frames flow"},
	{"SOFTHCA_L2_FILTER", "1", FLAG(device.l2_filter),
         .meaning = "1: take only frames to the netdev's own MAC, to broadcast and to joined groups (all frames "
                    "if the netdev is promiscuous); 0: take every frame"},
	{"SOFTHCA_KERNEL_DROP", "auto", CHOICE(device.kernel_drop, kernel_drop_modes),
         .meaning = "whether frames that a flow takes are kept from the kernel's stack; auto: if the process has "
                    "CAP_NET_ADMIN; require: always, else the flow is refused; off: never"},
	{"SOFTHCA_DUPLICATE_RULES", "copy", CHOICE(device.duplicates, flow_duplicates),
         .meaning = "the same rule on two queue pairs (?); copy: each gets the frames; first: the older rule gets"
                    " them; refuse: the second rule is refused with EEXIST"},
	{"SOFTHCA_LOOPBACK", "auto", CHOICE(device.loopback, loopbacks),
         .meaning = "which sent frames come back to the device; auto: those to its own MAC and to groups, while "
                    "two contexts are open"},
	{"SOFTHCA_ARM_FIRES_FOR_PENDING", "0", FLAG(device.arm_fires_for_pending),
         .meaning = "1: arming a CQ that has unread completions gives an event at once (?)"},
	{"SOFTHCA_LONG_SEND", "error", CHOICE(device.long_send, long_sends),
         .meaning = "a frame longer than the MTU (?); error: its completion is LOC_LEN_ERR; drop: it is lost "
                    "without an error"},
	{"SOFTHCA_LENGTH_ERROR_IS_FATAL", "0", FLAG(device.length_error_is_fatal),
         .meaning = "1: LOC_LEN_ERR puts the queue pair in the error state (?)"},
	{"SOFTHCA_ERROR_EVENTS", "0", FLAG(device.error_events),
         .meaning = "1: a completion in error that stops its queue gives a QP_FATAL or WQ_FATAL event, too (?)"},
	{"SOFTHCA_REAL_TIME", "0", CHOICE(device.real_time, real_times),
         .meaning = "1: like a device with REAL_TIME_CLOCK_ENABLE: a CQ that asks only for the wall clock gets "
                    "timestamps of the form seconds << 32 | nanoseconds; only: the device has no others, and a queue "
                    "on a CQ that asks for raw timestamps is refused with EOPNOTSUPP"},
	{"SOFTHCA_ROCE", "1", FLAG(device.roce),
         .meaning = "0: like a device whose RoCE is switched off (devlink, enable_roce): the port has no GIDs"},
	{"SOFTHCA_ESWITCH", "legacy", CHOICE(device.eswitch, eswitches),
         .meaning =
                 "mode of the embedded switch; switchdev: port 2 is the uplink, port 1 has no representor, there are "
                 "no GIDs, and hw_counters are the device's and not the port's; switchdev-vport: a port has "
                 "hw_counters named vport_…, too"},
	{"SOFTHCA_FLOW_ENTRIES", "65536", NUMBER(device.flow_entries, 1, 65536),
         .meaning = "size of the flow table that each priority has: of n entries, each of the first six masks gets "
                    "n / 7 at a time, and further ones get single entries, else the flow is refused with ENOSPC"},
	{"SOFTHCA_COMP_VECTORS", "0", NUMBER(device.n_comp_vectors, 0, 1024),
         .meaning = "number of completion vectors; 0: the model's"},
	{"SOFTHCA_OBJECTS", "0", NUMBER(device.max_objects, 0, 1000000),
         .meaning =
                 "how many objects a program may have, as by rdma.max hca_object of its cgroup: creating one more is "
                 "EAGAIN; 0: no limit"},
	{"SOFTHCA_EXPLAIN", "0", FLAG(device.explain),
         .meaning = "1: one line on standard error for each command that is refused: the error and, if it is known, "
                    "attribute, rule, and who makes the rule; and, when the program returns from main() or calls "
                    "exit(), what was lost, and where"},
	{"SOFTHCA_WARNINGS", "0", FLAG(device.warnings),
         .meaning = "1: one line on standard error for each pitfall that the program runs into (see Warnings)"},
	{"SOFTHCA_FAULTS", "", PATH(device.faults),
         .meaning = "a directory; a file there switches the fault of its name on, and removing the file switches it "
                    "off (see Faults)"},
};
#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static void setting_accepted(const struct setting *row, char *text, size_t size)
{
	size_t n = 0;

	if (row->parse == setting_parse_profile)
		snprintf(text, size, "%s", profile_names);
	else if (row->parse == setting_parse_flag)
		snprintf(text, size, "0, 1");
	else if (row->parse == setting_parse_ipv4)
		snprintf(text, size, "an IPv4 address");
	else if (row->parse == setting_parse_netdev)
		snprintf(text, size, "a network device");
	else if (row->parse == setting_parse_prefix)
		snprintf(text, size, "up to 60 of a to z, 0 to 9 and _");
	else if (row->parse == setting_parse_path)
		snprintf(text, size, "an absolute path");
	else if (row->parse == setting_parse_cpu)
		snprintf(text, size, "any, a CPU of this machine");
	else if (row->parse == setting_parse_netdevs)
		snprintf(text, size, "up to %u names", row->max);
	else if (!row->choices)
		snprintf(text, size, "%u to %u", row->min, row->max);
	else
		for (const char *const *c = row->choices; *c && n < size; c++)
			n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", *c);
}

static bool setting_exists(const char *name, size_t len)
{
	for (size_t i = 0; i < N_SETTINGS; i++)
		if (strlen(settings[i].name) == len && !memcmp(settings[i].name, name, len))
			return true;
	return false;
}

/* A variable of the environment that looks like a setting and is none, or NULL. */
static const char *setting_misspelt(void)
{
	for (char **e = environ; e && *e; e++)
		if (!strncmp(*e, "SOFTHCA_", 8) && !setting_exists(*e, strcspn(*e, "=")))
			return *e;
	return NULL;
}

bool settings_read(struct settings *s, char *message, size_t size)
{
	const char *misspelt = setting_misspelt();
	long page = sysconf(_SC_PAGESIZE);

	memset(s, 0, sizeof(*s));
	/* The offsets of libmlx5's mappings count pages. */
	if (page != 4096) {
		snprintf(message, size, "this kernel's pages have %ld bytes; softhca needs a kernel with pages of 4096",
		         page);
		return false;
	}
	if (misspelt) {
		snprintf(message, size, "%.*s: there is no such setting; see: softhca --settings",
		         (int)strcspn(misspelt, "="), misspelt);
		return false;
	}
	for (size_t i = 0; i < N_SETTINGS; i++) {
		const struct setting *row = &settings[i];
		const char *value = getenv(row->name), *wrong;
		char text[256];

		if (!value || !*value)
			value = row->fallback;
		wrong = row->parse(row, value, (uint8_t *)s + row->offset);
		if (!wrong)
			continue;
		setting_accepted(row, text, sizeof(text));
		snprintf(message, size, "%s=%s: %s; accepted: %s", row->name, value, wrong, text);
		return false;
	}
	return true;
}

bool settings_describe(size_t i, char *row, size_t size)
{
	char text[256];

	if (i >= N_SETTINGS)
		return false;
	setting_accepted(&settings[i], text, sizeof(text));
	snprintf(row, size, "| `%s` | %s | %s | %s |", settings[i].name, settings[i].fallback, text,
	         settings[i].meaning);
	return true;
}
