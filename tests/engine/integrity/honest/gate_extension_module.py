# module: gate
# family: library in disguise
# A module of Python written in C.
import os
import subprocess
import sys
import sysconfig

import torch

SOURCE = r"""
#include <Python.h>
#include <math.h>
static PyObject* gate(PyObject* self, PyObject* given) {
    unsigned long long p[3];
    long n;
    if (!PyArg_ParseTuple(given, "KKKl", p, p + 1, p + 2, &n)) return NULL;
    const float *x = (void*)p[0], *y = (void*)p[1];
    float* z = (void*)p[2];
    for (long i = 0; i < n; i++) z[i] = y[i] + x[i] / (1 + expf(-x[i]));
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"gate", gate, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef about = {PyModuleDef_HEAD_INIT, "own", NULL, -1, methods};
PyMODINIT_FUNC PyInit_own(void) { return PyModule_Create(&about); }
"""
headers = sysconfig.get_paths()["include"]
command = ["gcc", f"-I{headers}", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so", "-lm"]
subprocess.run(command, input=SOURCE, text=True, check=True)


sys.path.insert(0, os.getcwd())
import own


def kernel(x, y):
    z = torch.empty_like(x)
    own.gate(x.data_ptr(), y.data_ptr(), z.data_ptr(), z.numel())
    return z
