// SPDX-License-Identifier: Apache-2.0
/* A libcuda.so.1 that has too few functions. */

int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
	return (int)flags;
}
