"""HTML in which no text can become markup: whatever is not `Markup` already is escaped on its way in."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Any

# Elements without content, which have no closing tag.
_VOID = frozenset({"br", "img", "input", "meta", "link"})


class Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *content: str | Iterable[Markup], **attributes: str | int | bool | None) -> Markup:
    """An element. Attributes that are None or False are left out; `_` in their names stands for `-`.

    >>> tag("p", "a < b", class_="note", hidden=True)
    '<p class="note" hidden>a &lt; b</p>'
    """
    opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{''.join(map(_inner, content))}</{name}>")


def join(*content: str | Iterable[Markup]) -> Markup:
    """Markup and texts, one after the other."""
    return Markup("".join(map(_inner, content)))


def paragraphs(text: str) -> Markup:
    r"""A paragraph for each stretch of text between blank lines.

    >>> paragraphs("One.\n\nTwo & three.")
    '<p>One.</p><p>Two &amp; three.</p>'
    """
    return join(tag("p", part.strip()) for part in re.split(r"\n\s*\n", text) if part.strip())


def script(source: str) -> Markup:
    """A script that is part of the page. Its source is trusted, but must not end the element early."""
    if re.search(r"</script|<!--", source, re.IGNORECASE):
        raise ValueError("the source has '</script' or '<!--' in it, which would end or upset its element")
    return Markup(f"<script>{source}</script>")


def json_script(identifier: str, data: Any) -> Markup:
    """Data for scripts. No text in it can end the element: `<` is written as JSON's escape for it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return tag("script", Markup(text), type="application/json", id=identifier)


def anchor(*parts: str) -> str:
    """A valid `id` made of names: without white space.

    >>> anchor("chart", "figure 2")
    'chart-figure-2'
    """
    return re.sub(r"\s+", "-", "-".join(parts))


def _inner(content: str | Iterable[Markup]) -> str:
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return html.escape(content, quote=False)
    return "".join(map(_inner, content))


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
