"""Write docs/reference.md: every public name with its signature, what it is for and where it lives.

python3 scripts/reference.py

The page is made from the source text alone, so that it is the same on every machine and nothing has to be installed.
"""

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "reference.md"
LONGEST_VALUE = 60  # of a constant that is shown
MODULES = ("adapters", "errors")  # public modules that are not packages

HEAD = """\
# Reference

Every public name of Hookline: what can be imported from `hookline` or from one of its packages. Deeper paths are
private and change without notice. `scripts/reference.py` makes this page from the source.
"""


def main() -> None:
    """Write it."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)


def page() -> str:
    """The whole page."""
    listed = "\n".join(f"- [`{m}`](#{m.replace('.', '')}): {purpose(m)}" for m in modules())
    facade = [
        f"- of `{public}`: {', '.join(f'`{name}`' for name in names)}"
        for public, names in names_of_hookline().items()
    ]
    parts = [
        f"{HEAD}\n- [`hookline`](#hookline): what most programs need\n{listed}\n",
        "\n".join(("## hookline\n", *facade)) + "\n",
    ]
    parts += [
        f"## {module}\n\n{purpose(module)}\n\n" + "\n".join(entries(module)) for module in modules()
    ]
    return "\n".join(parts)


def names_of_hookline() -> dict[str, list[str]]:
    """What can be imported from `hookline` itself, by the package that has it."""
    homes: dict[str, list[str]] = {}
    for name in exported_names("hookline"):
        public = ".".join(definition("hookline", name)[0].split(".")[:2])
        homes.setdefault(public, []).append(name)
    return dict(sorted(homes.items()))


def modules() -> list[str]:
    """The packages and modules whose names are public, besides `hookline` itself."""
    found = [path.parent.name for path in (SOURCE / "hookline").glob("*/__init__.py")]
    return [f"hookline.{name}" for name in sorted([*found, *MODULES])]


def entries(module: str) -> Iterator[str]:
    """The names of one package."""
    for name in exported_names(module):
        home, node = definition(module, name)
        path = file_of(home).relative_to(SOURCE).as_posix()
        about = describe(home, node)
        text = f": {about}" if about else ""
        yield f"- `{signature(name, node)}`{text} ({path})"
        names = members(node) if isinstance(node, ast.ClassDef) else []
        if names:
            listed = ", ".join("`" + each + "`" for each in names)
            yield "  Members: " + listed + "."
    yield ""


@functools.cache
def tree(module: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(file_of(module).read_text(encoding="utf-8"))


def file_of(module: str) -> Path:
    """Its file."""
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def exported_names(module: str) -> list[str]:
    """What `__all__` lists; without one, the classes and functions without a leading underscore."""
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value))
    defined = (n.name for n in tree(module).body if isinstance(n, ast.ClassDef | ast.FunctionDef))
    return sorted(name for name in defined if not name.startswith("_"))


def definition(module: str, name: str) -> tuple[str, ast.stmt]:
    """The module that defines a name, and where: imports are followed, those for type checkers too."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and name in (a.asname or a.name for a in node.names):
            return definition(node.module or "", name)
    for statement in tree(module).body:
        if name in (getattr(statement, "name", ""), *assigned_names(statement)):
            return module, statement
    raise LookupError(f"{module} exports {name}, and no definition of it was found.")


def assigned_names(node: ast.stmt) -> list[str]:
    """The names that a statement gives a value to."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def describe(module: str, node: ast.stmt) -> str:
    """The first paragraph of a docstring, or of the text below a constant, in one line."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node) or ""
    else:
        body = tree(module).body
        below = body[body.index(node) + 1 :][:1]
        value = below[0].value if below and isinstance(below[0], ast.Expr) else None
        text = str(value.value) if isinstance(value, ast.Constant) else ""
    return " ".join(text.split("\n\n")[0].split())


def purpose(module: str) -> str:
    """The first paragraph of a module's docstring."""
    return " ".join((ast.get_docstring(tree(module)) or "").split("\n\n")[0].split())


def signature(name: str, node: ast.stmt) -> str:
    """How it is called; of a constant, its type or value."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        return f"{prefix}{name}({arguments(node)}){returns}"
    if isinstance(node, ast.ClassDef):
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                return f"class {name}({arguments(each)})"
        bases = ", ".join(map(ast.unparse, node.bases))
        if re.search(r"Protocol|Enum|TypedDict|Error|Exception", bases):
            return f"class {name}"
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        shown = [ast.unparse(each) for each in fields if is_field(each)]
        return f"class {name}({', '.join(shown)})"
    if isinstance(node, ast.AnnAssign):
        return f"{name}: {ast.unparse(node.annotation)}"
    value = ast.unparse(node.value) if isinstance(node, ast.Assign) else ""
    return f"{name} = {value}" if 0 < len(value) <= LONGEST_VALUE else name


def is_field(node: ast.AnnAssign) -> bool:
    """Whether a line of a class is a field that is given when an object is made."""
    name, kind = ast.unparse(node.target), ast.unparse(node.annotation)
    return not name.startswith("_") and not kind.startswith("ClassVar")


def arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The parameters as they are written, without `self`."""
    return re.sub(r"^self(, /)?(, )?", "", ast.unparse(node.args))


def members(node: ast.ClassDef) -> list[str]:
    """Public methods and properties, and the values of an enumeration."""
    is_enum = any("Enum" in ast.unparse(base) for base in node.bases)
    names = [name for each in node.body for name in _methods(each)]
    if is_enum:
        names = [name for each in node.body for name in assigned_names(each)]
    return list(dict.fromkeys(name for name in names if not name.startswith("_")))


def _methods(node: ast.stmt) -> list[str]:
    """The method that a statement of a class defines, or the sync form of one."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    made = node.value if isinstance(node, ast.Assign) else None
    is_form = isinstance(made, ast.Call) and ast.unparse(made.func) == "sync_form"
    return list(assigned_names(node)) if is_form else []


if __name__ == "__main__":
    import environment

    environment.argument_parser(__doc__).parse_args()
    main()
