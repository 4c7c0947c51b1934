"""Fingerprints of streams and networks: they change with the content, and only with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.train.stopping import convolutional, job_of, mlp, photographs
from torch import Tensor, nn

from recollect import MLP, SGD, ResNet18, from_arrays
from recollect.core.images import Images
from recollect.core.modules import build_module
from recollect.streams import Mnist360, TaskStream, benchmark
from recollect.streams.data import Dataset
from recollect.streams.pixels import pixel_map, rotate
from recollect.train.fingerprint import NetworkFacts, module_code_fingerprint, stream_fingerprint


def digits_360() -> Mnist360:
    found = benchmark("digits-360").stream()
    assert isinstance(found, Mnist360)
    return found


@pytest.mark.parametrize("name", ["seq-digits", "perm-digits", "rot-digits", "digits-360"])
def test_a_stream_that_is_loaded_twice_has_one_name(name: str) -> None:
    streams = [benchmark(name).stream() for _ in range(2)]
    assert streams[0] is not streams[1]
    names = {stream_fingerprint(stream) for stream in streams}
    assert len(names) == 1
    assert len(names.pop()) == 16


def test_every_benchmark_and_split_has_a_name_of_its_own() -> None:
    known = [benchmark(n) for n in ("seq-digits", "perm-digits", "rot-digits", "digits-360")]
    names = {stream_fingerprint(each.stream(part)) for each in known for part in (False, True)}
    assert len(names) == 8


def test_another_rotation_is_another_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data are the same; what a run meets is not."""
    before = {n: stream_fingerprint(benchmark(n).stream()) for n in ("digits-360", "rot-digits")}

    def turned(images: Tensor, angles: Tensor) -> Tensor:
        return rotate(images, angles + 0.5)

    monkeypatch.setattr("recollect.streams.mnist360.rotate", turned)
    assert stream_fingerprint(benchmark("digits-360").stream()) != before["digits-360"]
    assert stream_fingerprint(benchmark("rot-digits").stream()) == before["rot-digits"]


def test_another_permutation_is_another_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    before = stream_fingerprint(benchmark("perm-digits").stream())
    plain = replace(benchmark("perm-digits").stream(), view="plain")  # type: ignore[type-var]
    assert stream_fingerprint(plain) != before
    monkeypatch.setattr(
        "recollect.streams.tasks.pixel_map",
        lambda view, seeds, *others: pixel_map(view, tuple(s + 1 for s in seeds), *others),
    )
    assert stream_fingerprint(benchmark("perm-digits").stream()) != before


def data(change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None) -> TaskStream:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4000, 3, generator=generator)
    y = torch.arange(4000) % 4
    if change:
        x, y = change(x, y)
    return from_arrays(x.numpy(), y.numpy(), test=(x[:40].numpy(), y[:40].numpy()))


def one_number(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone()
    x[2717, 1] += 1e-3
    return x, y


def one_label(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone()
    y[[2716, 2717]] = y[[2717, 2716]]
    return x, y


def other_order(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.roll(4, 0), y


@pytest.mark.parametrize("change", [one_number, one_label, other_order])
def test_one_number_or_label_among_thousands_counts(
    change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> None:
    assert (
        stream_fingerprint(data()) == stream_fingerprint(data()) != stream_fingerprint(data(change))
    )


def test_permuted_labels_of_a_data_set_count() -> None:
    stream = digits_360()
    kept = stream.dataset
    labels = (kept.train_y + 1) % 10
    other = Dataset(kept.name, kept.classes, kept.train_x, labels, kept.test_x, kept.test_y)
    assert stream_fingerprint(Mnist360(other, stream.name)) != stream_fingerprint(stream)


def test_how_images_are_shown_counts() -> None:
    stream = photographs()
    assert isinstance(stream.images, Images)
    other = replace(stream, images=replace(stream.images, padding=2))
    assert stream_fingerprint(other) != stream_fingerprint(stream)


def test_a_stream_that_is_no_dataclass_is_named_by_what_a_run_meets() -> None:
    class Wrapped:
        """A stream of one's own, whose data are behind its functions."""

        def __init__(self, inner: TaskStream, shift: int = 0) -> None:
            self._inner, self._shift = inner, shift

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        def order(self, seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
            found = self._inner.order(seeds, task, epoch, start, stop)
            return (found + self._shift) % sum(self._inner.parts(task))

    first, again, other = Wrapped(data()), Wrapped(data()), Wrapped(data(), 1)
    names = [stream_fingerprint(each) for each in (first, again, other)]  # type: ignore[arg-type]
    assert names[0] == names[1] != names[2]


def test_a_stream_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = data()
    first = stream_fingerprint(stream)

    def fail(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("recollect.train.fingerprint._add", fail)
    assert stream_fingerprint(stream) == first
    with pytest.raises(AssertionError, match="read again"):
        stream_fingerprint(data())


def test_networks_are_told_apart_by_layers_shapes_and_given_weights() -> None:
    def module(seed: int) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return MLP(6, 4, hidden=(8,))

    assert NetworkFacts.of(mlp) == NetworkFacts.of(lambda: MLP(6, 4, hidden=(8,)))
    assert NetworkFacts.of(module(0)) == NetworkFacts.of(module(0))
    names = {
        NetworkFacts.of(each).fingerprint
        for each in (mlp, lambda: MLP(6, 4, hidden=(9,)), convolutional, module(0), module(1))
    }
    assert len(names) == 5


def test_a_networks_name_leaves_the_random_numbers_as_they_were() -> None:
    state = torch.random.get_rng_state()
    NetworkFacts.of(mlp)
    assert torch.equal(torch.random.get_rng_state(), state)


def linear(std: float) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        layer = nn.Linear(6, 4)
        nn.init.normal_(layer.weight, 0, std)
        return nn.Sequential(nn.Flatten(), layer)

    return build


def loaded(weights: dict[str, Tensor], build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        module = build()
        module.load_state_dict(weights)
        return module

    return make


def names_of(*networks: Callable[[], nn.Module]) -> list[str]:
    return [NetworkFacts.of(each).fingerprint for each in networks]


def test_the_weights_that_a_function_gives_count() -> None:
    one, same, other = names_of(linear(0.1), linear(0.1), linear(2.0))
    assert one == same != other
    plain = linear(1.0)
    first, second = (build_module(plain, seed).state_dict() for seed in (1, 2))
    found = names_of(plain, loaded(first, plain), loaded(first, plain), loaded(second, plain))
    assert found[1] == found[2]
    assert len({*found}) == 3


def test_weights_from_a_file_count_in_a_network_of_this_library() -> None:
    weights = build_module(mlp, seed=5).state_dict()
    usual, trained = names_of(mlp, loaded(weights, mlp))
    assert usual != trained


def test_the_usual_networks_have_the_names_that_stored_results_have() -> None:
    assert names_of(partial(MLP, 784, 10), partial(ResNet18, 10)) == [
        "7ced1d1e79f59b0b", "32c9e640485ff56c",
    ]  # fmt: skip


def test_a_normalisation_has_one_name_in_all_versions_of_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def names() -> tuple[str, str]:
        module = nn.Sequential(nn.BatchNorm2d(4))
        return module_code_fingerprint(module), names_of(lambda: nn.BatchNorm2d(4))[0]

    def printed(text: str) -> tuple[str, str]:
        monkeypatch.setattr(nn.BatchNorm2d, "extra_repr", lambda self: text)
        return names()

    now = names()
    old = printed("4, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True")
    new = printed("4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True")
    assert now == old == new
    assert printed("5, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True") != now


def test_the_bias_of_a_normalisation_counts() -> None:
    with_bias, without = names_of(partial(nn.LayerNorm, 4), partial(nn.LayerNorm, 4, bias=False))
    assert with_bias != without


def activated(function: Callable[[Tensor], Tensor]) -> type[nn.Module]:
    class Activated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(6, 4)

        def forward(self, x: Tensor) -> Tensor:
            return function(self.net(x))

    return Activated


class Acting(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.function = nn.Linear(6, 4), function


def test_what_a_layer_refers_to_counts() -> None:
    one, same, other = names_of(*map(activated, (torch.relu, torch.relu, torch.tanh)))
    assert one == same != other
    one, same, other = names_of(
        *(partial(Acting, each) for each in (torch.relu, torch.relu, torch.tanh))
    )
    assert one == same != other
    heads = [partial(nn.MultiheadAttention, 4, heads) for heads in (1, 1, 2)]
    one, same, other = names_of(*heads)
    assert one == same != other, "an attribute that its text does not say"


def test_a_network_is_built_once_for_a_job(toy_stream: TaskStream) -> None:
    built: list[int] = []

    def build() -> nn.Module:
        built.append(1)
        return nn.Sequential(nn.Flatten(), nn.Linear(6, 4))

    job = job_of(toy_stream, SGD(), SGD(), SGD(), network=build)
    assert len({each.network for part in job.split(1) for each in part.identities}) == 1
    assert len(built) == 1
