"""What CUPTI wrote is read as the device's work: names, times and streams of kernels, copies and fills."""

import ctypes
import struct

import pytest

from engine.evaluate.timing import cupti_activity
from engine.evaluate.timing.cupti_activity import Activity, Missing, activities, demangled

SIZE = 160  # bytes, at least those of each record


def record(kind: int, start: int, end: int, stream: int, *, name: bytes = b"", copy: int = 0):
    """A record as CUPTI lays it out, with the memory that its name points to."""
    memory = ctypes.create_string_buffer(SIZE)
    struct.pack_into("<I", memory, 0, kind)
    struct.pack_into("<QQ", memory, 16, start, end)
    if kind == cupti_activity.KERNEL:
        text = ctypes.create_string_buffer(name)
        struct.pack_into("<I", memory, 48, stream)
        struct.pack_into("<Q", memory, 104, ctypes.addressof(text))
        memory.text = text
    else:
        struct.pack_into("<B", memory, 4, copy)
        struct.pack_into("<I", memory, 40, stream)
    return memory


def read(*records):
    return activities(map(ctypes.addressof, records))


def test_a_kernel_has_its_name_as_cpp_writes_it():
    kernel = record(cupti_activity.KERNEL, 1000, 3500, 7, name=b"_ZN2at6native12softmax_warpIfEEvPT_i")
    assert read(kernel) == [Activity("void at::native::softmax_warp<float>(float*, int)", 1000, 3500, 7)]


def test_a_copy_names_its_direction_and_a_fill_is_one():
    records = record(cupti_activity.COPY, 10, 20, 13, copy=8), record(cupti_activity.FILL, 30, 40, 13)
    assert read(*records) == [Activity("Memcpy DtoD", 10, 20, 13), Activity("Memset (Device)", 30, 40, 13)]


def test_records_of_other_kinds_are_left_out():
    assert read(record(4, 1, 2, 3)) == []


@pytest.mark.parametrize("name", [b"my_kernel", b"_Z", b"_Z3fooX\xff"])
def test_a_name_that_is_no_linker_s_stays(name):
    assert demangled(name) == name.decode(errors="replace")


def test_a_process_without_cupti_says_so():
    cupti_activity._cupti.cache_clear()
    with pytest.raises(Missing, match="libcupti"):
        cupti_activity.record(lambda: None, lambda: None)
