# SPDX-License-Identifier: Apache-2.0
"""Training programs that can be run unchanged or with one edit, to check `ashlar whatif`.
The file is long because recordings refer to it by line: each program is a few lines, and one file
is easier to keep in step with the recordings.

    edited_programs.py PROGRAM EDIT [DUMP [REPLACEMENTS]]

Runs PROGRAM with EDIT ("base": unchanged) and prints one JSON object with the peaks that PyTorch
reports. With DUMP, records the run with Python stacks and writes the snapshot there. REPLACEMENTS
is a JSON list of [old, new] path prefixes.

An edit changes one thing; seeds, shapes and the order of work stay. edits.py lists the edits of
each program. A comment "# line: NAME" marks a line that an edit refers to.
"""
import json
import pickle
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

EDIT = sys.argv[2] if len(sys.argv) > 2 else "base"
RNG = random.Random(1)
VOCABULARY = 8000


def saved(name, function, *inputs):
    """Calls a function; the edits recompute_NAME and offload_NAME change what it saves."""
    if EDIT == f"recompute_{name}" or EDIT == f"recompute_{name}_expandable":
        return checkpoint(function, *inputs, use_reentrant=False)
    if EDIT == f"offload_{name}":
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return function(*inputs)
    return function(*inputs)


def batch_of(sizes):
    size = RNG.choice(sizes)
    return size // 2 if EDIT == "half_batch" else size


def tokens_of(sizes, shortest, longest):
    batch, length = batch_of(sizes), RNG.randrange(shortest, longest)
    return torch.randint(0, VOCABULARY, (batch, length), device="cuda")


def optimizer_of(parameters, name="plain_sgd"):
    if EDIT == name:
        return torch.optim.SGD(parameters, lr=0.01)
    return torch.optim.AdamW(parameters, lr=1e-4, foreach=EDIT != "foreach_off")


def clear_gradients(*optimizers):
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=EDIT != "keep_grads")


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) / (width // self.heads) ** 0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = Attention(width, heads), Mlp(width)

    def forward(self, x):
        x = x + saved("attention", self.attention, self.norm1(x))
        return x + saved("mlp", self.mlp, self.norm2(x))


class Group(nn.Module):
    def __init__(self, width, heads, size):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(size)])

    def forward(self, x):
        for block in self.blocks:
            x = saved("block", block, x)
        return x


class LanguageModel(nn.Module):
    def __init__(self, width=512, layers=6, heads=8, group_size=0):
        super().__init__()
        self.group_size = group_size  # 0: without checkpoints
        size = group_size or layers
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.groups = nn.ModuleList([Group(width, heads, size) for _ in range(layers // size)])
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for group in self.groups:
            x = checkpoint(group, x, use_reentrant=False) if self.group_size else group(x)
        return self.head(x)  # line: logits


def next_token_loss(logits, tokens):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def language_step(model, optimizer, tokens, kept):
    logits = model(tokens)  # line: model_call
    loss = next_token_loss(logits, tokens)
    if EDIT != "forget_logits":
        kept.append(logits.detach())
        del kept[:-2]
    loss.backward()
    optimizer.step()
    clear_gradients(optimizer)


def train_language_model(model, steps, sizes=(4, 6, 8), lengths=(192, 512), optimizer=None):
    optimizer = optimizer or optimizer_of(model.parameters())
    kept = []
    for _ in range(steps):
        language_step(model, optimizer, tokens_of(sizes, *lengths), kept)


def language_model():
    train_language_model(LanguageModel().cuda(), 8)


def attention_peak():
    """The peak is inside the attention: its scores are larger than all other activations."""
    train_language_model(LanguageModel(width=256, layers=2, heads=16).cuda(), 6,
                         (2, 4, 6), (640, 1100))


def nested_checkpoints():
    """Groups of two blocks are checkpointed; the edits add checkpoints inside them."""
    train_language_model(LanguageModel(layers=8, group_size=2).cuda(), 6)


def settings():
    """The edits are settings of the allocator, which record_edits.py passes by the environment."""
    train_language_model(LanguageModel(layers=4).cuda(), 8, (3, 4, 6, 8, 10), (100, 600))


def compiled():
    """Compiles before the first iteration: tuning of kernels allocates only in a cold cache."""
    model = LanguageModel(layers=3).cuda()
    optimizer = optimizer_of(model.parameters())
    run = torch.compile(model, dynamic=True)
    warm_up = torch.zeros(2, 32, dtype=torch.long, device="cuda")
    next_token_loss(run(warm_up), warm_up).backward()
    optimizer.zero_grad()
    torch.cuda.empty_cache()
    train_language_model(run, 6, optimizer=optimizer)


def mixed_precision():
    model = LanguageModel(layers=4).cuda()
    optimizer = optimizer_of(model.parameters())
    for _ in range(6):
        tokens = tokens_of((8, 12, 16), 192, 512)
        with torch.autocast("cuda", torch.bfloat16):
            loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        clear_gradients(optimizer)


def gradient_accumulation():
    model = LanguageModel(layers=4).cuda()
    optimizer = optimizer_of(model.parameters())
    for _ in range(4):
        for _ in range(3):
            tokens = tokens_of((2, 4, 6), 192, 512)
            (next_token_loss(model(tokens), tokens) / 3).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=EDIT == "set_to_none")


def score(model, tokens):
    logits = model(tokens)
    return logits.mean() if EDIT == "forget_predictions" else logits


def train_once(model, optimizer, tokens, probabilities):
    logits = model(tokens)
    if EDIT != "drop_probabilities":
        probabilities.append(logits.detach().softmax(-1))  # line: probabilities
    next_token_loss(logits, tokens).backward()
    optimizer.step()
    clear_gradients(optimizer)


def evaluation():
    """The predictions of an evaluation are kept on the device until its end."""
    model = LanguageModel(layers=4).cuda()
    optimizer = optimizer_of(model.parameters())
    for _ in range(2):
        probabilities = []
        for _ in range(3):
            train_once(model, optimizer, tokens_of((4, 6, 8), 192, 512), probabilities)
        predictions = []
        with torch.no_grad():
            for _ in range(5):
                predictions.append(score(model, tokens_of((8, 12, 16), 192, 512)))
        del predictions


class Generator(nn.Module):
    def __init__(self, noise, width, pixels):
        super().__init__()
        self.first, self.second = nn.Linear(noise, width), nn.Linear(width, width)
        self.last = nn.Linear(width, pixels)

    def forward(self, noise):
        return torch.tanh(self.last(F.silu(self.second(F.silu(self.first(noise))))))


class Critic(nn.Module):
    def __init__(self, pixels, width):
        super().__init__()
        self.first, self.second = nn.Linear(pixels, width), nn.Linear(width, width)
        self.last = nn.Linear(width, 1)

    def forward(self, images):
        return self.last(F.silu(self.second(F.silu(self.first(images)))))


def two_models():
    generator, critic = Generator(128, 2048, 12288).cuda(), Critic(12288, 2048).cuda()
    train_generator = optimizer_of(generator.parameters(), "no_generator_state")
    train_critic = optimizer_of(critic.parameters(), "no_critic_state")
    for _ in range(6):
        batch = batch_of((2048, 3072, 4096))
        real = torch.randn(batch, 12288, device="cuda")
        noise = torch.randn(batch, 128, device="cuda")
        with torch.no_grad():
            fake = generator(noise)
        (saved("critic", critic, fake).mean() - saved("critic", critic, real).mean()).backward()
        train_critic.step()  # line: critic_step
        clear_gradients(train_generator, train_critic)
        (-saved("critic", critic, saved("generator", generator, noise)).mean()).backward()
        train_generator.step()  # line: generator_step
        clear_gradients(train_generator, train_critic)


def actor_critic():
    actor, reference = LanguageModel(layers=4).cuda(), LanguageModel(layers=4).cuda()
    critic = LanguageModel(layers=2).cuda()
    train_actor = optimizer_of(actor.parameters())
    train_critic = optimizer_of(critic.parameters(), "no_critic_state")
    for _ in range(5):
        tokens = tokens_of((6, 8, 12), 192, 512)
        with torch.no_grad():
            expected = reference(tokens).log_softmax(-1)  # line: expected
        if EDIT == "forget_reference":
            expected = expected.mean()
        (actor(tokens).log_softmax(-1) - expected).pow(2).mean().backward()
        train_actor.step()  # line: actor_step
        clear_gradients(train_actor)
        critic(tokens).mean(-1).pow(2).mean().backward()
        train_critic.step()  # line: value_step
        clear_gradients(train_critic)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a = nn.Conv2d(channels, channels, 3, padding=1)
        self.b = nn.Conv2d(channels, channels, 3, padding=1)
        self.na, self.nb = nn.GroupNorm(8, channels), nn.GroupNorm(8, channels)

    def forward(self, x):
        return x + self.b(F.silu(self.nb(self.a(F.silu(self.na(x))))))


class Stage(nn.Module):
    def __init__(self, inputs, outputs, depth=2):
        super().__init__()
        self.reduce = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
        self.layers = nn.Sequential(*[Residual(outputs) for _ in range(depth)])

    def forward(self, x):
        return self.layers(self.reduce(x))


def momentum_sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0 if EDIT == "no_momentum" else 0.9)


def convolution():
    stages = nn.ModuleList([Stage(3, 64), Stage(64, 128), Stage(128, 256)]).cuda()
    head = nn.Linear(256, 1000).cuda()
    optimizer = momentum_sgd([*stages.parameters(), *head.parameters()])
    for _ in range(8):
        side, batch = RNG.choice([128, 160, 192, 224]), batch_of((16, 24, 32))
        x = torch.randn(batch, 3, side, side, device="cuda")
        labels = torch.randint(0, 1000, (batch,), device="cuda")
        for stage in stages:
            x = saved("stage", stage, x)
        F.cross_entropy(head(x.mean((2, 3))), labels).backward()
        optimizer.step()
        clear_gradients(optimizer)


class Down(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.a = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.b = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.norm(self.b(F.relu(self.a(x)))))


class Up(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.a = nn.Conv2d(inputs + outputs, outputs, 3, padding=1)
        self.b = nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x, skip):
        x = F.interpolate(x, size=skip.shape[2:], mode="nearest")
        return F.relu(self.b(F.relu(self.a(torch.cat([x, skip], 1)))))


def unet():
    """A U-Net: its skip connections live from the way down to the way up."""
    channels = [3, 32, 64, 128]
    down = nn.ModuleList([Down(*pair) for pair in zip(channels, channels[1:])]).cuda()
    up = nn.ModuleList([Up(128, 64), Up(64, 32)]).cuda()
    last = nn.Conv2d(32, 3, 1).cuda()
    optimizer = momentum_sgd([p for m in (down, up, last) for p in m.parameters()])
    for _ in range(6):
        side, batch = RNG.choice([96, 128, 160, 192]), batch_of((16, 24, 32))
        images = torch.randn(batch, 3, side, side, device="cuda")
        x, skips = images, []
        for level, each in enumerate(down):
            x = saved("down", each, x)
            if level + 1 < len(down):
                skips.append(x)
                x = F.max_pool2d(x, 2)
        for each in up:
            x = saved("up", each, x, skips.pop())
        (last(x) - images).pow(2).mean().backward()
        optimizer.step()
        clear_gradients(optimizer)


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.input, self.hidden = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)

    def forward(self, x, state):
        update, candidate = (self.input(x) + self.hidden(state)).chunk(2, -1)
        update = torch.sigmoid(update)
        return update * state + (1 - update) * torch.tanh(candidate)


def recurrent():
    """Calls of one function that follow each other directly, with the same callers."""
    cell, head = Cell(768).cuda(), nn.Linear(768, 768).cuda()
    optimizer = optimizer_of([*cell.parameters(), *head.parameters()])
    for _ in range(5):
        batch, length = batch_of((1024, 1536, 2048)), RNG.randrange(12, 24)
        inputs = torch.randn(length, batch, 768, device="cuda")
        state = torch.zeros(batch, 768, device="cuda")
        for x in inputs:
            state = saved("cell", cell, x, state)
        head(state).pow(2).mean().backward()
        optimizer.step()
        clear_gradients(optimizer)


def several_optimizers():
    model = LanguageModel(width=768, layers=4).cuda()
    body = list(model.groups.parameters())
    ends = [*model.embedding.parameters(), *model.head.parameters()]
    if EDIT == "plain_body":
        train_body = torch.optim.SGD(body, lr=1e-3)
    else:
        train_body = torch.optim.RMSprop(body, lr=1e-4, momentum=0.5, foreach=EDIT != "foreach_off")
    train_ends = optimizer_of(ends, "plain_ends")
    for _ in range(6):
        tokens = tokens_of((2, 3, 4), 128, 384)
        next_token_loss(model(tokens), tokens).backward()
        train_body.step()  # line: body_step
        train_ends.step()  # line: ends_step
        clear_gradients(train_body, train_ends)


def averaged_weights():
    """Keeps an average of the weights, and a history of hidden states of a fixed size."""
    model = LanguageModel(layers=4).cuda()
    optimizer = optimizer_of(model.parameters())
    average = []
    if EDIT != "no_average":
        average = [p.detach().clone() for p in model.parameters()]  # line: average
    rows = 32768 if EDIT == "half_history" else 65536
    history = torch.zeros(rows, 1024, device="cuda")  # line: history
    for step in range(6):
        tokens = tokens_of((4, 6, 8), 128, 384)
        loss = next_token_loss(model(tokens), tokens)
        history[step] = loss.detach()
        loss.backward()
        optimizer.step()
        clear_gradients(optimizer)
        for kept, parameter in zip(average, model.parameters()):
            kept.lerp_(parameter.detach(), 0.01)


class PrefixReplacer:
    """Copies a snapshot with other path prefixes. Shared objects stay shared, which keeps the
    pickle small."""

    def __init__(self, replacements):
        self.replacements = replacements
        self.copies = {}  # by id(); the snapshot keeps the originals alive

    def copy(self, value):
        if not isinstance(value, (str, dict, list, tuple)):
            return value
        if id(value) not in self.copies:
            self.copies[id(value)] = self.make_copy(value)
        return self.copies[id(value)]

    def make_copy(self, value):
        if isinstance(value, str):
            for old, new in self.replacements:
                value = value.replace(old, new)
            return value
        if isinstance(value, dict):
            return {key: self.copy(each) for key, each in value.items()}
        return type(value)(self.copy(each) for each in value)


def main():
    program = sys.argv[1]
    dump = sys.argv[3] if len(sys.argv) > 3 else None
    replacements = json.loads(sys.argv[4]) if len(sys.argv) > 4 else []
    torch.manual_seed(1)
    if dump:
        torch.cuda.memory._record_memory_history(max_entries=500_000, context="all",
                                                 stacks="python")
    globals()[program]()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    print(json.dumps({"program": program, "edit": EDIT, "version": torch.__version__,
                      **{f"{key}_peak": stats[f"{key}_bytes.all.peak"]
                         for key in ("requested", "allocated", "active", "reserved")}}),
          flush=True)
    if dump:
        snapshot = torch.cuda.memory._snapshot()
        with open(dump, "wb") as file:
            pickle.dump(PrefixReplacer(replacements).copy(snapshot), file, protocol=4)


if __name__ == "__main__":
    main()
