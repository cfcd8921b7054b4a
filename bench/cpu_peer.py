"""llama.cpp's arm of `bench cpu`, a process: llama-cpp-python's low-level interface.

\b
    python cpu_peer.py MODEL.gguf THREADS            answers as `cpu_arm.py` says
    python cpu_peer.py MODEL.gguf THREADS TOKENS     loads, computes the JSON list, writes the token

Runs in any Python that has llama_cpp, where radixchat need not be: it imports nothing of it.
llama.cpp has its own defaults (fp16 KV, batches of 2,048 in pieces of 512). What it can be spared
it is: no text, no sampling but the largest logit, a context that was used before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

BATCH = 2048
SLACK = 64  # tokens that an answer has room for
_HOW_TO_INSTALL = (
    "pip install 'radixchat[peer]', or name a Python that has it with --peer-python PATH"
)


class LlamaArm:
    """A model of llama.cpp, and the context of the load before."""

    def __init__(self, llama: Any, model_path: str, threads: int) -> None:
        self._llama = llama
        self._threads = threads
        llama.llama_backend_init()
        self._model = llama.llama_model_load_from_file(
            os.fsencode(model_path), llama.llama_model_default_params()
        )
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {model_path}")
        vocabulary = llama.llama_model_get_vocab(self._model)
        self._vocab_size = int(llama.llama_vocab_n_tokens(vocabulary))
        self._context: Any = None
        self._load: dict[str, Any] = {}
        self._prompts: list[list[int]] = []

    def info(self) -> dict[str, object]:
        """The fields of ArmInfo."""
        llama, model = self._llama, self._model
        heads = llama.llama_model_n_head(model)
        kv_width = llama.llama_model_n_embd(model) // heads * llama.llama_model_n_head_kv(model)
        return {
            "about": f"llama-cpp-python {llama.__version__}, {self._threads} threads, fp16 KV",
            "vocab_size": self._vocab_size,
            "weight_bytes": int(llama.llama_model_size(model)),
            "kv_bytes_per_token": 2 * llama.llama_model_n_layer(model) * kv_width * 2,
        }

    def open_context(self, num_tokens: int, sequences: int) -> None:
        """A context for so many sequences; 0 tokens: as many as the model has."""
        llama = self._llama
        if self._context is not None:
            llama.llama_free(self._context)
        settings = llama.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_seq_max = num_tokens, BATCH, sequences
        settings.n_threads = settings.n_threads_batch = self._threads
        self._context = llama.llama_init_from_model(self._model, settings)
        if not self._context:
            raise RuntimeError(f"llama.cpp makes no context of {num_tokens} tokens")

    def measure(self, load: dict[str, Any], prompts: list[list[int]], steps: int) -> list[float]:
        """Seconds of each step, or of the one prompt."""
        context, sequences = load["context"], len(prompts)
        if load != self._load:
            self.open_context(sequences * (context + SLACK), sequences)
            self._load, self._prompts = load, []
        memory = self._llama.llama_get_memory(self._context)
        if load["kind"] == "prefill":
            self._llama.llama_memory_clear(memory, False)
            began = time.perf_counter()
            self.prefill(prompts[0], 0)
            return [time.perf_counter() - began]
        if prompts != self._prompts:
            self._llama.llama_memory_clear(memory, False)
            for sequence, prompt in enumerate(prompts):
                self.prefill(prompt, sequence)
            self._prompts = prompts
        for sequence in range(sequences):  # the answers of the repeat before
            self._llama.llama_memory_seq_rm(memory, sequence, context, -1)
        seconds, tokens = [], [prompt[-1] for prompt in prompts]
        for step in range(steps):
            began = time.perf_counter()
            at = [context + step] * sequences
            tokens = self._decode(tokens, at, list(range(sequences)), sequences)
            seconds.append(time.perf_counter() - began)
        return seconds

    def prefill(self, prompt: list[int], sequence: int) -> int:
        """Compute a prompt; the most likely next token."""
        token = -1
        for start in range(0, len(prompt), BATCH):
            piece = prompt[start : start + BATCH]
            positions = list(range(start, start + len(piece)))
            last = start + len(piece) == len(prompt)
            token = self._decode(piece, positions, [sequence] * len(piece), int(last))[-1]
        return token

    def _decode(
        self, tokens: list[int], positions: list[int], sequences: list[int], outputs: int
    ) -> list[int]:
        """Compute the tokens; the most likely ones after the last `outputs` of them, else [-1]."""
        import numpy as np

        llama, count = self._llama, len(tokens)
        batch = llama.llama_batch_init(count, 0, 1)
        try:
            batch.n_tokens = count
            for i in range(count):
                batch.token[i], batch.pos[i] = tokens[i], positions[i]
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequences[i]
                batch.logits[i] = i >= count - outputs
            if (code := llama.llama_decode(self._context, batch)) != 0:
                raise RuntimeError(f"llama_decode returned {code}")
        finally:
            llama.llama_batch_free(batch)
        if outputs == 0:
            return [-1]
        logits = np.ctypeslib.as_array(
            llama.llama_get_logits(self._context), (outputs, self._vocab_size)
        )
        return [int(token) for token in logits.argmax(axis=1)]


def main() -> None:
    """Load, then answer line by line until standard input ends; or give the first token."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what llama.cpp prints is not an answer

    def answer(**fields: object) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        import llama_cpp

        arm = LlamaArm(llama_cpp, sys.argv[1], int(sys.argv[2]))
        if len(sys.argv) > 3:
            arm.open_context(0, 1)
            answer(token=arm.prefill(json.loads(sys.argv[3]), 0))
            return
        answer(**arm.info())
        for line in sys.stdin:
            request = json.loads(line)
            seconds = arm.measure(request["load"], request["prompts"], request["steps"])
            answer(seconds=seconds)
    except ImportError as error:
        answer(error=f"{sys.executable} cannot import llama_cpp ({error}): {_HOW_TO_INSTALL}")
        sys.exit(1)
    except RuntimeError as error:
        answer(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
