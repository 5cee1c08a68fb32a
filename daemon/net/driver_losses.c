// SPDX-License-Identifier: Apache-2.0
/*
 * From the sources of Linux 6.1.192 and 6.12.117, which agree where a row does not say otherwise. Paths begin in
 * drivers/net/ethernet, or as they are written in the kernel's tree.
 */
#include "daemon/net/driver_losses.h"
#include "daemon/net/net.h"

#include <stddef.h>
#include <string.h>

const struct driver_losses driver_losses_table[] = {
	/*
	 * net/8021q/vlan_core.c, vlan_do_receive: hands packets on at once. The interface below counts most of what is
	 * lost before. It does not count what a filter of it drops (tc, nftables), and one that is deleted takes its
	 * counts with it. The same holds of bonds, bridges, macvlan, ipvlan and tunnels.
	 */
	{.driver = "802.1Q VLAN Support"},
	/*
	 * realtek/8139cp.c, __cp_get_stats: rx_missed_errors has RxMissed; rx_dropped, packets without an skb. rx_fifo
	 * (cp_get_ethtool_stats) has the same packets as RxMissed.
	 */
	{.driver = "8139cp"},
	/* realtek/8139too.c, rtl8139_get_stats64: rx_missed_errors has RxMissed, rx_fifo_errors overflows. */
	{.driver = "8139too"},
	/*
	 * aquantia/atlantic/aq_nic.c, aq_nic_update_ndev_stats: rx_dropped has the card's dpc, read once a second
	 * (AQ_CFG_SERVICE_TIMER_INTERVAL). Packets for which no skb was to be had are not in it.
	 */
	{.driver = "atlantic", .delay_ms = 1500},
	/*
	 * broadcom/bnx2x/bnx2x_stats.c, bnx2x_net_stats_update: rx_fifo_errors has no_buff_discard, rx_over_errors
	 * brb_drop and brb_truncate, both once a second (bnx2x_timer); rx_dropped has wrong checksums, too. A virtual
	 * function does not see what the port drops.
	 */
	{.driver = "bnx2x", .statistics = {"rx_skb_alloc_discard"}, .delay_ms = 1500},
	/*
	 * broadcom/bnxt/bnxt.c, bnxt_get_ring_stats: rx_missed_errors has the rings' rx_discard_pkts, which the card
	 * writes once a second (BNXT_DEF_STATS_COAL_TICKS), rx_dropped has rx_oom_discards. bnxt_rx_pkt: rx_buf_errors
	 * are packets that did not get into their buffers. The port's discards by class may be in rx_discard_pkts, too;
	 * a virtual function does not see them.
	 */
	{.driver = "bnxt_en", .statistics = {"*: rx_buf_errors", "rx_discard_packets_cos[0-7]"}, .delay_ms = 2500},
	/* drivers/net/bonding/bond_main.c, bond_handle_frame: what comes to a port at rest is dropped, uncounted. */
	{.driver = "bonding"},
	/* net/bridge/br_input.c, br_handle_frame: what comes to a port that does not forward is dropped, uncounted. */
	{.driver = "bridge"},
	/*
	 * chelsio/cxgb4/cxgb4_main.c, cxgb_get_stats: rx_dropped has rx_ovflow0 to 3 and rx_trunc0 to 3. What the card
	 * drops of congested queues is not in it.
	 */
	{.driver = "cxgb4"},
	/* drivers/net/dummy.c: receives nothing. */
	{.driver = "dummy", .is_complete = true},
	/*
	 * intel/e1000/e1000_main.c, e1000_update_stats, every 2 s (e1000_watchdog): rx_missed_errors has MPC.
	 * Hypervisors emulate these cards.
	 */
	{.driver = "e1000", .delay_ms = 2500},
	/* intel/e1000e/netdev.c, e1000e_update_stats, at each reading: rx_missed_errors has MPC. */
	{.driver = "e1000e", .is_complete = true},
	/*
	 * amazon/ena/ena_netdev.c, ena_keep_alive_wd: rx_dropped has the device's rx_drops, once a second, and packets
	 * that an XDP program dropped. The limits of an instance (…_allowance_exceeded) count delayed packets, too.
	 */
	{.driver = "ena", .delay_ms = 1500},
	/* drivers/net/geneve.c, geneve_rx, and net/core/gro_cells.c, gro_cells_receive: rx_dropped has full queues. */
	{.driver = "geneve"},
	/*
	 * google/gve/gve_ethtool.c, gve_get_ethtool_stats: the device's counts, every 20 s
	 * (GVE_STATS_REPORT_TIMER_PERIOD), and those of the driver; gve_get_stats has none of them.
	 */
	{.driver = "gve",
         .statistics = {"rx_queue_drop_cnt*", "rx_no_buffers_posted*", "rx_skb_alloc_fail"},
         .delay_ms = 20000},
	/* drivers/net/hyperv/netvsc_drv.c, netvsc_recv_callback. What the host drops is not told. */
	{.driver = "hv_netvsc", .statistics = {"rx_no_memory"}},
	/*
	 * intel/i40e/i40e_main.c, i40e_update_vsi_stats: rx_missed_errors has GLV_RDPC, no descriptor. port.rx_discards
	 * has GLPRT_RDPC, no room in the port (i40e_update_pf_stats). rx_alloc_fail: i40e_clean_rx_irq, no skb; 6.12
	 * drops the packet then, 6.1 tries again.
	 */
	{.driver = "i40e", .statistics = {"port.rx_discards", "rx_alloc_fail"}, .is_complete = true},
	/*
	 * intel/iavf/iavf_virtchnl.c, iavf_virtchnl_completion, every 2 s (iavf_watchdog_task): rx_dropped has the
	 * virtual function's rx_discards. It does not see what the port drops.
	 */
	{.driver = "iavf", .delay_ms = 2500},
	/*
	 * intel/ice/ice_main.c, ice_update_vsi_stats: rx_dropped has GLV_RDPC, no descriptor. rx_dropped.nic has
	 * PRTRPB_RDPC, no room in the port (ice_update_pf_stats); ice_get_stats64 leaves out the rx_missed_errors that
	 * has it. rx_alloc_fail: ice_clean_rx_irq, as i40e.
	 */
	{.driver = "ice", .statistics = {"rx_dropped.nic", "rx_alloc_fail"}, .is_complete = true},
	/* intel/igb/igb_main.c, igb_update_stats, at each reading: rx_fifo_errors has RQDPC, no descriptor, and MPC. */
	{.driver = "igb", .is_complete = true, .has_twice = true},
	/* intel/igbvf/ethtool.c, igbvf_gstrings_stats: counts none. */
	{.driver = "igbvf"},
	/* intel/igc/igc_main.c, igc_update_stats, as igb. */
	{.driver = "igc", .is_complete = true, .has_twice = true},
	/* drivers/net/ipvlan/ipvlan_core.c, ipvlan_multicast_enqueue: the rx_dropped below has full queues. */
	{.driver = "ipvlan"},
	/*
	 * intel/ixgbe/ixgbe_main.c, ixgbe_update_stats: rx_missed_errors has MPC, no room in the port;
	 * rx_no_dma_resources has QPRDC, no descriptor.
	 */
	{.driver = "ixgbe", .statistics = {"rx_no_dma_resources"}, .is_complete = true},
	/* intel/ixgbevf/ethtool.c, ixgbevf_gstrings_stats: counts none. */
	{.driver = "ixgbevf"},
	/* drivers/net/macvlan.c, macvlan_broadcast_enqueue, as ipvlan. */
	{.driver = "macvlan"},
	/*
	 * mellanox/mlx4/en_port.c, mlx4_en_DUMP_ETH_STATS, every 250 ms (STATS_DELAY): rx_fifo_errors has RdropOvflw,
	 * rx_dropped RDROP, all packets that were dropped, and those without an skb.
	 */
	{.driver = "mlx4_en", .delay_ms = 500},
	/*
	 * mellanox/mlx5/core/en_main.c, mlx5e_get_stats: rx_missed_errors has rx_out_of_buffer. rx_dropped has
	 * rx_discards_phy in later versions of 6.1 and in newer kernels, not in 6.12. en_stats.c,
	 * mlx5e_stats_grp_sw_update_stats_rq_stats: rx_buff_alloc_err counts buffers that could not be renewed, too.
	 * Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst: rx_prio…_discard are of a card
	 * that several hosts share; whether rx_discards_phy has them, too, it does not say.
	 */
	{.driver = "mlx5_core",
         .statistics = {"rx_buff_alloc_err", "rx_oversize_pkts_[bs]*", "rx_prio[0-7]_*_discard"},
         .is_complete = true},
	/* amd/pcnet32.c, pcnet32_get_stats: rx_missed_errors has CSR112, of 16 bits, rx_fifo_errors overflows. */
	{.driver = "pcnet32"},
	/*
	 * realtek/r8169_main.c, rtl8169_get_stats64: rx_missed_errors has the card's rx_missed, of 16 bits; whether it
	 * stops or begins anew there, the driver does not say.
	 */
	{.driver = "r8169"},
	/*
	 * sfc/ef10.c, efx_ef10_update_stats_common, once a second (efx_mcdi_mac_start_stats): rx_fifo_errors has
	 * rx_overflow; rx_dropped has port_rx_nodesc_drops only of a card without virtual adapters, which then counts
	 * these twice.
	 */
	{.driver = "sfc",
         .statistics = {"port_rx_nodesc_drops", "port_rx_pm_discard_[bqv]*", "port_rx_pm_trunc_*"},
         .delay_ms = 1500},
	/* drivers/net/team/team_core.c, team_handle_frame, as bonding. */
	{.driver = "team"},
	/*
	 * broadcom/tg3.c, tg3_get_nstats, once a second (tg3_timer): rx_missed_errors has rx_discards; of 5717, 5762
	 * and the first 5719 and 5720 these are not packets (tg3_periodic_fetch_stats).
	 */
	{.driver = "tg3", .delay_ms = 1500},
	/* drivers/net/tun.c, tun_get_user: rx_dropped has what a program sent in vain. TAP interfaces, too. */
	{.driver = "tun", .is_complete = true},
	/*
	 * drivers/net/veth.c, veth_get_stats64: rx_dropped has the queues' drops, rx_queue_…_drops. A packet that
	 * comes to a full queue is only in the other end's tx_dropped (veth_xmit). veth_xdp_rcv counts what an AF_XDP
	 * socket refused, after it.
	 */
	{.driver = "veth", .by_both_ends = true, .has_refused = true},
	/*
	 * drivers/net/virtio_net.c, virtnet_stats: rx_dropped has the queues' drops, not what the host drops; those
	 * have what an AF_XDP socket refused (receive_small_xdp, receive_mergeable_xdp).
	 */
	{.driver = "virtio_net", .has_refused = true},
	/*
	 * drivers/net/vmxnet3/vmxnet3_ethtool.c, vmxnet3_get_stats64: rx_dropped has the driver's drops;
	 * pktsRxOutOfBuf, what the host dropped for lack of buffers. What it drops before is not told.
	 */
	{.driver = "vmxnet3", .statistics = {"*pkts rx OOB"}},
	/* drivers/net/vxlan/vxlan_core.c, vxlan_rcv, as geneve. */
	{.driver = "vxlan"},
	{.driver = NULL},
};

const struct driver_losses *driver_losses_find(const char *driver)
{
	const struct driver_losses *row = driver_losses_table;

	while (row->driver && strcmp(row->driver, driver) != 0)
		row++;
	return row->driver ? row : NULL;
}

int driver_losses_read(const char *interface, const struct driver_losses *driver, uint64_t *packets)
{
	if (driver->statistics[0])
		return net_sum_statistics(interface, driver->statistics, packets);
	*packets = 0;
	return 0;
}
