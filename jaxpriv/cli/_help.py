"""Every argument and option of every command: its panel in the help text, what stands for its value, what it means."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from jaxpriv.cli import _complete
from jaxpriv.verifier.__main__ import FILE, FILES, JSON, REPEATED

if TYPE_CHECKING:
    from typer._click.core import Parameter  # click's own in older releases

# What stands for a value (flags have none), what it means, and the default in words where it is no value.
Row: TypeAlias = tuple[str, str] | tuple[str, str, str]

_FURTHER_ORDERS = ("A ...", "Further orders of the Sibson and Arimoto measures.")
# By panel, in the order of the help texts. COMMAND:NAME is that of one command alone.
PANELS: Mapping[str, Mapping[str, Row]] = {
    "Arguments": {
        "file": FILE,
        "table": ("TABLE.csv", "A table of records: .csv, .tsv or .parquet."),
        "excess:table": ("TABLE.csv", "Records with private and useful columns."),
        "audit:mechanism": (
            "MECH.npz|DESIGN.zip",
            "`mechanism` (X,Y): P(y|x), rows sum to one; or what `jaxpriv fit` wrote. Not with --pairs.",
        ),
        "leakage:mechanism": ("MECH.npz", "`mechanism` (X,Y): P(y|x), rows sum to one."),
        "report:design": ("DESIGN.zip", "What `jaxpriv fit` wrote."),
        "original": ("ORIGINAL|DESIGN.zip", "The table of records; or one of several designs of one table."),
        "compare:released": (
            "RELEASED|DESIGN.zip ...",
            "The table that was released in place of ORIGINAL; or the other designs.",
        ),
        "counts:released": ("RELEASED", "A released table."),
        "solve:problem": (
            "PROBLEM.npz|TABLE.csv",
            "`joint` (S,X) or (K,S,X) for a set of priors; `distortion` (X,Y), or (K,X,Y) with one budget each; for "
            "ldp, optionally, `neighbours` (S,S), 0 or 1: the pairs to which it applies, or `scales` (S,S) of which "
            "their log-ratios are multiples (inf: not compared); for max-lift `scales` (S,) likewise. Or a table of "
            "records (.csv, .tsv, .parquet) with --private and --useful.",
        ),
        "frontier:problem": (
            "PROBLEM.npz|TABLE.csv",
            "`joint` (S,X) or (K,S,X), and `distortion` (X,Y) unless the targets are of I(X;Y); `neighbours` or "
            "`scales` as for `jaxpriv solve`. Or a table of records (.csv, .tsv, .parquet) with --private and "
            "--useful.",
        ),
        "funnel:problem": (
            "PROBLEM.npz|TABLE.csv",
            "`joint` (S,X), or a table of records (.csv, .tsv, .parquet) with --private and --useful.",
        ),
        "envelope:problem": (
            "PROBLEM.npz|TABLE.csv",
            "`joint` (S,X) and `distortion` (X,Y), or a table of records (.csv, .tsv, .parquet) with --private and "
            "--useful.",
        ),
        "utility:data": (
            "PROBLEM.npz|TABLE.csv",
            "`joint` (S,X), or P(X) (X,) where X itself is private; with --confidence `counts` (S,X) or (X,) of a "
            "sample, whole numbers. Or a table of records (.csv, .tsv, .parquet) with --private and --useful.",
        ),
        "data": (
            "PROBLEM.npz|TABLE.csv",
            "`joint` (S,X) in an .npz, or a table of records (.csv, .tsv, .parquet): then --private and --useful.",
        ),
        "results": (
            "RESULT ...",
            "MECH.npz of `solve`, `funnel` or `watchdog`; DESIGN.zip of `fit`; CURVE.npz of `frontier`, and further "
            "curves that are drawn on the same axes.",
        ),
        "study": ("STUDY.toml", "The grids of problems: docs/how-to/sweeps.md."),
        "name": ("NAME", "An experiment, as --list names it."),
        "arguments": ("[-- OPTION ...]", "Options after -- are passed to the program of the experiment."),
    },
    "Input": {
        "counts": (
            "COUNTS.npz|TABLE.csv",
            "`counts` (S,X), whole numbers of records; optionally `possible` (S,X), 0 or 1: the pairs that can occur"
            " in the population, known without the data. Or a table of records (.csv, .tsv, .parquet) with the "
            "columns and classes that MECH.npz was made with (--codebook, or --private, --useful, --bins); a design "
            "has its own codebook.",
        ),
        "audit:joint": (
            "PROBLEM.npz|TABLE.csv",
            "`joint` (S,X), or a table of records, in place of counts: no bounds for a population.",
        ),
        "leakage:joint": (
            "PROBLEM.npz|TABLE.csv",
            "`joint` (S,X), or (K,S,X): each joint is reported. Or a table of records (.csv, .tsv, .parquet) with "
            "the columns and classes that MECH.npz was made with.",
        ),
        "pairs": (
            "TABLE.csv",
            "Audit an unknown mechanism by records of private and released values: .csv, .tsv or .parquet with "
            "--private and --released, or .npz with `counts` (S,Y).",
        ),
        "release:design": ("DESIGN.zip", "What `jaxpriv fit` wrote."),
        **{f"verify:{name}": row for name, row in FILES.items()},
        "compare:design": ("DESIGN.zip", "The design: its columns and classes. Or --useful and --bins."),
        "compare:private": (
            "AUDIT.zip",
            "Of designs: the counts and certificate of each, in the order of the designs; repeat the option.",
        ),
        "counts:design": ("DESIGN.zip", "The public design of the release."),
        "release:private": (
            "AUDIT.zip",
            "Counts and certificate of the design: the ledger and the order of the rows lie in its folder, without "
            "this option in that of DESIGN.zip. Name it in every release of the design: one without it does not see "
            "the ledger there. The useful columns are compared with the records of the design.",
        ),
        "report:private": (
            "AUDIT.zip",
            "Counts and certificate: adds what the release reveals about each private class, the certified curve and"
            " bounds for the population. The page then holds shares of private classes (mode 0600).",
        ),
        "report:receipt": (
            "RECEIPT.json",
            "The receipt of a release: adds whether a ledger was kept, how rows are ordered, and what was kept.",
        ),
        "id": REPEATED["id"],
        "releases": (
            "RELEASES.npz|TABLE.csv",
            "`counts` (X,Y) of released pairs, or the table that was released, row for row with the table in "
            "--counts or by --row-order: tests that the pairs come from the mapping. A table in another file than "
            "the records is read as `jaxpriv release` writes it: --read is about the records.",
        ),
        "released_table": (
            "RELEASED.csv",
            "The table with the released columns, row for row or by --row-order.",
            "TABLE",
        ),
        "row_order": (
            "ORDER.zip",
            "Which record each row of the released table is of: `jaxpriv release` releases rows in a random order "
            "and writes this file.",
        ),
        "same_order": ("", "The rows of both tables are in the same order."),
        "target": (
            "COL",
            "A column of ORIGINAL that is predicted from the useful ones before and after (needs scikit-learn).",
        ),
        "solution": (
            "PATH",
            "JSON of the `jaxpriv solve` that made the mapping: prints the gap stated there, not verified.",
        ),
        "certificate": (
            "AUDIT.zip",
            "The private part of a design: its certified gap is computed again from counts and dual scores.",
        ),
        "fit:after": (
            "EARLIER.zip",
            "The design by which these records were released before: the new draw may look at the earlier one, and the "
            "target is about the leakage of both together. Its useful columns and classes are taken: leave out "
            "--useful. With --budget or --leakage-budget.",
        ),
        "release:after": (
            "EARLIER.zip",
            "Another design, by which these records were released before: the receipt and the screen state what "
            "receivers of that release, of this one, and of both have. Needs --private and --limit.",
        ),
        "again": (
            "MECH.npz|DESIGN.zip",
            "Audit what the mapping discloses together with a further draw for the same records by this one, or by "
            "itself, independent given the useful columns; repeat the option for further draws.",
        ),
    },
    "Table": {
        "private": ("COL", "Private column; repeat the option for several."),
        "useful": ("COL", "Useful column; repeat the option for several."),
        "compare:useful": ("COL", "Column of both tables; repeat it for several."),
        "group": (
            "A,B",
            "One design for these useful columns, where all of them have too many combinations for one; repeat the "
            "option. A useful column that no group names is a group by itself. All groups are released together, and"
            " the target is about all of them.",
        ),
        "grouped": ("", "Choose groups of the useful columns, one design for each."),
        "shared": ("COL", "Declare that this private column is also useful and released."),
        "audit:released": (
            "COL",
            "Released column of --pairs or of a table in --releases; repeat the option for several.",
            "of --releases: those that are useful, or of the design",
        ),
        "excess:released": (
            "COL",
            "Released column; repeat the option for several.",
            "with --released-table those that are useful",
        ),
        "bins": (
            "COL=RULE",
            "Classes of a column: quantiles:4, edges:0,18,65,inf, first:7 (only the first 7 characters count: the "
            "month of 2026-01-31), categories, or categories:10 or first:7,10 (values with fewer than 10 records "
            "become the class 'other', see --other); repeat the option for other columns.",
            "categories; real numbers need a rule",
        ),
        "compare:bins": ("COL=RULE", "Classes of a column of ORIGINAL, as for `jaxpriv fit`."),
        "other": (
            "COL=LABEL",
            "Values of this column that no other class holds become a class with this label (no '='). Without it "
            "they are an error, or with categories:10 the class 'other' ('other_2' where a class is called so).",
        ),
        "missing": (
            "COL=LABEL",
            "Empty cells of this column become a class with this label (no '='); otherwise an error.",
        ),
        "codebook": ("BOOK.json", "Columns and classes as stored by --codebook-out."),
        "sparse": ("", "Allow fewer than five rows for each symbol."),
        "survey_weight": (
            "COL",
            "Survey weights of the records (numbers >= 0): the joint is that of weighted records; bounds for a "
            "population from counts do not apply to it.",
        ),
        "release:identity": (
            "COL",
            "Column that identifies a record in the ledger; repeat the option for several. Without it a table with "
            "rows added, removed, changed or in another order is a new one.",
            "the row in the whole table",
        ),
        "compare:identity": ("COL", "A column of both tables with another value for each record."),
        "read": (
            "SETTING",
            "How a CSV is read: delimiter=; (or tab), encoding=latin-1 (cp1252, utf-16), names=A,B,C (of a file with"
            " no header), decimal=, and thousands=. (marks of numbers), empty=NA (texts that mean an empty cell), "
            "blanks (remove blanks around values, and blank lines at the end), nfc (compose accents); repeat the "
            "option for several.",
        ),
        "verify:read": REPEATED["read"],
    },
    "Target": {
        "fit:budget": ("D", "Least leakage with a mean distortion of at most D."),
        "solve:budget": (
            "D ...",
            "Largest expected distortion; several: separated by blanks, or by repeating the option.",
        ),
        "frontier:budget": ("D ...", "Least leakage at these expected distortions."),
        "fit:leakage_budget": ("EPS", "Least mean distortion with at most this leakage."),
        "solve:leakage_budget": ("EPS", "Minimise the distortion with at most this leakage (logarithms in nats)."),
        "solve:leakage_tolerance": (
            "T",
            "With --budget: of all mappings whose leakage is within T of the least, the one of least distortion.",
        ),
        "fit:leakage_tolerance": (
            "T",
            "With --budget: least mean distortion with a leakage within T of the least that the budget allows.",
        ),
        "alone": (
            "EPS",
            "With --after and --leakage-budget: at most this leakage to receivers of the new release alone; the budget "
            "is about both releases together.",
        ),
        "fit:marginal": (
            "V",
            "With --budget: the expected shares of the useful combinations are within the total variation V of those "
            "of the records of the design; 0: the same.",
        ),
        "frontier:leakage_budget": ("EPS ...", "Least distortion at these leakages (logarithms in nats)."),
        "funnel:leakage_budget": ("D ...", "Largest I(X;Y) with at most this leakage."),
        "solve:multiplier": (
            "LAMBDA ...",
            "Minimise leakage + LAMBDA * distortion; for averages that are no logarithm, and mutual information.",
        ),
        "frontier:multiplier": ("LAMBDA ...", "Least leakage + LAMBDA * distortion."),
        "funnel:multiplier": ("LAMBDA ...", "Minimise leakage - LAMBDA I(X;Y) (maximise with --bottleneck)."),
        "fit:disclosure": ("R", "Least leakage with I(X;Y) of at least R nats."),
        "frontier:disclosure": (
            "R ...",
            "The privacy funnel: least leakage with I(X;Y) of at least R nats. No distortion.",
        ),
        "funnel:disclosure": (
            "R ...",
            "Least leakage with I(X;Y) >= R (most with I(X;Y) <= R for --bottleneck), in nats; several: a curve.",
        ),
        "equivocation": ("D ...", "Least leakage with H(X|Y) <= D, in nats."),
        "relevance": ("D ...", "Bottleneck: least I(X;Y) with I(S;Y) >= D, in nats."),
        "frontier:bottleneck": ("", "Most I(S;Y) with I(X;Y) of at most R nats, in place of the funnel."),
        "funnel:bottleneck": ("", "The other boundary: the most that can leak; implied where needed."),
        "epsilon": ("E", "Release x where |ln P(s|x)/P(s)| <= E for all s (nats)."),
        "fit:target_leakage": (
            "L",
            "Watchdog: release symbols with small log-lift unchanged, with a lift leakage of at most L nats.",
        ),
        "watchdog:target_leakage": ("L", "Release as much as possible with a lift leakage of at most L nats."),
        "target_utility": ("U", "Leak as little as possible with I(X;Y) of at least U nats."),
        "at": (
            "",
            "The optimum has the same mean number of changed columns, or the same I(X;Y).",
            "distortion where useful and released classes are the same",
        ),
        "count": (
            "N",
            "N evenly spaced targets over the whole range, in place of numbers: budgets if the problem has a "
            "distortion, else disclosures.",
        ),
        "points": ("", "Number of distortion budgets."),
        "solve:limit": (
            "MEASURE=VALUE",
            "A further limit on a measure, in its own unit (logarithms in nats); repeat the option for several. "
            "Parameters stand behind colons: lift=1, sibson:2=0.3, f-information:chi-squared=0.1, "
            "f-information:e-gamma:1.5=0.1, gain-brier:worst=0.2; maximal-alpha-leakage:2=0.1 holds for every prior of "
            "S, and maximal-alpha-leakage:2:3=0.1 with beta 3.",
        ),
        "utility:limit": (
            "MEASURE=VALUE",
            "The most that an outcome may say, in nats; repeat the option for several: max-lift=1 (pointwise maximal "
            "leakage), min-lift=1, lift=1 (both), or ldp=1.",
        ),
        "delta": ("DELTA", "The least probability of an event that the limit is about, below 1."),
        "envelope:leakage_budget": ("EPS", "The most that ln P(E|s)/P(E) may be, in nats."),
        "marginal": (
            "[DIVERGENCE=]V",
            "With --budget: the released marginal P(y) is within the total variation V of P(x), or of `marginal` (Y,) "
            "in PROBLEM.npz, or within a divergence, kl=0.01 or that of another name, or within a mean cost of moving "
            "it, transport=0.1 of `cost` (Y,Y) in the file; 0: it is the same.",
        ),
        "frontier:limit": ("MEASURE=VALUE", "A further limit on a measure, as for `jaxpriv solve`."),
        "distortion": (
            "COL=KIND",
            "The distortion of changing a useful column: changed (1), absolute or squared (of the values of its "
            "classes), or FILE.npz with `distortion` (k,k) for its k classes. The costs of the columns are added.",
            "changed",
        ),
        "weight": (
            "COL=W",
            "A factor of the distortion of this column. Records have no weights in designs: jaxpriv joint "
            "--survey-weight.",
            "1",
        ),
        "merge": (
            "HOW",
            "What symbols that are not released become: a draw from P(x), rounded so that no count follows from the "
            "mapping (marginal), an even draw (uniform), one further output (single), the set of those merged with "
            "them (subsets), or themselves as often as the leakage allows (randomised-response).",
        ),
        "symbols": (
            "N",
            "Most combinations of useful classes, and of private ones; with more, columns get fewer classes. Beyond "
            "about 150 the designs take minutes.",
        ),
    },
    "Measure": {
        "leakage": ("NAME", "The measure: {measures}."),
        "order": ("A", "Order of {order}, 0 < A <= inf."),
        "audit:order": _FURTHER_ORDERS,
        "leakage:order": _FURTHER_ORDERS,
        "envelope": (
            "DELTA ...",
            "Leakage envelopes: the largest ln P(E|s)/P(E) of events E with at least this probability.",
        ),
        "divergence": ("NAME", "Divergence of f-information: {divergences}."),
        "gamma": ("G", "Parameter of divergence e-gamma, G >= 1."),
        "form": ("", "Average or worst outcome.", "the measure's own"),
        "audit:measures": (
            "NAME[:PARAMETER]",
            "Bound this measure only; repeat the option for several. The confidence is divided among them: fewer "
            "measures have tighter bounds.",
        ),
        "objective": (
            "NAME[:PARAMETER]",
            "The measure that the solution minimised: sibson:2, gain-brier:worst, ...",
            "mutual-information",
        ),
    },
    "Audit": {
        "split": ("SHARE", "Share of the records for the design; the others are for its audit. 1: no audit."),
        "seed": ("N", "Seed of the split."),
        "audit:seed": ("", "Seed of the permutations, the resamples and the halves for lower bounds."),
        "confidence": ("LEVEL", "Confidence of all bounds for the population simultaneously."),
        "utility:confidence": (
            "LEVEL",
            "`counts` are a sample, and the limits hold for the population behind it with this probability.",
        ),
        "audit:confidence": ("", "Confidence with which all upper bounds hold simultaneously."),
        "population": (
            "",
            "The leakage budget, or the target of the watchdog, holds for the population with the confidence: from a"
            " sequence of designs the last one that the other records certify is chosen.",
        ),
        "held_out": ("", "The mapping does not depend on these counts (fitted on other records)."),
        "bootstrap": ("N", "Resamples of the records for the column of estimates; 0: none."),
        "permutations": ("", "Permutations of the test of independence."),
        "subsets": (
            "N",
            "Of a table in --pairs: for each set of at most N released columns how well they tell the private value.",
        ),
        "optimum": (
            "SECONDS",
            "With --subsets: the least that a release with the same I(X;Y) tells, in at most so many seconds for each.",
        ),
        "show_values": ("", "Add the labels of the classes in a table to the JSON; they may be private."),
    },
    "Output": {
        "fit:out": ("DESIGN.zip", "Write the design; it holds no count."),
        "release:out": ("RELEASED.csv", "The released file: .csv or .parquet."),
        "report:out": ("REPORT.html", "One page; it needs no network."),
        "joint:out": (
            "PROBLEM.npz",
            "Write `joint` (S,X), `counts` (S,X), `distortion` (X,X), `attributes` (X,b), the classes of each x, and"
            " `classes`, a fingerprint of the codebook.",
        ),
        "out": (
            "MECH.npz|csv",
            "Write the mapping: `mechanism` (X,Y), P(y|x); of a table also `attributes`, the classes of each x, and "
            "`classes`, a fingerprint of the codebook. A .csv holds the mapping alone, one row for each x.",
        ),
        "frontier:out": (
            "CURVE.npz|csv|json",
            "Write the points, in nats; .npz holds the mappings and the certified band too, for `jaxpriv plot`.",
        ),
        "plot:out": ("PICTURE.png|pdf|svg", "File of the picture."),
        "sweep:out": ("DIR", "Folder of the results; created if it does not exist."),
        "reproduce:out": ("DIR", "Folder of figures and tables.", "out/NAME"),
        "demo:out": ("DIR", "Folder of the figures and arrays."),
        "release:receipt": ("RECEIPT.json", "Names the design and the released file."),
        "private_out": ("AUDIT.zip", "Write counts and certificate, for the owner of the records only (mode 0600)."),
        "codebook_out": ("BOOK.json", "Write the columns and classes of a table, without counts."),
        "advise:picture": ("PICTURE.png|pdf|svg", "Draw the designs and the hidden columns."),
        "frontier:picture": ("CURVE.png|pdf|svg", "Draw the curve and its certified band."),
        "title": ("", "A line above the picture."),
        "line": ("", "Draw a line in place of the points, for curves of many."),
        "keep": (
            "COL",
            "A further column that goes into the file as it is; no audit covers it. One that identifies records "
            "undoes the random order of the rows.",
        ),
        "fit:unseen": (
            "WHAT",
            "What `jaxpriv release` does with a combination of classes that occurs in none of these records: refuse "
            "all records, suppress (release a symbol independent of the record), or nearest (the combination that "
            "differs in the fewest columns).",
        ),
        "release:unseen": (
            "WHAT",
            "Records with a combination of classes that no record of the fit had: refuse all records, suppress "
            "(release a symbol independent of the record), or nearest (the combination that differs in the fewest "
            "columns).",
            "what the design states",
        ),
        "resolution": ("BITS", "Bits of the probabilities."),
        "unchanged": ("", "Write the design even if it releases every record as it is."),
        "ledger": (
            "LEDGER",
            "A further ledger, which several designs may share (mode 0600). Where the folder of the design's own "
            "cannot be written it is the only one, and later releases must name it.",
        ),
        "no_ledger": (
            "",
            "Record nothing: a second draw for these records will not be noticed. The receipt states it.",
        ),
        "release:limit": (
            "L",
            "With --after: the most that receivers of either release or of both may have, in the units of the measure "
            "of the design; above it nothing is released.",
        ),
        "keep_order": (
            "",
            "Release rows in the order of the table, which may depend on private columns; by default their order is "
            "random. The receipt states it.",
        ),
        "order_out": (
            "ORDER.zip",
            "Write which record each released row is of, for `verify --order` (mode 0600).",
            "private-order-... beside the ledger",
        ),
        "force": ("", "Replace files that exist, though they may have been published."),
        "watchdog:measures": ("", "Add every leakage measure of the mapping to the JSON; takes seconds."),
        "draw": ("", "Draw the numbers that are stored with the experiment; compute nothing."),
        "units": ("", "Units of the printed text (JSON is always in nats)."),
        "json": JSON,
    },
    "Running": {
        "solve:solver": (
            "NAME",
            "auto, interior-point, hybrid-gradient; mirror-descent, accelerated: smooth averages; two-grid: averages; "
            "blahut-arimoto for mutual information; linear-program: piecewise linear measures; augmented-lagrangian: "
            "these, and smooth averages of one joint with budgets or multipliers.",
        ),
        "frontier:solver": ("NAME", "As for `jaxpriv solve` and `jaxpriv funnel`."),
        "funnel:solver": (
            "NAME",
            "auto (column-generation, vertex-generation for measures of finitely many actions and smooth ones, "
            "posterior-limit for measures of the worst outcome, which prove their values), greedy, greedy-ratio, "
            "greedy-bottleneck, difference-of-convex, alternating, bottleneck-iteration.",
        ),
        "tol": ("", "Largest certified gap that counts as optimal, in the unit of the value."),
        "excess:tol": ("", "Largest certified gap that counts as optimal, nats."),
        "rtol": ("", "The same relative to the value; the looser tolerance applies."),
        "max_steps": ("", "Most iterations.", "the solver's own"),
        "time_limit": (
            "SECONDS",
            "Stop after this time, compiling included, and write the best mapping with its interval (exit code 4). "
            "Ctrl-C does the same; a second one writes nothing.",
            "none",
        ),
        "excess:time_limit": ("SECONDS", "Most seconds for the optimum.", "none"),
        "sweep:time_limit": ("SECONDS", "Begin no chunk after this time.", "none"),
        "checkpoint": (
            "STATE.npz",
            "With --solver accelerated or two-grid: write the state of the solve to this file, and continue from it "
            "if it exists; removed once the result is optimal.",
        ),
        "workers": ("N", "Number of worker processes."),
        "part": ("K/N", "Compute the K-th of N parts; processes with other parts may share DIR."),
        "dry_run": ("", "Print the plan, with predicted time and memory; compute nothing."),
        "clear": ("", "Remove all compiled programs first."),
        "warm": (
            "SxXxY",
            "Compile, for so many symbols of S, X and Y, what `solve` would with a budget, with a multiplier and "
            "with a leakage budget; repeatable.",
        ),
        "listed": ("", "Print the experiments, their minutes and their sources."),
        "progress": ("", "Lines on stderr: step, value, bound, gap, seconds."),
    },
}
# What a shell completes, by what stands for the value or by the name of the option.
_COMPLETED: Mapping[str, Callable[..., list[str]]] = {
    "COL": _complete.columns,
    "A,B": _complete.columns,
    "COL=RULE": _complete.rules,
    "COL=KIND": _complete.prices,
    "COL=LABEL": _complete.of_columns,
    "COL=W": _complete.of_columns,
    "SETTING": _complete.settings,
    "leakage": _complete.measures,
    "divergence": _complete.divergences,
    "solver": _complete.solvers,
    "funnel:solver": _complete.methods,
}
# The least and the largest value, where the parser refuses others.
_RANGES: Mapping[str, Mapping[str, float]] = {
    "symbols": {"min": 2, "max": 4096},
    "count": {"min": 2, "max": 10_000},  # a solve each: more points than a picture shows
    "points": {"min": 2},
    "split": {"min": 0.0, "max": 1.0},
    "seed": {"min": 0},
    "confidence": {"min": 0.0, "max": 1.0},
    "resolution": {"min": 8, "max": 62},
    **{
        f"fit:{name}": {"min": 0.0}
        for name in (
            "budget",
            "leakage_budget",
            "leakage_tolerance",
            "disclosure",
            "target_leakage",
            "alone",
            "marginal",
        )
    },
}
# Options that have another name in Python.
_NAMES = {"identity": "id", "listed": "list", "funnel:solver": "method"}
_ROWS = {key: row for rows in PANELS.values() for key, row in rows.items()}
_PLACES = {key: (panel, place) for panel, rows in PANELS.items() for place, key in enumerate(rows)}


def _key(command: str, name: str) -> str:
    return f"{command}:{name}" if f"{command}:{name}" in _ROWS else name


def _flag(key: str, name: str) -> str:
    return f"--{_NAMES.get(key, _NAMES.get(name, name)).replace('_', '-')}"


def declared(command: str, parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter of a command as Typer takes it."""
    name, key = parameter.name, _key(command, parameter.name)
    value, text, *shown = _ROWS[key]
    given: dict[str, Any] = {"metavar": value or None, "help": text, **_RANGES.get(key, {})}
    given |= {
        "autocompletion": _COMPLETED.get(value) or _COMPLETED.get(key) or _COMPLETED.get(name),
        "show_default": (*shown, True)[0],
    }
    made = typer.Argument(**given) if _PLACES[key][0] == "Arguments" else typer.Option(_flag(key, name), **given)
    return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=Annotated[parameter.annotation, made])


def files_of(command: str, given: Mapping[str, object]) -> tuple[dict[str, Path], dict[str, Path]]:
    """The files that a command shall write, and those that it reads, by what the line calls them."""
    outputs, inputs = {}, {}
    for name, value in given.items():
        key = _key(command, name)
        shown = _ROWS[key][0].partition("|")[0].removesuffix(".csv")
        panel = _PLACES[key][0]
        if isinstance(value, Path) and shown != "DIR":
            label = shown if panel == "Arguments" else _flag(key, name)
            (outputs if panel in ("Output", "Running") else inputs)[label] = value
        elif panel == "Arguments" and isinstance(value, list):
            inputs |= {f"{shown.split()[0]} {k}": path for k, path in enumerate(value, 1) if isinstance(path, Path)}
    return outputs, inputs


def in_panels(command: str, options: "Iterable[Parameter]") -> "list[Parameter]":
    """The options (and arguments) of a command in the order of the panels, each with the name of its panel."""
    panels = list(PANELS)

    def place(option: "Parameter") -> tuple[int, int]:
        if option.param_type_name == "argument":
            return -1, 0
        # Those that are not in the table: --help, and the options of `jaxpriv` itself.
        panel, at = _PLACES.get(_key(command, option.name or ""), ("Running" if command else "Options", len(_ROWS)))
        shown: Any = option
        shown.rich_help_panel = panel
        if shown.is_flag and shown.metavar is None:
            shown.metavar = ""  # newer releases of Typer write <bool>
        return panels.index(panel) if panel in panels else len(panels), at

    return sorted(options, key=place)
