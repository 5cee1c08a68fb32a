// SPDX-License-Identifier: Apache-2.0
/*
 * The facts that `ibvcap doctor` collects of a machine. read.h fills them and adds what devices accept, and checks.h
 * judges them. In all of them zero means: not known.
 */
#ifndef TOOLS_DOCTOR_FACTS_H
#define TOOLS_DOCTOR_FACTS_H

#include "daemon/backend/choice/choice.h"
#include "daemon/clock/system_clock.h"
#include "daemon/config/config.h"
#include "daemon/net/net.h"

#include <ibvcap/cuda.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DOCTOR_TEXT_BYTES     1024
#define DOCTOR_NAME_BYTES     64
#define DOCTOR_DEVICES_MAX    16
#define DOCTOR_PORTS_MAX      4
#define DOCTOR_POOLS_MAX      64
#define DOCTOR_NODES_MAX      16
#define DOCTOR_INTERFACES_MAX 64
#define DOCTOR_USERS_MAX      8
#define DOCTOR_HOLDERS_MAX    64
#define DOCTOR_CUDA_MAX       16

/* What the program that keeps the system's clock says of it. */
struct doctor_keeper {
	const char *program; /* NULL: none has answered */
	char reference[DOCTOR_NAME_BYTES];
	bool has_reference; /* false: it has none that it follows, and what stands below is 0 */
	unsigned int stratum;
	int64_t ahead_ns;  /* of the reference */
	uint64_t bound_ns; /* of the clock's error: that, and the reference's own */
};

struct doctor_pool {
	unsigned int node;
	uint64_t page_kib;
	uint64_t total_pages;
	uint64_t free_pages;
};

struct doctor_port {
	unsigned int number;
	char state[DOCTOR_NAME_BYTES]; /* "4: ACTIVE" */
	char link_layer[DOCTOR_NAME_BYTES];
	char rate[DOCTOR_NAME_BYTES];
	char netdev[IFNAMSIZ]; /* the network interface of this port; "": none */
};

struct doctor_pci {
	char address[DOCTOR_NAME_BYTES];                             /* "0000:3b:00.0"; "": no PCI device */
	int node;                                                    /* -1: unknown to the firmware */
	unsigned int width, width_max;                               /* lanes */
	char speed[DOCTOR_NAME_BYTES], speed_max[DOCTOR_NAME_BYTES]; /* "16.0 GT/s PCIe" */
	unsigned int read_request_bytes;                             /* only root can read it, and the next two */
	bool has_ordering, relaxed_ordering; /* the card may let writes overtake each other; not said of a VF */
	char iommu[DOCTOR_NAME_BYTES];       /* of its group: "identity", "DMA", "DMA-FQ" */
	unsigned int n_irqs;
	cpu_set_t irq_cpus; /* the CPUs that handle them */
};

/* The result of doctor_probe_queues(). */
struct doctor_probe {
	enum {
		DOCTOR_NOT_PROBED,
		DOCTOR_PROBE_IN_USE,
		DOCTOR_PROBE_DENIED,
		DOCTOR_PROBE_FAILED,
		DOCTOR_PROBE_PASSED
	} result;
	char reason[DOCTOR_TEXT_BYTES]; /* why it failed */
	unsigned int max_queue_slots, max_send_slots, max_moderation_us;
	bool delay_drop; /* the device has it */
	bool has_clock;
	uint64_t clock_raw, clock_hz, clock_at_ns; /* clock_at_ns: the system's clock when clock_raw was read */
};

struct doctor_user {
	pid_t pid;
	char name[DOCTOR_NAME_BYTES];
};

struct doctor_device {
	char name[DOCTOR_NAME_BYTES];
	char uverbs[DOCTOR_NAME_BYTES];
	dev_t number;   /* of its device node */
	int open_error; /* errno of opening its device node; 0: it can be opened */
	struct doctor_port ports[DOCTOR_PORTS_MAX];
	unsigned int n_ports;
	struct doctor_pci pci;
	struct doctor_user users[DOCTOR_USERS_MAX]; /* processes that have it open and that this user may see */
	unsigned int n_users;
	struct doctor_probe probe;
};

/* What sysfs says of it stays zero if /sys is of another network namespace. */
struct doctor_interface {
	char name[IFNAMSIZ];
	bool exists;
	bool up;
	bool running;
	unsigned int mtu;
	bool is_virtual_function;
	bool has_pause, rx_pause, tx_pause;
	bool loopback;               /* the port sends its packets back to itself, and none to the wire */
	int rp_filter;               /* the stricter of the settings for all interfaces and for this one */
	unsigned int igmp_version;   /* the version that the kernel speaks there now; 0: not known */
	char ptp[DOCTOR_NAME_BYTES]; /* its PTP clock, "ptp0"; "": none */
	bool ptp_is_read;
	int64_t ptp_offset_ns; /* its difference to the system's clock */
	enum net_stamping stamping;
	struct backend_choice_facts choice;
};

/* The control socket of the configuration, and the process that listens there. */
struct doctor_socket {
	char path[108];
	int error; /* errno of connecting; ESRCH: the process that listened has ended, and its socket is kept */
	pid_t pid; /* 0: none, or it is in another PID namespace */
	uid_t uid; /* of that process when it began to listen */

	/* Of a daemon, for the user of --user. */
	enum { DOCTOR_USER_NOT_TRIED, DOCTOR_USER_CONNECTS, DOCTOR_USER_REFUSED } of_user;
	char refused[DOCTOR_TEXT_BYTES]; /* why, and the command that mends it */
};

/* The process whose rights count: a running ibvcapd, or the service as systemd would start it, or this process. */
struct doctor_process {
	enum { DOCTOR_SELF, DOCTOR_SERVICE, DOCTOR_DAEMON } kind;
	pid_t pid;
	bool has_config;            /* a daemon that runs with the configuration file that is checked */
	uint64_t config_written_ns; /* when the file and those that it includes were written, as the daemon read them */
	uint64_t effective_capabilities;
	uint64_t memlock_bytes; /* UINT64_MAX = unlimited */
};

enum doctor_limit { DOCTOR_MEMORY, DOCTOR_PROCESSES, DOCTOR_HUGE_2M, DOCTOR_HUGE_1G, DOCTOR_LIMITS };
/* The limits of that process' cgroup and of those above it; UINT64_MAX: none. */
struct doctor_limits {
	char container[DOCTOR_NAME_BYTES];  /* "systemd-nspawn", "docker"; "": none */
	char cgroup[DOCTOR_TEXT_BYTES / 2]; /* "/system.slice/ibvcapd.service" */
	uint64_t at[DOCTOR_LIMITS];
};
extern const char *const doctor_limit_files[DOCTOR_LIMITS];

struct doctor_cpus {
	cpu_set_t online;
	cpu_set_t isolated;
	cpu_set_t nodes[DOCTOR_NODES_MAX];
	bool has_governor;
	char governor[DOCTOR_NAME_BYTES]; /* one that is not "performance"; "": there is none */
	cpu_set_t governed;               /* the CPUs with such a governor */
	bool has_idle;
	char idle_state[DOCTOR_NAME_BYTES]; /* the deepest one that is enabled on any CPU */
	unsigned int idle_exit_us;
	bool has_latency_limit; /* a program holds /dev/cpu_dma_latency open */
	unsigned int latency_limit_us;
};

/* A process, not an ibvcapd, that maps segments of rings or senders' arenas, or has descriptors of them. */
struct doctor_holder {
	pid_t pid;
	char name[DOCTOR_NAME_BYTES]; /* of the program */
	char user[DOCTOR_NAME_BYTES]; /* by name, or by number if it has none */
	uint64_t bytes;
	uint64_t ended_bytes; /* of these: in segments that no ibvcapd holds any more */
};

/* What a running ibvcapd says that it took for an interface, where the configuration has backend = "auto". */
struct doctor_taken {
	char interface[IFNAMSIZ];
	char backend[16];
	struct backend_choice choice;
};

/* What ibvcapd --check-config says of a file that is valid, unless a daemon runs with it. */
struct doctor_trial {
	bool is_refused;
	char said[2 * DOCTOR_TEXT_BYTES]; /* its errors, or its warnings; "": there are none, or it was not tried */
};

/* How a CUDA device would read a ring. */
struct doctor_cuda {
	struct ibvcap_cuda_info info;
	uint32_t page_bytes;           /* of the memory that was tried */
	char error[DOCTOR_TEXT_BYTES]; /* "": it works */
};

struct doctor_facts {
	const char *user; /* of ibvcapd --user; NULL: its default. If a daemon runs: may this user connect to it? */
	struct doctor_trial trial;
	struct doctor_taken taken[DOCTOR_INTERFACES_MAX];
	unsigned int n_taken;
	struct doctor_pool pools[DOCTOR_POOLS_MAX];
	unsigned int n_pools;
	uint64_t memory_kib; /* of the machine, MemTotal of /proc/meminfo */
	struct doctor_device devices[DOCTOR_DEVICES_MAX];
	unsigned int n_devices;
	struct doctor_cuda cuda[DOCTOR_CUDA_MAX];
	unsigned int n_cuda; /* 0 without a driver, too */
	struct doctor_interface interfaces[DOCTOR_INTERFACES_MAX];
	unsigned int n_interfaces;
	struct doctor_socket control;
	/* Whose network namespace the facts of interfaces are of. HIDDEN: the daemon has another one. */
	enum {
		DOCTOR_NETWORK_OWN,   /* this process's; process 1 could not be read */
		DOCTOR_NETWORK_FIRST, /* this process's and that of process 1 */
		DOCTOR_NETWORK_OTHER, /* this process's, which is not that of process 1 */
		DOCTOR_NETWORK_ENTERED,
		DOCTOR_NETWORK_HIDDEN
	} network;
	bool sysfs_is_foreign; /* /sys shows the interfaces of another network namespace than this one */
	bool mellanox_pci;     /* there is a ConnectX on the PCI bus, with or without a driver */
	struct doctor_holder holders[DOCTOR_HOLDERS_MAX];
	unsigned int n_holders;
	bool sees_all_processes; /* only root with CAP_SYS_PTRACE reads those of other users */
	bool knows_ended_rings;  /* the segments of each ibvcapd, if any runs, could be read; else ended_bytes is 0 */
	struct doctor_process process;
	struct doctor_limits limits;
	struct doctor_cpus cpus;
	struct system_clock clock;
	struct doctor_keeper keeper;
	const char *config_file;
	struct config *config;         /* NULL: the daemon would refuse the file, */
	struct failure config_failure; /* … with this error */
};

/** The interface of that name; NULL if this machine has none. */
const struct doctor_interface *facts_find_interface(const struct doctor_facts *facts, const char *name);

/** The facts of the interface for the process whose rights count. */
struct backend_choice_facts facts_for_choice(const struct doctor_facts *facts,
                                             const struct doctor_interface *interface);

/** What backend = "auto" takes for that interface in the process whose rights count. */
void facts_choose_backend(const struct doctor_facts *facts, const struct doctor_interface *interface,
                          struct backend_choice *choice);

/** backend, or what it takes for the interface if it is AUTO. VERBS: there is no such interface. */
enum config_backend facts_find_backend(const struct doctor_facts *facts, const char *interface,
                                       enum config_backend backend);

/* A stream or a channel of the configuration. */
struct doctor_service {
	const char *kind; /* "stream", "channel" */
	const char *name;
	const char *interface;
	const char *file;
	int line;
	enum config_backend backend; /* as configured; facts_find_backend() has that of AUTO */
	enum config_poll poll;
	int cpu;
	uint32_t slots; /* of its queue */
	const char *slots_key;
	uint32_t page_bytes;
	uint64_t memory_bytes;              /* of its rings, or of the arenas of as many senders as may come */
	const struct config_stream *stream; /* NULL: it is a channel */
};

/** Service i of the configuration, streams first. False: there are no more, or there is no configuration. */
bool facts_service(const struct doctor_facts *facts, uint32_t i, struct doctor_service *service);

/** The RDMA device that has that interface behind one of its ports; NULL if none has. */
const struct doctor_device *facts_find_device(const struct doctor_facts *facts, const char *interface);

#endif
