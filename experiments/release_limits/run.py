"""What releasing a table costs and withstands: times and memory for many records, mutations of files, killed processes.

    python experiments/release_limits/run.py [--records 1000000] [--mutations 1000] [--kills 200]    # data/limits.csv

* times: a CSV of --records rows and 4 columns to its joint, and released by a design (wall, processor time, largest
  memory of the process), each in a process of its own without the start of Python;
* mutations: flipped bits of design, audit, receipt and released file, and swapped rows of the released one: tried, and
  how many the verifier accepts;
* kills: a process that fits, and one that releases with a ledger, killed (SIGKILL) at a random time, then run again:
  files that were half-written, and records that got a second draw.
"""

import argparse
import csv
import json
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"
COLUMNS = ("--private", "income", "--useful", "age", "--useful", "town", "--useful", "sex")


def write_table(path: Path, records: int) -> None:
    rng = np.random.default_rng(5)
    age, town = rng.choice(["18-29", "30-44", "45-64", "65+"], records), rng.choice(["n", "e", "s", "w"], records)
    sex = rng.choice(["f", "m"], records)
    income = np.where(rng.random(records) < 0.2 + 0.3 * (age == "45-64") + 0.1 * (town == "n"), "high", "low")
    lines = "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in zip(age, town, sex, income, strict=True))
    path.write_text("age,town,sex,income\n" + lines)


def measured(work: Callable[[], object]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and the largest memory in MiB of `work` in a forked process."""
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        wall, spent = time.perf_counter(), time.process_time()
        work()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sender.send((time.perf_counter() - wall, time.process_time() - spent, memory))
        os._exit(0)
    os.waitpid(child, 0)
    return receiver.recv()


def command(*words: object) -> int:
    from jaxpriv.cli import main

    sys.argv = ["jaxpriv", *map(str, words)]
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def forked(*words: object) -> int:
    child = os.fork()
    if child == 0:
        os._exit(command(*words))
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def times(folder: Path, records: int) -> list[list[object]]:
    from jaxpriv import release
    from jaxpriv.statistics.tables import count_table

    table, design = folder / "large.csv", folder / "large.zip"
    write_table(table, records)
    columns = {"private": "income", "useful": ["age", "town", "sex"]}
    found = [["table to joint", *measured(lambda: count_table(table, **columns))]]
    assert ended(forked("fit", table, *COLUMNS, "--budget", 0.2, "--out", design)) == 0
    loaded = release.Mechanism.load(design)
    out, receipt = folder / "large-released.csv", folder / "large.json"
    found.append(["release", *measured(lambda: release.release(table, loaded, out, receipt))])
    return found


def refused(files: dict[str, Path]) -> bool:
    words = ["verify", files["receipt"], "--design", files["design"], "--private", files["audit"]]
    done = subprocess.run(
        [sys.executable, "-m", "jaxpriv", *map(str, words), "--released", str(files["released"])],
        capture_output=True,
        check=False,
    )
    return done.returncode != 0


def mutations(folder: Path, count: int) -> list[list[object]]:
    """Every mutation replaces one of the four files; the others stay."""
    from jaxpriv.errors import JaxprivError
    from jaxpriv.verifier import verify

    table = folder / "people.csv"
    write_table(table, 2000)
    files = {name: folder / f"m-{name}" for name in ("design", "audit", "receipt", "released")}
    files = {name: path.with_suffix(".csv" if name == "released" else ".zip") for name, path in files.items()}
    files["receipt"] = files["receipt"].with_suffix(".json")
    made = forked("fit", table, *COLUMNS, "--budget", 0.2, "--out", files["design"], "--private-out", files["audit"])
    assert ended(made) == 0
    words = ("--design", files["design"], "--out", files["released"], "--receipt", files["receipt"])
    assert ended(forked("release", table, *words)) == 0
    assert not refused(files)
    content = {name: path.read_bytes() for name, path in files.items()}
    rng, accepted, tried = random.Random(1), dict.fromkeys(files, 0), dict.fromkeys(files, 0)
    for k in range(count):
        name = list(files)[k % 4]
        altered = bytearray(content[name])
        if name == "released" and k % 8 == 3:  # two rows that differ change places
            rows = content[name].split(b"\n")
            one, other = rng.sample(range(1, len(rows) - 1), 2)
            while rows[one] == rows[other]:
                one, other = rng.sample(range(1, len(rows) - 1), 2)
            rows[one], rows[other] = rows[other], rows[one]
            altered = bytearray(b"\n".join(rows))
        else:
            place = rng.randrange(len(altered))
            altered[place] ^= 1 << rng.randrange(8)
        path = folder / f"altered{files[name].suffix}"
        path.write_bytes(altered)
        now = {**files, name: path}
        tried[name] += 1
        try:
            verify(now["receipt"], design=now["design"], private=now["audit"], released=now["released"])
            accepted[name] += 1
        except JaxprivError:
            pass
    return [["mutations of " + name, tried[name], accepted[name], ""] for name in files]


def kills(folder: Path, count: int) -> list[list[object]]:
    table = folder / "killed.csv"
    write_table(table, 4000)
    design = folder / "killed.zip"
    fit = ("fit", table, *COLUMNS, "--budget", 0.2, "--out", design, "--private-out", folder / "killed-audit.zip")
    begun = time.perf_counter()
    assert ended(forked(*fit)) == 0
    longest = time.perf_counter() - begun
    whole, rng = {design.name: design.stat().st_size}, random.Random(2)
    half = finished = 0
    for k in range(count):
        out, audit = folder / f"fit{k}.zip", folder / f"fit{k}-audit.zip"
        child = forked("fit", table, *COLUMNS, "--budget", 0.2, "--out", out, "--private-out", audit)
        time.sleep(rng.uniform(0, 1.1 * longest))
        os.kill(child, signal.SIGKILL)
        ended(child)
        there = [path.exists() for path in (out, audit)]
        finished += all(there)
        half += any(path.exists() and not readable(path) for path in (out, audit))
        for path in (out, audit):
            path.unlink(missing_ok=True)
    rows: list[list[object]] = [["fit killed: runs, finished, half-written", count, finished, half]]
    begun = time.perf_counter()
    first, proof = folder / "first.csv", folder / "first.json"
    assert ended(forked("release", table, "--design", design, "--out", first, "--receipt", proof)) == 0
    longest = time.perf_counter() - begun
    half = second = finished = 0
    for k in range(count):
        out, receipt = folder / f"r{k}.csv", folder / f"r{k}.json"
        words = ("release", table, "--design", design, "--out", out, "--receipt", receipt)
        for path in folder.glob("private-*"):  # ledger and orders of the run before
            path.unlink()
        child = forked(*words)
        time.sleep(rng.uniform(0, 1.1 * longest))
        os.kill(child, signal.SIGKILL)
        ended(child)
        before = out.read_bytes() if out.exists() else None
        finished += before is not None
        half += before is not None and before.count(b"\n") != 4001
        ledgers = [path for path in folder.glob("private-ledger-*") if path.suffix != ".lock"]
        drawn = ledgers[0].read_bytes() if ledgers else None
        assert ended(forked(*words, "--force")) == 0
        after = out.read_bytes()
        second += (before is not None and before != after) or (drawn is not None and drawn != ledgers[0].read_bytes())
        half += after.count(b"\n") != 4001
        for path in (out, receipt):
            path.unlink()
    rows.append(
        ["release killed: runs, released before the end, half-written or a second draw", count, finished, half + second]
    )
    assert whole[design.name] == design.stat().st_size
    return rows


def readable(path: Path) -> bool:
    import zipfile

    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except zipfile.BadZipFile:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    options = parser.parse_args()
    import jaxpriv.cli
    import jaxpriv.release  # noqa: F401

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows: list[list[object]] = []
        if options.records:
            rows += [
                [f"{what}, {options.records} records: wall s, processor s, MiB", *numbers]
                for what, *numbers in times(folder, options.records)
            ]
        print(json.dumps(rows), flush=True)
        if options.mutations:
            rows += mutations(folder, options.mutations)
        print(json.dumps(rows), flush=True)
        if options.kills:
            rows += kills(folder, options.kills)
        print(json.dumps(rows), flush=True)
    DATA.mkdir(exist_ok=True)
    with open(DATA / "limits.csv", "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["what", "first", "second", "third"])
        writer.writerows([f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


if __name__ == "__main__":
    main()
