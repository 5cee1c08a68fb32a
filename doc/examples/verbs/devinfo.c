// SPDX-License-Identifier: Apache-2.0
/*
 * devinfo: list the RDMA devices, and what matters to programs that take frames off Ethernet. Build and run it with
 *
 *     cc -o devinfo devinfo.c -libverbs
 *     softhca -i eth0 -- ./devinfo            # on any network interface; on a ConnectX without softhca
 */
#include "example.h"

#include <inttypes.h>
#include <stdio.h>

static void print_port(struct ibv_context *context, uint8_t number)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ibv_query_port(context, number, &port))
		return;
	printf("  port %u: %s, %s, MTU %d\n", number, ibv_port_state_str(port.state),
	       port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand", 128 << port.active_mtu);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(context, number, i, &gid) || (!gid.global.subnet_prefix && !gid.global.interface_id))
			continue;
		printf("    GID %d:", i);
		for (unsigned k = 0; k < sizeof(gid.raw); k++)
			printf("%s%02x", k % 2 ? "" : k ? ":" : " ", gid.raw[k]);
		putchar('\n');
	}
}

static void print_device(struct ibv_context *context)
{
	const struct ibv_query_device_ex_input input = {0};
	struct ibv_device_attr_ex device;

	if (ibv_query_device_ex(context, &input, &device)) {
		perror("ibv_query_device_ex");
		return;
	}
	printf("  firmware %s, vendor part 0x%x\n", device.orig_attr.fw_ver, device.orig_attr.vendor_part_id);
	printf("  a queue: %d work requests of %d pieces, %d completions\n", device.orig_attr.max_qp_wr,
	       device.orig_attr.max_sge, device.orig_attr.max_cqe);
	printf("  clock %" PRIu64 " kHz, timestamps of %d bits\n", device.hca_core_clock,
	       __builtin_popcountll(device.completion_timestamp_mask));
	printf("  raw packets: checksums %s, strips VLAN tags %s\n",
	       device.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM ? "yes" : "no",
	       device.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING ? "yes" : "no");
	for (uint8_t port = 1; port <= device.orig_attr.phys_port_cnt; port++)
		print_port(context, port);
}

int main(void)
{
	int n;
	struct ibv_device **devices = ibv_get_device_list(&n);

	if (!devices || n == 0) {
		list_devices();
		return 1;
	}
	for (int i = 0; i < n; i++) {
		struct ibv_context *context = ibv_open_device(devices[i]);

		printf("%s\n", ibv_get_device_name(devices[i]));
		if (!context) {
			perror("ibv_open_device");
			continue;
		}
		print_device(context);
		ibv_close_device(context);
	}
	ibv_free_device_list(devices);
	return 0;
}
