// SPDX-License-Identifier: Apache-2.0
/* CUDA devices: the way in which each would read a ring, for programs that use libibvcap-cuda. */
#include "tools/doctor/checks.h"

static void check_cuda_device(const struct doctor_cuda *cuda, unsigned int number, struct findings *findings)
{
	const struct ibvcap_cuda_info *info = &cuda->info;
	struct finding *finding;

	if (*cuda->error) {
		finding = finding_add(findings, "cuda", "CUDA device %u", number);
		finding_write(finding->found, "%s", cuda->error);
		finding_fail(finding, FINDING_WARNING, "programs with libibvcap-cuda cannot use it",
		             "a driver that works");
		finding_write(finding->fix, "nvidia-smi   # says what the driver lacks");
		return;
	}
	finding = finding_add(findings, "cuda", "CUDA device %u, %s, PCI %s", number, info->name, info->bus);
	finding_write(finding->found, "reads a ring %s, tried with a page of %u KiB: %s",
	              ibvcap_cuda_way_word(info->way), cuda->page_bytes >> 10, info->why);
}

void check_cuda(const struct doctor_facts *facts, struct findings *findings)
{
	for (unsigned int i = 0; i < facts->n_cuda; i++)
		check_cuda_device(&facts->cuda[i], i, findings);
}
