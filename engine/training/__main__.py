"""`python -m engine.training`: train a Clover model, resume, export, plot."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.errors import EngineError

LENGTHS = (288, 384, 480, 576, 768, 960, 1152, 1440)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine.training", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser(
        "train", help="train a model, or go on with one",
        description="Train for a given time. The folder given by --model holds config.json, generation_config.json, "
        "tokenizer.json and chat_template.jinja; they are copied into every exported checkpoint.",
    )  # fmt: skip
    train.add_argument("--model", type=Path, required=True, help="folder with config.json and the tokenizer")
    train.add_argument("--out", type=Path, required=True, help="folder for log, checkpoint and resume.pt")
    train.add_argument("--source", required=True, metavar="MODULE", help="dotted name of the data source")
    train.add_argument("--corpus", default="", help="handed to the data source")
    train.add_argument("--seconds", type=float, required=True, help="wall time to train")
    train.add_argument("--steps", type=int, default=0, help="stop after so many steps at the latest")
    train.add_argument("--rows", type=int, default=184320, help="clean tokens a batch (default %(default)s)")
    train.add_argument(
        "--lengths", type=_numbers, default=LENGTHS, metavar="N,N,...",
        help="bucket lengths: multiples of --noise, of 32, and divisors of --rows",
    )  # fmt: skip
    train.add_argument("--noise", type=int, default=96, help="clean tokens for each noisy block (default %(default)s)")
    train.add_argument("--rate", type=float, default=3e-3, help="peak learning rate (default %(default)s)")
    train.add_argument("--workers", type=int, default=0, help="data processes; 0 makes the run repeatable")
    train.add_argument("--heldout", type=int, default=0, help="held-out examples to decode in evaluations")
    train.add_argument("--evaluate-every", type=float, default=180.0, metavar="SECONDS")
    train.add_argument("--export-every", type=float, default=240.0, metavar="SECONDS")
    train.add_argument("--log-every", type=int, default=20, metavar="STEPS")
    train.add_argument("--seed", type=int, default=1)
    train.add_argument("--device", default="cpu", help="cpu or cuda")
    train.add_argument("--compile", action="store_true", help="compile the pieces of the forward (CUDA)")
    train.add_argument("--resume", action="store_true", help="go on from OUT/resume.pt")
    train.add_argument("--start", type=Path, help="folder of a checkpoint to start from instead of random weights")

    draw = commands.add_parser("plot", help="draw a run's log", description="Draw a run's log as a PNG.")
    draw.add_argument("log", type=Path)
    draw.add_argument("picture", type=Path)

    export = commands.add_parser("export", help="write a checkpoint from a run's resume.pt")
    export.add_argument("--model", type=Path, required=True, help="folder with config.json and the tokenizer")
    export.add_argument("--out", type=Path, required=True, help="the run's folder")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError("must be whole numbers with commas between") from None


def export_checkpoint(model: Any, source: Path, folder: Path) -> None:
    """Write `model` to `folder` as an engine checkpoint, with the small files of `source` beside it."""
    from engine.checkpoint import save_checkpoint

    folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(model, folder, int8=True)
    for name in ("config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja"):
        if (source / name).is_file() and (source / name).resolve() != (folder / name).resolve():
            shutil.copyfile(source / name, folder / name)


def _train(options: argparse.Namespace) -> None:
    import torch

    from engine.config import CloverConfig
    from engine.tokenizer import Tokenizer
    from engine.training.feed import Feed, FeedSettings
    from engine.training.initial import initialise
    from engine.training.objective import Recipe
    from engine.training.packing import shapes
    from engine.training.source import find_source
    from engine.training.trainer import Plan, Trainer

    config = CloverConfig.load(options.model)
    tokenizer = Tokenizer.load(options.model)
    if tokenizer.vocab_size > config.vocab_size:
        raise EngineError(f"the tokenizer has {tokenizer.vocab_size} tokens, config.json says {config.vocab_size}")
    stop_id, pad_id = tokenizer.token_id("<|im_end|>"), tokenizer.token_id("<|endoftext|>")
    try:
        buckets = shapes(options.rows, options.lengths, options.noise, config.block_size)
    except ValueError as fault:
        raise EngineError(f"--lengths: {fault}") from None
    source = find_source(options.source)
    options.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(options.device)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.set_float32_matmul_precision("high")
    if options.start is not None:
        from engine.checkpoint import load_model

        model = load_model(options.start, device="cpu", dtype=torch.float32).requires_grad_()
    else:
        model = initialise(config, options.seed)
    model = model.to(device)
    settings = FeedSettings(
        options.source, options.corpus, options.seed, options.workers, config.block_size, pad_id
    )  # fmt: skip
    feed = Feed(settings, buckets, device)
    try:
        trainer = Trainer(
            model, feed,
            Plan(options.seconds, options.steps, options.rate, options.seed, options.log_every,
                 options.evaluate_every, options.export_every),
            Recipe(), options.out, device=device,
            compute=torch.bfloat16 if device.type == "cuda" else torch.float32,
            compiled=options.compile, stop_id=stop_id, pad_id=pad_id,
            heldout=list(source.heldout(options.corpus, options.heldout)) if options.heldout else [],
            decode=tokenizer.decode, score=source.score,
            export=lambda trained, folder: export_checkpoint(trained, options.model, folder),
        )  # fmt: skip
        if options.resume:
            trainer.resume()
        if options.compile:
            trainer.warm_up(buckets[0])
        parameters = sum(p.numel() for p in model.parameters())
        trainer.log({"event": "start", "parameters": parameters, "arguments": _plain(vars(options))})
        trainer.run()
    finally:
        feed.close()


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(arguments, default=str))


def _export(options: argparse.Namespace) -> None:
    import torch

    from engine.config import CloverConfig
    from engine.model.clover import Clover

    path = options.out / "resume.pt"
    if not path.is_file():
        raise EngineError(f"{path} is missing: give the folder of a training run")
    model = Clover(CloverConfig.load(options.model)).float()
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])
    export_checkpoint(model, options.model, options.out / "checkpoint")
    print(options.out / "checkpoint")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0, or 2 with one line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "train":
            _train(options)
        elif options.command == "export":
            _export(options)
        else:
            from engine.training.plot import plot

            plot(options.log, options.picture)
    except (EngineError, OSError) as fault:
        print(f"engine.training: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
