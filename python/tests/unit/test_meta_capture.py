"""A model on meta and the same model with values give one graph.

Plans are made on meta by default and run with values: whatever differs between
the two graphs would be a plan that cannot be run.
"""

import math

import models
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from shardwright.capture import capture
from shardwright.errors import CaptureError

WIDTH = 6


class Lambda(nn.Module):
    """linear, then `function(module, x)`, which may use all of these."""

    def __init__(self, function, **tensors):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.function = function
        self.register_buffer("count", torch.zeros(WIDTH))
        self.register_buffer("fleeting", torch.arange(3.0), persistent=False)
        self.plain = torch.arange(float(WIDTH))  # neither parameter nor buffer
        self.listed = [torch.ones(WIDTH)]

    def forward(self, x):
        return self.function(self, x)


def _set_scalar(m, x):
    y = m.linear(x)
    y[:, 0] = 0
    return y


def _set_slice(m, x):
    x = x.clone()
    x[:, 3] = 0.5
    y = m.linear(x)
    y[1:3, ::2] = -1.5
    return y


def _set_mask(m, x):
    y = m.linear(x)
    y[y > 1] = 1.0
    return y


def _set_tensor(m, x):
    y = m.linear(x)
    y[:, 1] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    y[0] = m.fleeting.sum()
    return y


def _set_new_mask(m, x):
    mask = torch.zeros(4, WIDTH, dtype=torch.bool)
    mask[:, 2:] = True
    return m.linear(x).masked_fill(mask, -math.inf).softmax(-1)


def _shift_right(m, x):
    ids = torch.zeros(4, 5, dtype=torch.long)
    ids[:, 1:] = torch.arange(4)
    ids[:, 0] = 2
    return m.linear(x) + F.one_hot(ids[:, 0], WIDTH)


def _buffer(m, x):
    y = m.linear(x)
    m.count.add_(y.detach().sum(0))
    return y - m.count


def _causal(m, x):
    y = m.linear(x)
    mask = torch.full((4, 4), -math.inf).triu(1)
    return (y @ y.T + mask).softmax(-1) @ y


def _unrolled(m, x):
    h = torch.zeros(x.shape[0], WIDTH)
    for _ in range(3):
        h = torch.tanh(m.linear(x) + h)
    return h


FORWARDS = {
    "set scalar": _set_scalar,
    "set slice": _set_slice,
    "set by mask": _set_mask,
    "set tensors": _set_tensor,
    "mask made and written": _set_new_mask,
    "ids made and written": _shift_right,
    "buffer changed": _buffer,
    "causal mask": _causal,
    "unrolled from zeros": _unrolled,
    "tensor": lambda m, x: m.linear(x) * torch.tensor([1.0, 2, 3, 4, 5, 6]),
    "tensor of one number": lambda m, x: m.linear(x) * torch.tensor(2.0),
    "tensor as index": lambda m, x: m.linear(x)[:, torch.tensor([0, 2, 4])],
    "list as index": lambda m, x: m.linear(x)[:, [3, 0, 2]],
    "index_select": lambda m, x: m.linear(x).index_select(1, torch.tensor([0, 2])),
    "as_tensor": lambda m, x: m.linear(x) + torch.as_tensor([0.5] * WIDTH),
    "scalar_tensor": lambda m, x: m.linear(x) * torch.scalar_tensor(3.0),
    "where numbers": lambda m, x: torch.where(x > 0, 1.0, 0.1) * m.linear(x),
    "where tensors": lambda m, x: torch.where(
        m.linear(x) > 0, m.linear(x), torch.tensor(0.0)
    ),
    "ones": lambda m, x: m.linear(x) @ torch.ones(WIDTH, 3),
    "zeros": lambda m, x: torch.cat([m.linear(x), torch.zeros(4, 2)], 1),
    "full": lambda m, x: m.linear(x) * torch.full((1, WIDTH), 1 / 11.0),
    "arange": lambda m, x: m.linear(x) + torch.arange(WIDTH),
    "arange of the batch": lambda m, x: F.cross_entropy(
        m.linear(x), torch.arange(len(x))
    ),
    "linspace": lambda m, x: m.linear(x) * torch.linspace(-1, 1, WIDTH),
    "eye": lambda m, x: m.linear(x) @ torch.eye(WIDTH),
    "empty": lambda m, x: m.linear(x) + torch.empty(WIDTH).fill_(2.0),
    "rand": lambda m, x: m.linear(x) + 0.1 * torch.rand(4, WIDTH),
    "meshgrid": lambda m, x: (
        m.linear(x)
        + torch.meshgrid(torch.arange(4.0), torch.arange(6.0), indexing="ij")[0]
    ),
    "tril_indices": lambda m, x: m.linear(x)[tuple(torch.tril_indices(4, 4))],
    "beside the input": lambda m, x: m.linear(x) + torch.ones(WIDTH, device=x.device),
    "on the CPU by name": lambda m, x: m.linear(x) + torch.ones(WIDTH, device="cpu"),
    "new_tensor": lambda m, x: m.linear(x) + x.new_tensor([1.0] * WIDTH),
    "zeros_like, new_zeros": lambda m, x: (
        m.linear(x) + torch.zeros_like(x) + x.new_zeros(WIDTH)
    ),
    "numpy": lambda m, x: m.linear(x) + torch.from_numpy(np.ones(WIDTH, np.float32)),
    "unregistered": lambda m, x: m.linear(x) + m.plain + m.listed[0],
    "branch on device": lambda m, x: m.linear(x) * (2 if x.is_meta else 3),
}


def both_graphs(build):
    """Graphs of build() -> (model, batch, loss) with values, and on meta."""
    made = []
    for device in ("cpu", "meta"):
        with torch.device(device):
            model, batch, loss = build()
        graph = capture(model, batch, loss=loss).graph
        assert graph.pop("device") == device
        made.append(graph)
    return made


@pytest.mark.parametrize("name", FORWARDS)
def test_forward(name):
    def build():
        return Lambda(FORWARDS[name]), torch.randn(4, WIDTH), lambda y: y.sum()

    real, meta = both_graphs(build)
    assert meta == real


@pytest.mark.parametrize("name", models.CASES)
def test_models(name):
    real, meta = both_graphs(lambda: (*models.CASES[name](), None))
    assert meta == real


def _whisper(hf):
    config = hf.WhisperConfig(
        vocab_size=97, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=20,
        decoder_ffn_dim=20, max_source_positions=12, max_target_positions=16,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    batch = {
        "input_features": torch.randn(2, 8, 24),
        "labels": torch.randint(3, 97, (2, 7)),
    }
    return hf.WhisperForConditionalGeneration(config).eval(), batch


def test_whisper():
    hf = pytest.importorskip("transformers")
    real, meta = both_graphs(lambda: (*_whisper(hf), None))
    assert meta == real


def test_the_loss_may_hold_tensors():
    def build():
        weigh = nn.CrossEntropyLoss(weight=torch.arange(1.0, 7.0))
        labels = torch.zeros(4, dtype=torch.long)
        return (
            Lambda(lambda m, x: m.linear(x)),
            torch.randn(4, WIDTH),
            lambda y: weigh(y, labels),
        )

    real, meta = both_graphs(build)
    assert meta == real
    assert [v["kind"] for v in real["values"]].count("constant") == 2


def test_constants_of_the_models_own_have_values_on_meta_too():
    def forward(m, x):
        return m.linear(x) * torch.tensor([1.0, 2, 3, 4, 5, 6]) + m.plain

    with torch.device("meta"):
        model, x = Lambda(forward), torch.randn(4, WIDTH)
    captured = capture(model, x, loss=lambda y: y.sum())
    names = {v["name"] for v in captured.graph["values"] if v["kind"] == "constant"}
    (known,) = names - set(captured.valueless)
    assert captured.module.get_buffer(known).tolist() == [1, 2, 3, 4, 5, 6]
    # What was built on meta has none, and is not made up.
    (unknown,) = names & set(captured.valueless)
    assert captured.module.get_buffer(unknown).is_meta


def test_inside_the_context_of_meta():
    """Capture inside `with torch.device("meta")` is capture behind it."""

    def forward(m, x):
        return m.linear(x) * torch.tensor([1.0, 2, 3, 4, 5, 6]) + torch.ones(WIDTH)

    with torch.device("meta"):
        model, x = Lambda(forward), torch.randn(4, WIDTH)
        inside = capture(model, x, loss=lambda y: y.sum()).graph
    assert inside == capture(model, x, loss=lambda y: y.sum()).graph


def test_a_buffer_with_values_in_a_model_on_meta():
    def build():
        model = Lambda(lambda m, x: m.linear(x) + m.shift)
        model.register_buffer("shift", torch.ones(WIDTH, device="cpu"))
        return model, torch.randn(4, WIDTH), lambda y: y.sum()

    real, meta = both_graphs(build)
    assert meta == real


def test_nothing_is_allocated():
    """Ten terabytes of parameters."""
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(1 << 20, 1 << 20), nn.Linear(1 << 20, 1 << 20))
        x = torch.randn(1 << 20, 1 << 20)
    graph = capture(model, x, loss=lambda y: y.sum()).graph
    assert [op["name"] for op in graph["ops"]] == ["aten.linear.default"] * 2 + [
        "aten.sum.default"
    ]


def test_ambient_autocast():
    def build():
        return (
            Lambda(lambda m, x: m.linear(x)),
            torch.randn(4, WIDTH),
            lambda y: y.sum(),
        )

    with torch.autocast("cpu", dtype=torch.bfloat16):
        real, meta = both_graphs(build)
    assert meta == real
    linear = next(op for op in real["ops"] if op["name"] == "aten.linear.default")
    assert real["values"][linear["results"][0]]["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.linear(x) + torch.ones(WIDTH, device="cuda"),
        lambda m, x: m.linear(x) + torch.ones(WIDTH, device="meta"),
        lambda m, x: m.linear(x.cuda()),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_another_device_by_name_is_refused(forward, device):
    with torch.device(device):
        model, x = Lambda(forward), torch.randn(4, WIDTH)
    with pytest.raises(CaptureError, match=r"device=x\.device.*--real"):
        capture(model, x, loss=lambda y: y.sum())
