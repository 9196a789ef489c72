"""What is written about the package is true."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from conftest import ROOT

import hearth
from hearth import _native

STUB = Path(hearth.__file__).with_name("_native.pyi")


@pytest.mark.parametrize("module", ["hearth", "hearth.api", "hearth.policy", "hearth.fleet", "hearth.sweep"])
def test_the_examples_in_docstrings_answer_what_they_say(module):
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried > 0
    assert failed == 0


def test_the_examples_in_the_book_answer_what_they_say():
    page = (ROOT / "book" / "src" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    # Those of the sweep stand for anybody's traces and cluster.
    text = "\n".join(block for block in blocks if "sweep(traces" not in block)
    examples = doctest.DocTestParser().get_doctest(text, {}, "python.md", None, 0)
    assert len(examples.examples) > 8
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_everything_public_says_what_it_is_for():
    for name in hearth.__all__:
        if not name.startswith("__"):
            assert inspect.getdoc(getattr(hearth, name)), name


def test_the_stub_names_what_the_native_half_has():
    named = set(re.findall(r"^(?:class|def) (\w+)|^(__version__)", STUB.read_text(), re.MULTILINE))
    named = {one or other for one, other in named}
    assert named == {name for name in vars(_native) if name == "__version__" or not name.startswith("__")}
    assert STUB.with_name("py.typed").exists()
