// SPDX-License-Identifier: Apache-2.0
/* A status of the daemon as JSON, of which Python makes dicts. The keys are those of ibvcap status --json. */
#include "python/binding.h"

#include "lib/view/view.h"

#include <stdlib.h>

PyObject *status_to_text(PyObject *module, PyObject *arguments)
{
	const char *socket_path;
	struct status_view view;
	uint32_t timeout_ms;
	PyObject *object;
	json_t *all;
	char *text;
	int r;

	if (!PyArg_ParseTuple(arguments, "zO&:status", &socket_path, answer_timeout_of, &timeout_ms))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = status_view_read(&view, socket_path, timeout_ms);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_error(r);
	all = status_view_to_json(&view);
	status_view_deinit(&view);
	json_object_del(all, "schema_version");
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	object = text ? PyUnicode_FromString(text) : PyErr_NoMemory();
	free(text);
	return object;
}
