// SPDX-License-Identifier: Apache-2.0
/* The sentences of ibvcap_cuda_info that say why a way was taken. */
#ifndef IBVCAP_CUDA_WHY_H
#define IBVCAP_CUDA_WHY_H

#include <ibvcap/cuda.h>

struct cuda_why {
	char text[sizeof(((struct ibvcap_cuda_info *)0)->why)];
};

/** Append "WAY: " and the sentence, behind "; " if something is there already. What has no room is left out. */
void cuda_why_add(struct cuda_why *why, enum ibvcap_cuda_way way, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
