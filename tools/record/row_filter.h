// SPDX-License-Identifier: Apache-2.0
/* The filter of a recording (pcap-filter(7)): which rows go into its files. */
#ifndef TOOLS_RECORD_ROW_FILTER_H
#define TOOLS_RECORD_ROW_FILTER_H

#include "lib/recording/packet_filter.h"
#include "lib/recording/row_frame.h"

struct row_filter;

/** NULL: error says why. The text is not empty. */
struct row_filter *row_filter_new(const char *text, char error[PACKET_FILTER_ERROR_BYTES]);
/** NULL is fine. */
void row_filter_free(struct row_filter *filter);

/**
 * Does it take the frame? It also takes a frame of which the end is not in the row, unless what is in the row proves
 * that the frame does not match.
 */
bool row_filter_takes(struct row_filter *filter, const struct row_frame *frame);

/**
 * Make *taken the rows of the batch that the filter takes, and rows in error, which nobody can judge. The numbers of
 * their packets may have gaps. What *taken refers to is valid until the next call. False: no memory.
 */
bool row_filter_cut_batch(struct row_filter *filter, const struct ibvcap_rx_batch *batch,
                          struct ibvcap_rx_batch *taken);

#endif
