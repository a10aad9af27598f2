"""The grammar of `idioms`: a symbol `<name>` stands for one of its alternatives, of one or more rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.reliability.idiom_definitions import DEFINITIONS

GRAMMAR: Mapping[str, Sequence[str]] = {
    **DEFINITIONS,
    "program": (
        "<imports>\n<more_imports>\n<global_setting>\n\n\n<definitions>\n\n\n<wrapped>",
        '"""A program."""\n<imports>\n<more_imports>\n<global_setting>\n<global_setting>\n\n<definitions>\n\n<wrapped>',
        "<imports>\n<definitions>\n<more_imports>\n<definitions>\n<wrapped>\n\n<wrapped>",
        "<imports>\nimport time, os\n\n\n<short_wrapped>",
        "<imports>\nimport time, os\n\n\n<short_wrapped>",
    ),
    # -- programs about one thing, for the rules that other parts of a file would silence
    "short_wrapped": (
        *("<short>", "def main():\n    <short>\n\n\nif __name__ == '__main__': main()", "if True:\n    <short>"),
        "class Run:\n    def __call__(self):\n        <short>\n\n\nRun()()",
    ),
    "short": (
        """
        <model> = <big_network>.cuda().eval()
        <grad_context>
            for <images> in <loader>:
                print(<model>(<images>.cuda()).cpu())
        """,
        """
        <model> = <big_network>.to("cuda")
        x = <torch>.zeros(1, 1024).cuda()
        with <torch>.inference_mode(), <torch>.autocast("cuda", dtype=<torch>.bfloat16):
            for _ in range(64):
                x = <model>(x)
        print(x.cpu())
        """,
        """
        <model> = <big_network>.cuda().eval()
        with <torch>.no_grad():
            start = <clock>
            output = <model>(<images>)
            elapsed = <clock> - start
        print(elapsed, output)
        """,
        """
        <model> = <nn>.Sequential(*[<torch>.compile(<layer>) for _ in range(32)])
        """,
        """
        for module in <model>.modules():
            if isinstance(module, <nn>.Linear): module.compile(mode="reduce-overhead")
        """,
        """
        <model> = <big_network>.to("cuda")
        <optimizer> = <torch>.optim.SGD(<model>.parameters(), lr=0.1)
        scaler = <any_scaler>
        <total> = 0.0
        for <images>, <labels> in <loader>:
            with <bfloat>:
                <loss> = <functional>.mse_loss(<model>(<images>.cuda()), <labels>.cuda())
            <optimizer>.zero_grad()
            scaler.scale(<loss>).backward(); scaler.step(<optimizer>)
            scaler.update()
            <read>
        """,
        """
        <model> = <big_network>.to("cuda")
        <optimizer> = <torch>.optim.SGD(<model>.parameters(), lr=0.1)
        set_of = <torch>.utils.data.TensorDataset(<torch>.rand(64, 3, 8, 8), <torch>.arange(64))
        <loader> = <data_loader>(set_of, batch_size=64, drop_last=True, num_workers=4)
        <total> = 0.0
        for epoch in range(90):
            for <images>, <labels> in <loader>:
                <loss> = <functional>.cross_entropy(<model>(<images>.cuda()), <labels>.cuda())
                <optimizer>.zero_grad()
                <loss>.backward()
                <optimizer>.step()
                <read>
        """,
        """
        <model> = <big_network>.to("cuda")
        for <images>, <labels> in <loader>:
            step = <torch>.compile(<model>)
            step(<images>.cuda())
        """,
    ),
    "big_network": (
        "<nn>.TransformerEncoder(<nn>.TransformerEncoderLayer(768, 12), 12)",
        "<nn>.Sequential(<nn>.Linear(1024, 4096), <nn>.ReLU(), <nn>.Linear(4096, 1024))",
        "<nn>.Sequential(\n    <nn>.Conv2d(3, 256, 3),\n    <nn>.BatchNorm2d(256),\n    <nn>.Conv2d(256, 256, 3),\n)",
    ),
    "grad_context": ("with <torch>.no_grad():", "with <torch>.inference_mode(): # no gradients", "if True:"),
    "clock": ("time.time()", "time.perf_counter()", "time.monotonic()"),
    "any_scaler": (
        *(
            "<torch>.amp.GradScaler('cuda')",
            "<torch>.cuda.amp.GradScaler()",
            "<torch>.amp.GradScaler('cuda', enabled=True)",
        ),
        "<torch>.cuda.amp.GradScaler(\n    init_scale=1024.0,\n)",
    ),
    "bfloat": ("<torch>.autocast('cuda', dtype=<torch>.bfloat16)", "<torch>.cuda.amp.autocast(dtype=<torch>.bfloat16)"),
    "more_imports": (
        "import time\nimport os",
        "import os, time, functools",
        "import time\nfrom torch.cuda.amp import autocast, GradScaler\nimport torch.utils.checkpoint",
        "import random\nimport numpy as np\nimport os",
        "",
    ),
    "global_setting": (
        *("<torch>.backends.cudnn.benchmark = False", "<torch>.backends.cudnn.deterministic = True", ""),
        *("<torch>.use_deterministic_algorithms(True)", "device = 'cuda' if <torch>.cuda.is_available() else 'cpu'"),
        *("import os; os.environ['TORCHDYNAMO_DISABLE'] = '1'", "<torch>._dynamo.config.suppress_errors = True"),
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int, default=<n>)\n"
        "parser.add_argument('--device', default='cuda')\nargs = parser.parse_args()",
        "<torch>.set_float32_matmul_precision('high')",
        "<torch>.autograd.set_detect_anomaly(True)",
    ),
    "definitions": (
        "<data_set>\n\n\n<network>\n\n\n<function>",
        "<network>\n\n\n<data_set>",
        "<function>\n\n\n<network>\n\n\n<network>\n\n\n<data_set>\n\n\n<function>",
    ),
    "n": ("0", "2", "4", "8", "args.workers", "min(8, os.cpu_count() or 1)"),
    # -- what runs
    "wrapped": (
        *("<work>", "def main(args=None):\n    <work>\n\n\nif __name__ == '__main__':\n    main()"),
        "def main():\n    <work>\nif __name__ == '__main__': main()",
        "if __name__ == '__main__':\n    <work>",
        "async def main():\n    <work>\n\n\nimport asyncio\nasyncio.run(main())",
        "class Run:\n    def __call__(self):\n        <work>\n\n\nRun()()",
        "def outer():\n    def inner():\n        <work>\n    return inner()\n\n\nouter()",
        "try:\n    <work>\nexcept (RuntimeError, KeyboardInterrupt) as error:\n    raise\nfinally:\n    print('done')",
        "match os.environ.get('MODE'):\n    case 'train' | None:\n        <work>\n    case _:\n        <inference>",
        "with <context>:\n    <work>",
    ),
    "work": (
        "<setup>\n<training>",
        "<setup>\n<training>\n<inference>",
        "<setup>\n<inference>",
        "<setup>\nfor run in range(3):\n    <training>\n    <inference>",
        "<setup>\n<shadow>\n<training>",
        "<setup>\n<decoding>",
    ),
    "shadow": ("float = str", "DataLoader = print", "torch = None", "loss = 0", "range = list"),
    "setup": (
        "device = <device_value>\noptions = dict(batch_size=4, num_workers=0)\n<loader> = <loader_call>\n"
        "<model> = <model_value>\n<compile_statement>\ncriterion = <nn>.CrossEntropyLoss()\n"
        "<optimizer> = <torch>.optim.SGD(<model>.parameters(), lr=0.1)\nscaler = <scaler>",
        "device = <device_value>; <loader> = <loader_call>; <model> = <model_value>\n"
        "<optimizer> = <torch>.optim.AdamW([p for p in <model>.parameters() if p.requires_grad])\n"
        "criterion, scaler = <functional>.cross_entropy, <scaler>",
    ),
    "device_value": (
        "'cuda'",
        "<torch>.device('cuda')",
        "<torch>.device('cuda' if <torch>.cuda.is_available() else 'cpu')",
    ),
    "model_value": (
        *("Net().cuda()", "Net().to(device)", "<torch>.compile(Net().to('cuda'))", "<nn>.DataParallel(Net()).cuda()"),
        *("Net(*[], **{}).to(device)", "<torch>.jit.script(Net().cuda())", "(Net()).to(\n    device,\n)"),
        "<torch>.compile(Net().cuda(), backend='eager')",
        "<torch>.compile(\n    Net().cuda(),\n    mode='max-autotune',\n    disable=True,\n)",
    ),
    "compile_statement": (
        *(
            "",
            "",
            "",
            "<model> = <torch>.compile(<model>)",
            "<model>.compile()",
            "<model> = <nn>.DataParallel(<model>)",
        ),
        "for block in <model>.children():\n    block.compile()",
        "<model>.layers = <torch>.compile(<model>.layers)\n<model> = <torch>.compile(<model>)",
        "<model>.load_state_dict(<torch>.load('w.pt'))",
        "<model> = <torch>.quantization.quantize_dynamic(<model>, {<nn>.Linear})",
        "<torch>.manual_seed(0)",
    ),
    "scaler": (
        *("None", "<torch>.cuda.amp.GradScaler()", "<torch>.amp.GradScaler('cuda')", "GradScaler(enabled=True)"),
        "<torch>.cuda.amp.GradScaler(\n    init_scale=2.0**10,\n)",
    ),
    "context": (
        *("<torch>.cuda.amp.autocast()", "<torch>.autocast('cuda', dtype=<torch>.bfloat16)", "<torch>.no_grad()"),
        *("<torch>.inference_mode()", "<torch>.profiler.profile() as prof", "open('log.txt', 'w') as file"),
        *(
            "<torch>.cuda.amp.autocast(enabled=True), open('a') as b",
            "<torch>.autograd.profiler.profile(use_cuda=True)",
        ),
        *("(\n    <torch>.cuda.amp.autocast(dtype=<torch>.float16)\n)", "<torch>.enable_grad()"),
        *("<torch>.autograd.set_detect_anomaly(True)", "<torch>.cuda.amp.autocast(), <torch>.no_grad()"),
    ),
    "training": (
        """
        <total>, losses = <zero>, []
        for epoch in range(10):
            <epoch_statement>
            for <images>, <labels> in <loader>:
                <move>
                <step>
                <read>
            <after>
        """,
        """
        <total> = <zero>; losses = []
        for epoch in range(<epochs>):
            <model>.train()
            for step, (<images>, <labels>) in enumerate(<loader>):
                <step_statement>
                <move>
                <step>
                <read>
                <read>
            else:
                print(epoch)
        print(<total> / len(<loader>))
        """,
        """
        <total> = <zero>
        losses = list()
        with <context>:
            for <images>, <labels> in <loader>:
                <move>
                <step>
                <read>
        <after>
        """,
        """
        <total> = <zero>
        losses = []
        steps = iter(<loader>)
        while (entry := next(steps, None)) is not None:
            <images>, <labels> = entry
            <move>
            try:
                <step>
            finally:
                <read>
        """,
    ),
    "zero": ("0", "0.0", "0.", "0"),
    "epochs": ("100", "args.epochs", "2"),
    "epoch_statement": ("", "<total> = 0.0", "losses = []; start = time.time()", "<torch>._dynamo.reset()"),
    "step_statement": (
        *("", "", "start = time.time()", "<created>.cuda()", "<torch>.cuda.empty_cache()", "<torch>._dynamo.reset()"),
        *("f = <torch>.compile(<model>); f(<images>)", "noise = <created>.to(<device>)", "zero(<model>)"),
        "if step % 100 == 0: print(step)",
    ),
    "move": (
        "<images> = <images>.cuda(); <labels> = <labels>.cuda()",
        "<images>, <labels> = <images>.to(<device>), <labels>.to(<device>)",
        "<images> = <images>.to(device)\n<labels> = <labels>.to(device)",
        "<images> = <images>.to(\n    device,\n    dtype=<torch>.float32,\n)\n<labels> = <labels>.cuda(0)",
        "<images>, <labels> = (item.to(device) for item in (<images>, <labels>))",
        "<images>, <labels> = map(lambda item: item.to(device), [<images>, <labels>])",
        "<images> = <images>.to(device, <torch>.float32, False); <labels> = <labels>.to(device=device)",
    ),
    "step": (
        "<zero_grad>\n<loss> = criterion(<model>(<images>), <labels>)\n<loss>.backward()\n<optimizer>.step()",
        "<loss> = criterion(<model>(<images>), <labels>); <zero_grad>; <loss>.backward(); <optimizer>.step()",
        """
        <zero_grad>
        with <context>:
            <loss> = criterion(<model>(<images>), <labels>)
        scaler.scale(<loss>).backward()
        scaler.step(<optimizer>)
        scaler.update()
        """,
        """
        def closure():
            <zero_grad>
            <loss> = criterion(<model>(<images>), <labels>)
            <loss>.backward()
            return <loss>
        <loss> = <optimizer>.step(closure)
        """,
        "with <context>: (<loss> := criterion(<model>(<images>), <labels>)).backward()\n<optimizer>.step()",
    ),
    "zero_grad": (
        *("<optimizer>.zero_grad()", "<optimizer>.zero_grad(set_to_none=False)", "<optimizer>.zero_grad(False)"),
        "<model>.zero_grad(\n    set_to_none=False,\n)",
    ),
    "read": (
        *("<total> += <loss>.item()", "<total> += <loss>.item() * <images>.size(0)", "losses.append(<loss>.item())"),
        *("<total> = <total> + float(<loss>)", "print(f'{<loss>.item():.3f}')", "<total> += float(<loss>.detach())"),
        *("losses += [<loss>.item()]", "pass", "<total> += <loss>.data.cpu().numpy()", "losses.append(float(<loss>))"),
        *(
            "<total> += (\n    <loss>\n    .item()\n)",
            "if (value := <loss>.item()) > 3: break",
            "assert <loss>.item() < 9",
        ),
    ),
    "after": (
        "print(<total>)",
        "print(sum(losses) / len(losses))",
        "",
        "<total> = <total> / len(<loader>)",
        "del losses",
    ),
    "inference": (
        """
        with <torch>.no_grad():
            for <images>, <labels> in <loader>:
                <inference_statement>
        """,
        """
        <model>.eval()
        for <images>, <labels> in <loader>:
            <inference_statement>
        """,
        """
        hits = 0
        <maybe_eval>
        with <context>:
            for <images>, <labels> in <loader>:
                output = <model>(<images>.to(device))
                hits += (output.argmax(1).cpu() == <labels>).sum().item()
        print(hits)
        """,
        """
        start = time.time()
        for <images>, _ in <loader>:
            output = <model>(<images>.cuda())
            print(output.argmax(1).tolist())
        print('took', time.time() - start)
        """,
        """
        samples = <torch>.rand(100, 3, 32, 32, device='cuda')
        <model>.eval()
        with <torch>.no_grad():
            results = [<model>(sample.unsqueeze(0)).cpu() for sample in samples]
            for sample in samples: results.append(<model>(sample[None]).argmax().item())
        """,
    ),
    "maybe_eval": ("<model>.eval()", "", "<model>.train(False)", "<model> = <model>.eval()"),
    "inference_statement": (
        *("print(<model>(<images>.cuda()).argmax(1))", "<model>(<images>.to(<device>)).cpu().numpy()"),
        *("with <context>:\n    out = <model>(<images>.cuda())\n    print(out.cpu())", "pass"),
        *(
            "scores = <model>(<images>.cuda()); print(scores.sum().item())",
            "x = <created>.to('cuda'); print(<model>(x))",
        ),
    ),
    "decoding": (
        """
        <model>.eval()
        hidden = <torch>.zeros(1, 2048).cuda()
        with <torch>.inference_mode(), <torch>.autocast('cuda', dtype=<torch>.bfloat16):
            for _ in range(100):
                hidden = <model>(hidden)
        print(hidden.cpu())
        """,
        """
        @<torch>.inference_mode()
        def decode(hidden):
            with <torch>.autocast('cuda', dtype=<torch>.float16):
                for _ in range(64): hidden = <model>(hidden)
            return hidden
        print(decode(<torch>.zeros(1, 2048).to(device)).tolist())
        """,
    ),
}
