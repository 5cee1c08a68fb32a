// SPDX-License-Identifier: Apache-2.0
/* Ask the event loop for something that must not be done at once, in the midst of a callback. Control thread only. */
#ifndef DAEMON_STATE_SCHEDULE_H
#define DAEMON_STATE_SCHEDULE_H

struct daemon;

/** Free the removed services that have ended, and the configurations that no service uses any more. */
void schedule_reap(struct daemon *daemon);

/** In a millisecond refresh the channels: mail again what found their worker's mailbox full. */
void schedule_mail(struct daemon *daemon);

/** End the loop, if the daemon is stopping and every worker has ended. */
void schedule_end(struct daemon *daemon);

#endif
