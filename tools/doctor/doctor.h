// SPDX-License-Identifier: Apache-2.0
/*
 * What `ibvcap doctor` knows of a machine, and what it makes of it. Facts are read from sysfs and /proc with ordinary
 * opens, so that an emulated device is seen as a real one is, and asked of the kernel and of the devices; judging them
 * is pure.
 */
#ifndef TOOLS_DOCTOR_DOCTOR_H
#define TOOLS_DOCTOR_DOCTOR_H

#include "daemon/config/config.h"

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DOCTOR_TEXT_BYTES     1024
#define DOCTOR_NAME_BYTES     64
#define DOCTOR_DEVICES_MAX    16
#define DOCTOR_PORTS_MAX      4
#define DOCTOR_GIDS_MAX       32
#define DOCTOR_POOLS_MAX      64
#define DOCTOR_NODES_MAX      16
#define DOCTOR_INTERFACES_MAX 64
#define DOCTOR_GROUPS_MAX     512
#define DOCTOR_USERS_MAX      8
#define DOCTOR_FINDINGS_MAX   640

/* ---- facts: zero is not known ---------------------------------------------------------------------- */

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
	char netdev[IFNAMSIZ];                   /* the network interface behind it; "": none */
	struct doctor_gid gids[DOCTOR_GIDS_MAX]; /* those that are not zero */
	unsigned int n_gids;
};

struct doctor_pci {
	char address[DOCTOR_NAME_BYTES];                             /* "0000:3b:00.0"; "": it has none */
	int node;                                                    /* -1: the firmware does not say */
	unsigned int width, width_max;                               /* lanes */
	char speed[DOCTOR_NAME_BYTES], speed_max[DOCTOR_NAME_BYTES]; /* "16.0 GT/s PCIe" */
	unsigned int read_request_bytes;                             /* only root can read it */
	char iommu[DOCTOR_NAME_BYTES];                               /* of its group: "identity", "DMA", "DMA-FQ" */
	unsigned int n_irqs;
	cpu_set_t irq_cpus; /* where they are handled */
};

/* A queue and a flow as the daemon makes them, tried and taken away again. */
struct doctor_trial {
	enum { DOCTOR_UNTRIED, DOCTOR_IN_USE, DOCTOR_NO_RIGHT, DOCTOR_FAILED, DOCTOR_PASSED } result;
	char said[DOCTOR_TEXT_BYTES]; /* of one that failed */
	unsigned int max_queue_slots, max_send_slots;
	bool has_clock;
	uint64_t clock_raw, clock_hz, clock_at_ns; /* clock_at_ns: the system's clock at that reading */
};

struct doctor_user {
	pid_t pid;
	char name[DOCTOR_NAME_BYTES];
};

struct doctor_device {
	char name[DOCTOR_NAME_BYTES];
	char uverbs[DOCTOR_NAME_BYTES];
	dev_t number;   /* of its node */
	int open_error; /* of its node, as errno; 0 = could be opened */
	struct doctor_port ports[DOCTOR_PORTS_MAX];
	unsigned int n_ports;
	struct doctor_pci pci;
	struct doctor_user users[DOCTOR_USERS_MAX]; /* processes that have it open, as far as they can be seen */
	unsigned int n_users;
	struct doctor_trial trial;
};

struct doctor_interface {
	char name[IFNAMSIZ];
	bool exists;
	bool up;
	bool running;
	unsigned int mtu;
	unsigned int rx_ring, rx_ring_max;
	bool has_pause, rx_pause, tx_pause;
	bool loopback;               /* the port's own loopback is switched on: nothing leaves it */
	int rp_filter;               /* of all interfaces and this one, as the kernel takes them together */
	unsigned int igmp_version;   /* what the kernel speaks there now; 0: not known */
	char ptp[DOCTOR_NAME_BYTES]; /* its precision clock, "ptp0"; "": none */
	bool ptp_is_read;
	int64_t ptp_offset_ns; /* from the system's clock */
};

struct doctor_group {
	char interface[IFNAMSIZ];
	struct config_address group;
};

/* The process whose powers count: a running ibvcapd, else the service as systemd would start it, else the doctor's. */
struct doctor_process {
	enum { DOCTOR_SELF, DOCTOR_SERVICE, DOCTOR_DAEMON } kind;
	pid_t pid;
	bool has_config; /* a daemon: it runs with the file that is looked at */
	uint64_t effective_capabilities;
	uint64_t memlock_bytes; /* UINT64_MAX = unlimited */
	char cannot_read
		[DOCTOR_NAME_BYTES]; /* the service's user, who may not read its configuration; "": may, or not known */
};

/* What that process' cgroups, and those above, let it have; UINT64_MAX = all. */
struct doctor_limits {
	char container[DOCTOR_NAME_BYTES];  /* "systemd-nspawn", "docker"; "": none */
	char cgroup[DOCTOR_TEXT_BYTES / 2]; /* "/system.slice/ibvcapd.service" */
	uint64_t memory_bytes;
	uint64_t processes;
	uint64_t huge_2m_bytes, huge_1g_bytes;
	char rdma[DOCTOR_TEXT_BYTES]; /* "mlx5_0 hca_handle=2 hca_object=2000"; "": no limit */
};

struct doctor_cpus {
	cpu_set_t online;
	cpu_set_t isolated;
	cpu_set_t nodes[DOCTOR_NODES_MAX];
	bool has_governor;
	char governor[DOCTOR_NAME_BYTES]; /* one that is not "performance"; "": all are */
	cpu_set_t governed;               /* the CPUs that have one that is not */
	bool has_idle;
	char idle_state[DOCTOR_NAME_BYTES]; /* the deepest that is enabled anywhere */
	unsigned int idle_exit_us;
	bool has_latency_limit; /* somebody holds /dev/cpu_dma_latency */
	unsigned int latency_limit_us;
};

struct doctor_clock {
	bool is_known;
	bool is_synchronised;
	uint64_t max_error_us;
	int tai_offset_s; /* 0: nobody told the kernel */
};

struct doctor_kernel {
	unsigned int major, minor;
	int af_xdp_error; /* of a socket, as errno; EPERM: it is there */
	bool has_btf;
	bool knows_jit, has_jit;
};

struct doctor_facts {
	struct doctor_pool pools[DOCTOR_POOLS_MAX];
	unsigned int n_pools;
	struct doctor_device devices[DOCTOR_DEVICES_MAX];
	unsigned int n_devices;
	struct doctor_interface interfaces[DOCTOR_INTERFACES_MAX];
	unsigned int n_interfaces;
	struct doctor_group groups[DOCTOR_GROUPS_MAX]; /* joined, by whomever */
	unsigned int n_groups;
	bool mellanox_pci; /* a ConnectX on the PCI bus, whether or not its driver is there */
	struct doctor_process process;
	struct doctor_limits limits;
	struct doctor_cpus cpus;
	struct doctor_clock clock;
	struct doctor_kernel kernel;
	const char *config_file;
	struct config *config;         /* NULL: the daemon would not start with that file, */
	struct failure config_failure; /* … for this reason */
};

/* ---- findings -------------------------------------------------------------------------------------- */

enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_ERROR };

struct doctor_finding {
	enum doctor_level level;
	const char *check; /* its name in JSON and in ibvcap-tuning(7) */
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

/* ---- reading --------------------------------------------------------------------------------------- */

/** The configuration, as the daemon would read it. */
void doctor_read_config(const char *file, struct doctor_facts *facts);

/**
 * Read the machine. root is put before every path: "" for this machine, a directory for a test. What can't be read is
 * left zero. After doctor_read_config().
 */
void doctor_read(const char *root, struct doctor_facts *facts);

/** What files don't say: ask the kernel, the service manager and the network drivers. After doctor_read(). */
void doctor_ask(struct doctor_facts *facts);

/** What `systemctl show` says of the service, where no daemon runs. */
void doctor_take_service(const char *properties, struct doctor_process *process);

/**
 * Try a queue and a flow on each port, as the daemon would; not on a device that somebody has open: a second context
 * can turn on the port's loopback of multicast. After doctor_ask().
 */
void doctor_try(struct doctor_facts *facts);

/* ---- judging --------------------------------------------------------------------------------------- */

/** Judge. Pure; the same facts give the same findings, in the order an administrator would mend them. */
void doctor_judge(const struct doctor_facts *facts, struct doctor_findings *findings);

/** The worst level: also the program's exit status. */
enum doctor_level doctor_worst(const struct doctor_findings *findings);

/* ---- the program ----------------------------------------------------------------------------------- */

void doctor_print_json(const struct doctor_facts *facts, const struct doctor_findings *findings);
void doctor_print_text(const struct doctor_facts *facts, const struct doctor_findings *findings);

/** `ibvcap doctor`; the exit status is the worst level found, or one of sysexits. */
int doctor_main(int argc, char **argv);

#endif
