// SPDX-License-Identifier: Apache-2.0
/* A device for the other files: its properties as a dict, its errors as exceptions; and the module's types. */
#include "python/cuda/cuda_binding.h"

#include <string.h>

PyTypeObject *cuda_view_type, *cuda_batch_type, *cuda_receiver_type;

static PyObject *make_error_of_device; /* function of ibvcap._errors */

PyObject *cuda_raise_of_device(int error)
{
	const char *text = ibvcap_error_text();
	PyObject *exception =
		PyObject_CallFunction(make_error_of_device, "is", -error, *text ? text : strerror(-error));

	if (exception)
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
	Py_XDECREF(exception);
	return NULL;
}

#define INFO(name)         MEMBER(ibvcap_cuda_info, name)
#define INFO_AS(name, key) MEMBER_AS(ibvcap_cuda_info, name, key)

static const struct member cuda_info_members[] = {
	INFO(device),
	INFO_AS(name, "device_name"),
	INFO_AS(bus, "device_bus"),
	INFO(driver_version),
	INFO(why),
	INFO(n_held),
	INFO(n_pending),
	INFO(registered_bytes),
	INFO(staging_bytes),
	INFO(staging_used_bytes),
	INFO(has_failed),
	{NULL, 0, 0},
};

/* Attributes of the device, which the driver may not know. */
static const struct member attribute_members[] = {
	INFO(host_register), INFO(host_register_read_only), INFO(pageable), INFO(pageable_by_host_tables), {NULL, 0, 0},
};

static bool add_attribute(PyObject *dict, const struct ibvcap_cuda_info *info, const struct member *member)
{
	uint32_t value;
	PyObject *object;
	bool is_added;

	memcpy(&value, (const char *)info + member->offset, sizeof(value));
	object = value == IBVCAP_CUDA_NOT_KNOWN ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(value);
	is_added = object && PyDict_SetItemString(dict, member->name, object) == 0;
	Py_XDECREF(object);
	return is_added;
}

bool cuda_info_add(PyObject *dict, const struct ibvcap_cuda_info *info)
{
	const char *word = ibvcap_cuda_way_word(info->way);
	PyObject *members = members_to_dict(cuda_info_members, info);
	PyObject *way = members ? PyUnicode_FromString(word ? word : "auto") : NULL;
	bool is_added = way && PyDict_Update(dict, members) == 0 && PyDict_SetItemString(dict, "way", way) == 0;

	for (const struct member *member = attribute_members; is_added && member->name; member++)
		is_added = add_attribute(dict, info, member);
	Py_XDECREF(members);
	Py_XDECREF(way);
	return is_added;
}

bool cuda_errors_init(void)
{
	PyObject *errors = PyImport_ImportModule("ibvcap._errors");

	make_error_of_device = errors ? PyObject_GetAttrString(errors, "make_of_device") : NULL;
	Py_XDECREF(errors);
	return make_error_of_device;
}
