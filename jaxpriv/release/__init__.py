"""From a table of records to a file that can be published, checked and released from.

    fitted = fit("people.csv", private="income", useful=["age", "education"], rules={"age": Quantiles(4)}, budget=0.5)
    fitted.mechanism.save("design.zip")                       # public: no count
    fitted.evidence.save("audit.zip", fitted.mechanism)       # private: counts and certificate
    Mechanism.load("design.zip").apply(frame)                 # one secure draw for each record

The object that is certified is the one that is drawn from: a table of whole numbers whose rows sum to 2^62. Every
number about it is computed again by `jaxpriv.verifier`, which needs nothing but Python's standard library.
"""

from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv.release.advising import (
        Advice as Advice,
        Advised as Advised,
        AdviseRequest as AdviseRequest,
        Hidden as Hidden,
        advise as advise,
    )
    from jaxpriv.release.auditing import (
        audit_design as audit_design,
        audit_mapping as audit_mapping,
        count_pairs as count_pairs,
        count_releases as count_releases,
    )
    from jaxpriv.release.drifting import ColumnDrift as ColumnDrift, TableDrift as TableDrift, drift as drift
    from jaxpriv.release.estimating import CountEstimate as CountEstimate, estimate_counts as estimate_counts
    from jaxpriv.release.fitting import (
        FitRequest as FitRequest,
        Fitted as Fitted,
        PopulationLimit as PopulationLimit,
        fit as fit,
    )
    from jaxpriv.release.grouped import GroupedEvidence as GroupedEvidence, GroupedMechanism as GroupedMechanism
    from jaxpriv.release.grouping import (
        FittedGroups as FittedGroups,
        GroupingCost as GroupingCost,
        GroupsRequest as GroupsRequest,
        fit_groups as fit_groups,
    )
    from jaxpriv.release.mechanism import Asked as Asked, Evidence as Evidence, Mechanism as Mechanism
    from jaxpriv.release.obstacles import Obstacle as Obstacle
    from jaxpriv.release.releasing import Released as Released, release as release
else:
    __getattr__, __dir__, __all__ = attach(__name__)
