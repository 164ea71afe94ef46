# SPDX-License-Identifier: Apache-2.0
"""Programs with CUDA graphs and torch.compile."""


def _numbers(tensor):
    return [float(value) for value in tensor.detach().flatten()[:8].float().cpu()]


def _model(torch):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512),
                               torch.nn.Linear(512, 64)).cuda()


def cuda_graph(torch):
    """Captures and replays a graph, with allocations in between."""
    given = torch.zeros(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (given * 2 + 1).cumsum(0)
    sums = []
    for value in range(5):
        torch.full((1 << 20,), -1.0, device="cuda")
        given.fill_(value)
        graph.replay()
        sums.append(float(result[-1]))
    pool = graph.pool()
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=pool):
        after = result + 1
    graph.replay()
    second.replay()
    return {"sums": sums, "after": _numbers(after)}


def graphed_callables(torch):
    model = _model(torch)
    sample = torch.randn(32, 256, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad(set_to_none=True)
        loss = graphed(sample).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return {"losses": losses}


def graph_with_streams(torch):
    """A capture that forks to another stream and joins it."""
    side = torch.cuda.Stream()
    given = torch.ones(1 << 16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            one = given * 3
        two = given * 4
        torch.cuda.current_stream().wait_stream(side)
        result = one + two
    graph.replay()
    return {"result": _numbers(result)}


def _compiled_training(torch, mode):
    model = torch.compile(_model(torch), mode=mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(8):
        x = torch.full((64, 256), 0.1 * (step % 3 + 1), device="cuda")
        if mode is not None:
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return {"~losses": losses}


def compile_training_default(torch):
    return _compiled_training(torch, None)


def compile_training_reduce_overhead(torch):
    return _compiled_training(torch, "reduce-overhead")


def compile_training_max_autotune(torch):
    return _compiled_training(torch, "max-autotune")


def _compiled_inference(torch, mode):
    model = torch.compile(_model(torch).eval(), mode=mode)
    outputs = []
    with torch.no_grad():
        for rows in (16, 32, 16, 32, 16):
            if mode is not None:
                torch.compiler.cudagraph_mark_step_begin()
            x = torch.linspace(-1, 1, rows * 256, device="cuda").view(rows, 256)
            outputs += _numbers(model(x))
    return {"~outputs": outputs}


def compile_inference_default(torch):
    return _compiled_inference(torch, None)


def compile_inference_reduce_overhead(torch):
    return _compiled_inference(torch, "reduce-overhead")


def compile_inference_max_autotune(torch):
    return _compiled_inference(torch, "max-autotune")


def compile_graph_tree(torch):
    """Several compiled functions that keep outputs alive between graphs of one tree."""

    @torch.compile(mode="reduce-overhead")
    def first(x):
        return x.sin() + 1

    @torch.compile(mode="reduce-overhead")
    def second(x):
        return (x * 2).cos()

    outputs = []
    for i in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.full((1024,), 0.1 * i, device="cuda")
        middle = first(x)
        end = second(middle)
        extra = second(x) if i % 2 else end
        outputs += [float(end.sum()), float(extra.sum()), float(middle.sum())]
        del middle, end, extra
    return {"~outputs": outputs}
