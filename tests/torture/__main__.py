"""Plays many schedules: `make torture SEEDS=100000`, or `python -m tests.torture --help`. Prints JSON; ends with 1 if one fails.

What was played is kept in a file, chunk by chunk, so that the same code goes on where it was stopped.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .exhaustive import PATTERNS, played
from .play import play
from .schedule import drawn
from .shrink import like, shrunk

CHUNK, PATTERN_CHUNK = 50, 5


def random_chunk(first: int, protection: str | None, older: bool) -> dict[str, Any]:
    """Of seeds `first` to `first + CHUNK`."""
    counts, failed, started = Counter[str](), dict[str, list[str]](), time.process_time()
    for seed in range(first, first + CHUNK):
        schedule = drawn(seed, protection, older)
        verdict = play(schedule)
        counts.update({f"of {schedule.protection}": 1, "schedules": 1, "played": 1})
        counts.update(verdict.ended)
        counts.update(f"event {type(event).__name__}" for event in verdict.happened)
        if verdict.broken:
            failed[str(seed)] = list(verdict.broken)
    return {"first": first, "counts": counts, "failed": failed, "cpu": time.process_time() - started}


def pattern_chunk(first: int) -> dict[str, Any]:
    """Of silence patterns."""
    counts, failed, started = Counter[str](), dict[str, list[str]](), time.process_time()
    for pattern in PATTERNS[first : first + PATTERN_CHUNK]:
        for number, (_, verdict, reached) in enumerate(played(pattern)):
            if number:  # the one without a crash comes first, and is counted where a crash comes to nothing
                counts.update({"schedules": 1, "played": int(reached)})
                counts.update(verdict.ended)
            if verdict.broken:
                failed[f"{pattern} {number}"] = list(verdict.broken)
    return {"first": first, "counts": counts, "failed": failed, "cpu": time.process_time() - started}


def _work(job: tuple[Any, ...]) -> dict[str, Any]:
    name, *of = job
    return (random_chunk if name == "random" else pattern_chunk)(*of)


def chunks(options: argparse.Namespace) -> Iterator[tuple[Any, ...]]:
    """What there is to do, each with the number that it begins with."""
    if options.exhaustive:
        yield from (("patterns", first) for first in range(0, len(PATTERNS), PATTERN_CHUNK))
    else:
        seeds = range(options.first, options.first + options.seeds, CHUNK)
        yield from (("random", first, options.protection, options.older) for first in seeds)


def code() -> str:
    """Of what is played, and of what plays it: another code begins anew."""
    root, found = Path(__file__).parents[2], hashlib.sha256()
    for folder in ("protocol", "crypto", "tests/torture"):
        for path in sorted((root / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:8]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="random schedules to play")
    parser.add_argument("--first", type=int, default=0, help="the first seed: others than were played before")
    parser.add_argument("--protection", help="of these alone: masked, two servers, encrypted or pairs")
    parser.add_argument("--older", action="store_true", help="journals may be put back as older copies, too")
    parser.add_argument("--exhaustive", action="store_true", help="every silence pattern with every crash, in place of seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; the next call goes on")
    parser.add_argument("--progress", type=Path, help="where to keep what was played (build/torture ...)")
    options = parser.parse_args()
    about = "exhaustive" if options.exhaustive else f"random {options.protection or 'all'}{' older' * options.older}"
    kept = options.progress or Path("build") / f"torture {about} {code()}.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    done = {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        found = json.loads(line)
        done[found["first"]] = found
    every = list(chunks(options))
    todo, started = [job for job in every if job[1] not in done], time.monotonic()
    with multiprocessing.get_context("fork").Pool(options.workers) as pool, kept.open("a") as file:
        for found in pool.imap_unordered(_work, todo):
            file.write(json.dumps(found) + "\n")
            file.flush()
            done[found["first"]] = found
            print(f"{len(done)} of {len(every)} chunks, {sum(len(d['failed']) for d in done.values())} failed", file=sys.stderr)
            if time.monotonic() - started > options.seconds:
                pool.terminate()
                break
    mine = [done[job[1]] for job in every if job[1] in done]
    counts = sum((Counter(found["counts"]) for found in mine), Counter[str]())
    failed = {seed: broken for found in mine for seed, broken in found["failed"].items()}
    report = {"about": about, "whole": len(mine) == len(every), "cpu_seconds": round(sum(found["cpu"] for found in mine), 1)}
    print(json.dumps(report | {"counts": dict(sorted(counts.items())), "failed": failed}, indent=1))
    if failed and not options.exhaustive:
        seed = min(map(int, failed))
        schedule = drawn(seed, options.protection, options.older)
        print(f"seed {seed}, the shortest that fails in the same way:\n{shrunk(schedule, like(schedule))!r}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
