// SPDX-License-Identifier: Apache-2.0
/* Loads the CUDA driver's library, which a program that uses libibvcap-cuda does not need to start. */
#include "lib/cuda/driver.h"

#include "lib/ibvcap/client/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#define DRIVER_LIBRARY "libcuda.so.1"

static int cuda_driver_find(const struct cuda_driver *driver, const char *name, void *function)
{
	void *found = dlsym(driver->library, name);

	*(void **)function = found;
	if (found)
		return 0;
	return error_set(-ENOSYS,
	                 DRIVER_LIBRARY " has no function %s: the GPU's driver is older than CUDA 11.1, update it",
	                 name);
}

int cuda_driver_load(struct cuda_driver *driver)
{
	int r = 0;

	*driver = (struct cuda_driver){0};
	/* The driver starts threads of its own, so its code stays when the last handle is closed. */
	driver->library = dlopen(DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!driver->library)
		return error_set(-ENOSYS,
		                 "the CUDA driver cannot be loaded: %s; it comes with the GPU's driver: apt-get "
		                 "install libcuda1 (Debian, non-free); in a container: --gpus all, and "
		                 "NVIDIA_DRIVER_CAPABILITIES=compute",
		                 dlerror());
#define CUDA_DRIVER_FIND(member, name, parameters) \
	if (r == 0)                                \
		r = cuda_driver_find(driver, name, &driver->member);
	CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_FIND)
#undef CUDA_DRIVER_FIND
	if (r < 0)
		cuda_driver_unload(driver);
	return r;
}

void cuda_driver_unload(struct cuda_driver *driver)
{
	if (driver->library)
		dlclose(driver->library);
	driver->library = NULL;
}

void cuda_driver_describe(const struct cuda_driver *driver, const char *function, int result, char *text, size_t bytes)
{
	const char *name = NULL, *sentence = NULL;

	driver->get_error_name(result, &name);
	driver->get_error_string(result, &sentence);
	snprintf(text, bytes, "%s: %s (%d): %s", function, name ? name : "an error without a name", result,
	         sentence ? sentence : "the driver has no text for it");
}

int cuda_driver_explain(const struct cuda_driver *driver, const char *function, int result)
{
	char text[256];

	cuda_driver_describe(driver, function, result, text, sizeof(text));
	error_set_text("%s", text);
	switch (result) {
	case CUDA_DRIVER_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_DRIVER_NO_DEVICE:
	case CUDA_DRIVER_INVALID_DEVICE:
		return -ENODEV;
	}
	return -EIO;
}
