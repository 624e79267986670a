"""Every measure of `conftest` by its definition, in decimal numbers of fifty digits: no formula of the library."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

INFINITE = Decimal("Infinity")


def decimal(number):
    """The exact value of a float."""
    exact = Fraction(float(number))
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def table_of(array):
    return [[decimal(entry) for entry in row] for row in array]


def definitions(joint, mechanism, measures, orders):
    """{name: value}, every order of Sibson's and Arimoto's family among them."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 50, -(10**9), 10**9
        found = _definitions(table_of(joint), table_of(mechanism), measures, orders)
        return {name: float(value) for name, value in found.items()}


def plogp(p):
    return p * p.ln() if p > 0 else Decimal(0)


def entropy(q):
    return -sum(map(plogp, q))


def log_ratio(a, b):
    return -INFINITE if a == 0 else INFINITE if b == 0 else a.ln() - b.ln()


def power_mean(values, weights, a):
    """(sum of weight value^a)^(1/a)."""
    return sum(r * v**a for r, v in zip(weights, values, strict=True) if v > 0) ** (1 / a)


def _definitions(joint, mechanism, measures, orders):
    present = [s for s, line in enumerate(joint) if sum(line) > 0]
    prior = [sum(joint[s]) for s in present]
    columns = [
        [sum(p * a for p, a in zip(joint[s], column, strict=True)) for s in present]
        for column in zip(*mechanism, strict=True)
    ]
    columns = [column for column in columns if sum(column) > 0]
    masses = [sum(column) for column in columns]
    posteriors = [[a / mass for a in column] for column, mass in zip(columns, masses, strict=True)]
    likelihoods = [[a / p for a, p in zip(column, prior, strict=True)] for column in columns]
    lifts = [[a / mass for a in column] for column, mass in zip(likelihoods, masses, strict=True)]

    def divergences(f):
        return [sum(p * f(t) for p, t in zip(prior, column, strict=True)) for column in lifts]

    def average(values):
        return sum(mass * value for mass, value in zip(masses, values, strict=True))

    def ratios(related):
        """The largest log-ratio of two symbols after one output."""
        pairs = [(a, b) for a, b in itertools.permutations(range(len(present)), 2) if related(present[a], present[b])]
        found = (log_ratio(column[a], column[b]) for column in lifts for a, b in pairs if column[a] > 0)
        return max(found, default=Decimal(0))

    def sibson(a, weights):
        """Divided by the sums of the rows, which are 1 up to rounding: 1/(a - 1) would blow that up."""
        total = sum(power_mean(column, weights, a) for column in likelihoods)
        rows = sum(r * v for column in likelihoods for r, v in zip(weights, column, strict=True))
        return a / (a - 1) * (total / rows).ln()

    def tilted(a):
        """Arimoto's information is Sibson's for the prior proportional to p^a."""
        powers = [p**a for p in prior]
        return [power / sum(powers) for power in powers]

    relative = divergences(lambda t: plogp(t) - t + 1)
    highest, lowest = max(map(max, lifts)), min(map(min, lifts))
    raised, lowered = highest.ln(), -log_ratio(lowest, Decimal(1))
    excluded = lowest == 0
    guess, leaks = sum(map(max, columns)), sum(map(max, likelihoods)).ln()
    gains = [[row[s] for s in present] for row in table_of(measures["gain"].gains)]
    losses = [[row[s] for s in present] for row in table_of(measures["gain-losses"].cost.losses.T)]
    neighbours = measures["ldp-chain"].neighbours

    def worth(column):
        return max(sum(g * a for g, a in zip(row, column, strict=True)) for row in gains)

    found = {
        "mutual-information": average(relative),
        "max-information": entropy(prior) - min(map(entropy, posteriors)),
        "relative-entropy": max(relative),
        "correct-guess": guess,
        "min-entropy": (guess / max(prior)).ln(),
        "maximal-leakage": leaks,
        "gain": (sum(map(worth, columns)) / worth(prior)).ln(),
        "kl": average(relative),
        "user": average(relative),
        "reverse-kl": INFINITE if excluded else average(divergences(lambda t: t - 1 - t.ln())),
        "chi-squared": average(divergences(lambda t: (t - 1) ** 2)),
        "total-variation": average(divergences(lambda t: abs(t - 1) / 2)),
        "hellinger": average(divergences(lambda t: (t.sqrt() - 1) ** 2)),
        "jensen-shannon": average(divergences(lambda t: (plogp(t) - (1 + t) * ((1 + t) / 2).ln()) / 2)),
        "e-gamma": average(divergences(lambda t: max(t - decimal(1.2), Decimal(0)))),
        "lift": max(raised, lowered),
        "max-lift": raised,
        "min-lift": lowered,
        "ldp": ratios(lambda s, r: True),
        "ldp-chain": ratios(lambda s, r: neighbours[s, r]),
        "inferential": ratios(lambda s, r: True),
    }
    costs = {
        "log-loss": entropy,
        "zero-one": lambda q: 1 - max(q),
        "brier": lambda q: 1 - sum(a * a for a in q),
        "losses": lambda q: min(sum(a * cost for a, cost in zip(q, action, strict=True)) for action in losses),
    }
    for name, cost in costs.items():
        after = [cost(q) for q in posteriors]
        found[f"gain-{name}"] = cost(prior) - average(after)
        found[f"max-gain-{name}"] = cost(prior) - min(after)
    ends = {1.0: (found["mutual-information"],) * 2, float("inf"): (leaks, found["min-entropy"])}
    for order in orders:
        if order in ends:
            both = ends[order]
        else:
            a = decimal(order)
            both = sibson(a, prior), sibson(a, tilted(a))
        found[f"sibson {order}"], found[f"arimoto {order}"] = both
    return found
