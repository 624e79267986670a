"""Privacy of mechanisms on databases: M(r|x) = `mechanism[x, r]`, x a sequence of n records.

    sizes = (2, 2, 2)                                     # record universes; sequences in row-major order
    mechanism = geometric_count(3, eps)[counts(sizes)]    # a noisy count of three binary records
    differential_privacy(mechanism, hamming_neighbours(sizes))
    dependent_records_privacy(mechanism, sizes, dependent=2)
    information_privacy(mechanism, prior, sizes)          # for one prior
    entropy_bounded_privacy(mechanism, sizes, b)          # for every prior with H(P) >= b: two bounds
    entropy_bounded_mechanism(distortion, sizes, b, leakage=L)   # the mechanism of least distortion, certified

Host NumPy in float64, natural logarithms. After Wu, Xia and He, Information Theory of Data Privacy, and the
database half of Calmon and Fawaz 2012.
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.models.databases.composition import compose, entropy_after
from jaxpriv.models.databases.counting import counts, geometric_count, perturbed_count, perturbed_records
from jaxpriv.models.databases.deterministic import DeterministicQuery, counting_query, deterministic_query
from jaxpriv.models.databases.differential import (
    PairPrivacy,
    RecordPrivacy,
    all_priors_privacy,
    dependence_extent,
    dependent_records_privacy,
    differential_privacy,
    group_privacy_bound,
    information_bound,
)
from jaxpriv.models.databases.entropy_bounded import EntropyBoundedPrivacy, entropy_bounded_privacy
from jaxpriv.models.databases.entropy_bounded_design import EntropyBoundedMechanism, entropy_bounded_mechanism
from jaxpriv.models.databases.given_prior import Ladder, group_information, information_privacy, ladder, record_joint
from jaxpriv.models.databases.input_perturbation import RecordMapping, record_mapping
from jaxpriv.models.databases.neighbours import (
    checked_neighbours,
    count_neighbours,
    hamming_distances,
    hamming_neighbours,
    neighbours_from_pairs,
)
from jaxpriv.models.databases.sparse_counts import sparse_count_bound, sparse_count_leakage, sparse_count_recovery
from jaxpriv.models.databases.uncertain_records import uncertain_records_privacy
from jaxpriv.models.databases.universe import independent_prior, sequence_index, sequences, with_empty_record

__all__ = [
    "DeterministicQuery",
    "EntropyBoundedMechanism",
    "EntropyBoundedPrivacy",
    "Ladder",
    "PairPrivacy",
    "RecordMapping",
    "RecordPrivacy",
    "all_priors_privacy",
    "checked_neighbours",
    "compose",
    "count_neighbours",
    "counting_query",
    "counts",
    "dependence_extent",
    "dependent_records_privacy",
    "deterministic_query",
    "differential_privacy",
    "entropy_after",
    "entropy_bounded_mechanism",
    "entropy_bounded_privacy",
    "geometric_count",
    "group_information",
    "group_privacy_bound",
    "hamming_distances",
    "hamming_neighbours",
    "independent_prior",
    "information_bound",
    "information_privacy",
    "ladder",
    "neighbours_from_pairs",
    "perturbed_count",
    "perturbed_records",
    "record_joint",
    "record_mapping",
    "sequence_index",
    "sequences",
    "sparse_count_bound",
    "sparse_count_leakage",
    "sparse_count_recovery",
    "uncertain_records_privacy",
    "with_empty_record",
]
__dir__ = names_of(__name__)
