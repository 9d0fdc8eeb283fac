"""Names of Arrow types, as `lance-flight show` prints them and as `put --types` takes them.

    type      = name [ "(" number { "," number } ")" ] [ "<" inner { "," inner } ">" ] [ "[" words "]" ]
    inner     = [ field name ":" ] type

`int64`, `decimal128(10, 2)`, `timestamp[us, tz=UTC]`, `list<item: float>`, `list<float>`,
`fixed_size_list<item: float>[3]`, `struct<id: int64, name: string>`, and dictionaries as Arrow prints them.
"""

import re
from collections.abc import Callable

import pyarrow as pa

from lance_core.errors import InvalidInputError

_TOKEN = re.compile(r"\s*([<>:,]|\([^()]*\)|\[[^\[\]]*\]|[^<>:,()\[\]\s]+)")

_SHORT = {
    "text": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "fixed_size_binary": None,
}
"""Names beyond those that Arrow gives its types."""

_UNITS = ("s", "ms", "us", "ns")


def parse_type(text: str) -> pa.DataType:
    """Return the type with this name.

    Raises:
        InvalidInputError: there is no such type.
    """
    tokens = _TOKEN.findall(text)
    try:
        if "".join(tokens) != re.sub(r"\s+", "", text) and _TOKEN.sub("", text).strip():
            raise ValueError(text)
        parser = _Parser(tokens)
        found = parser.type()
        if parser.tokens:
            raise ValueError(text)
    except (ValueError, IndexError, KeyError, pa.ArrowException):
        raise InvalidInputError(
            "not the name of a type, such as int64, double, string, bool, date, timestamp[us, tz=UTC], "
            "decimal128(10, 2) or list<float>",
            found=text,
        ) from None
    return found


class _Parser:
    """Parser of the tokens of one type name."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def type(self) -> pa.DataType:
        name = self.tokens.pop(0).lower()
        if name in _NESTED:
            return _NESTED[name](self)
        if name.startswith("decimal"):
            return self._decimal(name)
        bracket = self._bracket()
        if bracket is None:
            short = _SHORT.get(name)
            return pa.type_for_alias(name) if short is None else short
        if name == "timestamp":
            return _timestamp(bracket)
        if name == "fixed_size_binary":
            return pa.binary(int(bracket))
        return pa.type_for_alias(f"{name}[{bracket}]")

    def field(self) -> pa.Field:
        """Return a field of a struct, or the items of a list with or without their name."""
        if len(self.tokens) > 1 and self.tokens[1] == ":":
            name = self.tokens.pop(0)
            self.tokens.pop(0)
            return pa.field(name, self.type())
        return pa.field("item", self.type())

    def fields(self) -> list[pa.Field]:
        self._expect("<")
        found = [self.field()]
        while self.tokens[0] == ",":
            self.tokens.pop(0)
            found.append(self.field())
        self._expect(">")
        return found

    def item(self) -> pa.Field:
        (found,) = self.fields()
        return found

    def dictionary(self) -> pa.DataType:
        """Take what follows the name: `<values=string, indices=int8, ordered=0>`."""
        self._expect("<")
        self._skip("values=")
        values = self.type()
        self._expect(",")
        self._skip("indices=")
        indices = self.type()
        self._expect(",")
        self._skip("ordered=")
        is_ordered = self.tokens.pop(0) == "1"
        self._expect(">")
        return pa.dictionary(indices, values, is_ordered)

    def size(self) -> int:
        return int(self._bracket() or "")

    def _decimal(self, name: str) -> pa.DataType:
        numbers = [int(number) for number in self.tokens.pop(0).strip("()").split(",")]
        precision, scale = numbers if len(numbers) > 1 else (*numbers, 0)
        make = {"decimal128": pa.decimal128, "decimal256": pa.decimal256}
        if name == "decimal":
            name = "decimal128" if precision <= 38 else "decimal256"
        return make[name](precision, scale)

    def _bracket(self) -> str | None:
        if self.tokens and self.tokens[0].startswith("["):
            return self.tokens.pop(0)[1:-1].strip()
        return None

    def _skip(self, begin: str) -> None:
        if not self.tokens[0].startswith(begin):
            raise ValueError(begin)
        self.tokens[0] = self.tokens[0].removeprefix(begin)

    def _expect(self, token: str) -> None:
        if self.tokens.pop(0) != token:
            raise ValueError(token)


def _timestamp(bracket: str) -> pa.DataType:
    unit, _, zone = bracket.partition(",")
    if unit not in _UNITS:
        raise ValueError(unit)
    zone = zone.strip().removeprefix("tz=")
    return pa.timestamp(unit, zone or None)


_NESTED: dict[str, Callable[[_Parser], pa.DataType]] = {
    "list": lambda parser: pa.list_(parser.item()),
    "large_list": lambda parser: pa.large_list(parser.item()),
    "fixed_size_list": lambda parser: pa.list_(parser.item(), parser.size()),
    "dictionary": _Parser.dictionary,
    "struct": lambda parser: pa.struct(parser.fields()),
}
