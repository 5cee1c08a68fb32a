// SPDX-License-Identifier: Apache-2.0
/* `ibvcap replay --stats STREAM`: reads the stream while the file is sent, and says whether the same payloads came. */
#ifndef TOOLS_SEND_REPLAY_STATS_H
#define TOOLS_SEND_REPLAY_STATS_H

#include "tools/send/arrivals.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>
#include <stdbool.h>

/* Zero-initialise it. */
struct replay_stats {
	const char *socket;
	const char *stream;
	struct ibvcap_rx *rx; /* NULL: --stats was not given */
	struct ibvcap_rx_info info;
	struct ibvcap_rx_batch batch;
	struct ibvcap_rx_counts counts; /* after replay_stats_finish() */
	struct arrivals arrivals;
	uint8_t *payload;   /* room to put the two parts of one together */
	uint64_t bytes;     /* of the payloads that were sent */
	uint64_t n_cut;     /* came, and were longer than the stream's payload_size */
	uint64_t no_buffer; /* packets that the card had no row for: before the replay, then during it */
	int error;          /* the library's, that ended the reading; 0 */
};

/** Attach to the stream, lossy. EX_OK; or another exit code, after an error message. */
int replay_stats_open(struct replay_stats *stats, const char *socket, const char *stream);

/** This payload is sent next. 0; -ENOMEM. */
int replay_stats_sent(struct replay_stats *stats, const uint8_t *payload, uint32_t bytes);

/** Take what has come. To be called often, since the ring holds only the newest packets. */
void replay_stats_take(void *stats);

/** All is sent: take what comes, until nothing more has come for a second. */
void replay_stats_finish(struct replay_stats *stats);

/** Did all come, in order? */
static inline bool replay_stats_all_came(const struct replay_stats *stats)
{
	return stats->arrivals.n_in_order == stats->arrivals.n_sent;
}

void replay_stats_print(const struct replay_stats *stats);
json_t *replay_stats_to_json(const struct replay_stats *stats);
void replay_stats_close(struct replay_stats *stats);

#endif
