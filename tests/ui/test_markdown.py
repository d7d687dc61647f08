"""Texts that somebody else wrote are what they say."""

import re

import pytest

from dpviz.ui.markdown import escape_name, escape_sentence


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Größe → 3", "Größe → 3"),  # a backslash before such a letter would be seen
        ("*a* _b_ `c` $d$ ~e~", r"\*a\* \_b\_ \`c\` \$d\$ \~e\~"),
        ("<b>|[x](y) # :red: a: b", r"\<b\>\|\[x\]\(y\) \# \:red\: a\: b"),
        ("a\n\n# b", r"a \# b"),
        ("https://e.co", "https\\:\\/\\/e\u2060\\.co"),
        ("WWW.e.co me@e.co", "WWW\u2060\\.e\u2060\\.co me\\@e\u2060\\.co"),
        ("http://1.2.3.4 at 2.5", "http\\:\\/\\/\u20601\\.2\\.3\\.4 at 2\\.5"),
    ],
)
def test_nothing_of_it_is_read_as_markdown(text: str, written: str) -> None:
    assert escape_name(text) == written
    assert re.sub(r"\\(.)", r"\1", escape_sentence(text)) == re.sub(r"\\(.)", r"\1", written)


def test_a_sentence_keeps_its_quotes_and_colons() -> None:
    assert escape_sentence('column "a_b": 3 cells, :red') == 'column "a\\_b": 3 cells, \\:red'
