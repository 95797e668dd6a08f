"""Names from recordings as texts for a person: short, and harmless on a terminal or in a file."""

from __future__ import annotations

import re
from functools import lru_cache

# What tells PyTorch's generic kernels apart stands in their template arguments.
_INNER = re.compile(
    r"(\w+Functor\w*|\w+_kernel_cuda\w*|\w+_kernel_impl\w*|CUDAFunctor\w*|\w+Ops?)(?=[<>,( ])"
)
_GENERIC = re.compile(r"elementwise|reduce_kernel|multi_tensor_apply|index_kernel|distribution")


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """A C++ symbol as it was written, where the system has a C++ library to ask."""
    if not name.startswith(("_Z", "__Z")):
        return name
    import cxxfilt

    try:
        return str(cxxfilt.demangle(name))
    except (cxxfilt.Error, UnicodeError, ValueError):
        return name


def shorten_kernel_name(name: str) -> str:
    """A kernel's name without return type, namespaces, template arguments and parameters.

    'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, ...>(...)'
    becomes 'vectorized_elementwise_kernel<AddFunctor>'.
    """
    name = demangle(name)
    text = name.replace("(anonymous namespace)::", "").removeprefix("void ").strip()
    plain = _outside_brackets(text)
    plain = plain.rsplit("::", 1)[-1].strip() or text
    if plain in ("Kernel", "Kernel2", "kernel"):  # CUTLASS: the first argument is the real name
        first = re.split(r"[<>,(]", text.partition("<")[2], maxsplit=1)[0]
        return first.rsplit("::", 1)[-1].strip() or plain
    if _GENERIC.search(plain):
        inner = _INNER.search(text[len(plain) :])
        if inner is not None:
            return f"{plain}<{inner[1]}>"
    return plain


def _outside_brackets(text: str) -> str:
    """What stands outside of <...>, up to the parameter list."""
    kept: list[str] = []
    depth = 0
    for char in text:
        if char == "<":
            depth += 1
        elif char == ">" and depth:
            depth -= 1
        elif not depth:
            if char == "(":
                break
            kept.append(char)
    return "".join(kept)


def fit_text(text: str, width: int) -> str:
    """The text in at most `width` columns; what is cut is cut from the middle."""
    text = make_printable(text)
    if len(text) <= width:
        return text
    left = (width - 1) * 2 // 3
    return f"{text[:left]}…{text[len(text) - (width - 1 - left) :]}"


def make_printable(text: str) -> str:
    """The text without control characters: they steer terminals, and no XML may hold them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def clean_text(text: str) -> str:
    """The text, of as many characters, with none that steers a terminal but line ends and tabs.

    What is no text (halves of surrogate pairs, as of file names that are no UTF-8) becomes a space.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
