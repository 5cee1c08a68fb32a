// SPDX-License-Identifier: Apache-2.0
/* The netdev's driver statistics under the names mlx5 gives them. */
#ifndef SOFTHCA_PRELOAD_ETHTOOL_H
#define SOFTHCA_PRELOAD_ETHTOOL_H

#include <stdbool.h>

/* SIOCETHTOOL: true if it is answered here, with `*result` 0 or negative errno. */
bool ethtool_ours(void *ifreq, int *result);

#endif
