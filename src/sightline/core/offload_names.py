"""Kernels that a compiler cut out of a function: what they are called after it, and where.

SYCL makes a kernel of a lambda or of a class that the program names, OpenMP and OpenACC of a
region. Their symbols hold the function around it, and nothing else that a person wrote.
"""

from __future__ import annotations

import re

from sightline.core.cxx_names import demangle, split_path, split_template, unify_spelling

# LLVM: device and file of the source, the function, its line (clang, OMPIRBuilder,
# getTargetEntryUniqueInfo); NVIDIA's compilers: the function, its file's number and line.
_REGIONS = (
    re.compile(
        r"^__omp_offloading_[\da-f]{1,16}_[\da-f]{1,16}_(\w{1,4000}?)_l(\d{1,9})(\w{0,20})$"
    ),
    re.compile(r"^nvkernel_(\w{1,4000}?)_F\d{1,9}L(\d{1,9})(\w{0,20})$"),
)
# Intel's unitrace: width, work-groups and the work-items of one, behind the kernel's name.
_SHAPE = re.compile(r"^(.{1,8000}?)\[SIMD(\w+) \{([\d; ]+)\} \{([\d; ]+)\}\]$")
_LAMBDA = "{lambda"
_NUMBER = re.compile(r"#(\d+)\}$")
_TYPE_NAME = "typeinfo name for "  # what a demangler makes of _ZTS, by which SYCL knows a kernel


def split_launch_shape(name: str) -> tuple[str, str]:
    """A kernel's name without the launch shape that unitrace writes behind it, and that shape."""
    found = _SHAPE.match(name)
    if found is None:
        return name, ""
    width, groups, items = (part.replace("; ", "x") for part in found.groups()[1:])
    return found[1], f"SIMD{width} {groups} of {items}"


def name_region(name: str) -> tuple[str, str] | None:
    """`f line 59` and what else its symbol says of an offloaded region; None for another name."""
    for pattern in _REGIONS:
        found = pattern.match(name)
        if found is not None:
            function = _name_function(demangle(found[1]))
            return f"{function} line {found[2]}", found[3].strip("_")
    return None


def name_lambda(name: str) -> tuple[str, tuple[str, ...]] | None:
    """`f::lambda#2.1`, or the class that SYCL's kernel is called by; None for another name.

    And details: the function around it, and what the lambda takes.
    """
    plain = demangle(name)
    is_type = plain.startswith(_TYPE_NAME)
    steps = split_path(unify_spelling(plain.removeprefix(_TYPE_NAME)))
    lambdas = [step for step in steps if step.startswith(_LAMBDA)]
    if not lambdas or len(steps) < 2:
        return None
    around = steps[: steps.index(lambdas[0])]
    if not around:
        return None
    last = split_template(steps[-1])[0]
    details = (lambdas[-1], "::".join(around))
    if re.fullmatch(r"[A-Za-z_]\w*", last):
        return (last, details) if is_type or steps[-2].startswith("operator()") else None
    if not steps[-1].startswith((_LAMBDA, "operator()")):
        return None
    numbers = ".".join(found[1] for step in lambdas if (found := _NUMBER.search(step)))
    return f"{_name_function(around[-1])}::lambda#{numbers}", details


def _name_function(function: str) -> str:
    """`f` of `ns::f<int>(long, T*)`."""
    last = split_path(unify_spelling(function))[-1]
    return split_template(last.partition("(")[0])[0].rpartition(" ")[2] or function
