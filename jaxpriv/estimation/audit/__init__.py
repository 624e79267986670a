"""From a sample to the population: bounds on the leakage of a release from a finite number of records.

Two audits that are never mixed. The mechanism is known exactly and (S, X) was counted: `audit_mechanism`, or
`leakage_bounds` for sweeps. Only pairs (s, y) were seen: `audit_pairs`. `conformity` tests whether a release comes
from the mechanism that was audited, `drift` whether it is about the same population.
"""

from jaxpriv.estimation.audit._information import InformationEstimate, estimate_information, information_bound
from jaxpriv.estimation.audit.evidence import (
    Conformity,
    Drift,
    PermutationTest,
    SampleLowerBounds,
    conformity,
    drift,
    g_test,
    holm,
    permutation_test,
    split,
)
from jaxpriv.estimation.audit.measured import ReleaseExcess, excess
from jaxpriv.estimation.audit.populations import Bound, SampleKind, leakage_bounds, least_utility, sample_bounds
from jaxpriv.estimation.audit.report import (
    Assumptions,
    AuditRow,
    MechanismAudit,
    PairsAudit,
    Utility,
    audit_mechanism,
    audit_pairs,
)

__all__ = [
    "Assumptions",
    "AuditRow",
    "Bound",
    "Conformity",
    "Drift",
    "InformationEstimate",
    "MechanismAudit",
    "PairsAudit",
    "PermutationTest",
    "ReleaseExcess",
    "SampleKind",
    "SampleLowerBounds",
    "Utility",
    "audit_mechanism",
    "audit_pairs",
    "conformity",
    "drift",
    "estimate_information",
    "excess",
    "g_test",
    "holm",
    "information_bound",
    "leakage_bounds",
    "least_utility",
    "permutation_test",
    "sample_bounds",
    "split",
]
