# SPDX-License-Identifier: Apache-2.0
"""Programs with libraries on top of PyTorch. Models have random weights; nothing is downloaded."""


def _llama(torch, transformers):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256,
        pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return transformers.LlamaForCausalLM(config).cuda().eval()


def generate_static_cache(torch):
    """Hugging Face generate with a static cache, which compiles the decoder."""
    import transformers
    model = _llama(torch, transformers)
    ids = torch.arange(3, 19, device="cuda").view(1, 16)
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24,
                             min_new_tokens=24, do_sample=False, cache_implementation="static")
    return {"length": int(out.shape[1]), "_tokens": out[0].tolist()}


def generate_dynamic_cache(torch):
    import transformers
    model = _llama(torch, transformers)
    ids = torch.arange(3, 19, device="cuda").view(1, 16)
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24,
                             do_sample=False)
    return {"tokens": out[0].tolist()}


def trainer(torch):
    """Hugging Face Trainer with memory metrics."""
    import transformers
    model = _llama(torch, transformers).train()
    data = [{"input_ids": list(range(3 + i, 67 + i)), "labels": list(range(3 + i, 67 + i))}
            for i in range(32)]
    arguments = transformers.TrainingArguments(
        output_dir="out", max_steps=4, per_device_train_batch_size=8, skip_memory_metrics=False,
        report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True, seed=1)
    done = transformers.Trainer(model=model, args=arguments, train_dataset=data,
                                data_collator=transformers.default_data_collator).train()
    names = [name for name in done.metrics if "mem_gpu" in name]
    return {"~loss": done.training_loss, "metrics": sorted(names)}


def accelerate(torch):
    import accelerate as library
    accelerator = library.Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    model = torch.nn.Linear(128, 128)
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.utils.data.TensorDataset(torch.linspace(-1, 1, 64 * 128).view(64, 128))
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for (batch,) in loader:
        with accelerator.accumulate(model):
            loss = model(batch).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss))
    from accelerate.utils import release_memory
    release_memory(model)
    return {"losses": losses}


def lightning(torch):
    """PyTorch Lightning with DeviceStatsMonitor."""
    import pytorch_lightning as library

    class Model(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(64, 1)
            self.losses = []

        def training_step(self, batch, _):
            loss = self.layer(batch[0]).square().mean()
            self.losses.append(float(loss))
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class Logger(library.loggers.logger.DummyLogger):
        names = set()

        def log_metrics(self, metrics, step=None, **_):
            self.names.update(metrics)

    library.seed_everything(1)
    model, logger = Model(), Logger()
    data = torch.utils.data.TensorDataset(torch.linspace(-1, 1, 64 * 64).view(64, 64))
    library.Trainer(max_steps=4, accelerator="gpu", devices=1, logger=logger,
                    callbacks=[library.callbacks.DeviceStatsMonitor()], enable_progress_bar=False,
                    enable_checkpointing=False, log_every_n_steps=1).fit(
                        model, torch.utils.data.DataLoader(data, batch_size=16))
    return {"losses": model.losses,
            "stats": any("allocated_bytes.all.current" in name for name in logger.names)}


def torch_geometric(torch):
    from torch_geometric.nn import GCNConv
    torch.manual_seed(0)
    first, second = GCNConv(16, 32).cuda(), GCNConv(32, 4).cuda()
    nodes = 500
    edges = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)]).cuda()
    x = torch.linspace(-1, 1, nodes * 16, device="cuda").view(nodes, 16)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = second(first(x, edges).relu(), edges).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return {"~losses": losses}
