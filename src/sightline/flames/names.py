"""Names as a person reads them; the full name stays in the data."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sightline.core.cxx_names import demangle
from sightline.core.kernel_labels import label_kernels, shorten_kernel_name
from sightline.core.text import make_printable

_BUILTIN = re.compile(r"^<built-in (?:method|function) (.+?)(?: of .*| object at 0x[0-9a-f]+)?>$")
_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,16}")
# Frames of CPython's own interpreter: they stand between Python frames and say nothing.
INTERPRETER = re.compile(
    r"^_?Py(?:Eval|Object|Function|CFunction|Method|Number|Vectorcall|Run|Import|Tuple|Dict)?_"
    r"|^_PyEval|^_PyFunction|^(?:method_)?vectorcall|^slot_tp_|^Py_(?:BytesMain|RunMain)|^pymain_"
    r"|^cfunction_|^type_call$|^tp_new_wrapper$|^partial_"
)


def make_readable(layer: str, name: str) -> str:
    """A name for a label: 'nn/modules/linear.py(114): forward' → 'forward (linear.py:114)'."""
    if layer == "python":
        return _python(make_printable(name))
    if layer == "kernel":
        return shorten_kernel_name(make_printable(name))
    return make_printable(demangle(name))


def make_labels(frames: Iterable[tuple[str, str]]) -> list[str]:
    """Labels of (layer, name), in order; different kernels among them get different labels."""
    pairs = [(layer, name) for layer, name in frames]
    kernels = label_kernels(make_printable(n) for layer, n in pairs if layer == "kernel")
    return [
        kernels[make_printable(name)] if layer == "kernel" else make_readable(layer, name)
        for layer, name in pairs
    ]


def _python(name: str) -> str:
    match = re.match(r"^(.*?)\((\d+)\): (.+)$", name)
    if match:
        return f"{match[3]} ({match[1].rsplit('/', 1)[-1]}:{match[2]})"
    builtin = _BUILTIN.match(name)
    return builtin[1] if builtin else _ADDRESS.sub("", name)
