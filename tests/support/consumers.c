// SPDX-License-Identifier: Apache-2.0
#include "tests/support/consumers.h"

#include <errno.h>
#include <stdlib.h>

int test_consumer_init(struct ring_consumer *consumer, uint32_t lease_blocks)
{
	*consumer = (struct ring_consumer){.state_shm = SHM_INIT, .page_shm = SHM_INIT, .lease_blocks = lease_blocks};
	consumer->budget = calloc(1, sizeof(*consumer->budget));
	int r = consumer->budget
	                ? shm_create(&consumer->state_shm, "test-state", sizeof(struct ibvcap_consumer_state), 4096)
	                : -ENOMEM;

	if (r == 0)
		r = shm_create(&consumer->page_shm, "test-page", sizeof(struct ibvcap_consumer_page), 4096);
	if (r < 0) {
		test_consumer_deinit(consumer);
		return r;
	}
	consumer->state = consumer->state_shm.address;
	consumer->page = consumer->page_shm.address;
	consumer->page->segment.magic = IBVCAP_CONSUMER_MAGIC;
	return 0;
}

void test_consumer_deinit(struct ring_consumer *consumer)
{
	shm_deinit(&consumer->state_shm);
	shm_deinit(&consumer->page_shm);
	free(consumer->budget);
	consumer->budget = NULL;
}
