"""Untrusted Parquet files, decoded in a process of their own.

On damaged bytes the reader panics, and may end its process (a length that says 2^61 bytes is allocated before it is
doubted). What ends here is a child; its notes go nowhere, because they may hold data values.
"""

import io
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxpriv.errors import IntegrityError, ResourceError

# One line with the names of all columns; then the columns asked for, if each is there once, as an Arrow file.
_DECODE = """
import io, json, sys
sys.path[:], names = json.loads(sys.argv[1]), json.loads(sys.argv[2])
import polars as pl
content = io.BytesIO(sys.stdin.buffer.read())
present = list(pl.read_parquet_schema(content))
sys.stdout.buffer.write(json.dumps(present).encode() + b"\\n")
if all(present.count(name) == 1 for name in names):
    content.seek(0)
    decoded = io.BytesIO()
    pl.read_parquet(content, columns=names).write_ipc(decoded)
    sys.stdout.buffer.write(decoded.getbuffer())
"""


def decoded(path: Path, names: Sequence[str]) -> tuple[list[str], object]:
    """(the names of all columns, a polars frame of the columns `names`); None in place of the frame if one is absent.

    Raises `IntegrityError` if the file cannot be decoded, `ResourceError` if polars is not installed or the system
    ended the decoder.
    """
    try:
        import polars as pl  # an extra
    except ImportError as error:
        raise ResourceError("Parquet files need polars: pip install 'jaxpriv[tables]'") from error
    command = [sys.executable, "-P", "-c", _DECODE, json.dumps(sys.path), json.dumps(list(names))]
    # An open file: a path would be a pattern, or an address in a network.
    with open(path, "rb") as file:
        done = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if done.returncode == -signal.SIGKILL:
        raise ResourceError(f"{path}: the system ended the process that decodes it, most often for lack of memory")
    if done.returncode:
        raise IntegrityError(f"{path} is not a complete Parquet file, or is damaged")
    line, _, arrow = done.stdout.partition(b"\n")
    return json.loads(line), pl.read_ipc(io.BytesIO(arrow)) if arrow else None
