"""What a visitor waits for before the first page: nothing that is slow to import is imported for one function."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEAR = ("scipy.stats", "scipy.signal")  # 0.7 s together


def imported(path: Path) -> set[str]:
    """The modules of this house that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("dpviz")}


def test_no_page_imports_the_dear_parts_of_scipy() -> None:
    modules = {"dpviz.ui.navigation"}.union(*(imported(path) for path in (ROOT / "pages").glob("*.py")))
    assert any("mirror_descent" in name for name in modules) and any("accelerated" in name for name in modules)
    program = f"import sys, {', '.join(sorted(modules))}\nprint([name for name in {DEAR} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
