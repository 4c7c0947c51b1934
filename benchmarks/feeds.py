"""`python -m benchmarks.feeds`: examples per second of the stream readers."""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from recollect.feeds import open_feed

FEATURES, IMAGES = 10, 2000


def main() -> None:
    """Write a file in each format, read it, and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    with TemporaryDirectory() as name:
        folder = Path(name)
        for source in written(folder, rows):
            start = time.process_time()
            count = sum(record is not None for record in open_feed([str(source)]).records())
            rate = count / (time.process_time() - start)
            held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{source.name:12} {count:>9,} examples {rate:>9,.0f} a CPU second, {held:.0f} MiB"
            )


def written(folder: Path, rows: int) -> list[Path]:
    """Write the same numbers as CSV, quoted CSV, JSON lines and Parquet; and images."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, FEATURES)).round(6)
    labels = [f"class {number}" for number in rng.integers(0, 5, rows)]
    names = [f"f{number}" for number in range(FEATURES)]
    paths = [folder / name for name in ("plain.csv", "quoted.csv", "rows.jsonl", "images")]
    with paths[0].open("w") as plain, paths[1].open("w") as quoted, paths[2].open("w") as objects:
        for row, label in zip(x.tolist(), labels, strict=True):
            plain.write(f"{','.join(map(str, row))},{label}\n")
            quoted.write(",".join(f'"{cell}"' for cell in (*row, label)) + "\n")
            objects.write(json.dumps(dict(zip(names, row, strict=True)) | {"label": label}) + "\n")
    (paths[3] / "one").mkdir(parents=True)
    for number in range(IMAGES):
        pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(paths[3] / "one" / f"{number}.png")
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        print("without pyarrow, Parquet is left out")
        return paths
    columns = {name: x[:, number] for number, name in enumerate(names)}
    table = pa.table({**columns, "label": labels})
    pq.write_table(table, folder / "rows.parquet", row_group_size=50_000)
    return [*paths, folder / "rows.parquet"]


if __name__ == "__main__":
    main()
