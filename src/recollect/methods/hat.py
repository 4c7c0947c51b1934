"""HAT: Hard Attention to the Task (Serra et al., 2018)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from recollect.core.by_task import ByTask
from recollect.core.losses import cross_entropy_among
from recollect.core.model import Model
from recollect.core.modules import maker
from recollect.core.weights import Weights
from recollect.errors import InputError
from recollect.methods.base import Classifier, Needs, Setup, Spec, Step, Task, hyper
from recollect.nets import MLP

MOST = 6.0
STEEPEST = 50.0
TINY = 1e-12


@dataclass(frozen=True)
class HAT(Classifier):
    """Learns an attention mask over hidden units per task, and protects them from later tasks.

    Each unit has a gate for each task, sigmoid(s e), trained with the weights; s rises in every
    epoch from 1 / `smax` to `smax`, so that gates become binary. The gradient of a weight is scaled
    down the more earlier tasks use the units at both of its ends. `c` weights the penalty on using
    free units. The softmax is over the classes of the task, and predictions need the task of an
    example.

    >>> HAT(smax=300.0)
    HAT(smax=300.0, c=0.75)
    """

    smax: float | Tensor = hyper(400.0, "sharpness of the gates at the end of an epoch")
    c: float | Tensor = hyper(0.75, "weight of the penalty on using free units")

    name: ClassVar[str] = "hat"
    title: ClassVar[str] = "HAT"
    needs: ClassVar[Needs] = Needs(boundaries=True, task_id=True, grows=True)

    def setup(self, spec: Spec) -> Setup:
        """Gates for every task, the free share of weights, the use of units, and step counts."""

        def state(model: Model) -> dict[str, Tensor]:
            gates = {n: w for n, w in model.weights.named().items() if n.startswith("gates.")}
            free = {n: t for n, t in model.zeros("free").items() if ".weights.gates." not in n}
            return {
                **{name: torch.ones_like(tensor) for name, tensor in free.items()},
                **{f"used.{n}": torch.zeros_like(entries[:, 0]) for n, entries in gates.items()},
                "now": torch.zeros(spec.runs, spec.classes, dtype=torch.bool),
                "step": torch.zeros(spec.runs, dtype=torch.int64),
                "steps": torch.ones(spec.runs, dtype=torch.int64),
                "task": torch.zeros(spec.runs, dtype=torch.int64),
            }

        return Setup(state=state, network=lambda build: lambda: Gated(maker(build)(), spec.tasks))

    def start_task(self, task: Task) -> None:
        """Record the classes of the task and the number of steps per epoch."""
        task.mark_classes()
        task.state["step"].zero_()
        task.state["steps"].fill_(-(-task.count // task.batch))
        task.state["task"].fill_(task.clock.task)

    def update(self, step: Step) -> Tensor:
        """Take a step on the free weights and the task's gates; returns the loss `[K]`."""
        sharp = self._sharpen(step)
        (logits,) = step.net(step.x)
        loss = cross_entropy_among(step.state["now"], logits, step.y)
        gradients = step.model.gradient(loss).dense().named()
        free = step.state.weights("free").named()
        gates = {n: part for n, part in gradients.items() if n not in free}
        moves = gradients | self._attend(step, gates, sharp)
        step.model.descend(Weights(moves), share=step.state.weights("free"))
        for name in gates:
            step.model.weights.named()[name].clamp_(-MOST, MOST)
        step.state["step"].add_(1)
        return loss.detach()

    def end_task(self, task: Task) -> None:
        """Record which units the task uses, and the share of each weight that is still free."""
        state, weights = task.state, task.model.weights.named()
        smax = torch.as_tensor(self.smax, dtype=weights["sharpness"].dtype).view(-1, 1)
        weights["sharpness"].copy_(smax.expand_as(weights["sharpness"]))
        used = []
        for name, entries in weights.items():
            if name.startswith("gates."):
                gate = (smax * entries[:, task.clock.task]).sigmoid()
                used.append(state[f"used.{name}"].copy_(state[f"used.{name}"].maximum(gate)))
        free = state.weights("free").named()
        for number, out in enumerate(used):
            layer = free[f"hidden.{number}.weight"]
            into = out.unsqueeze(1).expand_as(layer)
            if number:
                into = into.minimum(used[number - 1].unsqueeze(2))
            layer.copy_(1 - into)
            free[f"hidden.{number}.bias"].copy_(1 - out)

    def _sharpen(self, step: Step) -> Tensor:
        """Set the sharpness of the gates for this step of an epoch, `[K, 1]`."""
        step_now, steps = step.state["step"], step.state["steps"]
        part = (step_now % steps) / (steps - 1).clamp(min=1)
        smax = torch.as_tensor(self.smax)
        sharp = (1 / smax + (smax - 1 / smax) * part).unsqueeze(1)
        weights = step.model.weights.named()
        weights["sharpest"].copy_(smax.view(-1, 1).expand_as(sharp))
        return weights["sharpness"].copy_(sharp)

    def _attend(self, step: Step, gates: Mapping[str, Tensor], sharp: Tensor) -> dict[str, Tensor]:
        """The gradients of the gates, including the penalty on using free units."""
        c, task = torch.as_tensor(self.c).view(-1, 1), step.state["task"]
        smax = step.model.weights.named()["sharpest"]
        unused = {n: 1 - step.state[f"used.{n}"] for n in gates}
        total = torch.stack([left.sum(1) for left in unused.values()]).sum(0)[:, None]
        moves = {}
        for name, gradient in gates.items():
            entries = step.model.weights.named()[name]
            here = task.view(-1, 1, 1).expand(-1, 1, entries.shape[2])
            entry = entries.gather(1, here).squeeze(1)
            cost = c * unused[name] / total.clamp(min=TINY) * steepness(entry, sharp, smax)
            moves[name] = gradient.scatter_add(1, here, cost.unsqueeze(1))
        return moves


class Gated(ByTask):
    """A multi-layer perceptron with a gate for every hidden unit and task (Serra et al., 2018).

    A gate is sigmoid(`sharpness` * e) of its embedding e in `gates`; the larger the sharpness, the
    closer it is to binary. Its gradient is replaced by `steepness`, so that embeddings train at the
    same speed for every sharpness. Only the gates of the current task are used.

    >>> net = Gated(MLP(4, 3, hidden=[6, 5]), tasks=2)
    >>> net(torch.zeros(7, 4)).shape, [list(gate.shape) for gate in net.gates]
    (torch.Size([7, 3]), [[2, 6], [2, 5]])
    """

    broadcasts_runs = True

    def __init__(self, net: nn.Module, tasks: int) -> None:
        super().__init__()
        if type(net) is not MLP:
            raise InputError(
                f"HAT needs an MLP (recollect.nets.MLP), whose hidden layers it gates, not a "
                f"{type(net).__name__}"
            )
        self.hidden, self.head = net.hidden, net.head
        biases = [bias for name, bias in net.hidden.named_parameters() if name.endswith("bias")]
        self.gates = nn.ParameterList(torch.randn(tasks, len(bias)) for bias in biases)
        self.sharpness = nn.Parameter(torch.ones(1), requires_grad=False)
        self.sharpest = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits `[..., B, C]` of inputs `[..., B, *shape]`, with or without a run axis."""
        hidden = x.flatten(self.head.weight.dim() - 1)
        for layer, entries in zip(self.hidden, self.gates, strict=True):
            entry = entries[..., self.task, :]
            fixed = entry.detach()
            gate = (self.sharpness * fixed).sigmoid()
            gate = gate + steepness(fixed, self.sharpness, self.sharpest) * (entry - fixed)
            hidden = (layer(hidden) * gate.unsqueeze(-2)).relu()
        logits: Tensor = self.head(hidden)
        return logits


def steepness(entry: Tensor, sharpness: Tensor, sharpest: Tensor) -> Tensor:
    """The derivative of a gate by its embedding e, with HAT's compensation for the sharpness s.

    That is `sharpest` times (cosh(se) + 1) / (s (cosh(e) + 1)) times the derivative of sigmoid(se),
    with |se| in the cosh clamped to 50. Since the derivative of a sigmoid is 1 / (2 cosh + 2), the
    sharpness cancels except where |se| exceeds 50.

    >>> steepness(torch.zeros(1), torch.ones(1), torch.tensor([8.0]))
    tensor([2.])
    """
    beyond = (sharpness * entry).abs() - STEEPEST
    level = entry.sigmoid()
    return sharpest * level * (1 - level) * (-beyond.clamp(min=0)).exp()
