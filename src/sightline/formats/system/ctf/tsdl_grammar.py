"""The grammar of TSDL: a recursive-descent parser of CTF 1.8's metadata (CTF 1.8.3, appendix C).

It makes blocks and types of the text; what they say of a trace is told in tsdl.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sightline.formats.system.ctf.classes import (
    NOTHING,
    Array,
    Bytes,
    Field,
    Integer,
    Label,
    MetadataError,
    Option,
    Origin,
    Place,
    Real,
    String,
    Structure,
    Variant,
)
from sightline.formats.system.ctf.tsdl_words import Word, split_words

_C_TYPES = {"void", "char", "short", "int", "long", "float", "double", "signed", "unsigned"}
_C_TYPES |= {"_Bool", "_Complex", "_Imaginary"}
_ORIGINS: dict[tuple[str, ...], Origin] = {
    ("trace", "packet", "header"): "packet-header",
    ("stream", "packet", "context"): "packet-context",
    ("stream", "event", "header"): "event-record-header",
    ("stream", "event", "context"): "event-record-common-context",
    ("event", "context"): "event-record-specific-context",
    ("event", "fields"): "event-record-payload",
}
_BASES = {
    **dict.fromkeys(("binary", "b", "2"), 2),
    **dict.fromkeys(("octal", "oct", "o", "8"), 8),
    **dict.fromkeys(("decimal", "dec", "d", "i", "u", "10"), 10),
    **dict.fromkeys(("hexadecimal", "hex", "x", "X", "p", "16"), 16),
}
_MOST_NESTING = 64


@dataclass
class _Scope:
    """Names of types, and the scope around."""

    above: _Scope | None = None
    names: dict[tuple[str, str], Field] = field(default_factory=dict)

    def find(self, kind: str, name: str) -> Field | None:
        found = self.names.get((kind, name))
        if found is None and self.above is not None:
            return self.above.find(kind, name)
        return found


@dataclass(frozen=True)
class Block:
    """What stands in braces: values, and types, by their dotted names."""

    line: int
    values: dict[str, Word]
    types: dict[str, Field]

    def text(self, name: str, default: str = "") -> str:
        """A value's text; the default where it has none."""
        return self.values[name].text if name in self.values else default

    def number(self, name: str, default: int) -> int:
        """A value that is a number; the default where it has none. Raises MetadataError."""
        if name not in self.values:
            return default
        word = self.values[name]
        if word.kind != "number":
            raise MetadataError(f"line {word.line}: {name} is not a number")
        return word.number()

    def structure(self, name: str) -> Structure:
        """A type that is a structure, or one without members. Raises MetadataError."""
        kind = self.types.get(name, NOTHING)
        if not isinstance(kind, Structure):
            raise MetadataError(f"line {self.line}: {name} is not a structure")
        return kind


def parse_blocks(text: str) -> dict[str, list[Block]]:
    """The blocks that a text consists of, by their kind. Raises MetadataError with the line."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._words = list(split_words(text))
        self._at = 0
        self._depth = 0
        self._root = _Scope()

    def parse(self) -> dict[str, list[Block]]:
        blocks: dict[str, list[Block]] = {
            kind: [] for kind in ("trace", "env", "clock", "stream", "event", "callsite")
        }
        while self._word.kind != "end":
            word = self._word
            if word.text in blocks and self._words[self._at + 1].text == "{":
                self._take()
                blocks[word.text].append(self._parse_block(self._root))
                self._expect(";")
            elif not self._accept(";"):
                self._parse_declaration(self._root)
        return blocks

    # Words

    @property
    def _word(self) -> Word:
        return self._words[self._at]

    def _take(self) -> Word:
        word = self._words[self._at]
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def _accept(self, mark: str) -> bool:
        if self._word.kind in ("mark", "name") and self._word.text == mark:
            self._take()
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            self._refuse(f"{mark!r} is missing before {self._word.text or 'the end'!r}")

    def _refuse(self, why: str) -> NoReturn:
        raise MetadataError(f"line {self._word.line}: {why}")

    def _take_name(self) -> str:
        if self._word.kind != "name":
            self._refuse(f"a name is missing before {self._word.text or 'the end'!r}")
        return self._take().text

    # Blocks

    def _parse_block(self, above: _Scope) -> Block:
        block = Block(self._word.line, {}, {})
        scope = _Scope(above)
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._is_assignment():
                self._parse_assignment(block, scope)
                self._expect(";")
            else:
                self._parse_declaration(scope)
        return block

    def _is_assignment(self) -> bool:
        at = self._at
        while self._words[at].kind == "name" and self._words[at + 1].text == ".":
            at += 2
        return self._words[at].kind in ("name", "text") and self._words[at + 1].text in ("=", ":=")

    def _parse_assignment(self, block: Block, scope: _Scope) -> None:
        name = self._take().text
        while self._accept("."):
            name += "." + self._take_name()
        if self._accept(":="):
            block.types[name] = self._parse_type(scope)
            return
        self._expect("=")
        block.values[name] = self._parse_value()

    def _parse_value(self) -> Word:
        word = self._take()
        if word.text in ("-", "+") and word.kind == "mark":
            number = self._take()
            if number.kind != "number":
                self._refuse("a number is missing after its sign")
            sign = "-" if word.text == "-" else ""
            return Word("number" if not sign else "signed", sign + number.text, word.line)
        if word.kind == "mark" or word.kind == "end":
            self._refuse(f"a value is missing before {word.text!r}")
        text = word.text
        while word.kind == "name" and self._accept("."):
            text += "." + self._take_name()
        return Word(word.kind, text, word.line)

    # Types

    def _parse_declaration(self, scope: _Scope) -> None:
        """A type that gets a name: typealias, typedef, or a struct, variant or enum."""
        if self._accept("typealias"):
            kind = self._parse_type(scope)
            kind = self._parse_dimensions(kind, scope)
            self._expect(":=")
            scope.names["type", self._parse_alias()] = kind
        elif self._accept("typedef"):
            kind = self._parse_type(scope)
            for name, declared in self._parse_declarators(kind, scope):
                scope.names["type", name] = declared
        elif self._word.text in ("struct", "variant", "enum"):
            self._parse_type(scope)
        else:
            self._refuse(f"{self._word.text or 'the end'!r} is not expected here")
        self._expect(";")

    def _parse_alias(self) -> str:
        words = []
        while self._word.kind == "name" or self._word.text == "*":
            words.append(self._take().text)
        if not words:
            self._refuse("a type has no name")
        return " ".join(word for word in words if word != "const")

    def _parse_type(self, scope: _Scope) -> Field:
        self._depth += 1
        if self._depth > _MOST_NESTING:
            self._refuse("types are nested too deeply")
        while self._accept("const"):
            pass
        parse: dict[str, Callable[[_Scope], Field]] = {
            "integer": self._parse_integer,
            "floating_point": self._parse_real,
            "string": self._parse_string,
            "struct": self._parse_struct,
            "variant": self._parse_variant,
            "enum": self._parse_enum,
        }
        one = parse.get(self._word.text) if self._word.kind == "name" else None
        if one is not None:
            self._take()
            kind = one(scope)
        else:
            kind = self._parse_named(scope)
        while self._accept("const"):
            pass
        self._depth -= 1
        return kind

    def _parse_named(self, scope: _Scope) -> Field:
        line = self._word.line
        words = [self._take_name()]
        while words[0] in _C_TYPES and (self._word.text in _C_TYPES or self._word.text == "const"):
            words.append(self._take().text)
        name = " ".join(word for word in words if word != "const")
        while self._accept("*"):
            name += " *"
        kind = scope.find("type", name)
        if kind is None:
            raise MetadataError(f"line {line}: there is no type {name!r}")
        return kind

    def _parse_integer(self, scope: _Scope) -> Field:
        line = self._word.line
        block = self._parse_block(scope)
        size = block.number("size", 0)
        if not 1 <= size <= 64:
            raise MetadataError(f"line {line}: an integer has {size} bits, not 1 to 64")
        default = 8 if size % 8 == 0 else 1
        alignment = _check_alignment(block.number("align", default), line)
        base = _BASES.get(block.text("base", "10"))
        if base is None:
            raise MetadataError(f"line {line}: {block.text('base')!r} is not a base of numbers")
        clock = block.text("map")
        return Integer(
            size,
            alignment,
            _read_flag(block, "signed"),
            _read_order(block),
            base=base,
            is_character=block.text("encoding", "none").lower() in ("utf8", "utf-8", "ascii")
            and size == alignment == 8,
            clock=clock.split(".")[1] if clock.startswith("clock.") else clock or None,
        )

    def _parse_real(self, scope: _Scope) -> Field:
        line = self._word.line
        block = self._parse_block(scope)
        digits = (block.number("exp_dig", 0), block.number("mant_dig", 0))
        if digits not in ((5, 11), (8, 24), (11, 53)):
            raise MetadataError(
                f"line {line}: a number with {digits[0]} bits of exponent and {digits[1]} of "
                "mantissa cannot be read"
            )
        alignment = _check_alignment(block.number("align", 1), line)
        return Real(sum(digits), alignment, _read_order(block))

    def _parse_string(self, scope: _Scope) -> Field:
        if self._word.text == "{":
            self._parse_block(scope)
        return String()

    def _parse_struct(self, scope: _Scope) -> Field:
        name = self._take().text if self._word.kind == "name" and self._word.text != "align" else ""
        if self._word.text != "{":
            found = scope.find("struct", name)
            if not isinstance(found, Structure):
                self._refuse(f"there is no struct {name!r}")
            return found
        members = self._parse_members(scope)
        alignment = 1
        if self._accept("align"):
            self._expect("(")
            line = self._word.line
            alignment = _check_alignment(self._parse_value().number(), line)
            self._expect(")")
        kind = Structure(members, alignment)
        if name:
            scope.names["struct", name] = kind
        return kind

    def _parse_members(self, above: _Scope) -> tuple[tuple[str, Field], ...]:
        members: list[tuple[str, Field]] = []
        scope = _Scope(above)
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._word.text in ("typealias", "typedef"):
                self._parse_declaration(scope)
                continue
            kind = self._parse_type(scope)
            if self._accept(";"):  # a named type alone
                continue
            members += self._parse_declarators(kind, scope)
            self._expect(";")
        names = {name for name, _ in members}
        if len(names) < len(members):
            self._refuse("two fields of a structure have one name")
        return tuple(members)

    def _parse_declarators(self, kind: Field, scope: _Scope) -> list[tuple[str, Field]]:
        found = []
        while True:
            while self._accept("*"):
                pass
            name = self._take_name()
            found.append((name, self._parse_dimensions(kind, scope)))
            if not self._accept(","):
                return found

    def _parse_dimensions(self, kind: Field, scope: _Scope) -> Field:
        lengths: list[int | Place] = []
        while self._accept("["):
            if self._word.kind in ("number", "character"):
                lengths.append(self._take().number())
            else:
                lengths.append(self._parse_place())
            self._expect("]")
        for length in reversed(lengths):
            if isinstance(kind, Integer) and kind.is_character:
                kind = Bytes(length, is_text=True)
            else:
                kind = Array(kind, length)
        return kind

    def _parse_place(self) -> Place:
        names = [self._take_name()]
        while self._accept(".") or self._accept("->"):
            names.append(self._take_name())
        for words, origin in _ORIGINS.items():
            if tuple(names[: len(words)]) == words:
                return Place(tuple(names[len(words) :]), origin)
        return Place(tuple(names))

    def _parse_variant(self, scope: _Scope) -> Field:
        name = self._take().text if self._word.kind == "name" else ""
        selector = None
        if self._accept("<"):
            selector = self._parse_place()
            self._expect(">")
        if self._word.text != "{":
            found = scope.find("variant", name)
            if not isinstance(found, Variant):
                self._refuse(f"there is no variant {name!r}")
            return replace(found, selector=selector or found.selector)
        options = tuple(Option(label, kind) for label, kind in self._parse_members(scope))
        kind = Variant(selector, options)
        if name:
            scope.names["variant", name] = kind
        return kind

    def _parse_enum(self, scope: _Scope) -> Field:
        name = self._take().text if self._word.kind == "name" else ""
        container: Field | None = None
        if self._accept(":"):
            container = self._parse_type(scope)
        if self._word.text != "{":
            found = scope.find("enum", name)
            if not isinstance(found, Integer):
                self._refuse(f"there is no enum {name!r}")
            return found
        container = container or scope.find("type", "int")
        if not isinstance(container, Integer):
            self._refuse("an enum has no integer")
        labels = self._parse_labels()
        kind = replace(container, labels=labels, is_enumeration=True, is_character=False)
        if name:
            scope.names["enum", name] = kind
        return kind

    def _parse_labels(self) -> tuple[Label, ...]:
        labels: list[Label] = []
        following = 0
        self._expect("{")
        while not self._accept("}"):
            if self._word.kind not in ("name", "text"):
                self._refuse(f"a label is missing before {self._word.text!r}")
            name = self._take().text
            lowest = highest = following
            if self._accept("="):
                lowest = highest = self._parse_number()
                if self._accept("..."):
                    highest = self._parse_number()
            labels.append(Label(name, lowest, highest))
            following = highest + 1
            if not self._accept(",") and self._word.text != "}":
                self._refuse(f"',' is missing before {self._word.text!r}")
        return tuple(labels)

    def _parse_number(self) -> int:
        word = self._parse_value()
        if word.kind == "signed":
            return -Word("number", word.text[1:], word.line).number()
        if word.kind not in ("number", "character"):
            self._refuse(f"{word.text!r} is not a number")
        return word.number()


def _check_alignment(alignment: int, line: int) -> int:
    if alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 20:
        raise MetadataError(f"line {line}: an alignment of {alignment} bits is not a power of two")
    return alignment


def _read_flag(block: Block, name: str) -> bool:
    word = block.text(name, "false").lower()
    if word not in ("true", "false", "1", "0"):
        raise MetadataError(f"line {block.line}: {name} is {word!r}, not true or false")
    return word in ("true", "1")


def _read_order(block: Block) -> bool | None:
    word = block.text("byte_order", "native")
    if word not in ("native", "le", "be", "network"):
        raise MetadataError(f"line {block.line}: {word!r} is not a byte order")
    return None if word == "native" else word != "le"
