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
    from jaxpriv.release.advising import Advice as Advice
    from jaxpriv.release.advising import Advised as Advised
    from jaxpriv.release.advising import AdviseRequest as AdviseRequest
    from jaxpriv.release.advising import Hidden as Hidden
    from jaxpriv.release.advising import advise as advise
    from jaxpriv.release.auditing import audit_design as audit_design
    from jaxpriv.release.auditing import audit_mapping as audit_mapping
    from jaxpriv.release.auditing import count_pairs as count_pairs
    from jaxpriv.release.drifting import ColumnDrift as ColumnDrift
    from jaxpriv.release.drifting import TableDrift as TableDrift
    from jaxpriv.release.drifting import drift as drift
    from jaxpriv.release.estimating import CountEstimate as CountEstimate
    from jaxpriv.release.estimating import estimate_counts as estimate_counts
    from jaxpriv.release.fitting import FitRequest as FitRequest
    from jaxpriv.release.fitting import Fitted as Fitted
    from jaxpriv.release.fitting import PopulationLimit as PopulationLimit
    from jaxpriv.release.fitting import fit as fit
    from jaxpriv.release.grouped import GroupedEvidence as GroupedEvidence
    from jaxpriv.release.grouped import GroupedMechanism as GroupedMechanism
    from jaxpriv.release.grouping import FittedGroups as FittedGroups
    from jaxpriv.release.grouping import GroupingCost as GroupingCost
    from jaxpriv.release.grouping import GroupsRequest as GroupsRequest
    from jaxpriv.release.grouping import fit_groups as fit_groups
    from jaxpriv.release.mechanism import Asked as Asked
    from jaxpriv.release.mechanism import Evidence as Evidence
    from jaxpriv.release.mechanism import Mechanism as Mechanism
    from jaxpriv.release.obstacles import Obstacle as Obstacle
    from jaxpriv.release.releasing import Released as Released
    from jaxpriv.release.releasing import release as release
else:
    __getattr__, __dir__, __all__ = attach(__name__)
