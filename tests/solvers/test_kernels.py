"""The CPU kernels against the portable code they stand for."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal, assert_array_max_ulp

from jaxpriv._runtime import native
from jaxpriv._runtime.lanes import with_lanes
from jaxpriv.solvers import _input_system, _inverse_factors, _row_system
from jaxpriv.solvers._newton_system import newton_system
from tests.cases import drawn_joint, raised, run_python, thorough
from tests.compiling import kernels

each = pytest.mark.usefixtures("instructions")


pytestmark = pytest.mark.usefixtures("own_settings")


def system(shared, extra, inputs, outputs, normals, seed, spread=4.0):
    """Rows, lines, normals, and diagonals whose sizes differ by orders of magnitude, as late in a solve."""
    rng = default_rng(seed)
    a = drawn_joint(rng, shared, inputs)
    lines = rng.normal(size=(outputs, extra, inputs)) / inputs
    di = 10.0 ** rng.uniform(-2 * spread, spread, size=(outputs, inputs))
    d = 10.0 ** rng.uniform(-spread, 0, size=(outputs, shared + extra))
    n = rng.normal(size=(outputs, normals, shared + extra))
    return tuple(map(jnp.asarray, (a, lines, di, d, n)))


def matrices(a, lines, di, d):
    rows = np.concatenate([np.broadcast_to(a, (len(di), *a.shape)), lines], axis=1)
    g = (rows * np.asarray(di)[:, None, :]) @ np.swapaxes(rows, 1, 2)
    return rows, g + np.eye(g.shape[1]) * np.asarray(d)[:, None, :]


def close(got, wanted, tol=1e-9):
    assert_allclose(got, wanted, rtol=0, atol=tol * abs(np.asarray(wanted)).max(initial=1e-300))


SYSTEMS = {
    "rows": lambda *args: _row_system.row_system(*args, diagonal=False, transposable=False),
    "inputs": lambda *args: _input_system.input_system(*args, transposable=False),
}
# The kernels with their portable twins: (columns, solve).
KERNELS = {
    "rows": (_row_system._row_columns, _row_system._row_solve),
    "inputs": (_input_system._input_columns, _input_system._input_solve),
}
PORTABLE = {
    "rows": (_row_system.portable_row_columns, _row_system.portable_row_solve),
    "inputs": (_input_system.portable_input_columns, _input_system.portable_input_solve),
}
both = pytest.mark.parametrize("form", SYSTEMS)


@functools.cache
def systems_by_numpy(shape, form):
    """A system, its parts as the portable code finds them, and arguments and results of its solve for three sides."""
    args = system(*shape, seed=0, spread=2.0)
    columns, solve = PORTABLE[form]
    parts = columns(*map(np.asarray, args))
    factored = (*parts[:-1], _inverse_factors.portable_inverse_factor(parts[-1], np.asarray(args[2]).sum(axis=0)))
    factored = (*factored, *args[:3]) if form == "rows" else (*args[:2], *factored)
    sides = tuple(map(np.asarray, (*factored, *right_hand_sides(args, 3))))
    return args, parts, sides, solve(*sides)


@kernels
@each
@both
@pytest.mark.parametrize(
    "shape",
    [
        (1, 0, 1, 1, 1),
        (3, 2, 40, 9, 2),
        (8, 0, 16, 3, 0),
        (7, 1, 15, 2, 3),
        (31, 1, 33, 300, 1),
        (16, 0, 5, 8, 1),
        (2, 1, 521, 3, 1),
    ],
)
def test_systems_are_those_of_the_portable_code(shape, form):
    args, parts, given, solved = systems_by_numpy(shape, form)
    columns, solve = KERNELS[form]
    for function, own, wanted in ((columns, args, parts), (solve, given, solved)):
        by_xla = function(*map(jnp.asarray, own))
        for one, other in zip(by_xla, wanted, strict=True):
            assert one.shape == other.shape
            close(one, other)
        # Bit by bit, on arrays of NumPy and with lanes, one of whose arguments is that of every lane.
        first, *rest = map(np.asarray, own)
        in_lanes = function(first, *(with_lanes(np.stack([part, part])) for part in rest))
        for one, plain, lanes in zip(by_xla, function(first, *rest), in_lanes, strict=True):
            assert_array_equal(plain, one)
            assert_array_equal(lanes.lanes, np.stack([one, one]))


FACTORS = [
    (1, 0, 1, 1), (8, 0, 16, 3), (9, 0, 17, 5), (17, 0, 9, 5), (5, 1, 200, 40), (200, 1, 40, 5), (64, 0, 64, 64),
    (33, 2, 70, 11), (70, 2, 33, 11), (9, 0, 256, 3),
]  # fmt: skip


@kernels
@each
@pytest.mark.parametrize(
    ("shape", "form"), [*((shape, form) for shape in FACTORS for form in SYSTEMS), ((40, 0, 901, 21), "rows")]
)
def test_factors_solve_their_systems(shape, form):
    """K M K' = 1 with K lower triangular, and what is left of the row sums.

    M is G of the rows, which leave R = K A diag(di), and 1 + B'B of the inputs, B = h A s.
    """
    args = system(*shape, 0, seed=1, spread=4.0 if form == "rows" else 3.0)
    a, lines, di, d, _ = map(np.asarray, args)
    found = list(map(np.asarray, KERNELS[form][0](*args)))
    rows, matrix = matrices(a, lines, di, d)
    if form == "rows":
        k, left = found[0], np.diag(di.sum(axis=0))
        r = np.concatenate(k @ (rows * di[:, None, :]))
        left = left - r.T @ r
    else:
        s, h, k = found[:3]
        assert_array_max_ulp(s, np.sqrt(di), 1)
        assert_array_max_ulp(h, 1 / np.sqrt(d), 2)
        b = h[:, :, None] * rows * s[:, None, :]
        matrix = np.swapaxes(b, 1, 2) @ b + np.eye(b.shape[2])
        r = np.concatenate(k * s[:, None])
        left = r.T @ r
    assert not np.triu(k, 1).any()
    assert_allclose(k @ matrix @ np.swapaxes(k, 1, 2), np.broadcast_to(np.eye(k.shape[1]), k.shape), atol=1e-6)
    close(found[-1], left, 1e-12)
    assert_array_equal(found[-1], found[-1].T)


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
        assert_allclose(left[:, y] @ outside, 0.0, atol=1e-7)


def test_both_forms_have_the_same_solutions_and_the_cheaper_is_taken():
    args = system(12, 1, 12, 9, 1, seed=11, spread=1.0)
    sides = right_hand_sides(args, 2)
    for one, other in zip(SYSTEMS["rows"](*args).solve(*sides), SYSTEMS["inputs"](*args).solve(*sides), strict=True):
        close(one, other, 1e-8)
    assert isinstance(newton_system(*args), _input_system.InputSystem)
    assert isinstance(newton_system(*system(5, 0, 12, 9, 1, seed=11)), _row_system.RowSystem)


def test_inputs_keep_their_digits_where_rows_lose_them():
    """Late in a solve X/Z is up to 1e12 while X, and what it may move by, stays below one: sum_y dX as asked."""
    rng = default_rng(12)
    a = drawn_joint(rng, 8, 8)
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
@pytest.mark.parametrize("shape", [(17, 2, 21, 3, 2), *thorough(((24, 0, 16, 5, 1),))])
@pytest.mark.parametrize("count", [2, 4, 7])
def test_right_hand_sides_do_not_see_each_other(shape, form, count):
    """The kernels take them three at a time."""
    args = system(*shape, seed=11, spread=2.0)
    factored = jax.jit(SYSTEMS[form])(*args)
    sides = list(map(np.asarray, right_hand_sides(args, count)))
    together = list(map(np.asarray, factored.solve(*sides)))
    for m in range(count):
        alone = factored.solve(*(side[m : m + 1] for side in sides))
        for one, other in zip(together, alone, strict=True):
            close(one[m], np.asarray(other)[0])


def right_hand_sides(args, count):
    _, _, di, d, n = args
    rng = default_rng(8)
    shapes = (di.shape, d.shape, n.shape[:2], di.shape[1:])
    return tuple(jnp.asarray(rng.normal(size=(count, *shape))) for shape in shapes)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(_input_system._input_columns, marks=kernels, id="kernel"),
        jax.jit(_input_system.portable_input_columns),
    ],
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
            assert_array_equal(one, other)
    batch = jax.vmap(compiled)(di * jnp.array([0.5, 1.0, 2.0])[:, None, None])
    for scale, place in ((1.0, 1), (2.0, 2)):
        for one, other in zip(compiled(scale * di), batch, strict=True):
            close(other[place], one, 1e-13)


@kernels
@each
def test_a_matrix_that_is_not_positive_is_raised_by_the_least_share_of_its_scale():
    rng = default_rng(3)
    half = rng.normal(size=(13, 7))
    g = half @ half.T - 1e-9 * np.eye(13)  # rank 7, pushed below zero
    scale = np.abs(np.diagonal(g))
    k = np.asarray(_inverse_factors.inverse_factor(jnp.asarray(g), jnp.asarray(scale)))
    shifts = [0.0, *10.0 ** np.arange(-14.0, -3.0, 2.0)]
    errors = [abs(k @ (g + shift * np.diag(scale)) @ k.T - np.eye(13)).max() for shift in shifts]
    assert min(errors) < 1e-4
    positive = [np.linalg.eigvalsh(g + shift * np.diag(scale)).min() > 0 for shift in shifts]
    assert np.argmin(errors) == np.argmax(positive) > 0


@kernels
@each
@pytest.mark.parametrize("size", [20, 519])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_matrix_without_factor_is_nan(bad, size):
    g = np.stack([np.eye(size)] * 2)
    g[0, 17, 17] = bad
    broken, clean = np.asarray(_inverse_factors.inverse_factor(jnp.asarray(g), jnp.ones((2, size))))
    assert np.isnan(broken).all()
    assert_array_equal(clean, np.eye(size))


@kernels
@each
@both
@pytest.mark.parametrize("shared", [5, 20])
def test_an_output_without_factor_leaves_those_behind_it_as_they_are(shared, form):
    """They are factored one after the other in the same memory."""
    a, lines, di, d, n = system(shared, 1, 30, 6, 1, seed=4)
    clean = KERNELS[form][0](a, lines, di, d, n)
    broken = KERNELS[form][0](a, lines, di, d.at[2, -1].set(jnp.nan), n)
    others = np.arange(6) != 2
    for one, other in zip(broken[:-1], clean[:-1], strict=True):
        assert_array_equal(np.asarray(one)[others], np.asarray(other)[others])
    assert np.isnan(broken[0 if form == "rows" else 2][2]).all()


@kernels
@pytest.mark.parametrize(("size", "at"), [(4, 3), (20, 19), (600, 599), (600, 300)])
def test_shifts_go_as_far_as_in_the_portable_code(size, at):
    g = np.eye(size)
    g[at, at] = -1e-3  # only the last shift, 1e-2, lifts it
    close(
        _inverse_factors.inverse_factor(jnp.asarray(g), jnp.ones(size)),
        _inverse_factors.portable_inverse_factor(g, np.ones(size)),
    )


def dense(size, seed=0):
    """A positive definite matrix with a condition number of some thousands."""
    half = default_rng(seed).normal(size=(size, size + size // 8))
    return half @ half.T / size


@functools.cache
def factored_by_numpy(size):
    """The matrix, and what the portable code finds for it and its double; the same for all instructions."""
    g = dense(size)
    return g, _inverse_factors.portable_inverse_factor(np.stack([g, 2.0 * g]), np.ones((2, size)))


@kernels
@each
@pytest.mark.parametrize("size", [512, 519, 901, *thorough(511, 768)])
def test_large_matrices_are_factored_as_by_the_portable_code(size):
    """Whole steps and parts of one, padded and not; a batch is one after the other."""
    g, wanted = factored_by_numpy(size)
    args = jnp.asarray(np.stack([g, 2.0 * g])), jnp.ones((2, size))
    found = np.asarray(_inverse_factors.inverse_factor(*args))
    close(found, wanted, 1e-11)
    assert not np.triu(found, 1).any()
    for k, scale in zip(found, (1.0, 2.0), strict=True):
        assert_allclose(k @ (scale * g) @ k.T, np.eye(size), rtol=0, atol=1e-10)
    alone = _inverse_factors.inverse_factor(args[0][1], args[1][1])
    assert_array_equal(alone, found[1])


FACTORED = """
import hashlib
import jax, numpy as np
from jaxpriv.solvers._inverse_factors import inverse_factor

half = np.random.default_rng(0).integers(-9, 10, size=(700, 700)).astype(float)
with jax.enable_x64(True):
    k = np.asarray(inverse_factor(jax.numpy.asarray(half @ half.T + 700 * np.eye(700)), jax.numpy.ones(700)))
digest = hashlib.sha256(k).hexdigest()
"""
WITH_ONE_THREAD = f"import os; os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}}){FACTORED}print(digest)"


@kernels
@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="the number of threads is set by the affinity on Linux"
)
def test_a_large_factor_has_the_same_bits_for_any_number_of_threads():
    """Its products with whole numbers are exact, so that what NumPy does with more threads is the same."""
    here = {}
    exec(FACTORED, here)
    assert run_python("-c", WITH_ONE_THREAD).strip() == here["digest"]


@pytest.mark.parametrize("library", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_each_matrix_of_a_stack_has_its_own_shift(library):
    """One shift for all would lose the digits of those that need none."""
    stack = np.stack([np.diag([1.0, 1e-12]), np.diag([1.0, -1e-3])])
    k = np.asarray(_inverse_factors.portable_inverse_factor(library(stack), library(np.ones((2, 2)))))
    assert_allclose(k[0], np.diag([1.0, 1e6]), rtol=1e-12)
    assert k[1, 1, 1] == pytest.approx((1e-2 - 1e-3) ** -0.5)


@kernels
@both
def test_no_rows_no_outputs_and_an_empty_batch(form):
    columns = KERNELS[form][0]
    args = system(0, 0, 3, 2, 0, seed=9)
    close(columns(*args)[-1], jnp.diag(args[2].sum(axis=0)))
    assert not columns(*system(3, 1, 4, 0, 1, seed=9))[-1].any()
    args = tuple(part[None][:0] for part in system(3, 1, 4, 2, 1, seed=9))
    assert jax.vmap(columns)(*args)[0].shape == ((0, 2, 4, 4) if form == "rows" else (0, 2, 4))


# What the kernels take and give, in words of letters as in the C files, and sizes of the letters.
SHAPES = {
    "jaxpriv_inverse_factor": "XX X | XX",
    "jaxpriv_rows_factor": "TX YWX YX YN YGN | YNN YNG YGG XX",
    "jaxpriv_rows_solve": "YNN YNG YGG XX TX YWX YX MYX MYN MYG MX | MYN MX",
    "jaxpriv_inputs_factor": "TX YWX YX YN YGN | YX YN YXX YNG YGG XX",
    "jaxpriv_inputs_solve": "TX YWX YX YN YXX YNG YGG XX MYX MYN MYG MX | MYN MYX MYX MX",
    "jaxpriv_gibbs": "BS BS YS MYB M Y | YS B B B MB MMB KYL",
    "jaxpriv_information_call": "TX X XY RXY R XY XY G M T T | XY YT R N YX YX YT X R R",
    "jaxpriv_least_ratios_call": "TX X XY RXY R XY XY G M T TX T | XY YT R N YX YX YT X R R P YT Y",
    "jaxpriv_limited_information_call": "TX X XY RXY R XY XY G M T T P | XY YT Q N YX YX YT X Q Q",
    "jaxpriv_worst_information_call": "TX X XY RXY R XY XY G M T T X X | XY YT R N YX YX YT X R R P Y Y Y",
    "jaxpriv_stop": "T T | T",
}
SIZES = dict(zip("XTWYNGMBSKL", (5, 3, 1, 4, 4, 1, 2, 20, 3, 2, 16), strict=True))
# Of whole solves: aims, choices and numbers found are so many; two budgets, and a price more.
WHOLE = {**SIZES, **dict(zip("GMNPRQ", (3, 10, 3, 1, 2, 3), strict=True))}


KINDS = {"jaxpriv_stop": "uint64"}  # all others: float64


def call(symbol, shapes, dtype=None):
    """The kernel itself, given and asked for arrays of these shapes."""
    given, wanted = shapes
    dtype = dtype or KINDS.get(symbol, "float64")
    results = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape in wanted]
    args = [np.full(shape, 0.1).astype(dtype) for shape in given]  # of integers: zeros, and no address
    return jax.block_until_ready(jax.ffi.ffi_call(native._TARGETS[symbol], results)(*args))


@kernels
@pytest.mark.parametrize("symbol", SHAPES)
def test_kernels_refuse_arrays_of_other_shapes(symbol):
    """One size too small, a missing axis, an array too many or too few, another batch or precision: errors of XLA's."""
    assert SHAPES.keys() == native._TARGETS.keys()
    sizes = WHOLE if symbol.endswith("_call") else SIZES
    sides = [[tuple(sizes[letter] for letter in word) for word in part.split()] for part in SHAPES[symbol].split("|")]
    batches = [[(2, *shape) for shape in side] for side in sides]
    call(symbol, sides)
    call(symbol, batches)
    (given, wanted), last = sides, sides[0][-1]
    wrong = [([*given, (1,)], wanted), (given[:-1], wanted), (given, [*wanted, (1,)])]
    for side, shapes in enumerate(sides):
        for place, shape in enumerate(shapes):
            for other in (shape[1:], (*shape[:-1], shape[-1] - 1)):
                changed = [*shapes[:place], other, *shapes[place + 1 :]]
                wrong.append((changed, wanted) if side == 0 else (given, changed))
    wrong.append(([*batches[0][:-1], (3, *last)], batches[1]))
    # XLA and `on_arrays` hand a kernel frames of one kind, which it looks at itself. By `on_arrays`, which compiles
    # nothing, it gets each size that is wrong, and by XLA one of them and what is no float64.
    for one, dtype in [*((one, None) for one in (wrong if symbol in KINDS else wrong[:1])), (sides, "int32")]:
        with raised(jax.errors.JaxRuntimeError, "of other shapes"):
            call(symbol, one, dtype)
    for given, wanted in () if symbol in KINDS else wrong:
        with pytest.raises(MemoryError, match="of other shapes"):
            native.on_arrays(symbol, wanted, *map(np.ones, given))


@kernels
@both
def test_derivatives_are_those_of_the_portable_code(form):
    a, lines, di, d, n = system(6, 1, 9, 4, 1, seed=4, spread=1.0)

    def along(function):
        moved = jax.jit(lambda *at: jax.jvp(lambda di, d: function(a, lines, di, d, n), at, (di[::-1], d[:, ::-1])))
        return moved(di, d)

    for got, wanted in zip(along(KERNELS[form][0]), along(PORTABLE[form][0]), strict=True):
        for one, other in zip(got, wanted, strict=True):
            close(one, other)


@both
def test_float32_takes_the_portable_code(form):
    args = [jnp.asarray(part, dtype=jnp.float32) for part in system(6, 0, 9, 4, 1, seed=5, spread=1.0)]
    assert all(part.dtype == jnp.float32 for part in jax.jit(KERNELS[form][0])(*args))
