// SPDX-License-Identifier: Apache-2.0
/* The checks of the doctor. Each test changes one fact of a ready machine and expects one finding. */
#include "tools/doctor/checks.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#define BIT(capability) (UINT64_C(1) << (capability))
#define NS_PER_S        UINT64_C(1000000000)
#define NOW_S           UINT64_C(1795286082)

static struct doctor_facts facts;
static struct findings findings;
static struct doctor_device *const device = &facts.devices[0];
static struct doctor_port *const port = &facts.devices[0].ports[0];
static struct doctor_interface *const interface = &facts.interfaces[0];

/*
 * One stream of the verbs backend, whose ring takes 15 pages of 2 MiB, with keys of its own, which may have another
 * backend, and of its flow; and what else is in the file.
 */
static void configure(const char *stream, const char *flow, const char *rest)
{
	char text[2048];

	snprintf(text, sizeof(text),
	         "%s\n"
	         "streams = ( { name = \"a\"; interface = \"eth0\"; payload_size = 1000; cpu = 2;\n"
	         "history_blocks = 64; %s %s\n"
	         "flows = ( { destination = \"239.1.2.3\"; port = 1; %s } ); } );\n",
	         rest, strstr(stream, "backend") ? "" : "backend = \"verbs\";", stream, flow);
	config_free(facts.config);
	facts.config = NULL;
	cr_assert_eq(config_load_text("test.conf", text, &facts.config, &facts.config_failure), 0, "%s",
	             facts.config_failure.text);
}

static void make_device(void)
{
	*device = (struct doctor_device){.name = "mlx5_0", .uverbs = "uverbs0", .n_ports = 1};
	facts.n_devices = 1;
	*port = (struct doctor_port){.number = 1,
	                             .state = "4: ACTIVE",
	                             .link_layer = "Ethernet",
	                             .rate = "100 Gb/sec (4X EDR)",
	                             .netdev = "eth0"};
	device->pci = (struct doctor_pci){.address = "0000:3b:00.0",
	                                  .node = 0,
	                                  .width = 16,
	                                  .width_max = 16,
	                                  .speed = "16.0 GT/s PCIe",
	                                  .speed_max = "16.0 GT/s PCIe",
	                                  .read_request_bytes = 512,
	                                  .has_ordering = true,
	                                  .relaxed_ordering = true,
	                                  .iommu = "identity",
	                                  .n_irqs = 4};
	CPU_SET(0, &device->pci.irq_cpus);
	device->probe = (struct doctor_probe){.result = DOCTOR_PROBE_PASSED,
	                                      .max_queue_slots = 32768,
	                                      .max_send_slots = 16384,
	                                      .has_clock = true,
	                                      .clock_raw = 12345678901,
	                                      .clock_hz = 78125000,
	                                      .clock_at_ns = NOW_S * NS_PER_S};
}

static void make_cpus(void)
{
	for (unsigned int i = 0; i < 4; i++) {
		CPU_SET(i, &facts.cpus.online);
		CPU_SET(i, &facts.cpus.nodes[0]);
		CPU_SET(i + 4, &facts.cpus.nodes[1]);
	}
	CPU_SET(2, &facts.cpus.isolated);
	facts.cpus.has_governor = facts.cpus.has_idle = true;
	facts.cpus.idle_exit_us = 2;
	strcpy(facts.cpus.idle_state, "C1");
}

/* A machine that needs no repair. */
static void make_ready(void)
{
	memset(&facts, 0, sizeof(facts));
	make_device();
	make_cpus();
	facts.pools[0] = (struct doctor_pool){.node = 0, .page_kib = 2048, .total_pages = 400, .free_pages = 320};
	facts.n_pools = 1;
	facts.memory_kib = 64 << 20;
	*interface = (struct doctor_interface){.name = "eth0",
	                                       .exists = true,
	                                       .up = true,
	                                       .running = true,
	                                       .mtu = 9000,
	                                       .has_pause = true,
	                                       .igmp_version = 3};
	facts.n_interfaces = 1;
	facts.process =
		(struct doctor_process){.pid = 1, .effective_capabilities = BIT(CAP_NET_RAW) | BIT(CAP_IPC_LOCK)};
	facts.limits = (struct doctor_limits){.cgroup = "/system.slice/ibvcapd.service"};
	memset(facts.limits.at, 0xff, sizeof(facts.limits.at)); /* none */
	facts.clock = (struct system_clock){.is_known = true, .is_synchronised = true, .max_error_us = 90};
	strcpy(facts.control.path, "/run/ibvcapd/control.sock");
	facts.control.error = ENOENT;
	facts.config_file = "test.conf";
	configure("poll = \"busy\";", "", "");
}

static void free_config(void)
{
	config_free(facts.config);
}

/* Run the checks, and expect that all findings are ok. */
static void expect_ready(void)
{
	doctor_check(&facts, &findings);
	for (unsigned int i = 0; i < findings.n; i++)
		cr_expect_eq(findings.entries[i].level, FINDING_OK, "%s: %s", findings.entries[i].subject,
		             findings.entries[i].found);
	cr_expect_eq(findings_worst_level(&findings), FINDING_OK);
}

/* Users paste the fix into a shell, so its syntax has to be right. */
static void expect_command(const char *fix)
{
	FILE *shell = popen("sh -n", "w");

	cr_assert_not_null(shell);
	fputs(fix, shell);
	cr_expect_eq(pclose(shell), 0, "%s", fix);
}

/* The one finding that is not ok; fails the test if there are none or several. */
/* A command or a sentence. */
static const char *cure_of(const struct finding *finding)
{
	cr_expect_eq(*finding->fix == '\0', *finding->advice != '\0', "%s, %s", finding->fix, finding->advice);
	return *finding->fix ? finding->fix : finding->advice;
}

static const struct finding *only_failure(void)
{
	const struct finding *failure = NULL;

	doctor_check(&facts, &findings);
	for (unsigned int i = 0; i < findings.n; i++) {
		if (findings.entries[i].level == FINDING_OK)
			continue;
		cr_assert_null(failure, "also: %s: %s", findings.entries[i].subject, findings.entries[i].found);
		failure = &findings.entries[i];
	}
	cr_assert_not_null(failure);
	cr_assert(*failure->subject && *failure->found && *failure->wanted && *failure->why && *cure_of(failure));
	cr_assert_eq(findings_worst_level(&findings), failure->level);
	expect_command(failure->fix);
	return failure;
}

static void expect(enum finding_level level, const char *check, const char *found, const char *fix, bool survives)
{
	const struct finding *failure = only_failure();

	cr_expect_eq(failure->level, level);
	cr_expect_str_eq(failure->check, check);
	cr_expect_not_null(strstr(failure->found, found), "%s", failure->found);
	cr_expect_not_null(strstr(cure_of(failure), fix), "%s", cure_of(failure));
	cr_expect_eq(failure->fix_survives_reboot, survives);
}

/* Expect a finding of that check at level ok that contains this text. */
static void expect_told(const char *check, const char *found)
{
	expect_ready();
	for (unsigned int i = 0; i < findings.n; i++)
		if (strcmp(findings.entries[i].check, check) == 0 && strstr(findings.entries[i].found, found))
			return;
	cr_expect(false, "no '%s' says '%s'", check, found);
}

TestSuite(doctor_checks, .init = make_ready, .fini = free_config);

/* FAULT: a test that changes the facts, and expects one finding with this level and fix. TOLD: one at level ok. */
#define FAULT(name, level, check, found, fix, survives, ...)          \
	Test(doctor_checks, name)                                     \
	{                                                             \
		__VA_ARGS__;                                          \
		expect(FINDING_##level, check, found, fix, survives); \
	}
#define TOLD(name, check, found, ...)      \
	Test(doctor_checks, name)          \
	{                                  \
		__VA_ARGS__;               \
		expect_told(check, found); \
	}

Test(doctor_checks, a_ready_machine_has_nothing_to_mend_and_is_told_of_each_check)
{
	static const char *const checks[] = {"device",        "port",         "interface", "probe",
	                                     "config",        "ring_size",    "socket",    "network",
	                                     "capabilities",  "memlock",      "container", "memory",
	                                     "hugepages",     "numa",         "pcie_link", "pcie_read_request",
	                                     "pcie_ordering", "iommu",        "pause",     "loopback",
	                                     "igmp",          "rp_filter",    "governor",  "c_states",
	                                     "isolation",     "irq_affinity", "clock",     "nic_clock",
	                                     "ring_memory"};
	unsigned int n;

	expect_ready();
	for (unsigned int i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		n = 0;
		for (unsigned int j = 0; j < findings.n; j++)
			n += strcmp(findings.entries[j].check, checks[i]) == 0;
		cr_expect(n > 0, "%s", checks[i]);
	}
}

Test(doctor_checks, what_a_name_has_in_it_does_not_move_the_cursor)
{
	facts.config_file = "\033[2J\n.conf";
	doctor_check(&facts, &findings);
	for (unsigned int i = 0; i < findings.n; i++)
		cr_expect_null(strpbrk(findings.entries[i].subject, "\033\n"), "%s", findings.entries[i].check);
}

/* ---- devices --------------------------------------------------------------------------------------- */

Test(doctor_checks, no_device_and_no_card_is_an_error_that_points_to_softhca)
{
	facts.n_devices = 0;
	doctor_check(&facts, &findings);
	cr_assert_str_eq(findings.entries[0].check, "device");
	cr_assert_eq(findings.entries[0].level, FINDING_ERROR);
	cr_assert_not_null(strstr(findings.entries[0].advice, "softhca -i"));
	cr_assert_not_null(strstr(findings.entries[0].advice, "backend = \"auto\""));
	cr_assert_not(findings.entries[0].fix_survives_reboot);
	facts.config = NULL;
	doctor_check(&facts, &findings);
	cr_expect_eq(findings.entries[0].level, FINDING_OK, "the default is auto: %s", findings.entries[0].found);
}

Test(doctor_checks, a_configuration_of_the_packet_backend_needs_no_device)
{
	configure("backend = \"packet\";", "", "");
	facts.n_devices = 0;
	doctor_check(&facts, &findings);
	cr_assert_str_eq(findings.entries[0].check, "device");
	for (unsigned int i = 0; i < findings.n; i++)
		cr_expect(findings.entries[i].level != FINDING_ERROR, "%s: %s", findings.entries[i].check,
		          findings.entries[i].found);
}

static const struct finding *finding_of_interface(void)
{
	doctor_check(&facts, &findings);
	for (unsigned int i = 0; i < findings.n; i++)
		if (strcmp(findings.entries[i].check, "config") == 0 && strstr(findings.entries[i].subject, "on eth0"))
			return &findings.entries[i];
	cr_assert_fail("no finding of the stream's interface");
	return NULL;
}

Test(doctor_checks, what_auto_takes_is_told_with_what_a_faster_backend_would_take)
{
	configure("backend = \"auto\";", "", "");
	cr_expect_str_eq(finding_of_interface()->found, "backend verbs, because an RDMA device is behind it");
	facts.n_devices = 0;
	interface->choice = (struct backend_choice_facts){.driver = "ice",
	                                                  .is_card = true,
	                                                  .native_xdp = BACKEND_CHOICE_XDP_NATIVE,
	                                                  .builds_xdp = true,
	                                                  .has_af_xdp = true};
	cr_expect_str_eq(finding_of_interface()->found,
	                 "backend packet, because the daemon lacks CAP_BPF and CAP_NET_ADMIN");
	cr_expect_eq(finding_of_interface()->level, FINDING_WARNING);
	cr_expect_not_null(strstr(finding_of_interface()->fix, "xdp.conf"));
	facts.process.effective_capabilities |= BIT(CAP_BPF) | BIT(CAP_NET_ADMIN);
	cr_expect_str_eq(finding_of_interface()->found, "backend xdp, because its driver ice has native XDP");
	cr_expect_eq(finding_of_interface()->level, FINDING_OK);
	facts.taken[facts.n_taken++] = (struct doctor_taken){
		.interface = "eth0", .choice = {.backend = "packet", .why = "the daemon says so"}};
	cr_expect_str_eq(finding_of_interface()->found, "backend packet, because the daemon says so");
	facts.taken[0] = (struct doctor_taken){
		.interface = "eth0", .choice = {.backend = "packet", .better = "xdp", .is_second_best = true}};
	cr_expect_str_eq(finding_of_interface()->advice, "xdp", "no command brings it");
}

Test(doctor_checks, what_keeps_xdp_from_an_interface_is_an_error_if_the_configuration_names_it)
{
	configure("backend = \"xdp\";", "", "");
	cr_expect_str_eq(finding_of_interface()->found, "backend \"xdp\", but it has no driver with native XDP");
	cr_expect_eq(finding_of_interface()->level, FINDING_ERROR);
	cr_expect_not_null(strstr(finding_of_interface()->fix, "backend = \"auto\""));
	interface->choice = (struct backend_choice_facts){.driver = "ice",
	                                                  .native_xdp = BACKEND_CHOICE_XDP_NATIVE,
	                                                  .builds_xdp = true,
	                                                  .has_af_xdp = true,
	                                                  .xdp_program = 7};
	facts.process.effective_capabilities |= BIT(CAP_BPF) | BIT(CAP_NET_ADMIN);
	cr_expect_not_null(strstr(finding_of_interface()->found, "an XDP program (ID 7) is attached"));
	interface->choice.xdp_program = 0;
	cr_expect_eq(finding_of_interface()->level, FINDING_OK);
}

Test(doctor_checks, a_fix_that_a_container_shares_with_the_host_is_for_the_host)
{
	strcpy(facts.limits.container, "systemd-nspawn");
	facts.pools[0].total_pages = facts.pools[0].free_pages = 0;
	cr_expect_eq(strstr(only_failure()->advice, "on the host: echo 'w "), only_failure()->advice);
	make_ready();
	strcpy(facts.limits.container, "docker");
	interface->up = interface->running = false;
	cr_expect_str_eq(only_failure()->fix, "ip link set eth0 up", "the container's own");
}

Test(doctor_checks, no_fix_reboots_the_machine)
{
	strcpy(device->pci.iommu, "DMA-FQ");
	strcpy(port->link_layer, "InfiniBand");
	CPU_ZERO(&facts.cpus.isolated);
	device->probe.clock_raw = NOW_S << 32;
	facts.pools[0].total_pages = 0;
	configure("page_size = \"1G\"; poll = \"busy\";", "", "");
	doctor_check(&facts, &findings);
	for (unsigned int i = 0; i < findings.n; i++) {
		cr_expect_null(strstr(findings.entries[i].fix, "&& reboot"), "%s", findings.entries[i].fix);
		cr_expect_null(strstr(findings.entries[i].fix, "systemctl reboot"), "%s", findings.entries[i].fix);
	}
}

/* Each module has a file of its own, so one fix does not overwrite the other. */
Test(doctor_checks, two_modules_are_loaded_at_boot_by_two_files)
{
	facts.n_devices = 0;
	facts.mellanox_pci = true;
	doctor_check(&facts, &findings);
	cr_expect_not_null(strstr(findings.entries[0].fix, "> /etc/modules-load.d/ibvcap-mlx5_ib.conf"));
	make_ready();
	device->open_error = ENOENT;
	cr_expect_not_null(strstr(only_failure()->fix, "> /etc/modules-load.d/ibvcap-ib_uverbs.conf"));
}

Test(doctor_checks, a_card_without_a_driver_wants_the_driver_also_after_a_reboot)
{
	facts.n_devices = 0;
	facts.mellanox_pci = true;
	doctor_check(&facts, &findings);
	cr_assert_not_null(strstr(findings.entries[0].found, "there is a ConnectX"));
	cr_assert_not_null(strstr(findings.entries[0].fix, "modprobe mlx5_ib"));
	cr_assert(findings.entries[0].fix_survives_reboot);
	cr_expect_eq(findings.entries[0].level, FINDING_ERROR);
	configure("backend = \"auto\";", "", "");
	doctor_check(&facts, &findings);
	cr_assert_not_null(strstr(findings.entries[0].fix, "modprobe mlx5_ib"));
	cr_expect_eq(findings.entries[0].level, FINDING_WARNING, "auto works without it");
}

FAULT(a_device_that_may_not_be_opened_is_an_error, ERROR, "device", "Permission denied", "MODE=\"0666\"", true,
      device->open_error = EACCES)
FAULT(a_device_without_a_node_wants_ib_uverbs, ERROR, "device", "No such file", "modprobe ib_uverbs", true,
      device->open_error = ENOENT)
FAULT(a_device_that_a_container_was_not_given_wants_it_given, ERROR, "device", "not permitted", "DeviceAllow=", true,
      device->open_error = EPERM;
      strcpy(facts.limits.container, "systemd-nspawn"))
FAULT(an_infiniband_port_is_a_warning, WARNING, "port", "InfiniBand", "mlxconfig -d 0000:3b:00.0 set LINK_TYPE_P1=2",
      true, strcpy(port->link_layer, "InfiniBand"))
FAULT(a_port_without_a_carrier_is_told_of_once_by_its_interface, WARNING, "interface", "no carrier", "ethtool eth0",
      false, strcpy(port->state, "1: DOWN");
      interface->running = false)
FAULT(a_port_that_is_down_is_told_of_once_by_its_interface, WARNING, "interface", "down", "ip link set eth0 up", false,
      strcpy(port->state, "1: DOWN");
      interface->running = interface->up = false)
FAULT(a_port_that_is_down_with_its_interface_up_is_told_of_itself, WARNING, "port", "2: INIT",
      "rdma link show mlx5_0/1", false, strcpy(port->state, "2: INIT"))
TOLD(a_port_is_told_with_its_interface_its_place_and_its_node, "port", "eth0, PCI 0000:3b:00.0, NUMA node 0", )

FAULT(a_trial_that_failed_is_an_error_in_the_backends_words, ERROR, "probe", "flow tables are full", "dmesg", false,
      device->probe.result = DOCTOR_PROBE_FAILED;
      strcpy(device->probe.reason, "flow tables are full"))
FAULT(a_trial_that_you_may_not_make_is_roots_to_make, WARNING, "probe", "CAP_NET_RAW", "sudo ibvcap doctor", false,
      device->probe.result = DOCTOR_PROBE_DENIED;
      strcpy(device->probe.reason, "it needs CAP_NET_RAW"))
TOLD(a_device_in_use_is_not_tried, "probe", "ibvcapd (pid 7)", device->probe.result = DOCTOR_PROBE_IN_USE;
     device->users[device->n_users++] = (struct doctor_user){7, "ibvcapd"})
TOLD(a_device_that_may_be_in_use_is_not_tried, "probe", "may have it open", device->probe.result = DOCTOR_PROBE_IN_USE)

/* ---- the configuration ----------------------------------------------------------------------------- */

FAULT(a_config_the_daemon_refuses_is_an_error_in_its_words, ERROR, "config", ":3: unknown key",
      "ibvcapd --check-config", true, config_free(facts.config);
      facts.config = NULL; facts.config_failure.exit_code = EX_CONFIG;
      strcpy(facts.config_failure.text, "/etc/ibvcapd.conf:3: unknown key"))
FAULT(a_config_that_this_machine_does_not_suit_is_an_error, ERROR, "config", "the MTU 1000 is too small",
      "ibvcapd --check-config --user root --config test.conf", true, facts.trial.is_refused = true;
      facts.user = "root"; strcpy(facts.trial.said, "ibvcapd: error: the MTU 1000 is too small"))
FAULT(a_config_that_the_daemon_warns_of_is_a_warning, WARNING, "config", "is no address of eth0",
      "ibvcapd --check-config --config test.conf", true,
      strcpy(facts.trial.said, "ibvcapd: warning: 10.9.0.77 is no address of eth0"))
FAULT(no_config_is_an_error_that_says_where_it_belongs, ERROR, "config", "No such file", "editor test.conf", true,
      config_free(facts.config);
      facts.config = NULL; facts.config_failure.exit_code = EX_NOINPUT;
      strcpy(facts.config_failure.text, "No such file"))
TOLD(a_virtual_function_is_told_what_it_receives, "virtual_function", "own MAC", interface->is_virtual_function = true)
FAULT(a_receive_queue_deeper_than_the_devices_is_an_error, ERROR, "ring_size", "receive_queue_slots 4096",
      "receive_queue_slots = 256", true, device->probe.max_queue_slots = 256)
FAULT(delay_drop_that_the_device_has_not_is_an_error, ERROR, "offloads", "delay_drop = true, the device has none",
      "delay_drop = false", true, configure("poll = \"busy\"; delay_drop = true;", "", ""))
FAULT(a_longer_moderation_than_the_devices_is_an_error, ERROR, "offloads", "moderation_us = 100 of at most 50",
      "moderation_us = 50", true, device->probe.max_moderation_us = 50;
      configure("moderation_us = 100;", "", ""))
TOLD(what_the_device_has_is_told, "offloads", "delay_drop = true, the device has it", device->probe.delay_drop = true;
     configure("poll = \"busy\"; delay_drop = true;", "", ""))
FAULT(a_send_queue_deeper_than_the_devices_is_an_error, ERROR, "ring_size", "send_queue_slots 1024",
      "send_queue_slots = 128", true, device->probe.max_send_slots = 128;
      configure("", "",
                "channels = ( { name = \"o\"; interface = \"eth0\"; source_port = 1; payload_size = 100; max_senders = "
                "1;\n"
                "max_senders_per_user = 1; arena_slots = 64;\n"
                "destinations = ( { address = \"239.0.0.1\"; port = 2; } ); } );"))

/* ---- the daemon ------------------------------------------------------------------------------------ */

TOLD(a_listener_that_is_no_daemon_is_told, "socket", "process 7 of user 1000 listens", facts.control.pid = 7;
     facts.control.uid = 1000)
TOLD(a_daemon_that_has_ended_does_not_listen, "socket", "ibvcapd has ended", facts.control.error = ESRCH)
TOLD(a_socket_that_this_user_may_not_use_is_told, "socket", "this user may not connect", facts.control.error = EACCES)
TOLD(a_namespace_that_is_not_that_of_process_1_is_told, "network", "another one than that of process 1",
     facts.network = DOCTOR_NETWORK_OTHER)
TOLD(a_sysfs_of_another_network_namespace_is_told, "network", "/sys is of another one", facts.sysfs_is_foreign = true)

/* It captures, on softhca or in a container: its device is not missed. */
Test(doctor_checks, a_daemon_that_runs_has_its_device_even_if_the_doctor_does_not_see_it)
{
	facts.n_devices = 0;
	facts.process.kind = DOCTOR_DAEMON;
	facts.process.pid = 7;
	facts.process.has_config = true;
	configure("join = false; page_size = \"4K\";", "", "");
	expect_told("device", "none that this process sees, but ibvcapd (pid 7) has one");
}

TOLD(a_daemon_that_took_packet_sockets_has_no_device, "device", "none, and the configuration needs none",
     facts.n_devices = 0;
     facts.process.kind = DOCTOR_DAEMON; facts.process.has_config = true;
     configure("backend = \"packet\"; join = false; page_size = \"4K\";", "", ""))

/* ---- rights ---------------------------------------------------------------------------------------- */

FAULT(a_process_without_net_raw_is_a_warning, WARNING, "capabilities", "no CAP_NET_RAW", "ibv_launch", false,
      facts.process.effective_capabilities = BIT(CAP_IPC_LOCK))
FAULT(a_daemon_without_net_raw_is_an_error, ERROR, "capabilities", "no CAP_NET_RAW", "AmbientCapabilities=CAP_NET_RAW",
      true, facts.process = (struct doctor_process){.kind = DOCTOR_DAEMON, .effective_capabilities = BIT(CAP_IPC_LOCK)})
FAULT(a_service_without_net_raw_is_an_error, ERROR, "capabilities", "no CAP_NET_RAW", "AmbientCapabilities=CAP_NET_RAW",
      true, facts.process = (struct doctor_process){.kind = DOCTOR_SERVICE, .memlock_bytes = UINT64_MAX})
FAULT(a_memlock_limit_is_a_warning, WARNING, "memlock", "8192 KiB", "systemctl start", false,
      facts.process.effective_capabilities = BIT(CAP_NET_RAW);
      facts.process.memlock_bytes = 8 << 20)
FAULT(a_memlock_limit_of_the_service_is_the_units_to_raise, WARNING, "memlock", "64 KiB", "LimitMEMLOCK=infinity", true,
      facts.process = (struct doctor_process){
	      .kind = DOCTOR_SERVICE, .memlock_bytes = 64 << 10, .effective_capabilities = BIT(CAP_NET_RAW)})
TOLD(a_memlock_limit_is_none_with_ipc_lock, "memlock", "no limit", facts.process.memlock_bytes = 8 << 20)
TOLD(a_daemon_that_runs_has_locked_what_it_needs, "memlock", "is registered",
     facts.process = (struct doctor_process){
	     .kind = DOCTOR_DAEMON, .memlock_bytes = 8 << 20, .effective_capabilities = BIT(CAP_NET_RAW)})

/* ---- memory ---------------------------------------------------------------------------------------- */

#define POOL(total, free_) (facts.pools[0].total_pages = (total), facts.pools[0].free_pages = (free_))

Test(doctor_checks, hugepages_are_wanted_as_the_ring_takes_them_and_twice)
{
	/* 64 + 16 + 1 + 32 blocks of 256 rows: 1000 bytes of payload, 64 of headers; 2 MiB pages each. */
	uint64_t slots = (64 + 16 + 8 * 4) * 256, page = 2 << 20, pages;

	POOL(0, 0);
	cr_assert_eq(sscanf(strstr(only_failure()->found, "needs "), "needs %lu", &pages), 1);
	cr_expect_geq(pages, slots * 1000 / page + slots * 64 / page);
	cr_expect_leq(pages, (slots + 1024) * 1000 / page + (slots + 1024) * 64 / page + 2);
	cr_expect_eq(strtoul(only_failure()->wanted, NULL, 10), 2 * pages);
}

FAULT(no_hugepages_is_an_error, ERROR, "hugepages", "0 reserved, 0 free",
      "systemd-tmpfiles --create ibvcap-hugepages-node0.conf", true, POOL(0, 0))
FAULT(hugepages_that_others_use_are_wanted_besides, ERROR, "hugepages", "400 reserved, 0 free",
      "- - - - 430' > /etc/tmpfiles.d/ibvcap-hugepages-node0.conf", true, POOL(400, 0))
FAULT(hugepages_for_one_run_only_are_a_warning, WARNING, "hugepages", "20 free",
      "/node0/hugepages/hugepages-2048kB/nr_hugepages - - - - 30'", true, POOL(20, 20))
TOLD(hugepages_that_the_daemon_itself_uses_are_enough, "hugepages", "0 free", POOL(400, 0);
     facts.process.kind = DOCTOR_DAEMON; facts.process.has_config = true)
FAULT(big_pages_are_wanted_at_boot, ERROR, "hugepages", "needs 2", "hugepagesz=1024M hugepages=0:4", true,
      configure("page_size = \"1G\";", "", ""))
FAULT(senders_arenas_are_counted, WARNING, "hugepages", "reserved", "- - - - ", true,
      configure("", "",
                "channels = ( { name = \"o\"; interface = \"eth0\"; source_port = 1; payload_size = 8192; arena_slots "
                "= 8192;\n"
                "destinations = ( { address = \"239.0.0.1\"; port = 2; } ); } );"))
TOLD(the_memory_is_told_by_its_parts, "memory",
     "MiB of the machine's 64 GiB: rings 25 MiB, the kernel's buffers of receive queues 16 MiB",
     configure("backend = \"packet\"; join = false; page_size = \"4K\";", "", ""))
FAULT(rings_that_the_machine_has_no_memory_for_are_an_error, ERROR, "memory", "30 MiB of the machine's 40 MiB",
      "ibvcapd --check-config --config test.conf   # says what each stream and channel takes", true,
      facts.memory_kib = 40 << 10)
FAULT(the_kernels_buffer_of_a_packet_socket_is_counted, ERROR, "memory", "44 MiB of the machine's 60 MiB",
      "lower history_blocks", true, facts.memory_kib = 60 << 10;
      configure("backend = \"packet\";", "", ""))
FAULT(pages_for_a_restart_that_the_machine_has_no_memory_for_are_not_advised, WARNING, "hugepages", "20 free",
      "lower history_blocks", true, facts.memory_kib = 60 << 10;
      POOL(20, 20))
FAULT(pages_for_one_run_are_advised_if_there_is_memory_for_no_more, ERROR, "hugepages", "0 free", "- - - - 15'", true,
      facts.memory_kib = 60 << 10;
      POOL(0, 0))

/* A typing error: the command would give all free memory away, at each boot. */
Test(doctor_checks, no_command_takes_more_memory_than_the_machine_has)
{
	facts.memory_kib = 40 << 10;
	POOL(0, 0);
	doctor_check(&facts, &findings);
	cr_expect_eq(findings_worst_level(&findings), FINDING_ERROR);
	for (unsigned int i = 0; i < findings.n; i++)
		cr_expect_null(strstr(findings.entries[i].fix, "nr_hugepages"), "%s", findings.entries[i].fix);
}

TOLD(rings_in_small_pages_want_none, "config", "valid", configure("page_size = \"4K\";", "", ""); POOL(0, 0))
FAULT(pages_on_another_node_than_the_device_are_a_warning, WARNING, "numa", "on node 0, which has 0 pages",
      "/node0/hugepages/hugepages-2048kB/nr_hugepages - - - - 30'", true, facts.pools[0].node = 1)

Test(doctor_checks, pages_are_wanted_on_a_devices_node_beside_those_in_use_there)
{
	const struct doctor_pool there = {.node = 1, .page_kib = 2048, .total_pages = 5, .free_pages = 2};

	device->pci.node = 1;
	CPU_SET(2, &facts.cpus.nodes[1]);
	facts.pools[facts.n_pools++] = there;
	facts.pools[facts.n_pools++] = (struct doctor_pool){.node = 1, .page_kib = 1 << 20, .total_pages = 4};
	expect(FINDING_WARNING, "numa", "node 1, which has 5 pages",
	       "/node1/hugepages/hugepages-2048kB/nr_hugepages - - - - 33'", true);
	facts.pools[1].total_pages = facts.pools[1].free_pages = 15;
	expect_ready();
}

/* The stream is on the first device, the channels' arenas are on the second. */
static void make_two_nodes(const char *page_size)
{
	struct doctor_device *other = &facts.devices[facts.n_devices++];
	char stream[64], channels[512];

	*other = *device;
	strcpy(other->name, "mlx5_1");
	strcpy(other->ports[0].netdev, "eth1");
	other->pci.node = 1;
	facts.interfaces[facts.n_interfaces] = *interface;
	strcpy(facts.interfaces[facts.n_interfaces++].name, "eth1");
	facts.n_pools = 2;
	facts.pools[1].node = 1;
	facts.pools[1].page_kib = facts.pools[0].page_kib = strcmp(page_size, "1G") == 0 ? 1 << 20 : 2048;
	snprintf(stream, sizeof(stream), "poll = \"busy\"; page_size = \"%s\";", page_size);
	snprintf(channels, sizeof(channels),
	         "channels = ( { name = \"o\"; interface = \"eth1\"; source_port = 1; payload_size = 8192; arena_slots "
	         "= "
	         "256; max_senders = 3; poll = \"busy\"; page_size = \"%s\";\n"
	         "destinations = ( { address = \"239.0.0.1\"; port = 2; } ); } );",
	         page_size);
	configure(stream, "", channels);
}

Test(doctor_checks, pages_for_devices_on_two_nodes_are_wanted_on_each)
{
	const char *fix;

	make_two_nodes("2M");
	POOL(0, 0);
	fix = only_failure()->fix;
	cr_expect_not_null(strstr(fix, "/node0/hugepages/hugepages-2048kB/nr_hugepages - - - - 30'"), "%s", fix);
	cr_expect_not_null(strstr(fix, "/node1/hugepages/hugepages-2048kB/nr_hugepages - - - - 6'"), "%s", fix);
	POOL(31, 31); /* that node has enough, and keeps what it has */
	facts.pools[1].total_pages = facts.pools[1].free_pages = 1;
	fix = only_failure()->fix;
	cr_expect_null(strstr(fix, "node0"), "%s", fix);
	cr_expect_not_null(strstr(fix, "/node1/hugepages/hugepages-2048kB/nr_hugepages - - - - 6'"), "%s", fix);
}

Test(doctor_checks, big_pages_on_two_nodes_are_wanted_with_one_word)
{
	make_two_nodes("1G");
	POOL(5, 5);
	facts.pools[1].total_pages = facts.pools[1].free_pages = 1;
	cr_expect_not_null(strstr(only_failure()->fix, "&hugepagesz=1024M hugepages=0:5,1:6 /"), "%s",
	                   only_failure()->fix);
}

Test(doctor_checks, without_pages_it_does_not_start_and_with_few_it_does_not_start_again)
{
	POOL(0, 0);
	cr_expect_not_null(strstr(only_failure()->why, "does not start"));
	POOL(20, 20);
	cr_expect_not_null(strstr(only_failure()->why, "over a restart"));
}

/* ---- PCI ------------------------------------------------------------------------------------------- */

FAULT(a_narrow_pcie_link_is_a_warning, WARNING, "pcie_link", "x8", "lspci -s 0000:3b:00.0", true, device->pci.width = 8)
FAULT(a_slow_pcie_link_is_a_warning, WARNING, "pcie_link", "8.0 GT/s", "lspci -s 0000:3b:00.0", true,
      strcpy(device->pci.speed, "8.0 GT/s PCIe"))
FAULT(small_read_requests_are_a_warning, WARNING, "pcie_read_request", "128 bytes",
      "setpci -s 0000:3b:00.0 CAP_EXP+8.w=5000:7000", false, device->pci.read_request_bytes = 128)
FAULT(strict_ordering_is_a_warning, WARNING, "pcie_ordering", "strict", "Relaxed Ordering disabled", true,
      device->pci.relaxed_ordering = false)
FAULT(an_iommu_that_translates_is_a_warning, WARNING, "iommu", "DMA-FQ", "iommu=pt", true,
      strcpy(device->pci.iommu, "DMA-FQ"))
TOLD(no_iommu_is_fine, "iommu", "none", strcpy(device->pci.iommu, ""))

/* ---- interfaces ------------------------------------------------------------------------------------ */

FAULT(pause_frames_sent_are_a_warning, WARNING, "pause", "not obeyed, are sent", "ethtool -A eth0", false,
      interface->tx_pause = true)
FAULT(pause_frames_obeyed_are_a_warning, WARNING, "pause", "are obeyed, not sent", "ethtool -A eth0", false,
      interface->rx_pause = true)
FAULT(a_looped_port_is_an_error, ERROR, "loopback", "back to itself", "ethtool -K eth0 loopback off", false,
      interface->loopback = true)
Test(doctor_checks, lo_loops_back_as_it_has_to)
{
	configure("backend = \"packet\";", "", "");
	strcpy(interface->name, "lo");
	interface->loopback = true;
	doctor_check(&facts, &findings);
	for (unsigned int i = 0; i < findings.n; i++)
		cr_expect_str_neq(findings.entries[i].check, "loopback");
}

FAULT(two_programs_on_a_device_are_a_warning, WARNING, "loopback", "ibvcapd (pid 7), ib_send (pid 8)", "rdma resource",
      false, device->users[device->n_users++] = (struct doctor_user){7, "ibvcapd"};
      device->users[device->n_users++] = (struct doctor_user){8, "ib_send"})
FAULT(an_old_igmp_is_a_warning_where_flows_have_sources, WARNING, "igmp", "version 2", "force_igmp_version=0", false,
      interface->igmp_version = 2;
      configure("", "source = \"10.0.0.9\";", ""))
TOLD(an_old_igmp_is_fine_without_sources, "igmp", "version 2", interface->igmp_version = 2)
FAULT(a_strict_rp_filter_is_a_warning_with_groups, WARNING, "rp_filter", "1", "net/ipv4/conf/eth0/rp_filter = 2", true,
      interface->rp_filter = 1)
TOLD(a_strict_rp_filter_is_fine_without_groups, "rp_filter", "1", interface->rp_filter = 1;
     configure("join = false;", "", ""))

/* ---- CPUs ------------------------------------------------------------------------------------------ */

FAULT(a_governor_that_saves_power_is_a_warning, WARNING, "governor", "powersave on CPUs 1,3", "echo performance", false,
      strcpy(facts.cpus.governor, "powersave");
      CPU_SET(1, &facts.cpus.governed); CPU_SET(3, &facts.cpus.governed))
FAULT(a_deep_sleep_is_a_warning, WARNING, "c_states", "C6, takes 133 us", "-le 40 ] || echo 1 > $state/disable", false,
      configure("poll = \"event\";", "", "");
      strcpy(facts.cpus.idle_state, "C6"); facts.cpus.idle_exit_us = 133)
TOLD(a_deep_sleep_is_fine_for_workers_that_do_not, "c_states", "133 us", facts.cpus.idle_exit_us = 133)
TOLD(a_deep_sleep_that_somebody_forbids_is_fine, "c_states", "0 us", facts.cpus.idle_exit_us = 133;
     facts.cpus.has_latency_limit = true)
FAULT(a_busy_worker_on_a_shared_cpu_is_a_warning, WARNING, "isolation", "not isolated", "isolcpus=2", true,
      CPU_ZERO(&facts.cpus.isolated))
TOLD(a_worker_on_a_cpu_that_is_not_there_is_for_the_daemon_to_refuse, "config", "valid", CPU_CLR(2, &facts.cpus.online);
     CPU_CLR(2, &facts.cpus.isolated))
FAULT(the_devices_interrupts_on_a_workers_cpu_are_a_warning, WARNING, "irq_affinity", "on 0,2", "echo 0 > ", false,
      CPU_SET(2, &device->pci.irq_cpus))
FAULT(a_worker_on_another_node_than_the_device_is_a_warning, WARNING, "numa", "on node 1, CPUs 4-7",
      "editor +2 test.conf", true, device->pci.node = 1;
      facts.pools[0].node = 1)

/* Two channels of one interface, which share its worker, in small pages. */
#define CHANNELS(keys)                                                                                                 \
	configure(                                                                                                     \
		"poll = \"busy\";", "",                                                                                \
		"channels = ( { name = \"o\"; interface = \"eth0\"; source_port = 1; payload_size = 100; page_size = " \
		"\"4K\"; " keys " destinations = ( { address = \"239.0.0.1\"; port = 2; } ); },\n"                     \
		"{ name = \"p\"; interface = \"eth0\"; source_port = 1; payload_size = 100; page_size = \"4K\"; " keys \
		" destinations = ( { address = \"239.0.0.1\"; port = 3; } ); } );")

FAULT(the_worker_of_channels_is_told_of_once, WARNING, "isolation", "not isolated", "isolcpus=2-3 nohz_full=2-3 ", true,
      CHANNELS("cpu = 3; poll = \"busy\";"))
FAULT(cpu_0_is_not_advised_for_isolation, WARNING, "isolation", "not isolated", "# cpu: another one than 0", true,
      CHANNELS("cpu = 0; poll = \"busy\";");
      CPU_CLR(0, &device->pci.irq_cpus); CPU_SET(1, &device->pci.irq_cpus))
FAULT(a_deep_sleep_is_a_warning_for_channels_too, WARNING, "c_states", "133 us", "cpuidle/state*", false, CHANNELS("");
      facts.cpus.idle_exit_us = 133)

/* ---- clocks ---------------------------------------------------------------------------------------- */

FAULT(a_clock_that_nothing_keeps_is_a_warning, WARNING, "clock", "nothing known here synchronises the system clock",
      "chrony", true, facts.clock.is_synchronised = false)
FAULT(a_keeper_without_a_reference_is_asked_why, WARNING, "clock", "not synchronised; chrony: no reference answers it",
      "chronyc -n sources", true, facts.clock.is_synchronised = false;
      facts.keeper.program = "chrony")
TOLD(what_the_keeper_of_the_clock_says_is_told, "clock",
     "synchronised, at most 90 us off; chrony: reference PHC0, stratum 1, 2.500 us behind it, at most 40.000 us off",
     facts.keeper = ((struct doctor_keeper){"chrony", "PHC0", true, 1, -2500, 40000}))
TOLD(what_no_keeper_says_is_not_known, "clock", "knows neither its reference nor its offset", )
TOLD(the_kernels_tai_offset_is_told, "clock", "TAI is UTC + 37 s", facts.clock.tai_offset_s = 37)
FAULT(a_device_in_real_time_mode_is_a_warning, WARNING, "nic_clock", "real-time mode, 5000 ns",
      "mlxconfig -d 0000:3b:00.0 set REAL_TIME_CLOCK_ENABLE=0", true, device->probe.clock_raw = NOW_S << 32 | 5000)
TOLD(a_count_that_looks_like_seconds_is_none, "nic_clock", "free-running",
     device->probe.clock_raw = NOW_S << 32 | UINT32_MAX)
TOLD(a_device_without_a_clock_is_told, "nic_clock", "when it polls a packet", device->probe.has_clock = false)
TOLD(a_precision_clock_in_utc_is_told_as_such, "nic_clock", "-250 ns from UTC", strcpy(interface->ptp, "ptp0");
     interface->ptp_is_read = true; interface->ptp_offset_ns = -250)
TOLD(a_precision_clock_in_tai_is_told_as_such, "nic_clock", "250 ns from TAI", strcpy(interface->ptp, "ptp0");
     interface->ptp_is_read = true; interface->ptp_offset_ns = 37 * (int64_t)NS_PER_S + 250)
TOLD(a_precision_clock_that_nobody_sets_is_told_as_such, "nic_clock", "no program sets it",
     strcpy(interface->ptp, "ptp0");
     interface->ptp_is_read = true; interface->ptp_offset_ns = -5000 * (int64_t)NS_PER_S)
TOLD(a_card_that_stamps_all_packets_is_told, "nic_clock", "; the card stamps all packets",
     strcpy(interface->ptp, "ptp0");
     interface->choice.has_rdma_device = false; interface->ptp_is_read = true; interface->stamping = NET_STAMPING_ALL)
TOLD(a_card_that_could_stamp_all_packets_is_told, "nic_clock", "timestamps = \"hardware\"",
     strcpy(interface->ptp, "ptp0");
     interface->choice.has_rdma_device = false; interface->ptp_is_read = true; interface->stamping = NET_STAMPING_OFF)
TOLD(a_precision_clock_that_is_not_yours_is_told_as_such, "nic_clock", "may not read it",
     strcpy(interface->ptp, "ptp0"))

/* ---- limits ---------------------------------------------------------------------------------------- */

FAULT(too_little_memory_for_a_container_is_an_error, ERROR, "cgroup", "1048576", "MemoryMax=infinity", true,
      facts.limits.at[DOCTOR_MEMORY] = 1 << 20)
FAULT(too_few_threads_for_a_container_is_an_error, ERROR, "cgroup", "8, at", "TasksMax=infinity", true,
      facts.limits.at[DOCTOR_PROCESSES] = 8)
FAULT(too_few_hugepages_for_a_container_is_an_error, ERROR, "cgroup", "2097152",
      "/sys/fs/cgroup/system.slice/ibvcapd.service/hugetlb.2MB.max", false, facts.limits.at[DOCTOR_HUGE_2M] = 2 << 20)
FAULT(too_few_big_pages_for_a_container_is_an_error, ERROR, "cgroup", "0, at", "hugetlb.1GB.max", false,
      configure("page_size = \"1G\";", "", "");
      facts.pools[0].page_kib = 1 << 20; facts.limits.at[DOCTOR_HUGE_1G] = 0)
TOLD(limits_with_room_are_told, "cgroup", "1000000, at", facts.limits.at[DOCTOR_PROCESSES] = 1000000)
TOLD(a_container_is_told, "container", "docker", strcpy(facts.limits.container, "docker"))

#define CUDA(...)                                                                                           \
	facts.cuda[0] = (struct doctor_cuda){.page_bytes = 2 << 20,                                         \
	                                     .info = {.name = "H200", .bus = "0000:19:00.0", __VA_ARGS__}}; \
	facts.n_cuda = 1
TOLD(a_cuda_device_is_told_with_its_way_and_the_reason, "cuda",
     "reads a ring staged, tried with a page of 2048 KiB: in place: no",
     CUDA(.way = IBVCAP_CUDA_STAGED, .why = "in place: no"))
FAULT(a_cuda_driver_that_does_not_work_is_a_warning, WARNING, "cuda", "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
      "nvidia-smi", false, CUDA(.way = IBVCAP_CUDA_AUTO);
      strcpy(facts.cuda[0].error, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"))

/* ---- all checks together --------------------------------------------------------------------------- */

#define HOLDER(...)                                                                                                \
	facts.holders[0] =                                                                                         \
		(struct doctor_holder){.pid = 7, .name = "reader", .user = "ann", .bytes = 33 << 20, __VA_ARGS__}; \
	facts.n_holders = 1
FAULT(memory_of_a_ring_that_has_ended_is_let_go_by_its_holder, WARNING, "ring_memory",
      "33 MiB, of which 12 KiB in rings that have ended", "kill 7", false, HOLDER(.ended_bytes = 12 << 10);
      facts.knows_ended_rings = true)
TOLD(a_holder_of_a_ring_in_use_is_named, "ring_memory", "33 MiB, all of it in rings that ibvcapd uses", HOLDER(0);
     facts.knows_ended_rings = true)
TOLD(where_no_daemon_can_be_read_root_is_asked_for, "ring_memory", "is unknown: run as root", HOLDER(0))
TOLD(too_many_segments_are_told_of, "ring_memory", "is unknown: there are too many", HOLDER(0);
     facts.sees_all_processes = true)
TOLD(what_a_user_cannot_see_of_others_is_told, "ring_memory", "only root with CAP_SYS_PTRACE",
     facts.sees_all_processes = false)
TOLD(that_nobody_holds_ring_memory_is_told, "ring_memory", "none", facts.sees_all_processes = true)
TOLD(holders_that_are_not_listed_are_told_of, "ring_memory", "only the first 64 are listed",
     facts.sees_all_processes = true;
     facts.n_holders = DOCTOR_HOLDERS_MAX)

Test(doctor_checks, more_findings_than_there_is_room_for_stay_in_bounds)
{
	facts.n_holders = DOCTOR_HOLDERS_MAX;
	facts.n_pools = DOCTOR_POOLS_MAX;
	facts.n_devices = DOCTOR_DEVICES_MAX;
	facts.n_interfaces = DOCTOR_INTERFACES_MAX;
	for (unsigned int i = 0; i < DOCTOR_POOLS_MAX; i++)
		facts.pools[i] = facts.pools[0];
	for (unsigned int i = 0; i < DOCTOR_INTERFACES_MAX; i++)
		facts.interfaces[i] = facts.interfaces[0];
	for (unsigned int i = 0; i < DOCTOR_DEVICES_MAX; i++) {
		facts.devices[i] = facts.devices[0];
		facts.devices[i].n_ports = DOCTOR_PORTS_MAX;
		for (unsigned int j = 0; j < DOCTOR_PORTS_MAX; j++)
			facts.devices[i].ports[j] = facts.devices[0].ports[0];
	}
	doctor_check(&facts, &findings);
	cr_assert_lt(findings.n, FINDINGS_MAX);
}
