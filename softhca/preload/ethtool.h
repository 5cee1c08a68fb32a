// SPDX-License-Identifier: Apache-2.0
/* The netdev's driver statistics under the names that mlx5 gives them. */
#ifndef SOFTHCA_PRELOAD_ETHTOOL_H
#define SOFTHCA_PRELOAD_ETHTOOL_H

#include <stdbool.h>

/* SIOCETHTOOL: true if softhca answers the request; `*result` is then 0 or negative errno. */
bool ethtool_ours(void *ifreq, int *result);

#endif
