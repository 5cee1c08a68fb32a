// SPDX-License-Identifier: Apache-2.0
/* The module: its types, and what a device would do. */
#include "python/cuda/cuda_binding.h"

static PyObject *cuda_probe(PyObject *module, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"device", "page_bytes", NULL};
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);
	uint32_t device = 0, page_bytes = 4096;
	PyObject *dict;
	int r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O&O&:probe", names, u32_of, &device, u32_of,
	                                 &page_bytes))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = ibvcap_cuda_probe(device, page_bytes, &info);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return cuda_raise_of_device(r);
	dict = PyDict_New();
	if (dict && !cuda_info_add(dict, &info))
		Py_CLEAR(dict);
	return dict;
}

static PyMethodDef cuda_functions[] = {
	{"probe", KEYWORDS(cuda_probe),
         "probe($module, device=0, page_bytes=4096)\n--\n\n"
         "How a device would read a ring in pages of this size, and why, as a dict; without a stream."},
	{NULL, NULL, 0, NULL},
};

static const struct module_type cuda_types[] = {{&cuda_view_type, &cuda_view_spec},
                                                {&cuda_batch_type, &cuda_batch_spec},
                                                {&cuda_receiver_type, &cuda_receiver_spec}};

static struct PyModuleDef cuda_definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "ibvcap._cuda",
	.m_doc = "libibvcap-cuda for Python; import ibvcap.cuda.",
	.m_size = -1, /* one interpreter: types and exceptions are global */
	.m_methods = cuda_functions,
};

PyMODINIT_FUNC PyInit__cuda(void);
PyMODINIT_FUNC PyInit__cuda(void)
{
	PyObject *module = PyModule_Create(&cuda_definition);

	if (!module || !errors_init() || !cuda_errors_init() ||
	    !module_add_types(module, cuda_types, sizeof(cuda_types) / sizeof(cuda_types[0])))
		Py_CLEAR(module);
	return module;
}
