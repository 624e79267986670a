"""How Sphinx builds the site: `make docs`. Nothing on a page is fetched from elsewhere when it is viewed."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]
# Notebooks run in processes of their own: they use this checkout and print no notices of JAX about absent accelerators.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jaxpriv  # noqa: E402  (from this checkout)

project = "jaxpriv"
author = "The jaxpriv developers"
copyright = "The jaxpriv developers, Apache-2.0"  # the name that Sphinx asks for
version = release = jaxpriv.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "commands",
    "docstrings",
    "offline_search",
]
smartquotes = False  # an option is --budget

myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # a notebook runs again when its code has changed
nb_execution_in_temp = True  # what a notebook writes is not part of the checkout
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_output_stderr = "error"  # a page has no warnings of Python: fix their cause

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"jaxpriv {version}"
html_static_path = ["static"]
html_css_files = ["jaxpriv.css"]
html_copy_source = False
html_theme_options = {
    "source_repository": "https://github.com/jaxpriv/jaxpriv/",
    "source_branch": "main",
    "source_directory": "docs/",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
mathjax_path = "mathjax/tex-svg.js"


def copy_mathjax(app: Sphinx) -> None:
    """MathJax is one file of the site: its version with glyphs as SVG needs no fonts."""
    if app.builder.format != "html":
        return
    package = importlib.util.find_spec("mathjax")
    assert package is not None
    assert package.submodule_search_locations
    source = Path(package.submodule_search_locations[0], "static/mathjax/es5/tex-svg.js")
    target = Path(app.outdir, "_static", mathjax_path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", copy_mathjax)
