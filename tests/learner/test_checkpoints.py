"""A folder of checkpoints: the newest few stay, and `resume` takes the newest that is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.learner.test_files import batch, network

from recollect import ER, MLP, DataError, DERpp, InputError, Learner


def names(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.recollect"))


def observe(learner: Learner, step: int) -> float:
    """Observe, and wait for a checkpoint."""
    loss = learner.observe(*batch(step))
    learner.flush()
    return loss


def test_the_newest_few_checkpoints_are_kept(tmp_path: Path) -> None:
    learner = Learner(network(), ER(), checkpoints=tmp_path / "kept", checkpoint_every=2, keep=2)
    found = []
    for step in range(7):
        observe(learner, step)
        found.append(names(tmp_path / "kept"))
    assert found == [[], [8], [8], [8, 16], [8, 16], [16, 24], [16, 24]]
    assert learner.saved == 24
    assert learner.checkpoint() == tmp_path / "kept" / "000000000000028.recollect"
    assert names(tmp_path / "kept") == [24, 28]
    others = {path.name for path in (tmp_path / "kept").iterdir() if path.suffix != ".recollect"}
    assert others == {"lock", "versions.json"}


def test_resume_takes_the_newest_and_goes_on(tmp_path: Path) -> None:
    assert Learner.resume(tmp_path / "kept", network()) is None
    whole = Learner(network(), DERpp(), memory=10)
    losses = [whole.observe(*batch(step)) for step in range(9)]
    learner = Learner(
        network(), DERpp(), memory=10, checkpoints=tmp_path / "kept", checkpoint_every=3
    )
    for step in range(7):
        observe(learner, step)
    learner.close()
    again = Learner.resume(tmp_path / "kept", network(), checkpoint_every=1, keep=2)
    assert again is not None
    assert (again.seen, again.steps) == (24, 6)
    assert [observe(again, step) for step in range(6, 9)] == losses[6:]
    assert again._packed() == whole._packed()
    assert names(tmp_path / "kept") == [32, 36]


def test_resume_passes_over_a_damaged_file(tmp_path: Path) -> None:
    learner = Learner(network(), ER(), checkpoints=tmp_path, checkpoint_every=1)
    for step in range(3):
        observe(learner, step)
    learner.close()
    newest = tmp_path / "000000000000012.recollect"
    newest.write_bytes(newest.read_bytes()[:-10])
    again = Learner.resume(tmp_path, network(), checkpoint_every=1)
    assert again is not None
    assert again.seen == 8
    again.observe(*batch(2))
    assert again._packed() == learner._packed()
    again.close()
    for path in tmp_path.glob("*.recollect"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match="it was not written by recollect"):
        Learner.resume(tmp_path, network())


def test_resume_with_another_network_is_refused(tmp_path: Path) -> None:
    learner = Learner(network(), ER(), checkpoints=tmp_path, checkpoint_every=1)
    for step in range(3):
        observe(learner, step)
    learner.close()
    with pytest.raises(InputError, match="network"):
        Learner.resume(tmp_path, MLP(4, 1, hidden=(7,)))


def test_two_learners_do_not_mix_their_checkpoints(tmp_path: Path) -> None:
    """Another one would be resumed from the files of the first."""
    first = Learner(network(), ER(), checkpoints=tmp_path, checkpoint_every=1)
    observe(first, 0)
    first.close()
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    second = Learner(network(), ER(), checkpoints=tmp_path, checkpoint_every=2)
    second.observe(*batch(1))
    with pytest.raises(DataError, match=r"learned, but not saved.*another learner.*resume"):
        second.observe(*batch(2))
    with pytest.raises(InputError, match="another learner"):
        second.checkpoint()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept
    second.close()
    resumed = Learner.resume(tmp_path, network(), checkpoint_every=1)
    assert resumed is not None
    observe(resumed, 1)
    assert resumed.saved == 8


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_what_was_just_saved_is_there_whatever_lies_in_the_folder(
    keep: int, tmp_path: Path
) -> None:
    """A learner that goes on from an older state, beside the files of the newer ones."""
    learner = Learner(network(), ER(), checkpoints=tmp_path, checkpoint_every=1, keep=9)
    for step in range(6):
        observe(learner, step)
    learner.close()
    older = tmp_path / "000000000000004.recollect"
    again = Learner.load(older, network(), checkpoints=tmp_path, checkpoint_every=1, keep=keep)
    observe(again, 1)
    saved = tmp_path / "000000000000008-1.recollect"
    assert again.saved == 8
    assert Learner.load(saved, network())._packed() == again._packed()


def test_checkpoint_needs_a_folder() -> None:
    learner = Learner(network(), ER())
    learner.observe(*batch(0))
    with pytest.raises(InputError, match="has no checkpoint folder"):
        learner.checkpoint()


def test_a_folder_that_is_named_later_keeps_as_many_files(tmp_path: Path) -> None:
    learner = Learner(network(), ER(), keep=1)
    for step in range(3):
        learner.observe(*batch(step))
        newest = learner.checkpoint(tmp_path)
    assert list(tmp_path.glob("*.recollect")) == [newest]
