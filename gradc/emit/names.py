"""Names, comments and strings: the only ways in which a graph's own text enters emitted source."""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
import unicodedata
from collections.abc import Hashable, Iterable, Sequence

from gradc.types import WORD

__all__ = [
    "Namer",
    "comment",
    "identifier",
    "plain",
    "quoted",
    "whole_word",
    "words",
]

LONGEST = 60
"""Names are cut to so many characters."""
COMMENT = 84
"""Comments are cut to so many characters."""
RESERVED = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"np", "npt"}
"""Names that emitted code means something by."""


SPECIAL = "__debug__"
"""A name that Python's compiler takes for a constant, though it is no keyword."""


def identifier(text: str) -> str:
    """A Python identifier that reads like `text`: the same where it is one.

    `dense/kernel:0` gives `dense_kernel_0`, a keyword `lambda_`; what is longer than 60 characters
    is cut and ends with eight digits of its hash.

    >>> identifier("dense/kernel:0"), identifier("2fa"), identifier("lambda"), identifier("été")
    ('dense_kernel_0', 'x2fa', 'lambda_', 'été')
    """
    name = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if not name.isidentifier():
        kept = [c if f"x{c}".isidentifier() else " " for c in name]
        name = "_".join("".join(kept).split()) or "x"
        if name.isascii() and set(name) == {"_"}:
            name = "x"
        if not name.isidentifier():
            name = unicodedata.normalize("NFKC", f"x{name}")
    if len(name) > LONGEST:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[: LONGEST - 9]}_{digest[:8]}"
    return f"{name}_" if keyword.iskeyword(name) or name == SPECIAL else name


def words(lines: Sequence[str]) -> set[str]:
    """All names in the lines of a Python text (and what looks like one in its strings)."""
    found: set[str] = set()
    for line in lines:
        found.update(_NAMES.findall(line))
    return found


_NAMES = re.compile(f"{WORD}+")


def whole_word(name: str) -> str:
    """The pattern of a name in a Python text, not as a part of another."""
    return f"(?<!{WORD}){re.escape(name)}(?!{WORD})"


class Namer:
    """Gives each key one name in a scope, and no two keys the same.

    A name that the scope reserves gets an underscore behind, one that is taken a number: `np_`,
    `x_2`.
    """

    def __init__(self, reserved: Iterable[str] = RESERVED) -> None:
        self._reserved = frozenset(reserved)
        self._taken: dict[str, int] = {}
        self._names: dict[Hashable, str] = {}

    def __call__(self, key: Hashable, wanted: str) -> str:
        """The name of `key`; `wanted` is what it is called by, made legal, at the first call."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self.fresh(wanted)
        return name

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet, like `wanted`."""
        base = identifier(wanted)
        while base in self._reserved:
            base += "_"
        name = base
        count = self._taken.get(base, 0)
        while name in self._taken or name in self._reserved:
            count += 1
            name = base if count == 0 else f"{base}_{count + 1}"
        self._taken[base] = count
        self._taken.setdefault(name, 0)
        return name

    def take(self, name: str) -> str:
        """Enter a name as it stands."""
        self._taken.setdefault(name, 0)
        return name


def plain(text: str) -> str:
    """The text on one line, with all that is not printable (or turns text round) spelled out.

    >>> plain("a\\n\\tb \\u202e")
    'a b \\\\u202e'
    """
    joined = " ".join(text.split())
    if joined.isprintable():
        return joined
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in joined)


def comment(text: str, indent: int = 0) -> str:
    """A comment line of this text, cut to the width.

    >>> comment("z = X @ w", 4)
    '    # z = X @ w'
    """
    line = plain(text)
    room = COMMENT - indent
    if len(line) > room:
        line = line[: room - 4] + " ..."
    return " " * indent + f"# {line}".rstrip()


def docstring(text: str) -> str:
    """The text as it may stand between triple quotes."""
    lines = []
    for line in text.expandtabs(4).split("\n"):
        start = len(line) - len(line.lstrip(" "))
        lines.append((" " * start + plain(line)).rstrip())
    return "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''").strip("\n")


def quoted(text: str) -> str:
    """A string literal, with the quotes that a formatter would choose.

    >>> quoted("a"), quoted('say "a"')
    ('"a"', '\\'say "a"\\'')
    """
    quote = "'" if text.count('"') > text.count("'") else '"'
    body = repr(text + "'\"")[1:-4]  # both quotes in it: repr takes ' and escapes it
    body = body.replace("\\'", "'")
    return quote + body.replace(quote, "\\" + quote) + quote
