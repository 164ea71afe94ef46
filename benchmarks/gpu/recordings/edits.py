# SPDX-License-Identifier: Apache-2.0
"""The edits of the programs in edited_programs.py, as arguments of `ashlar whatif`.

Recorded programs are named train.py. "train.py:<NAME>" stands for the line with the comment
"# line: NAME". Needs only Python's standard library.
"""
import re

PROGRAM_FILE = "train.py"
RECOMPUTE_BLOCK = ["--recompute", "train.py:Block.forward"]
RECOMPUTE_MLP = ["--recompute", "train.py:Mlp.forward"]
OFFLOAD_BLOCK = ["--offload", "train.py:Block.forward"]
HALF_BATCH = ["--batch", "0.5"]
KEEP_GRADS = ["--keep-grads"]
FOREACH_OFF = ["--drop", "class:optimizer_temporaries"]
NO_STATE = ["--drop", "class:optimizer_state"]  # of SGD with momentum, which has no temporaries
PLAIN_SGD = ["--drop", "class:optimizer_state", "--drop", "class:optimizer_temporaries"]
FORGET_LOGITS = ["--free", "train.py:<logits>", "--at", "end:train.py:language_step"]


def plain_sgd_at(line):
    """The optimizer whose step() is called in this line has neither state nor temporaries."""
    return ["--drop", f"class:optimizer_state,train.py:<{line}>",
            "--drop", f"class:optimizer_temporaries,train.py:<{line}>"]


EDITS = {
    "language_model": {
        "recompute_block": RECOMPUTE_BLOCK,
        "recompute_mlp": RECOMPUTE_MLP,
        "offload_block": OFFLOAD_BLOCK,
        "half_batch": HALF_BATCH,
        "plain_sgd": PLAIN_SGD,
        "foreach_off": FOREACH_OFF,
        "keep_grads": KEEP_GRADS,
        "forget_logits": FORGET_LOGITS,
    },
    "attention_peak": {
        "recompute_attention": ["--recompute", "train.py:Attention.forward"],
        "recompute_block": RECOMPUTE_BLOCK,
        "offload_attention": ["--offload", "train.py:Attention.forward"],
        "half_batch": HALF_BATCH,
        "forget_logits": FORGET_LOGITS,
    },
    "nested_checkpoints": {
        "recompute_block": RECOMPUTE_BLOCK,
        "recompute_mlp": RECOMPUTE_MLP,
        "half_batch": HALF_BATCH,
        "plain_sgd": PLAIN_SGD,
        "forget_logits": FORGET_LOGITS,
        "keep_grads": KEEP_GRADS,
    },
    "settings": {
        "expandable": ["--conf", "expandable_segments:True"],
        "split": ["--conf", "max_split_size_mb:64"],
        "roundup": ["--conf", "roundup_power2_divisions:4"],
        "recompute_block": RECOMPUTE_BLOCK,
        "recompute_block_expandable": [*RECOMPUTE_BLOCK, "--conf", "expandable_segments:True"],
        "half_batch": HALF_BATCH,
    },
    "compiled": {
        "plain_sgd": PLAIN_SGD,
        "foreach_off": FOREACH_OFF,
        "keep_grads": KEEP_GRADS,
        "half_batch": HALF_BATCH,
        "forget_logits": ["--free", "train.py:<model_call>", "--at",
                          "end:train.py:language_step"],
    },
    "mixed_precision": {
        "recompute_block": RECOMPUTE_BLOCK,
        "recompute_mlp": RECOMPUTE_MLP,
        "offload_block": OFFLOAD_BLOCK,
        "half_batch": HALF_BATCH,
        "plain_sgd": PLAIN_SGD,
        "keep_grads": KEEP_GRADS,
    },
    "gradient_accumulation": {
        "recompute_block": RECOMPUTE_BLOCK,
        "offload_block": OFFLOAD_BLOCK,
        "half_batch": HALF_BATCH,
        "plain_sgd": PLAIN_SGD,
        "set_to_none": ["--set-to-none"],
    },
    "evaluation": {
        "recompute_block": RECOMPUTE_BLOCK,
        "half_batch": HALF_BATCH,
        "plain_sgd": PLAIN_SGD,
        "forget_predictions": ["--free", "train.py:<logits>", "--at", "end:train.py:score"],
        "drop_probabilities": ["--drop", "train.py:<probabilities>"],
    },
    "two_models": {
        "recompute_generator": ["--recompute", "train.py:Generator.forward"],
        "recompute_critic": ["--recompute", "train.py:Critic.forward"],
        "no_critic_state": plain_sgd_at("critic_step"),
        "no_generator_state": plain_sgd_at("generator_step"),
        "half_batch": HALF_BATCH,
        "keep_grads": KEEP_GRADS,
    },
    "actor_critic": {
        "recompute_block": RECOMPUTE_BLOCK,
        "offload_block": OFFLOAD_BLOCK,
        "no_critic_state": plain_sgd_at("value_step"),
        "plain_sgd": plain_sgd_at("actor_step"),
        "forget_reference": ["--free", "train.py:<expected>", "--at", "leave:train.py:<expected>"],
        "half_batch": HALF_BATCH,
    },
    "convolution": {
        "recompute_stage": ["--recompute", "train.py:Stage.forward"],
        "offload_stage": ["--offload", "train.py:Stage.forward"],
        "half_batch": HALF_BATCH,
        "no_momentum": NO_STATE,
        "keep_grads": KEEP_GRADS,
    },
    "unet": {
        "recompute_down": ["--recompute", "train.py:Down.forward"],
        "recompute_up": ["--recompute", "train.py:Up.forward"],
        "offload_down": ["--offload", "train.py:Down.forward"],
        "half_batch": HALF_BATCH,
        "no_momentum": NO_STATE,
    },
    "recurrent": {
        "recompute_cell": ["--recompute", "train.py:Cell.forward"],
        "offload_cell": ["--offload", "train.py:Cell.forward"],
        "half_batch": HALF_BATCH,
        "plain_sgd": PLAIN_SGD,
        "keep_grads": KEEP_GRADS,
    },
    "several_optimizers": {
        "plain_body": plain_sgd_at("body_step"),
        "plain_ends": plain_sgd_at("ends_step"),
        "recompute_block": RECOMPUTE_BLOCK,
        "half_batch": HALF_BATCH,
        "keep_grads": KEEP_GRADS,
    },
    "averaged_weights": {
        "no_average": ["--drop", "train.py:<average>"],
        "half_history": ["--scale", "train.py:<history>=0.5"],
        "recompute_block": RECOMPUTE_BLOCK,
        "half_batch": HALF_BATCH,
        "plain_sgd": PLAIN_SGD,
    },
}

# Edits that a recording does not tell, so the tool should refuse them.
REFUSED = {"nested_checkpoints": ("recompute_block", "recompute_mlp")}


def settings_of(arguments):
    """Returns the allocator settings that an edit consists of, to run the edited program with."""
    return arguments[arguments.index("--conf") + 1] if "--conf" in arguments else ""


def with_line_numbers(arguments, source):
    """Replaces <NAME> by the number of the line of `source` with the comment "# line: NAME"."""
    lines = {}
    for number, line in enumerate(source.splitlines(), 1):
        mark = re.search(r"# line: (\w+)$", line)
        if mark:
            lines[mark[1]] = number
    return [re.sub(r"<(\w+)>", lambda name: str(lines[name[1]]), each) for each in arguments]


def edits_without_code(source):
    """Returns the edits, as PROGRAM.EDIT, that the text of edited_programs.py never mentions."""
    missing = []
    for program, edits in EDITS.items():
        if f"\ndef {program}():" not in source:
            missing.append(program)
        for edit, arguments in edits.items():
            calls = re.match(r"(?:recompute|offload)_([a-z]+)", edit)
            known = (f'saved("{calls[1]}"' if calls else f'"{edit}"') in source
            if not known and arguments[0] != "--conf":
                missing.append(f"{program}.{edit}")
    return missing
