# SPDX-License-Identifier: Apache-2.0
"""Small PyTorch programs whose memory use is known, to be recorded on a GPU.

    programs.py NAME DUMP

Runs the program NAME, writes its memory snapshot to DUMP (a pickle) and prints one JSON object:
the peaks that PyTorch reports and the bytes of the model's parameters, buffers, gradients and
optimizer state, computed from the tensors themselves. record.py runs all of them.

The file is long because recordings refer to it by line: each program is a few lines, and one file
is easier to keep in step with the recordings. After a change, record all programs again.
"""
import json
import pickle
import sys

import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 256
VOCABULARY = 2000
LENGTH = 96
BATCH = 8


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


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self, width=WIDTH, layers=3, heads=4):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class ConvNet(nn.Module):
    def __init__(self, channels=32):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.layers = nn.Sequential(*[
            nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
                          nn.ReLU())
            for _ in range(5)])
        self.head = nn.Linear(channels, 100)

    def forward(self, images):
        return self.head(self.layers(self.stem(images)).mean((2, 3)))


def make_tokens(batch=BATCH):
    return torch.randint(0, VOCABULARY, (batch, LENGTH), device="cuda")


def make_images(batch=16, side=48):
    images = torch.randn(batch, 3, side, side, device="cuda")
    return images, torch.randint(0, 100, (batch,), device="cuda")


def language_loss(model, tokens):
    logits = model(tokens)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def bytes_of(tensors):
    """The bytes of the storages of CUDA tensors; each storage counts once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
                for t in tensors if t.is_cuda}
    return sum(storages.values())


ALIVE = []  # what still exists when the snapshot is written, as in a program that dumps in its loop


class Truth:
    """The model's computed sizes. Gradients are measured while all of them exist."""

    def __init__(self):
        self.gradient_bytes = 0
        self.iterations = 0

    def after_backward(self, *models):
        self.gradient_bytes = bytes_of(
            [p.grad for model in models for p in model.parameters() if p.grad is not None])

    def after_step(self):
        self.iterations += 1

    def summary(self, models, optimizers, kept=()):
        ALIVE.append((models, optimizers, kept))
        state = [value for optimizer in optimizers for values in optimizer.state.values()
                 for value in (values.values() if isinstance(values, dict) else [])
                 if isinstance(value, torch.Tensor)]
        return {
            "parameter_bytes": bytes_of([p for m in models for p in m.parameters()]),
            "buffer_bytes": bytes_of([b for m in models for b in m.buffers()]),
            "gradient_bytes": self.gradient_bytes,
            "optimizer_state_bytes": bytes_of(state),
            "iterations": self.iterations,
            "leaked_bytes": bytes_of(kept),
        }


def train_language_model(optimizer_class, steps=6, **settings):
    truth = Truth()
    model = LanguageModel().cuda()
    optimizer = optimizer_class(model.parameters(), **settings)
    for _ in range(steps):
        loss = language_loss(model, make_tokens())
        loss.backward()
        truth.after_backward(model)
        optimizer.step()
        optimizer.zero_grad()
        truth.after_step()
    return truth.summary([model], [optimizer])


def transformer():
    return train_language_model(torch.optim.AdamW, lr=1e-4)


def adam_foreach_off():
    return train_language_model(torch.optim.Adam, lr=1e-4, foreach=False)


def adam_fused():
    return train_language_model(torch.optim.AdamW, lr=1e-4, fused=True)


def rmsprop():
    return train_language_model(torch.optim.RMSprop, lr=1e-4, momentum=0.5)


def adagrad():
    return train_language_model(torch.optim.Adagrad, lr=1e-3)


def plain_sgd():
    return train_language_model(torch.optim.SGD, lr=1e-2)


def convolution():
    truth = Truth()
    model = ConvNet().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(6):
        optimizer.zero_grad()
        images, labels = make_images()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        truth.after_backward(model)
        optimizer.step()
        truth.after_step()
    return truth.summary([model], [optimizer])


def mixed_precision():
    truth = Truth()
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(6):
        tokens = make_tokens()
        with torch.autocast("cuda", torch.float16):
            loss = language_loss(model, tokens)
        scaler.scale(loss).backward()
        truth.after_backward(model)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        truth.after_step()
    return truth.summary([model], [optimizer])


def bfloat16():
    truth = Truth()
    model = LanguageModel().to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(6):
        loss = language_loss(model, make_tokens())
        loss.backward()
        truth.after_backward(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        truth.after_step()
    return truth.summary([model], [optimizer])


def gradient_accumulation():
    truth = Truth()
    model = LanguageModel().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(5):
        for _ in range(3):
            loss = language_loss(model, make_tokens(4)) / 3
            loss.backward()
        truth.after_backward(model)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        truth.after_step()
    return truth.summary([model], [optimizer])


def evaluation():
    truth = Truth()
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    best = None
    for _ in range(3):
        model.train()
        for _ in range(3):
            optimizer.zero_grad()
            loss = language_loss(model, make_tokens())
            loss.backward()
            truth.after_backward(model)
            optimizer.step()
            truth.after_step()
        model.eval()
        with torch.no_grad():
            losses = [language_loss(model, make_tokens(16)) for _ in range(2)]
            best = torch.stack(losses).mean() if best is None else torch.minimum(best, losses[0])
    return truth.summary([model], [optimizer])


def two_models():
    truth = Truth()
    generator = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                              nn.Linear(512, 3072)).cuda()
    critic = nn.Sequential(nn.Linear(3072, 512), nn.ReLU(), nn.Linear(512, 1)).cuda()
    train_generator = torch.optim.Adam(generator.parameters(), lr=1e-4)
    train_critic = torch.optim.RMSprop(critic.parameters(), lr=1e-4)
    for _ in range(6):
        real = torch.randn(256, 3072, device="cuda")
        noise = torch.randn(256, 64, device="cuda")
        critic_loss = critic(generator(noise).detach()).mean() - critic(real).mean()
        train_critic.zero_grad()
        critic_loss.backward()
        train_critic.step()
        train_generator.zero_grad()
        generator_loss = -critic(generator(noise)).mean()
        generator_loss.backward()
        truth.after_backward(generator, critic)
        train_generator.step()
        truth.after_step()
    return truth.summary([generator, critic], [train_generator, train_critic])


def checkpointing():
    truth = Truth()
    model = LanguageModel(layers=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(5):
        tokens = make_tokens()
        x = model.embedding(tokens)
        for block in model.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        loss = F.cross_entropy(model.head(x)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        truth.after_backward(model)
        optimizer.step()
        optimizer.zero_grad()
        truth.after_step()
    return truth.summary([model], [optimizer])


def compiled():
    truth = Truth()
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    step = torch.compile(language_loss)
    for _ in range(6):
        loss = step(model, make_tokens())
        loss.backward()
        truth.after_backward(model)
        optimizer.step()
        optimizer.zero_grad()
        truth.after_step()
    return truth.summary([model], [optimizer])


def annotated():
    truth = Truth()
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    with torch.autograd.profiler.profile(enabled=False):
        for step in range(5):
            torch.cuda.memory._set_memory_metadata(f"step {step}")
            with torch.profiler.record_function(f"step {step}"):
                with torch.profiler.record_function("forward"):
                    loss = language_loss(model, make_tokens())
                with torch.profiler.record_function("backward"):
                    loss.backward()
                truth.after_backward(model)
                with torch.profiler.record_function("optimizer"):
                    optimizer.step()
                    optimizer.zero_grad()
            truth.after_step()
    return truth.summary([model], [optimizer])


def inference():
    model = LanguageModel().cuda().eval()
    with torch.inference_mode():
        for _ in range(3):
            tokens = make_tokens(4)
            cache = [torch.zeros(4, LENGTH + 16, WIDTH, device="cuda") for _ in range(6)]
            for step in range(6):
                logits = model(tokens)
                tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], 1)
                cache[step][:, :tokens.shape[1]] = 1
            del cache
    return Truth().summary([model], [])


def trainer():
    """Hugging Face's Trainer: the loop is library code, only the model is the user's."""
    import os
    os.environ["WANDB_DISABLED"] = "true"
    from transformers import Trainer, TrainingArguments

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = LanguageModel()

        def forward(self, tokens, labels=None):
            logits = self.model(tokens)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            return {"loss": loss, "logits": logits}

    truth = Truth()
    model = Wrapped()
    data = [{"tokens": torch.randint(0, VOCABULARY, (LENGTH,)), "labels": 0} for _ in range(48)]
    arguments = TrainingArguments(output_dir="/tmp/trainer", per_device_train_batch_size=8,
                                  num_train_epochs=1, report_to=[], save_strategy="no",
                                  logging_strategy="no", disable_tqdm=True)
    run = Trainer(model=model, args=arguments, train_dataset=data)
    run.train()
    gradient_bytes = bytes_of(list(model.parameters()))
    optimizer = getattr(run.optimizer, "optimizer", run.optimizer)
    sizes = truth.summary([model], [optimizer])
    ALIVE.append(run)
    return {**sizes, "gradient_bytes": gradient_bytes, "iterations": 6}


def lightning():
    import logging
    import pytorch_lightning as pl
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = LanguageModel()

        def training_step(self, batch, index):
            return language_loss(self.model, batch)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    module = Module()
    data = torch.utils.data.DataLoader(torch.randint(0, VOCABULARY, (48, LENGTH)), batch_size=8)
    run = pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="gpu",
                     devices=1, enable_progress_bar=False, enable_model_summary=False)
    run.fit(module, data)
    sizes = Truth().summary([module], run.optimizers)
    sizes["parameter_bytes"] = sum(p.numel() * p.element_size() for p in module.parameters())
    state = [value.numel() * value.element_size() for values in run.optimizers[0].state.values()
             for value in values.values() if isinstance(value, torch.Tensor) and value.numel() > 1]
    ALIVE.append(run)
    return {**sizes, "optimizer_state_bytes": sum(state),
            "gradient_bytes": sizes["parameter_bytes"], "iterations": 6}


def out_of_memory():
    truth = Truth()
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    history = []
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(210 * 2**20 / total)
    try:
        for step in range(40):
            loss = language_loss(model, make_tokens(4 + step))
            history.append(torch.zeros(3 * 2**20 + step, dtype=torch.uint8, device="cuda"))
            loss.backward()
            truth.after_backward(model)
            optimizer.step()
            optimizer.zero_grad()
            truth.after_step()
    except torch.OutOfMemoryError:
        pass
    return truth.summary([model], [optimizer], history)


def leak(keep, steps=8):
    """Trains with one allocation per iteration that `keep` retains."""
    truth = Truth()
    model = LanguageModel(layers=1).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    kept = []
    for step in range(steps):
        tokens = make_tokens()
        loss = language_loss(model, tokens)
        loss.backward()
        truth.after_backward(model)
        optimizer.step()
        optimizer.zero_grad()
        keep(kept, step, tokens, loss)
        truth.after_step()
    return truth.summary([model], [optimizer], kept)


def leak_losses():
    return leak(lambda kept, step, tokens, loss: kept.append(loss.detach() * 1.0))


def leak_batches():
    return leak(lambda kept, step, tokens, loss: kept.append(tokens))


def leak_copies():
    def copy(kept, step, tokens, loss):
        kept.append(torch.empty(2**20 + 512 * step, device="cuda"))

    return leak(copy)


def leak_cache_by_step():
    def remember(kept, step, tokens, loss):
        cache[step] = torch.zeros(64, 1024, device="cuda")

    cache = {}
    sizes = leak(remember)
    ALIVE.append(cache)
    return sizes | {"leaked_bytes": bytes_of(cache.values())}


def leak_every_second_step():
    def sometimes(kept, step, tokens, loss):
        if step % 2 == 1:
            kept.append(torch.ones(300, 1000, device="cuda"))

    return leak(sometimes, steps=12)


def leak_growing():
    def grow(kept, step, tokens, loss):
        kept.append(torch.ones(1000 * (step + 1), 64, device="cuda"))

    return leak(grow)


def leak_concatenation():
    def append(kept, step, tokens, loss):
        kept[:] = [torch.cat([*kept, torch.ones(100_000, device="cuda")])]

    return leak(append)


def leak_no_grad():
    """Inference that keeps one output of each request."""
    model = LanguageModel(layers=1).cuda().eval()
    kept = []
    with torch.no_grad():
        for _ in range(8):
            logits = model(make_tokens(2))
            kept.append(logits[:, -1].softmax(-1).clone())
    return Truth().summary([model], [], kept) | {"iterations": 8}


def leak_graph():
    """Keeps the loss with its graph, and so all activations of each iteration."""
    truth = Truth()
    model = LanguageModel(layers=1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    total = 0
    for _ in range(6):
        loss = language_loss(model, make_tokens(2))
        loss.backward(retain_graph=True)
        truth.after_backward(model)
        total = total + loss
        optimizer.step()
        optimizer.zero_grad()
        truth.after_step()
    return truth.summary([model], [optimizer], [total])


def leak_convolution_features():
    truth = Truth()
    model = ConvNet().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    features = []
    model.layers.register_forward_hook(
        lambda module, inputs, output: features.append(output.detach().clone()))
    for _ in range(7):
        images, labels = make_images(4, 32)
        F.cross_entropy(model(images), labels).backward()
        truth.after_backward(model)
        optimizer.step()
        optimizer.zero_grad()
        truth.after_step()
    return truth.summary([model], [optimizer], features)


def lost_beginning():
    return train_language_model(torch.optim.AdamW, steps=8, lr=1e-4)


def state_only():
    return train_language_model(torch.optim.AdamW, steps=2, lr=1e-4)


def late_recording():
    """Recording starts after two iterations, so the model predates the history."""
    truth = Truth()
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(7):
        if step == 2:
            torch.cuda.memory._record_memory_history(max_entries=200_000)
        loss = language_loss(model, make_tokens())
        loss.backward()
        truth.after_backward(model)
        optimizer.step()
        optimizer.zero_grad()
        truth.after_step()
    return truth.summary([model], [optimizer])


# Exceptions to the usual way of recording: the latest 200,000 entries, with C++ and Python stacks.
PYTHON_STACKS = {"adam_foreach_off", "adam_fused", "rmsprop", "plain_sgd", "bfloat16", "annotated",
                 "checkpointing", "leak_copies", "leak_growing", "leak_concatenation",
                 "leak_no_grad"}
RECORDING = {
    "lost_beginning": {"max_entries": 1500},
    "state_only": {"enabled": "state"},
    "late_recording": None,  # starts its recording itself
}


def rewritten(value, replacements):
    """Replaces path prefixes in all strings of a snapshot."""
    if isinstance(value, str):
        for old, new in replacements:
            if old in value:
                value = value.replace(old, new)
        return value
    if isinstance(value, dict):
        return {key: rewritten(each, replacements) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(rewritten(each, replacements) for each in value)
    return value


def main():
    name, dump = sys.argv[1], sys.argv[2]
    replacements = json.loads(sys.argv[3]) if len(sys.argv) > 3 else []
    torch.manual_seed(0)
    stacks = "python" if name in PYTHON_STACKS else "all"
    settings = RECORDING.get(name, {"max_entries": 200_000, "stacks": stacks})
    if settings is not None:
        torch.cuda.memory._record_memory_history(**settings)
    truth = globals()[name]()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    peaks = {f"peak_{key}_bytes": stats[f"{key}_bytes.all.peak"]
             for key in ("requested", "allocated", "active", "reserved")}
    snapshot = rewritten(torch.cuda.memory._snapshot(), replacements)
    with open(dump, "wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    print(json.dumps({"name": name, **peaks, **truth}), flush=True)


if __name__ == "__main__":
    main()
