"""Writes Unicode and LaTeX the simple way, so that every later step sees one spelling of a thing."""

from __future__ import annotations

import re

# Not NFKC: it turns 3² into 32, which would be another number.
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_CHARACTERS: dict[int, str] = str.maketrans(
    {
        **dict.fromkeys("−–—‒﹣", "-"),
        **dict.fromkeys("×∗✕✖", "*"),
        **dict.fromkeys("⋅·∙•", "*"),
        **dict.fromkeys("÷∕⁄", "/"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " "),
        **dict.fromkeys("\u200b\u2060\ufeff", ""),
        **{"½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}"},
        **{"¾": r"\frac{3}{4}", "⅕": r"\frac{1}{5}", "⅙": r"\frac{1}{6}", "⅛": r"\frac{1}{8}"},
    }
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")

_STYLE = re.compile(
    r"\\(?:text|mathrm|mathbf|textbf|textit|mathit|operatorname|bf|rm|mbox|emph)\s*\{([^{}]*)\}"
)
_SIZE = re.compile(r"\\(?:left|right|[bB]ig{1,2}[lrm]?|displaystyle|limits)(?![a-zA-Z])")
_MATH_MODE = re.compile(r"\\[()\[\]]|\$")
_JOIN = re.compile(r"\\!\s*")
_SPACE = re.compile(r"\\[,;: ]|\\q?quad(?![a-zA-Z])|~")
_FRACTION = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_BARE_NUMERATOR = re.compile(r"\\frac\s*([0-9])")
_BARE_DENOMINATOR = re.compile(r"\\frac\s*(\{[^{}]*\})\s*([0-9])")
_TIMES = re.compile(r"\\(?:times|cdot|ast)(?![a-zA-Z])")
_DIVIDE = re.compile(r"\\div(?![a-zA-Z])")
_BLANKS = re.compile(r"\s+")


def plain_characters(text: str) -> str:
    """Full-width forms, dashes, dots, signs and fractions as ASCII; 3² as 3^{2}."""
    if text.isascii():
        return text
    text = _SUPERSCRIPT_RUN.sub(lambda run: "^{" + run[0].translate(_SUPERSCRIPTS) + "}", text)
    return text.translate(_FULL_WIDTH).translate(_CHARACTERS)


def plain(text: str) -> str:
    """`text` without what only affects its looks: math mode, sizes, styles, spacing, markdown emphasis.

    Operators become + - * /, all kinds of fraction `\\frac{a}{b}`; `\\$` goes with the math mode signs.
    Idempotent.
    """
    before = None
    while text != before:
        before = text
        text = _plain_once(text)
    return text


def _plain_once(text: str) -> str:
    text = plain_characters(text)
    if "\\" in text:
        text = text.replace("\\$", "").replace("\\%", "%").replace("\\\\", "\\")
        # A style macro is kept apart from what follows it: "12\text{cm}" is not "12cm".
        text = _STYLE.sub(r" \1 ", text)
        text = _SIZE.sub("", text)
        text = _SPACE.sub(" ", _JOIN.sub("", text))
        text = _FRACTION.sub(r"\\frac", text)
        text = _BARE_DENOMINATOR.sub(r"\\frac\1{\2}", _BARE_NUMERATOR.sub(r"\\frac{\1}", text))
        text = _DIVIDE.sub("/", _TIMES.sub("*", text))
    text = _MATH_MODE.sub("", text).replace("{,}", ",").replace("{:}", ":")
    text = _BLANKS.sub(" ", text).strip(" `")
    return text[2:-2].strip() if len(text) > 4 and text.startswith("**") and text.endswith("**") else text
