"""Answers as nodes: what Markdown becomes, safely, and without building anything twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import lists, sampled_from
from playwright.sync_api import Page, Route, sync_playwright

from radixchat.server.web_page import HEADERS, page_files
from radixchat.tests.server.browser import chromium

TEXT = """\
# A title

A paragraph with **bold**, *italic*, ~~struck~~ and `code`,
a second line, and [a link](https://example.org/a_(b)?c=1 "title").

1. first
2. second
   - inside
   - more

     a paragraph of it
3. third

```python
print("<b>")
**not bold**
```

> quoted
> > deeper

| a | b |
|:--|--:|
| 1 | **2** |
| 3 |

---

Last line: https://example.org/x. Und *nicht\\* so*.
"""

# Every piece of markup that a model may write, and what it must not become.
HOSTILE = """\
<script>window.hit = 1</script> <img src=x onerror="window.hit = 1">
[a](javascript:window.hit=1) [b](data:text/html,x) [c](vbscript:x) [d](//example.org)
[e](java&#115;cript:x) [f](ht\ttps://example.org) ![g](https://example.org/pixel.png)
<javascript:alert(1)> <https://example.org/ok> [h](https://user:pass@example.org/ok)
```"><script>window.hit = 1</script>
x
```
"""

MARKS = (
    *("*", "**", "_", "`", "```\n", "~~", "[", "](https://a.b)", "- ", "1. ", "> ", "#", "|"),
    *("-|-\n", "---", "\n", "\n\n", "  ", "a", " b ", "\\", "é", "😀", "https://a.b", "    "),
)

AS_TEXT = """(text) => import("/web/markdown_view.js").then(({ MarkdownView }) => {
    const root = document.createElement("div");
    new MarkdownView(root, () => {}).replace(text);
    return [...root.childNodes].map(describe).join("");
    function describe(node) {
        if (node.nodeType === 3) return node.data;
        const inner = [...node.childNodes].map(describe).join("");
        return `<${node.localName}>${inner}</${node.localName}>`;
    }
})"""

# In pieces of `size` code points; true if at every moment the nodes are those of the whole text.
IN_PIECES = """async ({ text, size }) => {
    const { MarkdownView } = await import("/web/markdown_view.js");
    const made = (all) => {
        const root = document.createElement("div");
        new MarkdownView(root, () => {}).replace(all);
        return root;
    };
    const root = document.createElement("div");
    const view = new MarkdownView(root, () => {});
    const points = [...text];
    for (let at = 0; at < points.length; at += size) {
        view.append(points.slice(at, at + size).join(""));
        const so_far = points.slice(0, at + size).join("");
        if (!root.isEqualNode(made(so_far))) return so_far;
    }
    return true;
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A document of the page's origin, under its policy, on which nothing of it runs."""

    def answer(route: Route) -> None:
        found = page_files()[route.request.url.rpartition("/")[2]]
        route.fulfill(body=found.content, headers={**HEADERS, "content-type": found.media_type})

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium())
        page = browser.new_page()
        page.route("**/*", answer)
        page.goto("http://127.0.0.1/web/theme.css")
        yield page
        browser.close()


def test_markdown_becomes_elements(page: Page) -> None:
    """Each construct, and what is not one stays text."""
    cases = {
        "a *b* **c** ***d*** ~~e~~ `f`": (
            "<p>a <em>b</em> <strong>c</strong> <strong><em>d</em></strong> <del>e</del> "
            "<code>f</code></p>"
        ),
        "2 * 3 * 4, snake_case_name, 5*6": "<p>2 * 3 * 4, snake_case_name, 5*6</p>",
        "**a *b** c* \\*d\\*": "<p><strong>a *b</strong> c* *d*</p>",
        "one\ntwo": "<p>one<br></br>two</p>",
        "# a #\n## b": "<h3>a</h3><h4>b</h4>",
        "- a\n- b\n  1. c\n\ntext": (
            "<ul><li><p>a</p></li><li><p>b</p><ol><li><p>c</p></li></ol></li></ul><p>text</p>"
        ),
        "> a\nb\n\nc": "<blockquote><p>a<br></br>b</p></blockquote><p>c</p>",
        "text\n---\n***": "<p>text</p><hr></hr><hr></hr>",
        "a|b\n-|-\n1|2": (
            "<div><table><thead><tr><th>a</th><th>b</th></tr></thead>"
            "<tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>"
        ),
        "~~~\n*a*": (
            "<div><div><span></span><button>Copy</button></div><pre><code>*a*</code></pre></div>"
        ),
        "[a](https://b.org) https://c.org/d.": ("<p><a>a</a> <a>https://c.org/d</a>.</p>"),
        "1) a\n\n7. b": "<ol><li><p>a</p></li><li><p>b</p></li></ol>",
    }
    assert {text: page.evaluate(AS_TEXT, text) for text in cases} == cases


def test_no_markup_of_a_text_becomes_real(page: Page) -> None:
    """Scripts, images and addresses that are not web pages stay text; links leak nothing."""
    program = """async (text) => {
        const { MarkdownView } = await import("/web/markdown_view.js");
        const root = document.createElement("div");
        document.body.append(root);
        new MarkdownView(root, () => {}).replace(text);
        await new Promise((done) => setTimeout(done, 100));
        const links = [...root.querySelectorAll("a")];
        return {
            hit: window.hit ?? null,
            names: [...new Set([...root.querySelectorAll("*")].map((node) => node.localName))],
            links: links.map((link) => [link.textContent, link.href]),
            rel: [...new Set(links.map((link) => link.rel))],
            text: root.textContent,
        };
    }"""
    made = page.evaluate(program, HOSTILE)
    assert made["hit"] is None
    assert set(made["names"]) <= {"p", "br", "a", "div", "span", "button", "pre", "code"}
    assert made["links"] == [
        ["g", "https://example.org/pixel.png"],
        ["https://example.org/ok", "https://example.org/ok"],
    ]
    assert made["rel"] == ["noopener noreferrer nofollow"]
    assert "<script>window.hit = 1</script>" in made["text"]


@pytest.mark.parametrize("size", [1, 7])
def test_a_growing_text_is_what_the_whole_text_is(page: Page, size: int) -> None:
    """However a text is cut, at every moment its nodes are those of what has come."""
    assert page.evaluate(IN_PIECES, {"text": TEXT + HOSTILE, "size": size}) is True


@settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(lists(sampled_from(MARKS), max_size=40).map("".join))
def test_no_text_is_shown_otherwise_for_having_grown(page: Page, text: str) -> None:
    """The same of marks in any order."""
    assert page.evaluate(IN_PIECES, {"text": text, "size": 1}) is True


def test_what_is_shown_is_not_built_again(page: Page) -> None:
    """More text changes the end only: the blocks before it are never touched."""
    program = """async (text) => {
        const { MarkdownView } = await import("/web/markdown_view.js");
        const root = document.createElement("div");
        const view = new MarkdownView(root, () => {});
        view.replace(text);
        const first = [...root.children].slice(0, -1);
        let changes = 0;
        const watch = new MutationObserver((records) => {
            const touched = ({ target }) => first.some((node) => node.contains(target));
            changes += records.filter(touched).length;
        });
        watch.observe(root, { subtree: true, childList: true, characterData: true });
        const last = root.lastChild;
        const data = last.firstChild;
        for (let at = 0; at < 200; at += 1) view.append(" word");
        await new Promise((done) => setTimeout(done));
        return [changes, root.lastChild === last, last.firstChild === data, data.data.length];
    }"""
    made = page.evaluate(program, TEXT + "\nIt goes on")
    assert made == [0, True, True, len("It goes on") + 200 * len(" word")]


def test_no_text_takes_long(page: Page) -> None:
    """Texts that look like much and are nothing: time is in proportion to their length."""
    program = """async (text) => {
        const { MarkdownView } = await import("/web/markdown_view.js");
        const root = document.createElement("div");
        const began = performance.now();
        new MarkdownView(root, () => {}).replace(text);
        return performance.now() - began;
    }"""
    marks = [
        "*a ",
        "**",
        "_a_",
        "[",
        "[a](",
        "`",
        "` `` ",
        "~~a",
        "<http",
        "http://))",
        "\\",
        "# ",
        "| ",
    ]
    lines = ["- \n", "> ", "1. a\n", "|-", "a|b\n-|-\n", "```\n", "   "]
    for mark in [*marks, *lines]:
        assert page.evaluate(program, mark * (40_000 // len(mark))) < 3000, mark
