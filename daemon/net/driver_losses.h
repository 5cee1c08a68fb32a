// SPDX-License-Identifier: Apache-2.0
/*
 * What each driver tells of received packets that the card, or the driver, dropped for lack of room: because no buffer
 * was free, or because the buffer was shorter than the packet. Frames longer than the card admits, those with errors
 * and those that nobody wanted are not among them.
 */
#ifndef DAEMON_NET_DRIVER_LOSSES_H
#define DAEMON_NET_DRIVER_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

#define DRIVER_LOSSES_STATISTICS_MAX 7

struct driver_losses {
	const char *driver; /* as ETHTOOL_GDRVINFO names it: "mlx5_core" */

	/*
	 * Names (ethtool -S) that count such packets and that the driver puts into none of IFLA_STATS64's rx_dropped,
	 * rx_missed_errors, rx_fifo_errors and rx_over_errors: patterns of fnmatch(3); NULL ends the list.
	 */
	const char *statistics[DRIVER_LOSSES_STATISTICS_MAX + 1];

	/*
	 * The four and these count every such packet of a whole, real card (is_part of struct net_driver), with
	 * net_port_discards() of mlx5_core. False: some are not counted, or it is not known.
	 */
	bool is_complete;
	bool by_both_ends; /* with tx_dropped of the interface's other end they count all, if that can be read */
	bool has_twice;    /* rx_fifo_errors has the packets of rx_missed_errors, too */
	bool has_refused;  /* rx_dropped has each packet that an XDP program gave to an AF_XDP socket without room */

	/*
	 * Age that the statistics may have, the four included, when they are read after driver_losses_read(); 0: the
	 * driver counted them itself, or has read them from the card.
	 */
	uint32_t delay_ms;
};

/** The drivers by their names. A row without a name ends them. */
extern const struct driver_losses driver_losses_table[];

/** NULL: the table does not know the driver. */
const struct driver_losses *driver_losses_find(const char *driver);

/**
 * Sum of the statistics that match. A driver with an empty list is not asked: 0 packets. -ENOTSUP: it has none that
 * match. Blocks until the driver answers; most then bring IFLA_STATS64 up to date, too.
 */
int driver_losses_read(const char *interface, const struct driver_losses *driver, uint64_t *packets);

#endif
