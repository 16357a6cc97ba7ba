"""A class is found by its name: no two of the package have the same."""

import ast
from collections import defaultdict
from pathlib import Path

import feddiv


def test_no_name_of_a_class_occurs_twice() -> None:
    package = Path(feddiv.__file__).parent
    homes = defaultdict(list)
    for file in package.rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(file.relative_to(package)))
    assert len(homes) > 100
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
