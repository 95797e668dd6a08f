"""C++ names of kernels, as compilers and profilers write them, taken apart.

One name has many spellings: `(anonymous namespace)` or `<unnamed>`, `{lambda(int)#2}` or
`[lambda(int) (instance 2)]`, `4`, `(int)4` or `4u`. `unify_spelling` makes them one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_OPEN, _CLOSE = "<([{", ">)]}"
_UNNAMED = re.compile(
    r"\(anonymous namespace\)(?:::)?|<unnamed>(?:::)?|_GLOBAL__N_\w*::| ?\[clone [^\]]*\]"
)
_LAMBDA = re.compile(r"\[lambda(\(.*?\)) \(instance (\d+)\)\]")
_CAST = re.compile(r"\((?:unsigned |signed )?(?:int|long|long long|bool|char|short)\)(?=-?\d)")
_SUFFIX = re.compile(r"(?<![\w.])(\d+)(?:ull|ul|u|ll|l)\b")
_SHORT_TYPES = (
    (re.compile(r"\b(?:__bf16|__(nv|hip)_bfloat16|(c10::)?BFloat16|(\w+::)*bfloat16_t)\b"), "bf16"),
    (re.compile(r"\b(?:__half|(?:c10::)?Half|_Float16|(?:\w+::)*half_t)\b"), "half"),
    (re.compile(r"\b(?:cutlass\w*::)?tfloat32_t\b"), "tf32"),
    (re.compile(r"\bunsigned short\b"), "ushort"),
)  # fmt: skip


class CxxName(NamedTuple):
    """A function's name in parts; all texts in one spelling."""

    path: tuple[str, ...]  # its namespaces and classes, outermost first
    base: str  # the name itself
    arguments: tuple[str, ...]  # of its template
    parameters: str  # of the function, without the brackets


# Types of 16 bits that are younger than the C++ libraries of most systems (GCC 13), and what stands
# for each: types of characters, which no kernel has. All are one builtin type in a name, so what
# refers back still does.
_YOUNGER = (
    ("DF16b", "Du", "char8_t", "__bf16"),
    ("DF16_", "Ds", "char16_t", "_Float16"),
)


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """A C++ symbol as it was written, where the system has a C++ library to ask."""
    if not name.startswith(("_Z", "__Z")):
        return name
    import cxxfilt

    symbol = name
    for code, stand_in, _, _ in _YOUNGER:
        symbol = symbol.replace(code, stand_in)
    for asked in dict.fromkeys((name, symbol)):
        try:
            found = str(cxxfilt.demangle(asked))
        except (cxxfilt.Error, UnicodeError, ValueError):
            continue
        for _, _, theirs, own in _YOUNGER if asked != name else ():
            found = found.replace(theirs, own)
        return found
    return name


def unify_spelling(name: str) -> str:
    """The name without what differs between compilers and says nothing about the kernel."""
    text = _LAMBDA.sub(r"{lambda\1#\2}", _UNNAMED.sub("", name))
    text = _SUFFIX.sub(r"\1", _CAST.sub("", text))
    for pattern, short in _SHORT_TYPES:
        text = pattern.sub(short, text)
    return re.sub(r"\s+", " ", text).replace("operator ()", "operator()").strip()


def parse_function(name: str) -> CxxName:
    """The parts of a C++ function's name. A text that is none is all base."""
    plain = demangle(name)
    if plain.startswith("_ZN"):
        return _read_mangled(plain)
    text = unify_spelling(plain)
    if "<" not in text and "(" not in text:  # an operator's name (aten::mm) or a short one: whole
        return CxxName((), text.removeprefix("void "), (), "")
    head, parameters = _cut_parameters(text)
    steps = split_path(_last_word(head))
    if not steps or not steps[-1]:
        return CxxName((), text, (), "")
    base, arguments = split_template(steps[-1])
    return CxxName(tuple(split_template(s)[0] for s in steps[:-1]), base, arguments, parameters)


def split_template(step: str) -> tuple[str, tuple[str, ...]]:
    """`f<int, g<2>>` as its name and its arguments."""
    at = step.find("<")
    if at <= 0 or not step.endswith(">") or step.startswith("operator"):
        return step, ()
    return step[:at], tuple(part.strip() for part in _split(step[at + 1 : -1], ","))


def split_path(name: str) -> list[str]:
    """`a::b<c::d>::e` as [a, b<c::d>, e]."""
    return [part.strip() for part in _split(name, "::")]


_LENGTH = re.compile(r"\d+")
# What refers back (S1_, T_), and the value of an enumeration: LNS_4KindE7E.
_REFERENCE = re.compile(r"[ST][\dA-Z]*_|E\d+(?=E)")
_LITERAL = re.compile(r"L[a-z](n?\d+)E|L[a-z]")


def _read_mangled(symbol: str) -> CxxName:
    """What can be read off a symbol that no demangler takes: GCC's gives up beyond 1,024 letters.

    Arguments are the names and the integers in the template, in order, without their nesting.
    """
    path, at = _read_path(symbol, 3)
    words: list[str] = []
    while at < len(symbol):
        if symbol[at] == "L" and (literal := _LITERAL.match(symbol, at)):
            if literal[1]:
                words.append(literal[1].replace("n", "-"))
            at = literal.end()
        elif reference := _REFERENCE.match(symbol, at):
            at = reference.end()
        elif symbol[at].isdigit():
            names, end = _read_path(symbol, at)
            words.extend(names[-1:])
            at = max(end, at + 1)
        else:
            at += 1
    path = [step for step in path if not step.startswith("_GLOBAL_")]
    return CxxName(tuple(path[:-1]), path[-1] if path else symbol, tuple(words), "")


def _read_path(symbol: str, at: int) -> tuple[list[str], int]:
    """The names of a mangled path from a place on, and where they end."""
    found = []
    while length := _LENGTH.match(symbol, at):
        end = length.end() + int(length[0][:6])
        found.append(symbol[length.end() : end])
        at = end
    return found, at


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand outside of all brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        char = text[at]
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE and not (char == ">" and at and text[at - 1] == "-"):
            depth = max(depth - 1, 0)
        elif depth == 0 and text.startswith(separator, at):
            parts.append(text[start:at])
            at += len(separator)
            start = at
            continue
        at += 1
    return [*parts, text[start:]]


def _cut_parameters(text: str) -> tuple[str, str]:
    """The name up to its parameter list, and what stands in the list."""
    depth = 0
    for at, char in enumerate(text):
        if char == "(" and depth == 0 and at and not text[:at].endswith("operator"):
            # `f(int)::{lambda()#1}::operator()(long)`: the list that ends the name is the last.
            end = _closing(text, at)
            if text.startswith("::", end + 1):
                depth += 1
                continue
            return text[:at].rstrip(), text[at + 1 : end]
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE and not (char == ">" and text[at - 1] == "-"):
            depth = max(depth - 1, 0)
    return text, ""


def _closing(text: str, at: int) -> int:
    """Where the bracket that opens at `at` closes; the text's end if it does not."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] in _OPEN:
            depth += 1
        elif text[place] in _CLOSE and not (text[place] == ">" and text[place - 1] == "-"):
            depth -= 1
            if depth == 0:
                return place
    return len(text)


def _last_word(head: str) -> str:
    """The name behind its return type: `f<int>` of `std::enable_if<!(0), void>::type f<int>`."""
    # Only a name of C++ has a return type before it; other texts may hold spaces.
    if "<" not in head and "::" not in head and not re.match(r"(?:static )?void ", head):
        return head
    words = [w for w in _split(head, " ") if w]
    return words[-1] if words else head
