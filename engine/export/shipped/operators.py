"""The programs of a package as operators of torch.library, so that torch.compile and torch.export see them whole.

An operator takes and returns contiguous tensors in its program's shapes and element types. On a CUDA tensor it launches
the program on the current stream; on a CPU tensor PyTorch computes the same operations; on a fake tensor it gives the
shapes.
"""

import torch

_LIBRARY = torch.library.Library("ucutlass", "FRAGMENT")


def operator(name, results, load, reference):
    """`torch.ops.ucutlass.<name>`, defined once in a process. It takes a list of tensors: a schema has at most 64
    arguments, and a program of a whole model may read more.

    `results`: (shape, torch dtype) of each result; `load()` gives `run(inputs, outputs)`; `reference(*inputs)`: a tuple
    of results, computed by PyTorch.
    """
    known = getattr(torch.ops.ucutlass, name, None)
    if known is not None:
        return known.default

    def one_or_several(outputs):
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def launched(inputs):
        outputs = [torch.empty(shape, dtype=dtype, device=inputs[0].device) for shape, dtype in results]
        load()([x.contiguous() for x in inputs], outputs)
        return one_or_several(outputs)

    def computed(inputs):
        return one_or_several(reference(*inputs))

    def shapes(inputs):
        return one_or_several([inputs[0].new_empty(shape, dtype=dtype) for shape, dtype in results])

    gives = "Tensor" if len(results) == 1 else f"({', '.join(['Tensor'] * len(results))})"
    tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
    _LIBRARY.define(f"{name}(Tensor[] x) -> {gives}", tags=tags)
    _LIBRARY.impl(name, launched, "CUDA")
    _LIBRARY.impl(name, computed, "CPU")
    torch.library.register_fake(f"ucutlass::{name}", shapes, lib=_LIBRARY)
    return getattr(torch.ops.ucutlass, name).default
