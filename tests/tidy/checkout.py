"""The files of the checkout, as the tidy tests read them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Checkout:
    """The files of the project.

    Attributes:
        root: folder of the checkout.
        files: paths below root that are in git, or would be after `git add --all`.
    """

    root: Path
    files: tuple[Path, ...]

    def below(self, folder: str, suffix: str = ".py") -> list[Path]:
        """Return the files below a folder whose names end with `suffix`."""
        return [
            path for path in self.files if path.suffix == suffix and path.is_relative_to(folder)
        ]

    def text(self, path: Path) -> str:
        """Return the text of a file; bytes that are not UTF-8 become replacement characters."""
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def tree(self, path: Path) -> ast.Module:
        """Return the syntax tree of a Python file."""
        return ast.parse(self.text(path), filename=str(path))


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements of a tree, without descending into expressions, which would be slow."""
    pending: list[ast.AST] = [tree]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if isinstance(child, ast.stmt):
                yield child
            if not isinstance(child, ast.expr):
                pending.append(child)
