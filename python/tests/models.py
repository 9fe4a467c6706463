"""Small real models with random weights, and their batches, for all tests."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Case = tuple[nn.Module, Any]
VOCABULARY = 101


class Mlp(nn.Module):
    def __init__(self, width: int = 32, hidden: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        h = F.relu(self.inner(x), inplace=True)
        return F.mse_loss(self.outer(self.dropout(h)), target)


class Block(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.short = (
            nn.Conv2d(cin, cout, 1, stride, bias=False)
            if stride != 1 or cin != cout
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.short(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.layers = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2))
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        h = self.layers(self.stem(x)).mean((2, 3))
        logits = self.head(h)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Odd(nn.Module):
    """Attention, convolution, gating, slices written in place, a no-grad scale."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.conv = nn.Conv1d(width, width, 3, padding=1, groups=2)
        self.gate = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(width))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1)
        h = weights @ v + self.conv(x.transpose(1, 2)).transpose(1, 2)
        a, b = self.gate(h).chunk(2, -1)
        h = a * torch.sigmoid(b)
        with torch.no_grad():
            norm = h.abs().amax(-1, keepdim=True)
            self.steps.add_(1.0)
        shifted = torch.zeros_like(h)
        shifted[:, 1:] = h[:, :-1]
        shifted[:, 0] += 0.5
        y = self.out(h / (norm + 1.0) + shifted) * self.scale
        y[..., 0].mul_(2.0)
        return y.square().mean()


class PixelGate(nn.Module):
    """Channels-last convolutions, group norm, attention over pixels, a gate."""

    def __init__(self, channels: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 5, stride=2, padding=2)
        self.norm = nn.GroupNorm(2, channels)
        self.depth = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.mix = nn.Conv2d(channels, 2 * channels, 1)
        self.attend = nn.MultiheadAttention(channels, 2, batch_first=True)
        self.head = nn.Linear(channels, 7)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        x = x.to(memory_format=torch.channels_last)
        h = F.silu(self.norm(self.stem(x)))
        value, gate = self.mix(self.depth(h)).chunk(2, 1)
        h = h + value * torch.sigmoid(gate)
        pixels = h.flatten(2).transpose(1, 2)
        seen, _ = self.attend(pixels, pixels, pixels, need_weights=False)
        logits = self.head((pixels + seen).mean(1))
        return {"loss": F.cross_entropy(logits, labels, label_smoothing=0.1)}


class Mixture(nn.Module):
    """A router over experts in einsums, running means by cumsum, a soft cap."""

    def __init__(self, width: int = 12, experts: int = 5, hidden: int = 9) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / hidden**0.5)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        steps = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)
        past = x.cumsum(1) / steps[:, None]
        weights = self.router(past).softmax(-1)
        h = torch.einsum("btw,ewh->bteh", x, self.up)
        h = F.gelu(h) * weights[..., None]
        y = torch.einsum("bteh,ehw->btw", h, self.down)
        y = 3.0 * torch.tanh((x + y) / 3.0) * self.scale
        balance = weights.mean((0, 1)).square().sum()
        return F.smooth_l1_loss(y, target) + 0.01 * balance


class Unrolled(nn.Module):
    """A gated recurrence written as a loop, over embeddings; one weight for all
    steps, tied to the output."""

    def __init__(self, vocabulary: int = 53, width: int = 14) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.cell = nn.Linear(2 * width, 3 * width)
        self.start = nn.Parameter(torch.zeros(width))
        self.norm = nn.RMSNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids[:, :-1])
        state = self.start.expand(x.shape[0], -1)
        seen = []
        for step in range(x.shape[1]):
            keep, new, out = self.cell(torch.cat((x[:, step], state), -1)).chunk(3, -1)
            keep = torch.sigmoid(keep)
            state = keep * state + (1 - keep) * torch.tanh(new)
            seen.append(state * torch.sigmoid(out))
        logits = self.norm(torch.stack(seen, 1)) @ self.table.weight.T
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


class Centred(nn.Module):
    """Each block subtracts a moving average that it has just brought up to date."""

    def __init__(self, width: int = 18, blocks: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        for i in range(blocks):
            self.register_buffer(f"average{i}", torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            y = layer(x)
            average = getattr(self, f"average{i}")
            average.lerp_(y.detach().mean(0), 0.25)
            x = x + torch.tanh(y - average)
        return x.square().mean()


class Biased(nn.Module):
    """A recurrent layer, then attention with a learned bias of distances whose
    queries, keys and values are views of one projection, then sums by group."""

    def __init__(self, width: int = 20, heads: int = 2, length: int = 11) -> None:
        super().__init__()
        self.heads = heads
        self.past = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.distance = nn.Embedding(2 * length - 1, heads)
        self.register_buffer("group", torch.arange(length) % 3)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        x = x + self.past(x)[0]
        parts = self.project(self.norm(x))
        parts = parts.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        place = torch.arange(length)
        distance = place[:, None] - place + length - 1
        bias = self.distance(distance).permute(2, 0, 1).expand(batch, -1, -1, -1)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        x = x + seen.transpose(1, 2).flatten(2)
        # The dtype is torch's default: in double, double.
        sums = torch.zeros(batch, 3, width).index_add(1, self.group, x)
        return sums.square().mean()


class Scan(nn.Module):
    """A selective state space block, its scan a loop over time."""

    def __init__(self, width: int = 18, states: int = 5) -> None:
        super().__init__()
        self.width, self.states = width, states
        self.enter = nn.Linear(width, 2 * width)
        self.near = nn.Conv1d(width, width, 4, groups=width, padding=3)
        self.select = nn.Linear(width, 2 * states + width, bias=False)
        rates = torch.arange(1, states + 1).float().log()
        self.rate = nn.Parameter(rates.repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))
        self.leave = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        x, gate = self.enter(x).chunk(2, -1)
        near = self.near(x.transpose(1, 2))[..., :length]
        x = F.silu(near.transpose(1, 2))
        sizes = [self.states, self.states, width]
        write, read, pace = self.select(x).split(sizes, -1)
        pace, rate = F.softplus(pace), -torch.exp(self.rate)
        state, seen = torch.zeros(batch, width, self.states), []
        for t in range(length):
            new = (pace[:, t] * x[:, t])[..., None] * write[:, t, None]
            state = state * torch.exp(pace[:, t, :, None] * rate) + new
            seen.append((state * read[:, t, None]).sum(-1))
        y = torch.stack(seen, 1) + x * self.skip
        return self.leave(y * F.silu(gate))


class Scans(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Scan(), nn.LayerNorm(18), Scan())

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).square().mean()


def mlp() -> Case:
    return Mlp(), (torch.randn(8, 32), torch.randn(8, 32))


def resnet(batch: int = 4) -> Case:
    labels = torch.randint(0, 10, (batch,))
    return ResNet(), {"x": torch.randn(batch, 3, 16, 16), "labels": labels}


def odd(batch: int = 2) -> Case:
    return Odd(), torch.randn(batch, 6, 16)


def pixel_gate(batch: int = 5) -> Case:
    labels = torch.randint(0, 7, (batch,))
    return PixelGate(), {"x": torch.randn(batch, 3, 11, 13), "labels": labels}


def mixture(batch: int = 6) -> Case:
    return Mixture(), (torch.randn(batch, 7, 12), torch.randn(batch, 7, 12))


def centred(batch: int = 12) -> Case:
    return Centred(), torch.randn(batch, 18)


def unrolled(batch: int = 10) -> Case:
    return Unrolled(), torch.randint(0, 53, (batch, 6))


def biased(batch: int = 4) -> Case:
    """One sample a rank on four: its heads are views where others are copies."""
    return Biased(), torch.randn(batch, 11, 20)


def scan(batch: int = 5) -> Case:
    return Scans(), torch.randn(batch, 6, 18)


def gpt2(
    layers: int = 2,
    dropout: float = 0.0,
    batch: int = 2,
    length: int = 16,
    width: int = 32,
    vocabulary: int = VOCABULARY,
) -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=layers, n_embd=width, n_head=4, vocab_size=vocabulary, n_positions=32,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    ids = torch.randint(0, vocabulary, (batch, length))
    return GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def bert(batch: int = 2) -> Case:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4,
        intermediate_size=64, vocab_size=VOCABULARY, max_position_embeddings=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    ids = torch.randint(0, VOCABULARY, (batch, 12))
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    return BertForMaskedLM(config), {
        "input_ids": ids, "attention_mask": mask, "labels": ids,
    }  # fmt: skip


def vit(batch: int = 3) -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4,
        intermediate_size=64, image_size=16, patch_size=4, num_labels=5,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    labels = torch.randint(0, 5, (batch,))
    return ViTForImageClassification(config), {
        "pixel_values": torch.randn(batch, 3, 16, 16), "labels": labels,
    }  # fmt: skip


def llama() -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48, vocab_size=VOCABULARY,
        max_position_embeddings=32,
    )  # fmt: skip
    ids = torch.randint(0, VOCABULARY, (2, 12))
    return LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}


def t5() -> Case:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        num_layers=1, d_model=32, d_kv=8, num_heads=4, d_ff=48, vocab_size=VOCABULARY,
        dropout_rate=0.0, decoder_start_token_id=0,
    )  # fmt: skip
    ids = torch.randint(1, VOCABULARY, (2, 10))
    labels = torch.randint(1, VOCABULARY, (2, 7))
    return T5ForConditionalGeneration(config), {"input_ids": ids, "labels": labels}


CASES: dict[str, Callable[[], Case]] = {
    "mlp": mlp, "gpt2": gpt2, "bert": bert, "vit": vit, "resnet": resnet,
    "llama": llama, "odd": odd, "t5": t5, "pixel_gate": pixel_gate,
    "mixture": mixture, "unrolled": unrolled, "centred": centred, "biased": biased,
    "scan": scan,
}  # fmt: skip
