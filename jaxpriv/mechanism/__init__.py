"""From a table of records to a file that can be published, checked and released from.

    fitted = fit("people.csv", private="income", useful=["age", "education"], rules={"age": Quantiles(4)}, budget=0.5)
    fitted.mechanism.save("design.zip")                       # public: no count
    fitted.evidence.save("audit.zip", fitted.mechanism)       # private: counts and certificate
    Mechanism.load("design.zip").apply(frame)                 # one secure draw for each record

The object that is certified is the one that is drawn from: a table of whole numbers whose rows sum to 2^62. Every
number about it is computed again by `jaxpriv.verifier`, which needs nothing but Python's standard library.
"""

from typing import TYPE_CHECKING

from jaxpriv._importing import attach

if TYPE_CHECKING:  # the names below, for type checkers and editors
    from jaxpriv.mechanism.advising import Advice as Advice
    from jaxpriv.mechanism.advising import Advised as Advised
    from jaxpriv.mechanism.advising import AdviseRequest as AdviseRequest
    from jaxpriv.mechanism.advising import Hidden as Hidden
    from jaxpriv.mechanism.advising import advise as advise
    from jaxpriv.mechanism.drifting import ColumnDrift as ColumnDrift
    from jaxpriv.mechanism.drifting import TableDrift as TableDrift
    from jaxpriv.mechanism.drifting import drift as drift
    from jaxpriv.mechanism.estimating import CountEstimate as CountEstimate
    from jaxpriv.mechanism.estimating import estimate_counts as estimate_counts
    from jaxpriv.mechanism.fitting import FitRequest as FitRequest
    from jaxpriv.mechanism.fitting import Fitted as Fitted
    from jaxpriv.mechanism.fitting import PopulationLimit as PopulationLimit
    from jaxpriv.mechanism.fitting import fit as fit
    from jaxpriv.mechanism.grouped import GroupedEvidence as GroupedEvidence
    from jaxpriv.mechanism.grouped import GroupedMechanism as GroupedMechanism
    from jaxpriv.mechanism.grouping import FittedGroups as FittedGroups
    from jaxpriv.mechanism.grouping import GroupingCost as GroupingCost
    from jaxpriv.mechanism.grouping import GroupsRequest as GroupsRequest
    from jaxpriv.mechanism.grouping import fit_groups as fit_groups
    from jaxpriv.mechanism.mechanism import Asked as Asked
    from jaxpriv.mechanism.mechanism import Evidence as Evidence
    from jaxpriv.mechanism.mechanism import Mechanism as Mechanism
    from jaxpriv.mechanism.obstacles import Obstacle as Obstacle
    from jaxpriv.mechanism.releasing import Released as Released
    from jaxpriv.mechanism.releasing import release as release
else:
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "jaxpriv.mechanism.advising": ["Advice", "AdviseRequest", "Advised", "Hidden", "advise"],
            "jaxpriv.mechanism.estimating": ["CountEstimate", "estimate_counts"],
            "jaxpriv.mechanism.drifting": ["ColumnDrift", "TableDrift", "drift"],
            "jaxpriv.mechanism.fitting": ["FitRequest", "Fitted", "PopulationLimit", "fit"],
            "jaxpriv.mechanism.grouped": ["GroupedEvidence", "GroupedMechanism"],
            "jaxpriv.mechanism.grouping": ["FittedGroups", "GroupingCost", "GroupsRequest", "fit_groups"],
            "jaxpriv.mechanism.mechanism": ["Asked", "Evidence", "Mechanism"],
            "jaxpriv.mechanism.obstacles": ["Obstacle"],
            "jaxpriv.mechanism.releasing": ["Released", "release"],
        },
    )
