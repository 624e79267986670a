"""The CPU kernels against the portable code they stand for, and everything that may keep them away."""

import importlib.util
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import _native
from jaxpriv.solvers import _linear_algebra, _row_system
from jaxpriv.solving import execution

ROOT = Path(__file__).parents[2]

kernels = pytest.mark.skipif(_native.absence() is not None, reason=f"no CPU kernels: {_native.absence()}")


@pytest.fixture(autouse=True)
def library_settings():
    with execution.own_settings():
        yield


def system(shared, extra, inputs, outputs, normals, seed, spread=4.0):
    """Rows, lines, normals, and diagonals whose sizes differ by orders of magnitude, as late in a solve."""
    rng = np.random.default_rng(seed)
    a = rng.dirichlet(np.ones(shared * inputs)).reshape(shared, inputs)
    lines = rng.normal(size=(outputs, extra, inputs)) / inputs
    di = 10.0 ** rng.uniform(-2 * spread, spread, size=(outputs, inputs))
    d = 10.0 ** rng.uniform(-spread, 0, size=(outputs, shared + extra))
    n = rng.normal(size=(outputs, normals, shared + extra))
    return tuple(map(jnp.asarray, (a, lines, di, d, n)))


def matrices(a, lines, di, d):
    rows = np.concatenate([np.broadcast_to(a, (len(di), *a.shape)), lines], axis=1)
    g = np.einsum("ytx,yx,yux->ytu", rows, di, rows)
    return rows, g + np.eye(g.shape[1]) * np.asarray(d)[:, None, :]


def close(got, wanted, tol=1e-9):
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tol * abs(np.asarray(wanted)).max(initial=1e-300))


@kernels
@pytest.mark.parametrize(
    "shape",
    [(1, 0, 1, 1, 1), (3, 2, 40, 9, 2), (8, 0, 16, 3, 0), (7, 1, 15, 2, 3), (31, 1, 33, 300, 1), (16, 0, 5, 8, 1)],
)
def test_systems_are_those_of_the_portable_code(shape):
    args = system(*shape, seed=0, spread=2.0)
    got = _row_system._columns(*args)
    wanted = jax.jit(_row_system.portable_columns)(*args)
    for one, other in zip(got, wanted, strict=True):
        assert one.shape == other.shape
        close(one, other)
    factored = (*wanted[:4], _linear_algebra.inverse_factor(wanted[4], args[2].sum(axis=0)))
    sides = right_hand_sides(args, 3)
    solved = jax.jit(_row_system.portable_solve)(*factored, *sides)
    for one, other in zip(_row_system._solve(*factored, *sides), solved, strict=True):
        assert one.shape == other.shape
        close(one, other)


@kernels
@pytest.mark.parametrize(
    "shape", [(1, 0, 1, 1), (8, 0, 16, 3), (9, 0, 17, 5), (5, 1, 200, 40), (64, 0, 64, 64), (33, 2, 70, 11)]
)
def test_factors_solve_their_systems(shape):
    """K G K' = 1 with K lower triangular, R = K A diag(di), and the sum that is left of the row sums."""
    a, lines, di, d, n = system(*shape, 0, seed=1)
    k, r, _, _, schur = map(np.asarray, _row_system._columns(a, lines, di, d, n))
    rows, g = matrices(*map(np.asarray, (a, lines, di, d)))
    assert not np.triu(k, 1).any()
    np.testing.assert_allclose(k @ g @ np.swapaxes(k, 1, 2), np.broadcast_to(np.eye(g.shape[1]), g.shape), atol=1e-6)
    close(r, k @ (rows * np.asarray(di)[:, None, :]), 1e-12)
    close(schur, np.diag(np.asarray(di).sum(axis=0)) - np.einsum("ytx,ytz->xz", r, r), 1e-12)
    np.testing.assert_array_equal(schur, schur.T)


@pytest.mark.parametrize("shape", [(4, 0, 6, 5, 1), (4, 1, 9, 7, 2), (20, 0, 30, 40, 1)])
def test_solutions_satisfy_the_equations(shape):
    """n'kappa = level; sum_y (dX) as asked; and what the system leaves of each link is a multiple of the normals."""
    args = system(*shape, seed=7, spread=1.0)
    a, lines, di, d, n = map(np.asarray, args)
    factored = _row_system.row_system(*args)
    sides = right_hand_sides(args, 2)
    rho, link, level, rest = map(np.asarray, sides)
    kappa, e = map(np.asarray, factored.solve(*sides))
    rows, g = matrices(a, lines, di, d)
    close(np.einsum("ygt,myt->myg", n, kappa), level, 1e-8)
    moved = di * (rho - np.einsum("ytx,myt->myx", rows, kappa) + e[:, None, :])  # dX = q - di dZ, dZ = A'kappa - e
    close(moved.sum(axis=1), rest + (di * rho).sum(axis=1), 1e-7)
    left = np.einsum("ytu,myu->myt", g, kappa) - np.einsum("ytx,myx->myt", rows, di * (rho + e[:, None, :])) - link
    for y in range(len(di)):
        outside = np.eye(n.shape[2]) - np.linalg.pinv(n[y]) @ n[y]
        np.testing.assert_allclose(left[:, y] @ outside, 0.0, atol=1e-7)


def right_hand_sides(args, count):
    _, _, di, d, n = args
    rng = np.random.default_rng(8)
    shapes = (di.shape, d.shape, n.shape[:2], di.shape[1:])
    return tuple(jnp.asarray(rng.normal(size=(count, *shape))) for shape in shapes)


@kernels
def test_the_same_bits_every_time_and_in_a_batch():
    args = system(20, 1, 60, 33, 1, seed=2)
    sides = right_hand_sides(args, 2)

    def both(di):
        factored = _row_system.row_system(*args[:2], di, *args[3:])
        return *jax.tree.leaves(factored), *factored.solve(*sides)

    both = jax.jit(both)
    di = args[2]
    first = both(di)
    for _ in range(5):
        for one, other in zip(first, both(di), strict=True):
            np.testing.assert_array_equal(one, other)
    batch = jax.vmap(both)(di * jnp.array([0.5, 1.0, 2.0])[:, None, None])
    for scale, place in ((1.0, 1), (2.0, 2)):
        for one, other in zip(both(scale * di), batch, strict=True):
            close(other[place], one, 1e-13)


@kernels
def test_a_matrix_that_is_not_positive_is_raised_by_the_least_share_of_its_scale():
    rng = np.random.default_rng(3)
    half = rng.normal(size=(13, 7))
    g = half @ half.T - 1e-9 * np.eye(13)  # rank 7, pushed below zero
    scale = np.abs(np.diagonal(g))
    k = np.asarray(_linear_algebra.inverse_factor(jnp.asarray(g), jnp.asarray(scale)))
    shifts = [0.0, *10.0 ** np.arange(-14.0, -3.0, 2.0)]
    errors = [abs(k @ (g + shift * np.diag(scale)) @ k.T - np.eye(13)).max() for shift in shifts]
    assert min(errors) < 1e-4
    positive = [np.linalg.eigvalsh(g + shift * np.diag(scale)).min() > 0 for shift in shifts]
    assert np.argmin(errors) == np.argmax(positive) > 0


@kernels
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_matrix_without_factor_is_nan(bad):
    g = np.eye(20)
    g[17, 17] = bad
    k = np.asarray(_linear_algebra.inverse_factor(jnp.asarray(g), jnp.ones(20)))
    assert np.isnan(k).all()


@kernels
@pytest.mark.parametrize("shared", [5, 20])
def test_an_output_without_factor_leaves_those_behind_it_as_they_are(shared):
    """They are factored one after the other in the same memory."""
    a, lines, di, d, n = system(shared, 1, 30, 6, 1, seed=4)
    clean = _row_system._columns(a, lines, di, d, n)
    broken = _row_system._columns(a, lines, di, d.at[2, -1].set(jnp.nan), n)
    others = np.arange(6) != 2
    for one, other in zip(broken[:4], clean[:4], strict=True):
        np.testing.assert_array_equal(np.asarray(one)[others], np.asarray(other)[others])
    assert np.isnan(broken[0][2]).all()


@kernels
@pytest.mark.parametrize("size", [4, 20])
def test_shifts_go_as_far_as_in_the_portable_code(size):
    g = np.eye(size)
    g[-1, -1] = -1e-3  # only the last shift, 1e-2, lifts it
    args = jnp.asarray(g), jnp.ones(size)
    close(_linear_algebra.inverse_factor(*args), _linear_algebra.portable_inverse_factor(*args))


@kernels
def test_no_rows_no_outputs_and_an_empty_batch():
    args = system(0, 0, 3, 2, 0, seed=9)
    close(_row_system._columns(*args)[4], jnp.diag(args[2].sum(axis=0)))
    assert not _row_system._columns(*system(3, 1, 4, 0, 1, seed=9))[4].any()
    args = tuple(part[None][:0] for part in system(3, 1, 4, 2, 1, seed=9))
    assert jax.vmap(_row_system._columns)(*args)[0].shape == (0, 2, 4, 4)


@kernels
def test_derivatives_are_those_of_the_portable_code():
    a, lines, di, d, n = system(6, 1, 9, 4, 1, seed=4, spread=1.0)

    def along(function):
        return jax.jvp(lambda di, d: function(a, lines, di, d, n), (di, d), (di[::-1], d[:, ::-1]))

    for got, wanted in zip(along(_row_system._columns), along(_row_system.portable_columns), strict=True):
        for one, other in zip(got, wanted, strict=True):
            close(one, other)


def test_float32_takes_the_portable_code():
    args = [jnp.asarray(part, dtype=jnp.float32) for part in system(6, 0, 9, 4, 1, seed=5, spread=1.0)]
    assert all(part.dtype == jnp.float32 for part in _row_system._columns(*args))


@pytest.fixture
def fresh():
    """Nothing compiled and nothing known of kernels, before and after."""

    def forget():
        execution._EXECUTABLES.clear()
        _native.absence.cache_clear()

    forget()
    yield
    forget()


def problem():
    rng = np.random.default_rng(6)
    x = np.arange(9.0)
    return jp.DistortionProblem(rng.dirichlet(np.ones(36)).reshape(4, 9), jp.distortion.absolute(x, x), budget=0.6)


def test_without_kernels_the_answer_is_the_same(fresh, monkeypatch):
    with_them = jp.solve(problem(), "interior-point", tol=1e-9)
    execution._EXECUTABLES.clear()
    monkeypatch.setattr(_native, "absence", lambda: "taken away by a test")
    without = jp.solve(problem(), "interior-point", tol=1e-9)
    assert with_them.status == without.status == "optimal"
    assert without.lower_bound <= with_them.value + 1e-12
    assert with_them.lower_bound <= without.value + 1e-12


def test_a_missing_or_unreadable_library_is_said(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(_native, "LIBRARY", tmp_path / "kernels.so")
    assert "not compiled" in _native.absence()
    assert _native.instruction_set() is None
    _native.absence.cache_clear()
    (tmp_path / "kernels.so").write_bytes(b"not a library")
    assert "does not load" in _native.absence()


@kernels
def test_kernels_for_another_jaxlib_are_left_alone(fresh, monkeypatch):
    import jaxlib.version

    monkeypatch.setattr(jaxlib.version, "__version__", "0.0.1")
    assert "this is 0.0.1" in _native.absence()


@kernels
def test_a_library_without_one_of_the_kernels_is_left_alone(fresh, monkeypatch):
    monkeypatch.setitem(_native._TARGETS, "jaxpriv_of_tomorrow", "jaxpriv_of_tomorrow_v1")
    assert "does not load" in _native.absence()


@kernels
def test_a_library_of_another_source_is_left_alone(fresh, monkeypatch, tmp_path):
    for path in sources(_native.FOLDER):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(_native, "FOLDER", tmp_path)
    assert _native.absence() is None
    _native.absence.cache_clear()
    with (tmp_path / "common.h").open("a") as header:
        header.write("/* a correction */")
    assert "other C sources" in _native.absence()


def test_they_can_be_switched_off(fresh, monkeypatch):
    monkeypatch.setenv(_native.SWITCH, "off")
    assert _native.SWITCH in _native.absence()
    assert jp.solve(problem(), "interior-point").status == "optimal"


def sources(folder):
    return sorted([*folder.glob("*.c"), *folder.glob("*.h")])


def build_script():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    if not (ROOT / "hatch_build.py").is_file():
        pytest.skip("hatch_build.py is part of a checkout only")
    folder = tmp_path / "jaxpriv" / "_native"
    folder.mkdir(parents=True)
    for path in sources(ROOT / "jaxpriv" / "_native"):
        shutil.copy(path, folder)
    return tmp_path


def test_a_build_without_compiler_says_so_and_leaves_nothing(checkout, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert build_script().compile_kernels(checkout) == "no C compiler"
    folder = checkout / "jaxpriv" / "_native"
    assert sorted(folder.iterdir()) == sources(folder)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_build_that_fails_shows_the_compiler_and_keeps_the_old_library(checkout, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    folder = checkout / "jaxpriv" / "_native"
    (folder / "kernels.so").write_bytes(b"old")
    (folder / "kernels.c").write_text("no C at all")
    assert "error" in build_script().compile_kernels(checkout)
    assert (folder / "kernels.so").read_bytes() == b"old"
    assert sorted(folder.iterdir()) == sorted([*sources(folder), folder / "kernels.so"])


def test_a_compiler_that_is_not_there_is_a_reason_and_no_error(checkout, monkeypatch):
    monkeypatch.setenv("CC", str(checkout / "no-such-compiler"))
    assert "no-such-compiler" in build_script().compile_kernels(checkout)
    folder = checkout / "jaxpriv" / "_native"
    assert sorted(folder.iterdir()) == sources(folder)
