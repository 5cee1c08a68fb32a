// SPDX-License-Identifier: Apache-2.0
/* Asks each CUDA device how it would read a ring. A machine without the driver's library has no such device. */
#include "tools/doctor/read.h"

#include <errno.h>
#include <stdio.h>

#define PAGE_BYTES     4096u
#define HUGEPAGE_BYTES (2u << 20)

/* In a hugepage, if one is free. */
static int probe_cuda_device(uint32_t number, struct doctor_cuda *cuda)
{
	int r;

	*cuda = (struct doctor_cuda){.info = IBVCAP_INIT(struct ibvcap_cuda_info), .page_bytes = HUGEPAGE_BYTES};
	r = ibvcap_cuda_probe(number, HUGEPAGE_BYTES, &cuda->info);
	if (r != -ENOMEM)
		return r;
	cuda->page_bytes = PAGE_BYTES;
	return ibvcap_cuda_probe(number, PAGE_BYTES, &cuda->info);
}

void doctor_probe_cuda(struct doctor_facts *facts)
{
	for (uint32_t i = 0; i < DOCTOR_CUDA_MAX; i++) {
		int r = probe_cuda_device(i, &facts->cuda[i]);

		if (r == -ENOSYS || r == -ENODEV)
			return; /* there is no driver, or no further device */
		if (r < 0)
			snprintf(facts->cuda[i].error, sizeof(facts->cuda[i].error), "%s", ibvcap_error_text());
		facts->n_cuda = i + 1;
		if (r < 0)
			return;
	}
}
