"""The panels of help texts, and the values of options that a shell completes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer._click.core import Parameter  # click's own in older releases

# The panels of every command and the order of its options. COMMAND:OPTION is that of one command, :OPTION of `jaxpriv`.
PANELS = {
    "Input": "--counts --joint --pairs --design release:--private report:--private verify:--private report:--receipt "
    "verify:--receipt verify:--released verify:--records verify:--order verify:--id --releases --released-table "
    "--row-order --same-order compare:--target --solution --certificate",
    "Table": "--private --useful --group --grouped --shared --released --bins --other --missing --codebook --sparse "
    "--survey-weight --id --read",
    "Target": "--budget --leakage-budget --multiplier --disclosure --relevance --bottleneck --epsilon --target-leakage "
    "--target-utility --at --count --points --limit --distortion --weight --merge --symbols",
    "Measure": "--leakage --order --divergence --gamma --form audit:--measures --objective",
    "Audit": "--split --seed --confidence --population --held-out --bootstrap --permutations --show-values",
    "Output": "--out --receipt --private-out --codebook-out --picture --title --line --keep --unseen --resolution "
    "--unchanged --ledger --no-ledger --keep-order --order-out --force --measures --draw --units --json",
    "Running": "--solver --method --tol --rtol --max-steps --time-limit --checkpoint --workers --part --dry-run "
    "--clear --warm --list --progress --help",
    "Options": ":--version :--debug :--install-completion :--show-completion :--help",
}
_PLACES = {option: (panel, place) for panel, line in PANELS.items() for place, option in enumerate(line.split())}


def in_panels(command: str, options: "Iterable[Parameter]") -> "list[Parameter]":
    """The options (and arguments) of a command in the order of the panels, each with the name of its panel."""
    panels = list(PANELS)

    def place(option: "Parameter") -> tuple[int, int]:
        if option.param_type_name == "argument":
            return -1, 0
        names = [f"{command}:{flag}" for flag in option.opts] + option.opts
        panel, at = next((_PLACES[name] for name in names if name in _PLACES), ("Options", len(_PLACES)))
        shown: Any = option
        shown.rich_help_panel = panel
        if shown.is_flag and shown.metavar is None:
            shown.metavar = ""  # newer releases of Typer write <bool>
        return panels.index(panel), at

    return sorted(options, key=place)
