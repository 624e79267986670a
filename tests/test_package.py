"""The package as a whole: what importing it does, and whether its declared facts agree."""

import ast
import importlib
import importlib.util
import itertools
import json
import sys
import tomllib
from collections import defaultdict
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import jaxpriv
from jaxpriv._runtime.importing import FORMER
from tests.cases import ROOT, raised, run_python

# Run in a fresh process: this one has started JAX long ago. After `import jaxpriv` every module of
# the library is imported too, so that a module which is not yet among the public names is covered.
PROBE = """
import importlib, json, pathlib, sys
import jax
from jax._src import xla_bridge
before, known = dict(jax.config.values), {*sys.modules}
import jaxpriv
from jaxpriv._runtime.importing import FORMER
at_start = sorted({*sys.modules} - known)
jaxpriv.DistortionProblem, jaxpriv.solve
modules = sorted(sys.modules)
root = pathlib.Path(jaxpriv.__file__).parent
for path in sorted(root.rglob("*.py")):
    name = ".".join(["jaxpriv", *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
    if not name.startswith(("jaxpriv.cli", "jaxpriv.plotting", "jaxpriv.release.sklearn", "jaxpriv.testing")):
        importlib.import_module(name)
after = dict(jax.config.values)
print(json.dumps({
    "backend": xla_bridge.backends_are_initialized(),
    "changed": sorted(k for k in {*before, *after} if before.get(k) != after.get(k)),
    "at_start": at_start,
    "modules": modules,
}))
"""


@pytest.fixture(scope="module")
def imported() -> dict:
    return json.loads(run_python("-W", "error", "-c", PROBE))


# What only some calls need.
HEAVY = (
    "clarabel cvxpy ecos jaxpriv.models.databases jaxpriv.statistics jaxpriv.extremal jaxpriv.funnels "
    "jaxpriv.models.gaussian jaxpriv.plotting jaxpriv.solving.robust jaxpriv.testing jaxpriv.statistics.watchdog "
    "matplotlib optax pandas polars pooch rich scipy.linalg scipy.optimize scipy.special scs typer"
)


def test_import_starts_no_backend_changes_no_jax_setting_and_leaves_heavy_packages_alone(imported):
    assert imported["backend"] is False
    assert imported["changed"] == []
    assert set(HEAVY.split()) & set(imported["modules"]) == set()


def test_import_brings_in_nothing_but_the_table_of_names(imported):
    """What a name stands for, JAX and Equinox included, is imported when the name is first used."""
    ours = {name for name in imported["at_start"] if name.split(".")[0] == "jaxpriv"}
    assert ours == {"jaxpriv", "jaxpriv._runtime", "jaxpriv._runtime.importing"}
    assert {name.split(".")[0] for name in imported["at_start"]} <= {"jaxpriv", *sys.stdlib_module_names}


@pytest.mark.parametrize("package", ["jaxpriv", "jaxpriv.statistics"])
def test_public_names_are_those_that_type_checkers_read(package):
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__).read_text())
    block = next(
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    declared = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        declared |= {alias.asname: (node.module, alias.name) for alias in node.names}
    assert sorted(declared) == module.__all__
    assert {name for name in dir(module) if not name.startswith("__")} == set(module.__all__)
    for public, (home, name) in declared.items():
        assert public == name
        if home != package:  # a module that gave its own name to another object would replace the public one
            assert getattr(module, public) is getattr(importlib.import_module(home), name), public
            if f"{package}.{public}" not in FORMER:
                assert importlib.util.find_spec(f"{package}.{public}") is None
        else:
            assert getattr(module, public) is importlib.import_module(f"{package}.{public}")


def test_an_unknown_name_is_an_attribute_error_and_probes_import_nothing():
    with raised(AttributeError, "no attribute 'solves'"):
        jaxpriv.solves  # noqa: B018
    assert not hasattr(jaxpriv, "__wrapped__")


def test_version_is_the_declared_one():
    # pyproject.toml takes the version from the package; the installed metadata and the citation must follow.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert ROOT / project["tool"]["hatch"]["version"]["path"] == Path(jaxpriv.__file__).resolve()
    assert f"\nversion: {jaxpriv.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    try:
        installed = metadata.version("jaxpriv")
    except metadata.PackageNotFoundError:
        pytest.skip("jaxpriv runs from its folder, not installed: there is no metadata to compare")
    assert installed == jaxpriv.__version__


LOCKS = {
    name: [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    for name in ("requirements.lock", "requirements-benchmarks.lock", "requirements-docs.lock")
}


def test_locked_versions_meet_the_declared_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    locked = defaultdict(set)
    for line in (line for lines in LOCKS.values() for line in lines):
        # Exact versions and nothing else: no address of any host. Some differ between the interpreters.
        package, version = line.split(" ; ")[0].split("==")
        locked[package.lower().replace("_", "-")].add(version)
    for requirement in map(Requirement, [*project["dependencies"], *itertools.chain(*extras.values())]):
        if requirement.name == "jaxpriv":  # one extra takes another in: its entries are checked by themselves
            assert requirement.extras <= extras.keys()
            continue
        assert locked[requirement.name], requirement
        assert all(requirement.specifier.contains(version) for version in locked[requirement.name]), requirement
        assert not any(clause.operator in ("<", "<=", "==", "~=") for clause in requirement.specifier), requirement


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("name", LOCKS)
def test_every_interpreter_has_one_locked_version_of_each_package(name, python):
    asked = [*map(Requirement, LOCKS[name])]
    here = [one.name for one in asked if not one.marker or one.marker.evaluate({"python_version": python})]
    assert sorted(here) == sorted({one.name for one in asked})


def test_data_and_types_are_shipped():
    package = Path(jaxpriv.__file__).parent
    for name in ("py.typed", "_assets/census.csv", "_assets/README.md"):
        assert (package / name).is_file()


def test_whole_run_collects_the_expected_tests(request):
    """Tests cannot vanish unseen: a full run collects every test file, and a minimum of tests.

    It holds under xdist too, where every worker collects everything.
    """
    options = request.config.option
    narrowed = [getattr(options, name, None) for name in ("keyword", "markexpr", "deselect", "ignore", "lf")]
    if request.config.args_source.name != "TESTPATHS" or any(narrowed):
        pytest.skip("only part of the tests was asked for")
    on_demand = ROOT / "tests" / "grid" / "test_complete.py"  # runs with `-m grid` only
    collected = {item.path for item in request.session.items}
    assert collected | {on_demand} == set((ROOT / "tests").rglob("test_*.py"))
    assert len(request.session.items) >= MINIMUM_TESTS


# Raised from time to time, never lowered without a reason in the commit.
MINIMUM_TESTS = 2000
