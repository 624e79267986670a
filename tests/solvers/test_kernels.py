"""The CPU kernels against the portable code they stand for, and everything that may keep them away."""

import hashlib
import importlib.util
import shutil
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import _native
from jaxpriv.solvers import _input_system, _linear_algebra, _row_system
from jaxpriv.solvers._newton_system import newton_system
from jaxpriv.solving import execution

ROOT = Path(__file__).parents[2]

kernels = pytest.mark.skipif(_native.absence() is not None, reason=f"no CPU kernels: {_native.absence()}")
each = pytest.mark.usefixtures("instructions")


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


SYSTEMS = {
    "rows": lambda *args: _row_system.row_system(*args, diagonal=False, transposable=False),
    "inputs": lambda *args: _input_system.input_system(*args, transposable=False),
}
MODULES = {"rows": _row_system, "inputs": _input_system}
both = pytest.mark.parametrize("form", SYSTEMS)


@kernels
@each
@both
@pytest.mark.parametrize(
    "shape",
    [(1, 0, 1, 1, 1), (3, 2, 40, 9, 2), (8, 0, 16, 3, 0), (7, 1, 15, 2, 3), (31, 1, 33, 300, 1), (16, 0, 5, 8, 1)],
)
def test_systems_are_those_of_the_portable_code(shape, form):
    args = system(*shape, seed=0, spread=2.0)
    module = MODULES[form]
    got = module._columns(*args)
    wanted = jax.jit(module.portable_columns)(*args)
    for one, other in zip(got, wanted, strict=True):
        assert one.shape == other.shape
        close(one, other)
    factored = (*wanted[:-1], _linear_algebra.inverse_factor(wanted[-1], args[2].sum(axis=0)))
    factored = factored if form == "rows" else (*args[:2], *factored)
    sides = right_hand_sides(args, 3)
    solved = jax.jit(module.portable_solve)(*factored, *sides)
    for one, other in zip(module._solve(*factored, *sides), solved, strict=True):
        assert one.shape == other.shape
        close(one, other)


@kernels
@each
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


@kernels
@each
@pytest.mark.parametrize(
    "shape", [(1, 0, 1, 1), (8, 0, 16, 3), (17, 0, 9, 5), (200, 1, 40, 5), (64, 0, 64, 64), (70, 2, 33, 11)]
)
def test_factors_of_the_inputs(shape):
    """K (1 + B'B) K' = 1 with K lower triangular and B = h A s, and the sum of squares that is left of the row sums."""
    a, lines, di, d, n = system(*shape, 0, seed=1, spread=3.0)
    s, h, k, _, _, schur = map(np.asarray, _input_system._columns(a, lines, di, d, n))
    np.testing.assert_array_max_ulp(s, np.sqrt(di), 1)
    np.testing.assert_array_max_ulp(h, 1 / np.sqrt(d), 2)
    rows, _ = matrices(*map(np.asarray, (a, lines, di, d)))
    b = h[:, :, None] * rows * s[:, None, :]
    matrix = np.einsum("ytx,ytz->yxz", b, b) + np.eye(b.shape[2])
    assert not np.triu(k, 1).any()
    np.testing.assert_allclose(
        k @ matrix @ np.swapaxes(k, 1, 2), np.broadcast_to(np.eye(b.shape[2]), k.shape), atol=1e-6
    )
    close(schur, np.einsum("yzx,yzw->xw", k * s[:, None], k * s[:, None]), 1e-12)
    np.testing.assert_array_equal(schur, schur.T)


@both
@pytest.mark.parametrize("shape", [(4, 0, 6, 5, 1), (4, 1, 9, 7, 2), (20, 0, 30, 40, 1), (30, 1, 20, 8, 2)])
def test_solutions_satisfy_the_equations(shape, form):
    """n'kappa = level; sum_y dX as asked; and what the system leaves of each link is a multiple of the normals."""
    args = system(*shape, seed=7, spread=1.0)
    a, lines, di, d, n = map(np.asarray, args)
    factored = SYSTEMS[form](*args)
    sides = right_hand_sides(args, 2)
    rho, link, level, row = map(np.asarray, sides)
    kappa, dx, dz, e = map(np.asarray, factored.solve(*sides))
    rows, _ = matrices(a, lines, di, d)
    close(np.einsum("ygt,myt->myg", n, kappa), level, 1e-8)
    close(dz, np.einsum("ytx,myt->myx", rows, kappa) - e[:, None, :], 1e-10)
    close(dx, di * (rho - dz), 1e-7)
    close(dx.sum(axis=1), row, 1e-7)
    left = d * kappa - np.einsum("ytx,myx->myt", rows, dx) - link
    for y in range(len(di)):
        outside = np.eye(n.shape[2]) - np.linalg.pinv(n[y]) @ n[y]
        np.testing.assert_allclose(left[:, y] @ outside, 0.0, atol=1e-7)


def test_both_forms_have_the_same_solutions_and_the_cheaper_is_taken():
    args = system(12, 1, 12, 9, 1, seed=11, spread=1.0)
    sides = right_hand_sides(args, 2)
    for one, other in zip(SYSTEMS["rows"](*args).solve(*sides), SYSTEMS["inputs"](*args).solve(*sides), strict=True):
        close(one, other, 1e-8)
    assert isinstance(newton_system(*args), _input_system.InputSystem)
    assert isinstance(newton_system(*system(5, 0, 12, 9, 1, seed=11)), _row_system.RowSystem)


def test_inputs_keep_their_digits_where_rows_lose_them():
    """Late in a solve X/Z is up to 1e12 while X, and what it may move by, stays below one: sum_y dX as asked."""
    rng = np.random.default_rng(12)
    a = rng.dirichlet(np.ones(64)).reshape(8, 8)
    di = 10.0 ** rng.uniform(-12, 12, size=(6, 8))
    args = tuple(map(jnp.asarray, (a, np.zeros((6, 0, 8)), di, rng.random((6, 8)), rng.random((6, 1, 8)))))
    sides = right_hand_sides(args, 1)
    sides = (sides[0] / di, *sides[1:])
    off = {}
    for form, factored in SYSTEMS.items():
        _, dx, _, _ = factored(*args).solve(*sides)
        off[form] = float(abs(dx.sum(axis=1) - sides[3]).max())
    assert off["inputs"] < 1e-11
    assert off["rows"] > 1e5 * off["inputs"]


@kernels
@each
@both
@pytest.mark.parametrize("shape", [(3, 0, 5, 4, 1), (17, 2, 21, 3, 2), (24, 0, 16, 5, 1)])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 7])
def test_right_hand_sides_do_not_see_each_other(shape, form, count):
    """The kernels take them three at a time."""
    args = system(*shape, seed=11, spread=2.0)
    factored = jax.jit(SYSTEMS[form])(*args)
    sides = right_hand_sides(args, count)
    together = factored.solve(*sides)
    for m in range(count):
        alone = factored.solve(*(side[m : m + 1] for side in sides))
        for one, other in zip(together, alone, strict=True):
            close(one[m], other[0])


def right_hand_sides(args, count):
    _, _, di, d, n = args
    rng = np.random.default_rng(8)
    shapes = (di.shape, d.shape, n.shape[:2], di.shape[1:])
    return tuple(jnp.asarray(rng.normal(size=(count, *shape))) for shape in shapes)


@pytest.mark.parametrize(
    "columns", [pytest.param(_input_system._columns, marks=kernels, id="kernel"), _input_system.portable_columns]
)
def test_a_rule_without_curvature_is_given_a_little(columns):
    """A posterior mass that has underflown: raised to 1e-16 of what the row sees; a row that sees nothing stays."""
    a, lines, di, d, n = system(9, 1, 9, 4, 1, seed=13, spread=1.0)
    seen = float(a[3] ** 2 @ di[2])
    vanished, little = (columns(a, lines, di, d.at[2, 3].set(value), n) for value in (0.0, 1e-16 * seen))
    assert vanished[1][2, 3] == pytest.approx((1e-16 * seen) ** -0.5, rel=1e-12)
    for one, other in zip(vanished, little, strict=True):
        close(one, other, 1e-7)  # of a matrix with a condition number of 1e16
    blind = columns(a.at[3].set(0.0), lines, di, d.at[2, 3].set(0.0), n)
    assert blind[1][2, 3] == 0.0
    assert all(np.isfinite(part).all() for part in blind)


def test_little_curvature_costs_digits_as_stated():
    a, lines, di, d, n = system(9, 1, 9, 4, 1, seed=13, spread=1.0)
    d = d.at[2, 3].set(1e-9 * float(a[3] ** 2 @ di[2]))
    sides = right_hand_sides((a, lines, di, d, n), 2)
    by_inputs, by_rows = (SYSTEMS[form](a, lines, di, d, n).solve(*sides) for form in ("inputs", "rows"))
    close(by_inputs[1], by_rows[1], 3e-5)


@kernels
@each
@pytest.mark.parametrize("inputs", [60, 20])
def test_the_same_bits_every_time_and_in_a_batch(inputs):
    args = system(20, 1, inputs, 33, 1, seed=2)
    sides = right_hand_sides(args, 2)

    def everything(di):
        factored = newton_system(*args[:2], di, *args[3:])
        return *jax.tree.leaves(factored), *factored.solve(*sides)

    compiled = jax.jit(everything)
    di = args[2]
    first = compiled(di)
    for _ in range(5):
        for one, other in zip(first, compiled(di), strict=True):
            np.testing.assert_array_equal(one, other)
    batch = jax.vmap(compiled)(di * jnp.array([0.5, 1.0, 2.0])[:, None, None])
    for scale, place in ((1.0, 1), (2.0, 2)):
        for one, other in zip(compiled(scale * di), batch, strict=True):
            close(other[place], one, 1e-13)


@kernels
@each
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
@each
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_matrix_without_factor_is_nan(bad):
    g = np.eye(20)
    g[17, 17] = bad
    k = np.asarray(_linear_algebra.inverse_factor(jnp.asarray(g), jnp.ones(20)))
    assert np.isnan(k).all()


@kernels
@each
@both
@pytest.mark.parametrize("shared", [5, 20])
def test_an_output_without_factor_leaves_those_behind_it_as_they_are(shared, form):
    """They are factored one after the other in the same memory."""
    a, lines, di, d, n = system(shared, 1, 30, 6, 1, seed=4)
    clean = MODULES[form]._columns(a, lines, di, d, n)
    broken = MODULES[form]._columns(a, lines, di, d.at[2, -1].set(jnp.nan), n)
    others = np.arange(6) != 2
    for one, other in zip(broken[:-1], clean[:-1], strict=True):
        np.testing.assert_array_equal(np.asarray(one)[others], np.asarray(other)[others])
    assert np.isnan(broken[0 if form == "rows" else 2][2]).all()


@kernels
@pytest.mark.parametrize("size", [4, 20])
def test_shifts_go_as_far_as_in_the_portable_code(size):
    g = np.eye(size)
    g[-1, -1] = -1e-3  # only the last shift, 1e-2, lifts it
    args = jnp.asarray(g), jnp.ones(size)
    close(_linear_algebra.inverse_factor(*args), _linear_algebra.portable_inverse_factor(*args))


@kernels
@both
def test_no_rows_no_outputs_and_an_empty_batch(form):
    columns = MODULES[form]._columns
    args = system(0, 0, 3, 2, 0, seed=9)
    close(columns(*args)[-1], jnp.diag(args[2].sum(axis=0)))
    assert not columns(*system(3, 1, 4, 0, 1, seed=9))[-1].any()
    args = tuple(part[None][:0] for part in system(3, 1, 4, 2, 1, seed=9))
    assert jax.vmap(columns)(*args)[0].shape == ((0, 2, 4, 4) if form == "rows" else (0, 2, 4))


# What the kernels take and give, in words of letters as in the C files, and sizes of the letters.
SHAPES = {
    "jaxpriv_inverse_factor": "XX X | XX",
    "jaxpriv_rows_factor": "TX YWX YX YN YGN | YNN YNX YNG YGG XX",
    "jaxpriv_rows_solve": "YNN YNX YNG YGG XX MYX MYN MYG MX | MYN MX",
    "jaxpriv_inputs_factor": "TX YWX YX YN YGN | YX YN YXX YNG YGG XX",
    "jaxpriv_inputs_solve": "TX YWX YX YN YXX YNG YGG XX MYX MYN MYG MX | MYN MYX MYX MX",
    "jaxpriv_gibbs": "BS BS YS MYB M Y | YS B B B MB MMB KYL",
}
SIZES = dict(zip("XTWYNGMBSKL", (5, 3, 1, 4, 4, 1, 2, 20, 3, 2, 16), strict=True))


def call(symbol, shapes, dtype="float64"):
    """The kernel itself, given and asked for arrays of these shapes."""
    given, wanted = shapes
    results = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape in wanted]
    args = [np.full(shape, 0.1, dtype) for shape in given]
    return jax.block_until_ready(jax.ffi.ffi_call(_native._TARGETS[symbol], results)(*args))


@kernels
@pytest.mark.parametrize("symbol", SHAPES)
def test_kernels_refuse_arrays_of_other_shapes(symbol):
    """One size too small, a missing axis, an array too many or too few, another batch or precision: errors of XLA's."""
    assert SHAPES.keys() == _native._TARGETS.keys()
    sides = [[tuple(SIZES[letter] for letter in word) for word in part.split()] for part in SHAPES[symbol].split("|")]
    call(symbol, sides)
    batches = [[(2, *shape) for shape in side] for side in sides]
    call(symbol, batches)
    for side in range(2):
        for place, shape in enumerate(sides[side]):
            for other in (shape[1:], (*shape[:-1], shape[-1] - 1)):
                changed = [list(part) for part in sides]
                changed[side][place] = other
                with pytest.raises(jax.errors.JaxRuntimeError, match="of other shapes"):
                    call(symbol, changed)
        changed = [list(part) for part in sides]
        changed[side].append((1,))
        with pytest.raises(jax.errors.JaxRuntimeError, match="of other shapes"):
            call(symbol, changed)
    with pytest.raises(jax.errors.JaxRuntimeError, match="of other shapes"):
        call(symbol, [sides[0][:-1], sides[1]])
    changed = [list(part) for part in batches]
    changed[0][-1] = (3, *sides[0][-1])
    with pytest.raises(jax.errors.JaxRuntimeError, match="of other shapes"):
        call(symbol, changed)
    with pytest.raises(jax.errors.JaxRuntimeError, match="of other shapes"):
        call(symbol, sides, "int32")


@kernels
@both
def test_derivatives_are_those_of_the_portable_code(form):
    a, lines, di, d, n = system(6, 1, 9, 4, 1, seed=4, spread=1.0)

    def along(function):
        return jax.jvp(lambda di, d: function(a, lines, di, d, n), (di, d), (di[::-1], d[:, ::-1]))

    for got, wanted in zip(along(MODULES[form]._columns), along(MODULES[form].portable_columns), strict=True):
        for one, other in zip(got, wanted, strict=True):
            close(one, other)


@both
def test_float32_takes_the_portable_code(form):
    args = [jnp.asarray(part, dtype=jnp.float32) for part in system(6, 0, 9, 4, 1, seed=5, spread=1.0)]
    assert all(part.dtype == jnp.float32 for part in MODULES[form]._columns(*args))


@pytest.fixture
def fresh():
    """Nothing compiled and nothing known of kernels, before and after."""

    def forget():
        execution._PROGRAMS.clear()
        _native.absence.cache_clear()
        _native._say.cache_clear()

    forget()
    yield
    forget()


def problem():
    rng = np.random.default_rng(6)
    x = np.arange(9.0)
    return jp.DistortionProblem(rng.dirichlet(np.ones(36)).reshape(4, 9), jp.distortion.absolute(x, x), budget=0.6)


def test_without_kernels_the_answer_is_the_same(fresh, monkeypatch):
    with_them = jp.solve(problem(), "interior-point", tol=1e-9)
    execution._PROGRAMS.clear()
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
    library = tmp_path / "kernels.so"
    library.write_bytes(b"not a library")
    monkeypatch.setattr(_native, "SEAL", tmp_path / "no-such-file")
    assert "cannot be read" in _native.absence()
    _native.absence.cache_clear()
    monkeypatch.setattr(_native, "SEAL", seal(library))
    assert "does not load" in _native.absence()


def seal(library):
    path = library.with_suffix(".sha256")
    path.write_text(hashlib.sha256(library.read_bytes()).hexdigest() + "\n")
    return path


@kernels
def test_a_damaged_library_is_not_mapped(fresh, monkeypatch, tmp_path):
    """A truncated one ends the process by a signal as soon as what is missing is used."""
    damaged = tmp_path / "kernels.so"
    damaged.write_bytes(_native.LIBRARY.read_bytes()[:300_000])
    monkeypatch.setattr(_native, "LIBRARY", damaged)
    assert "damaged" in _native.absence()
    assert jp.solve(problem(), "interior-point").status == "optimal"


def test_a_missing_library_is_said_once_and_a_choice_is_not(fresh, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(_native, "LIBRARY", tmp_path / "kernels.so")
    for value in ("off", ""):
        monkeypatch.setenv(_native.SWITCH, value)
        _native.absence.cache_clear()
        for number in (np.float64, np.float32):
            for _ in range(2):
                jax.clear_caches()
                _linear_algebra.inverse_factor(jnp.eye(3, dtype=number), jnp.ones(3, dtype=number))
        assert len(caplog.records) == (value != "off")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("jaxpriv", "WARNING")
    assert "not compiled when jaxpriv was installed" in record.getMessage()
    assert "\n" not in record.getMessage()


# Kernels that only answer for which version of XLA's interface they were compiled.
ANSWERING = """
#include "xla/ffi/api/c_api.h"
#undef XLA_FFI_API_MINOR
#define XLA_FFI_API_MINOR {minor}
#include "common.h"
int jaxpriv_widest;
void jaxpriv_use_at_most(int bytes) {{ jaxpriv_widest = bytes; }}
const char *jaxpriv_compiled_from(void) {{ return "{digest}"; }}
"""
ANSWER = """
XLA_FFI_Error *{name}(XLA_FFI_CallFrame *frame) {{
  return asked_for_version(frame) ? NULL : complain(frame, XLA_FFI_Error_Code_INTERNAL, "only answers");
}}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("minor", [1, 9999])
def test_xla_is_asked_which_interfaces_it_takes(minor, fresh, monkeypatch, tmp_path):
    """Kernels of an older interface are taken; those of one to come are not, and the CPU backend works on."""
    # Other names than the kernels': XLA takes one function only for each.
    targets = {f"jaxpriv_answer_{i}": f"jaxpriv_answer_{i}_{minor}" for i in range(2)}
    source, library = tmp_path / "answering.c", tmp_path / "kernels.so"
    text = ANSWERING.format(minor=minor, digest=_native.sources_digest())
    source.write_text(text + "".join(ANSWER.format(name=name) for name in targets))
    include = Path(jaxlib.__file__).parent / "include"
    command = ["cc", "-std=gnu11", "-shared", "-fPIC", f"-I{include}", f"-I{_native.FOLDER}", source, "-o", library]
    subprocess.run(command, check=True)
    monkeypatch.setattr(_native, "LIBRARY", library)
    monkeypatch.setattr(_native, "SEAL", seal(library))
    monkeypatch.setattr(_native, "_TARGETS", targets)
    if minor == 1:
        assert _native.absence() is None
    else:
        assert "API version (0.9999)" in _native.absence()
    assert jax.jit(jnp.sum)(jnp.ones(3)) == 3.0


def test_a_process_without_cpu_backend_is_told(fresh, monkeypatch):
    def unknown(backend):
        raise RuntimeError(f"Unknown backend {backend}")

    monkeypatch.setattr(jax, "local_devices", unknown)
    assert ("Unknown backend cpu" if _native.LIBRARY.is_file() else "not compiled") in _native.absence()


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


@kernels
def test_they_can_be_kept_to_less_than_there_is(fresh, monkeypatch):
    monkeypatch.setenv(_native.SWITCH, "baseline")
    assert _native.instruction_set() == "baseline"
    assert jp.solve(problem(), "interior-point").status == "optimal"
    monkeypatch.delenv(_native.SWITCH)
    _native.absence.cache_clear()
    assert _native.absence() is None  # and sets it back


@pytest.mark.parametrize("value", ["off", "OFF", "sse"])
def test_they_can_be_switched_off(value, fresh, monkeypatch):
    monkeypatch.setenv(_native.SWITCH, value)
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
    for path in folder.glob("*.c"):
        path.write_text("no C at all")
    assert "error" in build_script().compile_kernels(checkout)
    assert (folder / "kernels.so").read_bytes() == b"old"
    assert sorted(folder.iterdir()) == sorted([*sources(folder), folder / "kernels.so"])


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_build_writes_the_digest_beside_the_library(checkout, monkeypatch):
    monkeypatch.setenv("CC", "cc")
    for path in sources(checkout / "jaxpriv" / "_native"):
        path.write_text("")
    (checkout / "jaxpriv" / "_native" / "one.c").write_text("int one(void) { return 1; }")
    assert build_script().compile_kernels(checkout) is None
    folder = checkout / "jaxpriv" / "_native"
    assert (folder / "kernels.sha256").read_text() == hashlib.sha256(
        (folder / "kernels.so").read_bytes()
    ).hexdigest() + "\n"


def test_a_compiler_that_is_not_there_is_a_reason_and_no_error(checkout, monkeypatch):
    monkeypatch.setenv("CC", str(checkout / "no-such-compiler"))
    assert "no-such-compiler" in build_script().compile_kernels(checkout)
    folder = checkout / "jaxpriv" / "_native"
    assert sorted(folder.iterdir()) == sources(folder)
