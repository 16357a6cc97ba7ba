import json
import re

import pytest

from feddiv.pages import Html, facts, image, page, section, table, tag, text


def test_whatever_is_no_markup_is_escaped():
    assert tag("p", "<script>") == "<p>&lt;script&gt;</p>"
    assert tag("p", ["a", [Html("<b>"), None]], 3) == "<p>a<b>3</p>"
    assert tag("i", title='"><script>', hidden=False) == '<i title="&quot;&gt;&lt;script&gt;"></i>'


def test_characters_that_are_not_seen_are_named_and_lines_stay():
    assert text("a\u202eb\nc\x00") == "a\\u202eb\nc\\x00"
    assert text("\ud800").encode() == b"\\ud800"


@pytest.mark.parametrize(
    "attributes",
    [
        {"onclick": "alert(1)"},
        {"href": "javascript:alert(1)"},
        {"src": "https://example.org/x.png"},
        {"a b": "c"},
    ],
)
def test_attributes_that_run_or_load_something_are_refused(attributes):
    with pytest.raises(ValueError, match=r"network|script|no name"):
        tag("a", **attributes)


def test_a_page_has_all_it_needs_and_may_load_nothing():
    script = "document.title += '!'"
    parts = section("first", "One & all", facts([("accuracy", "90%", "of the last round")]))
    made = page("<Mine>", parts, contents={"first": "One"}, scripts=[script], data={"a": "</x>"})
    assert made.startswith("<!doctype html>")
    assert "<title>&lt;Mine&gt;</title>" in made
    assert "default-src &#x27;none&#x27;" in made
    assert '<a href="#first">One</a>' in made
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', made)
    assert found is not None
    assert "<" not in found[1]
    assert json.loads(found[1]) == {"a": "</x>"}
    assert script in made
    assert not re.search(r"(src|href)=.(https?:|//)", made)


def test_what_would_end_a_script_or_is_no_json_is_an_error():
    with pytest.raises(ValueError, match="would end it"):
        page("x", scripts=["'</script>'"])
    with pytest.raises(ValueError, match="JSON"):
        page("x", data={"a": float("nan")})


def test_tables_and_images():
    assert '<td class="number">1</td>' in table(["a", "n"], [["<", "1"]], numbers=[1])
    assert image(b"\x89PNG", alt='"') == (
        '<img src="data:image/png;base64,iVBORw==" alt="&quot;" loading="lazy">'
    )
