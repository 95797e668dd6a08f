"""Times, sizes and rates: the only place where numbers become text, or text becomes numbers."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal

from sightline.errors import RequestError

INT64_MAX = 2**63 - 1

_NS_PER = {
    "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000,
    "min": 60 * 1_000_000_000, "h": 3_600 * 1_000_000_000, "d": 86_400 * 1_000_000_000,
}  # fmt: skip


def wrap_address(value: int) -> int | None:
    """The 64 bits of an address as int64, None for more: those from 2^63 on are negative.

    Addresses are told apart and subtracted, which holds; no order of them means anything.
    """
    if not -INT64_MAX <= value < 1 << 64:
        return None
    return value - (1 << 64) if value > INT64_MAX else value


def microseconds_to_ns(value: int | str) -> int | None:
    """Nanoseconds from a decimal count of microseconds, exact, rounded half to even.

    A float is never involved: a float64 cannot hold today's epoch in µs to better than 0.25 µs.
    Returns None where the text is not a finite number that fits int64 ns.
    """
    if isinstance(value, int):
        ns = value * 1000
        return ns if -INT64_MAX <= ns <= INT64_MAX else None
    whole, dot, fraction = value.partition(".")
    if len(fraction) <= 3 and whole.isdecimal() and (fraction.isdecimal() or not dot):
        if len(whole) > 16:
            return None
        ns = int(whole) * 1000 + int((fraction + "000")[:3])
        return ns if ns <= INT64_MAX else None
    # Precision beyond the text's own length, so that the one rounding is the last step's.
    context = Context(prec=len(value) + 28)
    try:
        exact = context.multiply(Decimal(value), Decimal(1000))
        if not exact.is_finite() or abs(exact) > INT64_MAX:
            return None
        return int(exact.quantize(Decimal(1), rounding=ROUND_HALF_EVEN, context=context))
    except (ArithmeticError, ValueError):
        return None


def parse_duration_ns(text: str) -> int:
    """Nanoseconds from '250', '5us', '1.5ms', '2s', '10min'; a bare number is nanoseconds."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s|min|h|d)?\s*", text)
    if match is None:
        raise RequestError(
            f"'{text}' is not a duration", hint="Write for example 250, 5us, 1.5ms, 2s or 10min."
        )
    exact = Decimal(match[1]) * _NS_PER[match[2] or "ns"]
    if exact > INT64_MAX:
        raise RequestError(f"'{text}' is longer than 292 years")
    return int(exact.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def parse_range_ns(text: str, hint: str) -> tuple[int, int | None]:
    """First and last ns of a range such as '10ms..25ms'; '..25ms' begins at 0, '10ms..' has no end.

    Raises RequestError, with `hint` where the text is not a range.
    """
    start, dots, end = text.partition("..")
    if not dots:
        raise RequestError(f"'{text}' is not a window", hint=hint)
    first = parse_duration_ns(start) if start.strip() else 0
    last = parse_duration_ns(end) if end.strip() else None
    if last is not None and last <= first:
        raise RequestError(f"the window {text} ends before it starts")
    return first, last


_BYTES_PER = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
              "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}  # fmt: skip


def parse_size(text: str) -> int:
    """Bytes from '500', '64KiB', '2GB', '1.5 GB'; a bare number is bytes."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    unit = match[2].upper() if match else ""
    if match is None or (unit or "B") not in _BYTES_PER:
        raise RequestError(f"'{text}' is not a size", hint="Write for example 500MB or 2GiB.")
    return int(Decimal(match[1]) * _BYTES_PER[unit or "B"])


def format_long(ns: int) -> str:
    """A time of minutes or more for a person: '3 hours', '18 days'."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if ns >= 2 * size * 1_000_000_000:
            return f"{ns // (size * 1_000_000_000):,} {unit}"
    return format_ns(ns)


def format_hours(ns: int) -> str:
    """A time of monitoring for a person: '27.0 hours', less than two in minutes or seconds."""
    hours = ns / 3.6e12
    if hours >= 2:
        return f"{hours:,.1f} hours"
    return f"{60 * hours:.0f} minutes" if 60 * hours >= 2 else f"{3600 * hours:.3g} seconds"


def format_ns(ns: float | None) -> str:
    """A duration for a person, three significant digits or better: '412 ns', '3.908 ms'."""
    if ns is None:
        return "-"
    size = abs(ns)
    if size < 1_000:
        return f"{ns:.0f} ns"
    for unit, scale in (("µs", 1e3), ("ms", 1e6)):
        if size < scale * 999.5:
            return f"{_digits(ns / scale)} {unit}"
    return f"{_digits(ns / 1e9)} s"


def format_about_ns(ns: float) -> str:
    """An estimated duration for a person, two significant digits: '3.6 ms', '28 ms', '450 µs'."""
    size = float(f"{ns:.1e}")
    for unit, scale in (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)):
        if size < 1000 * scale or unit == "s":
            break
    digits = 1 if size < 10 * scale else 0
    return f"{size / scale:.{digits}f} {unit}"


def format_bytes(size: float | None) -> str:
    """Decimal bytes for a person: '25.48 GB' is 25.48 × 10⁹ bytes."""
    return "-" if size is None else _decimal(size, "B")


def format_joules(joules: float | None) -> str:
    """Energy for a person: '2.431 MJ', '21.40 mJ'."""
    if joules is None or joules == 0:
        return "-" if joules is None else "0 J"
    if abs(joules) < 0.9995:
        return f"{_digits(1e3 * joules)} mJ"
    return f"{_digits(joules)} J" if abs(joules) < 999.5 else _decimal(joules, "J")


def format_rate(bytes_per_s: float | None) -> str:
    """A decimal rate for a person: '27.7 GB/s'."""
    return "-" if bytes_per_s is None else _decimal(bytes_per_s, "B/s")


def format_flop(flop: float | None) -> str:
    """Floating-point operations for a person: '1.374 TFLOP'."""
    return "-" if flop is None else _decimal(flop, "FLOP")


def format_flop_rate(flop_per_s: float | None) -> str:
    """Floating-point operations a second for a person: '312.0 TFLOP/s'."""
    return "-" if flop_per_s is None else _decimal(flop_per_s, "FLOP/s")


def format_pct(pct: float | None) -> str:
    """A percentage with one decimal; what is not zero never reads as zero."""
    if pct is None:
        return "-"
    if 0 < abs(pct) < 0.05:
        return "<0.1 %"
    return f"{pct:.1f} %"


def format_count(n: int | None) -> str:
    """An integer with thin groups: '1,234,567'."""
    return "-" if n is None else f"{n:,}"


def format_several(n: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: '1 gap', '1,234 gaps'; `plural` where an s does not make it."""
    return f"{format_count(n)} {noun if n == 1 else plural or noun + 's'}"


# What a clause about several things says of one.
_OF_ONE = (
    (r"\bare not ([aeiou][a-z]*)s\b", r"is not an \1"),
    (r"\bare not ([a-z]+)s\b", r"is not a \1"),
    (r"\bwere\b", "was"),
    (r"\bare\b", "is"),
    (r"(?<!can )(?<!may )\bhave\b", "has"),
    (r"\black\b", "lacks"),
    (r"\btake\b", "takes"),
    (r"\bwait\b", "waits"),
    (r"\bdo not\b", "does not"),
    (r"\bthat end\b", "that ends"),
    (r"\bthey start\b", "it starts"),
    (r"\bcarry\b", "carries"),
    (r"\bhand out\b", "hands out"),
    (r"\btheir\b", "its"),
)
# What is said of them behind the clause.
_OF_IT = (
    (r"\bthey are\b", "it is"),
    (r"\bthey were\b", "it was"),
    (r"\bthey have\b", "it has"),
    (r"\bthey (may|cannot)\b", r"it \1"),
    (r"\bthey (end|begin|weigh|stand)\b", r"it \1s"),
    (r"\btheir\b", "its"),
)
# The clause's subject: words without a preposition before the first that ends like a plural.
_SUBJECT = re.compile(
    r"(?P<before>(?:(?!(?:in|of|on|at|by|to|from|with|that|which)\b)[\w-]+ )*?)"
    r"(?P<noun>[A-Za-z-]*[a-rt-z]s)(?<!us)(?<!is)(?= )"
)

# What a part is a part of, as it stands behind the part's number: its noun stays as it is.
_WHOLE = re.compile(r"of [\d,]+ [\w-]+")


def format_note(count: int | None, text: str) -> str:
    """A clause about several things behind their number: '2 events were left out', '1 event was'.

    Of one thing the first noun and the verbs before a colon are in the singular, and what is called
    they behind it; of one of several ('1 of 20 events was') the verbs alone, since the noun belongs
    to the whole.
    """
    if count is None:
        return text
    if count != 1:
        return f"{format_count(count)} {text}"
    clause, mark, rest = re.fullmatch(r"([^:;]*)([:;]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if (whole := _WHOLE.match(clause)) is not None:
        return f"1 {whole[0]}{_say_of_one(clause[whole.end() :])}{mark}{_say_of_it(rest)}"
    if (subject := _SUBJECT.match(clause)) is not None:
        clause = _say_of_one(
            f"{subject['before']}{_name_one(subject['noun'])}{clause[subject.end() :]}"
        )
        rest = _say_of_it(rest)
    return f"1 {clause}{mark}{rest}"


def _say_of_one(clause: str) -> str:
    for several, one in _OF_ONE:
        clause = re.sub(several, one, clause)
    return clause


def _say_of_it(rest: str) -> str:
    for several, one in _OF_IT:
        rest = re.sub(several, one, rest)
    return rest


def _name_one(noun: str) -> str:
    if noun.endswith("ies"):
        return f"{noun[:-3]}y"
    return noun[:-2] if noun.endswith(("sses", "ches", "shes", "xes")) else noun[:-1]


def _decimal(value: float, unit: str) -> str:
    for prefix, scale in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)):
        if abs(value) < scale * 999.5:
            return (
                f"{value / scale:.0f} {unit}"
                if not prefix
                else f"{_digits(value / scale)} {prefix}{unit}"
            )
    return f"{_digits(value / 1e15)} P{unit}"


def _digits(value: float) -> str:
    """Three or four significant digits, without an exponent."""
    size = abs(value)
    if size < 9.9995:
        return f"{value:.3f}"
    if size < 99.995:
        return f"{value:.2f}"
    return f"{value:.1f}"
