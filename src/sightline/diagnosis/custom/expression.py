"""One expression of a rule: what it may hold, and its value.

The evaluator is simpleeval's, narrowed: only the nodes, operators and functions below; a dot looks
a name up in a mapping of ours and never touches an object's attributes; all numbers are floats, so
that no power and no product takes long; texts are only compared. Operators of ClusterCockpit's
expression language (&&, ||, !, true, false, nil) are read as Python's.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simpleeval import SimpleEval

from sightline.diagnosis.custom.document import Value

MAX_CHARS, MAX_NODES, MAX_DEPTH = 2_000, 400, 40  # the longest of ClusterCockpit's has 100 chars
CONSTANTS = {"true": True, "false": False, "nil": None, "True": True, "False": False, "None": None}
Samples = tuple[float, ...]


class Missing(Exception):
    """A value that the facts do not hold: the rule cannot be judged."""


class Unfit(Exception):
    """Values that an operator or function cannot work on."""


@dataclass(frozen=True)
class Expression:
    """A checked expression: its place, its syntax tree, and the dotted names that it reads."""

    at: Value
    text: str
    tree: ast.expr
    names: tuple[str, ...]

    def value(self, names: Mapping[str, Any]) -> Any:
        """Its value. Raises Missing where a name is not there, Unfit where values do not fit."""
        try:
            return _evaluator(names).eval(self.text, self.tree)
        except (Missing, Unfit):
            raise
        except ZeroDivisionError:
            raise Unfit("division by zero") from None
        except OverflowError:
            raise Unfit("a number is too large") from None
        except (ArithmeticError, TypeError, ValueError, statistics.StatisticsError) as error:
            raise Unfit(str(error)) from None


def parse_expression(at: Value) -> Expression:
    """The expression that a value of the file holds. Raises InputError with line and reason."""
    text = at.data
    if isinstance(text, int | float):
        text = str(text)
    if not isinstance(text, str) or not text.strip():
        raise at.wrong("an expression is expected here")
    if len(text) > MAX_CHARS:
        raise at.wrong(f"an expression may have at most {MAX_CHARS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(_python(text.strip()), mode="eval").body
    except (SyntaxError, ValueError, SyntaxWarning) as error:
        why = getattr(error, "msg", None) or str(error)
        raise at.wrong(f"'{_short(text)}' is not an expression: {why}") from error
    except (RecursionError, MemoryError) as error:
        raise at.wrong("the expression is nested too deeply") from error
    _check(tree, at)
    return Expression(at, text, tree, tuple(dict.fromkeys(_names(tree))))


def _python(text: str) -> str:
    """&&, || and ! as Python writes them, outside of quoted texts."""
    parts = re.split(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", text)
    for i in range(0, len(parts), 2):
        part = parts[i].replace("&&", " and ").replace("||", " or ")
        parts[i] = re.sub(r"!(?!=)", " not ", part).replace("\n", " ")
    return "".join(parts).strip()


def _check(tree: ast.expr, at: Value) -> None:
    """Only what is allowed, and not too much of it."""
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    count = 0
    while todo:
        node, depth = todo.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise at.wrong("the expression is too long or nested too deeply")
        _check_node(node, at)
        todo += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def _check_node(node: ast.AST, at: Value) -> None:
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise at.wrong("only plain functions can be called, as in  mean(cpu_load.data)")
        if node.func.id not in FUNCTIONS:
            raise at.wrong(
                f"there is no function '{node.func.id}'; there are {', '.join(FUNCTIONS)}"
            )
    elif isinstance(node, ast.Attribute):
        if _dotted(node) is None:
            raise at.wrong("a dot may only follow a name, as in  mem_bw.limits.peak")
        if node.attr.startswith("_"):
            raise at.wrong(f"a name may not start with '_': {_short(node.attr)}")
    elif isinstance(node, ast.Name):
        if node.id.startswith("_"):
            raise at.wrong(f"a name may not start with '_': {_short(node.id)}")
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, bool | int | float | str | None):
            raise at.wrong(f"{_short(repr(node.value))} cannot be used in an expression")
        if isinstance(node.value, int | float) and not -1e300 < node.value < 1e300:
            raise at.wrong("a number is too large")
    elif not isinstance(
        node, (*_NODES, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.Load)
    ):
        raise at.wrong(f"{type(node).__name__} is not allowed in an expression")
    for field in ("op", "ops"):
        for op in _as_list(getattr(node, field, [])):
            if (
                isinstance(op, ast.operator | ast.unaryop | ast.cmpop)
                and type(op) not in _OPERATORS
            ):
                raise at.wrong(f"the operator {type(op).__name__} is not allowed")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _dotted(node: ast.AST) -> str | None:
    """'mem_bw.limits.peak', or None where anything but names stands before a dot."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _names(node: ast.AST) -> list[str]:
    """The dotted names that are read, functions left out."""
    if isinstance(node, ast.Name | ast.Attribute):
        name = _dotted(node)
        return [] if name is None or name in CONSTANTS else [name]
    inside = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    return [name for child in inside for name in _names(child)]


def _evaluator(names: Mapping[str, Any]) -> Any:
    """simpleeval with our operators and functions, and dots that only look into mappings."""
    evaluator = SimpleEval(operators=_OPERATORS, functions=FUNCTIONS, names={})
    names = {**CONSTANTS, **names}

    def constant(node: ast.Constant) -> Any:
        is_count = isinstance(node.value, int) and not isinstance(node.value, bool)
        return float(node.value) if is_count else node.value  # type: ignore[arg-type]

    def name(node: ast.Name) -> Any:
        if node.id not in names:
            raise Missing(node.id)
        return names[node.id]

    def look_up(node: ast.Attribute) -> Any:
        # Not the library's own: that one would ask the object for an attribute.
        holder = evaluator._eval(node.value)
        if not isinstance(holder, Mapping) or holder.get(node.attr) is None:
            raise Missing(_dotted(node))
        return holder[node.attr]

    def call(node: ast.Call) -> Any:
        # Not the library's own: CPython 3.11 loses 64 bytes whenever a generator of arguments
        # raises, and a watch asks for what a GPU does not have in every round.
        arguments = [evaluator._eval(argument) for argument in node.args]
        return FUNCTIONS[node.func.id](*arguments)  # type: ignore[attr-defined]  # as checked

    theirs: dict[type[ast.AST], Callable[..., Any]] = evaluator.nodes
    own = {ast.Name: name, ast.Attribute: look_up, ast.Constant: constant, ast.Call: call}
    evaluator.nodes = {kind: theirs[kind] for kind in _NODES} | own
    return evaluator


def number(value: Any) -> float:
    """A finite number, or Unfit."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        raise Unfit("a list of samples is given where a number is expected: use mean(), max(), ...")
    if not isinstance(value, bool | int | float):
        raise Unfit(f"{_short(repr(value))} is not a number")
    if not math.isfinite(value):
        raise Unfit("a number is too large")
    return float(value)


def _on_numbers(do: Callable[..., Any]) -> Callable[..., Any]:
    """The operator for numbers, and element by element where one side or both are samples."""

    def work(*sides: Any) -> Any:
        lists = [s for s in sides if isinstance(s, tuple)]
        if not lists:
            return do(*map(number, sides))
        if len({len(s) for s in lists}) > 1:
            raise Unfit("lists of samples of different lengths")
        length = len(lists[0])
        columns = [s if isinstance(s, tuple) else (number(s),) * length for s in sides]
        return tuple(float(do(*map(number, row))) for row in zip(*columns, strict=True))

    return work


def _power(base: float, exponent: float) -> float:
    found: float | complex = base**exponent
    if isinstance(found, complex):
        raise Unfit("a root of a negative number")
    return found


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, tuple) or isinstance(right, tuple):
        raise Unfit("lists of samples cannot be compared as a whole")
    return bool(left == right)


def _samples(value: Any) -> Samples:
    if not isinstance(value, tuple) or not value:
        raise Unfit("samples are expected, as in  mean(cpu_load.data)")
    return tuple(map(number, value))


def _extreme(pick: Callable[..., float]) -> Callable[..., float]:
    """min and max, of samples or of several numbers."""

    def work(*values: Any) -> float:
        return pick(_samples(values[0]) if len(values) == 1 else tuple(map(number, values)))

    return work


def _spread(value: Any) -> float:
    found = _samples(value)
    return statistics.stdev(found) if len(found) > 1 else 0.0


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _on_numbers(abs),
    "ceil": lambda x: float(math.ceil(number(x))),
    "floor": lambda x: float(math.floor(number(x))),
    "round": lambda x: float(round(number(x))),
    "sqrt": lambda x: math.sqrt(number(x)),
    "min": _extreme(min),
    "max": _extreme(max),
    "sum": lambda x: math.fsum(_samples(x)),
    "mean": lambda x: math.fsum(_samples(x)) / len(_samples(x)),
    "median": lambda x: statistics.median(_samples(x)),
    "std": _spread,
    "len": lambda x: float(len(_samples(x))),
    "first": lambda x: _samples(x)[0],
    "last": lambda x: _samples(x)[-1],
    "any": lambda x: any(_samples(x)),
    "all": lambda x: all(_samples(x)),
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _on_numbers(operator.add),
    ast.Sub: _on_numbers(operator.sub),
    ast.Mult: _on_numbers(operator.mul),
    ast.Div: _on_numbers(operator.truediv),
    ast.FloorDiv: _on_numbers(operator.floordiv),
    ast.Mod: _on_numbers(operator.mod),
    ast.Pow: _on_numbers(_power),
    ast.USub: _on_numbers(operator.neg),
    ast.UAdd: _on_numbers(operator.pos),
    ast.Not: operator.not_,
    ast.Eq: _equal,
    ast.NotEq: lambda a, b: not _equal(a, b),
    ast.Lt: _on_numbers(operator.lt),
    ast.LtE: _on_numbers(operator.le),
    ast.Gt: _on_numbers(operator.gt),
    ast.GtE: _on_numbers(operator.ge),
}
_NODES = (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
