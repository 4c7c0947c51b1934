"""Pre-trained text encoder with a head that learns new topics one after the other.

    pip install "recollect[examples]"
    python examples/encoder.py

The encoder is WordLlama (16 MB, in its package). It is frozen, and the learner is trained on its
embeddings. The texts are the docstrings of Python's standard library, labelled by topic. Topics
arrive one after the other, as when teams join a help desk.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from pathlib import Path

import numpy as np
import torch
import wordllama
from torch import nn

from recollect import SGD, DERpp, Learner

TOPICS = {
    "files": "os shutil pathlib tempfile glob zipfile tarfile filecmp",
    "numbers": "math cmath statistics decimal fractions random",
    "networks": "socket ssl http.client ftplib imaplib smtplib urllib.request ipaddress",
    "threads": "threading asyncio multiprocessing.pool concurrent.futures queue subprocess",
    "text": "string re textwrap difflib unicodedata html json csv configparser codecs",
    "logs": "logging logging.handlers logging.config warnings traceback",
    "tests": "unittest unittest.mock doctest",
    "mail": "email.message email.policy email.utils email.headerregistry mailbox",
}
BATCH = 10
SHORTEST, LONGEST = 80, 500


def docstrings(modules: str) -> list[str]:
    """Collect the docstrings of the functions, classes and methods of some modules."""
    found = set()
    for module in map(importlib.import_module, modules.split()):
        package = module.__name__.split(".")[0]
        for thing in vars(module).values():
            if not str(getattr(thing, "__module__", "")).lstrip("_").startswith(package):
                continue  # it was only imported there
            for part in [thing, *(vars(thing).values() if inspect.isclass(thing) else [])]:
                text = getattr(part, "__doc__", None)
                if isinstance(text, str) and len(text) >= SHORTEST:
                    found.add(" ".join(text.split())[:LONGEST])
    return sorted(found)


def encode(encoder: wordllama.WordLlamaInference, texts: list[str]) -> np.ndarray:
    """Embed texts with the frozen encoder, `[n, 256]`, scaled to values around 1."""
    features: np.ndarray = encoder.embed(texts, norm=True) * 16
    return features


def main(topics: int = len(TOPICS), passes: int = 3) -> dict[str, dict[str, float]]:
    """Learn the topics in turn with both methods, and return the final accuracy on each topic."""
    folder = Path(wordllama.__file__).parent  # its weights and its tokens lie there
    encoder = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    chosen = dict(list(TOPICS.items())[:topics])
    texts = {topic: docstrings(modules) for topic, modules in chosen.items()}
    features = {topic: encode(encoder, some) for topic, some in texts.items()}

    torch.manual_seed(0)
    head = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))
    learners = {
        "SGD": Learner(head, SGD(), lr=0.1),
        "DER++": Learner(head, DERpp(alpha=0.1, beta=1.0), memory="400 KB", lr=0.1),
    }
    rng = np.random.default_rng(0)
    for topic, rows in features.items():
        train = np.flatnonzero(np.arange(len(rows)) % 4 > 0)  # every fourth is held out
        order = np.concatenate([rng.permutation(train) for _ in range(passes)])
        for batch in np.array_split(order, max(1, len(order) // BATCH)):
            for learner in learners.values():
                learner.observe(rows[batch], [topic] * len(batch))
        print(f"learned {topic!r} from {len(train)} texts")

    result: dict[str, dict[str, float]] = {title: {} for title in learners}
    print(f"\nright at the end  {''.join(f'{title:>9}' for title in learners)}")
    for topic, rows in features.items():
        for title, learner in learners.items():
            told = learner.predict(rows[::4])
            result[title][topic] = told.count(topic) / len(told)
        shares = "".join(f"{100 * result[title][topic]:7.1f} %" for title in learners)
        print(f"  {topic:16}{shares}")

    question = "How do I remove a directory and everything in it?"
    found = learners["DER++"].predict_proba(encode(encoder, [question])[0])
    likely = sorted(zip(found, learners["DER++"].classes, strict=True), reverse=True)[:3]
    print(f"\n{question}\n  " + ", ".join(f"{topic} {100 * p:.0f} %" for p, topic in likely))
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=len(TOPICS))
    parser.add_argument("--passes", type=int, default=3, help="over every topic")
    main(**vars(parser.parse_args()))
