// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/kept.h"

#include <fcntl.h>
#include <unistd.h>

void kept_take(struct kept *kept, const struct shm *const *segments, unsigned n)
{
	kept->n = 0;
	for (unsigned i = 0; i < n && i < KEPT_MAX; i++) {
		int fd = segments[i]->fd < 0 ? -1 : fcntl(segments[i]->fd, F_DUPFD_CLOEXEC, 0);

		if (fd >= 0)
			kept->fds[kept->n++] = fd;
	}
}

bool kept_look(struct kept *kept)
{
	while (kept->n > 0 && !shm_is_with_others(kept->fds[kept->n - 1]))
		close(kept->fds[--kept->n]);
	return kept->n > 0;
}

void kept_drop(struct kept *kept)
{
	while (kept->n > 0)
		close(kept->fds[--kept->n]);
}
