// SPDX-License-Identifier: Apache-2.0
/*
 * What `ibvcap doctor` knows of a machine, and what it makes of it. Facts are read from sysfs and /proc with
 * ordinary opens, so that an emulated device is seen as a real one is; judging them is pure.
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DOCTOR_TEXT_BYTES 256
#define DOCTOR_NAME_BYTES 64
#define DOCTOR_DEVICES_MAX 16
#define DOCTOR_PORTS_MAX 4
#define DOCTOR_GIDS_MAX 32
#define DOCTOR_POOLS_MAX 64
#define DOCTOR_FINDINGS_MAX 160

struct doctor_pool {
	unsigned int node;
	uint64_t page_kib;
	uint64_t total_pages;
	uint64_t free_pages;
};

struct doctor_gid {
	unsigned int index;
	char gid[40];
	char type[DOCTOR_NAME_BYTES];
	char netdev[IFNAMSIZ];
};

struct doctor_port {
	unsigned int number;
	char state[DOCTOR_NAME_BYTES]; /* "4: ACTIVE" */
	char link_layer[DOCTOR_NAME_BYTES];
	char rate[DOCTOR_NAME_BYTES];
	/* the network interface behind it; up and mtu are only there with one */
	char netdev[IFNAMSIZ];
	bool netdev_up;
	bool netdev_running;
	unsigned int mtu;
	struct doctor_gid gids[DOCTOR_GIDS_MAX]; /* those that are not zero */
	unsigned int n_gids;
};

struct doctor_device {
	char name[DOCTOR_NAME_BYTES];
	char uverbs[DOCTOR_NAME_BYTES];
	int open_error; /* of its node, as errno; 0 = could be opened */
	struct doctor_port ports[DOCTOR_PORTS_MAX];
	unsigned int n_ports;
};

/* The process whose powers count: a running ibvcapd, else the doctor's own. */
struct doctor_process {
	pid_t pid;
	bool is_daemon;
	uint64_t effective_capabilities;
	uint64_t memlock_bytes; /* UINT64_MAX = unlimited */
};

struct doctor_facts {
	struct doctor_pool pools[DOCTOR_POOLS_MAX];
	unsigned int n_pools;
	struct doctor_device devices[DOCTOR_DEVICES_MAX];
	unsigned int n_devices;
	bool mellanox_pci; /* a ConnectX on the PCI bus, whether or not its driver is there */
	struct doctor_process process;
	/* --config: what `ibvcapd --check-config` said */
	const char *config_file; /* NULL = not asked */
	int config_status;	 /* exit status */
	char config_message[DOCTOR_TEXT_BYTES];
};

enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_ERROR };

struct doctor_finding {
	enum doctor_level level;
	const char *check; /* its name in JSON */
	char subject[DOCTOR_TEXT_BYTES];
	char found[DOCTOR_TEXT_BYTES];
	/* empty where level is DOCTOR_OK: */
	char wanted[DOCTOR_TEXT_BYTES];
	char why[DOCTOR_TEXT_BYTES];
	char fix[DOCTOR_TEXT_BYTES];
	bool fix_survives_reboot;
};

struct doctor_findings {
	struct doctor_finding entries[DOCTOR_FINDINGS_MAX];
	unsigned int n;
};

/**
 * Read the machine. root is put before every path: "" for this machine, a directory for a test. What can't be
 * read is left zero. Only config_file, config_status and config_message are not touched.
 */
void doctor_read(const char *root, struct doctor_facts *facts);

/** Judge. Pure; the same facts give the same findings, in the order an administrator would mend them. */
void doctor_judge(const struct doctor_facts *facts, struct doctor_findings *findings);

/** The worst level: also the program's exit status. */
enum doctor_level doctor_worst(const struct doctor_findings *findings);

/** `ibvcap doctor`; the exit status is the worst level found, or one of sysexits. */
int doctor_main(int argc, char **argv);

#endif
