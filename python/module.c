// SPDX-License-Identifier: Apache-2.0
/* The module: its types and constants. */
#include "python/binding.h"

static const struct {
	const char *name;
	unsigned long value;
} constants[] = {
	{"NEWEST", IBVCAP_START_NEWEST},
	{"OLDEST", IBVCAP_START_OLDEST},
	{"PACKETS_BACK", IBVCAP_START_PACKETS_BACK},
	{"NS_BACK", IBVCAP_START_NS_BACK},
	{"ALL_QUEUES", IBVCAP_QUEUE_ALL},
	{"LOSSY", IBVCAP_POLICY_LOSSY},
	{"LOSSLESS", IBVCAP_POLICY_LOSSLESS},
	{"GAP_UNKNOWN", IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN},
	{"DEMOTED", IBVCAP_RX_BATCH_FLAG_DEMOTED},
	{"TAKEN_OVER", IBVCAP_RX_BATCH_FLAG_TAKEN_OVER},
	{"DROP_LATE", IBVCAP_TX_FLAG_DROP_LATE},
	{"PACKET_SHORT", IBVCAP_PACKET_FLAG_SHORT},
	{"PACKET_TRUNCATED", IBVCAP_PACKET_FLAG_TRUNCATED},
	{"PACKET_ERROR", IBVCAP_PACKET_FLAG_ERROR},
	{"PACKET_IRREGULAR", IBVCAP_PACKET_FLAG_IRREGULAR},
	{"PACKET_UNUSABLE", IBVCAP_PACKET_FLAG_UNUSABLE},
	{"PACKET_FRAGMENT", IBVCAP_PACKET_FLAG_FRAGMENT},
	{"PACKET_BAD_CHECKSUM", IBVCAP_PACKET_FLAG_BAD_CHECKSUM},
	{"PACKET_MALFORMED", IBVCAP_PACKET_FLAG_MALFORMED},
	{"PACKET_PARTIAL_CHECKSUM", IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM},
};

static PyObject *library_version(PyObject *module, PyObject *unused)
{
	return PyUnicode_FromString(ibvcap_version());
}

static PyMethodDef functions[] = {
	{"library_version", library_version, METH_NOARGS,
         "library_version($module)\n--\n\n"
         "Version of libibvcap in use."},
	{"_sequence", sequence_to_bytes, METH_O, NULL},
	{"_status", status_to_text, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static const struct module_type types[] = {{&view_type, &view_spec},       {&memory_type, &memory_spec},
                                           {&batch_type, &batch_spec},     {&receiver_type, &receiver_spec},
                                           {&sender_type, &sender_spec},   {&slots_type, &slots_spec},
                                           {&tracker_type, &tracker_spec}, {&recording_type, &recording_spec},
                                           {&placer_type, &placer_spec},   {&placed_array_type, &placed_array_spec}};

static struct PyModuleDef module_definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "ibvcap._ibvcap",
	.m_doc = "libibvcap for Python; import ibvcap.",
	.m_size = -1, /* one interpreter: types and exceptions are global */
	.m_methods = functions,
};

PyMODINIT_FUNC PyInit__ibvcap(void);
PyMODINIT_FUNC PyInit__ibvcap(void)
{
	PyObject *module = PyModule_Create(&module_definition);
	bool is_whole = module && errors_init() && module_add_types(module, types, sizeof(types) / sizeof(types[0]));

	for (size_t i = 0; is_whole && i < sizeof(constants) / sizeof(constants[0]); i++) {
		PyObject *value = PyLong_FromUnsignedLong(constants[i].value);

		is_whole = PyModule_AddObjectRef(module, constants[i].name, value) == 0;
		Py_XDECREF(value);
	}
	if (!is_whole)
		Py_CLEAR(module);
	return module;
}
